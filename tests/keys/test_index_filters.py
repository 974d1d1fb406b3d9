"""Bloom filters of keys: written by either engine where the table asks for them, and used to leave files alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakewright.errors import ColumnNotFound, InvalidOption
from lakewright.format.parquet_footer import read_footer
from lakewright.format.storage import local_path
from tests.keys.index_kit import all_files, candidates, files_with, frame, keyed, load

ENABLED = {"write.parquet.bloom-filter-enabled.column.k": "true"}
ROWS = {f"k{n:03}": n for n in range(200)}
ASKED, IS_ASKED = {"k100": -1, "k100 or so": -2}, "k = 'k100'"


def filters(path: str) -> dict[str, bool]:
    """Which columns of a file have filters, in all row groups."""
    with Path(local_path(path) or path).open("rb") as stream:
        footer = read_footer(stream, path)
    return {column.name: all(group.chunks[column.first_leaf].bloom is not None for group in footer.row_groups) for column in footer.columns}


@pytest.mark.feature("H18", "H3")
@pytest.mark.parametrize("engine", ["native", "arrow"])
def test_files_whose_filters_rule_all_keys_out_are_left_alone(lake: Any, engine: str) -> None:
    table = keyed(lake, properties={**ENABLED, "lakewright.engine": engine, "write.merge.mode": "copy-on-write"})
    load(table, frame(table, ROWS), by_range=False)
    assert all(filters(path) == {"k": True, "v": False} for path in all_files(table))
    found = candidates(table, frame(table, ASKED), index="range")
    assert files_with(table, IS_ASKED) <= found < all_files(table)
    if engine == "arrow":
        table.update({"v": "v + 1"}, where=IS_ASKED)
        (grafted,) = files_with(table, IS_ASKED)
        assert filters(grafted)["k"] and grafted in candidates(table, frame(table, ASKED), index="range")


@pytest.mark.feature("H18")
def test_more_keys_than_a_filter_can_tell_apart_are_not_asked_for(lake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakewright.keys.index import ranges

    table = keyed(lake, properties=ENABLED)
    load(table, frame(table, ROWS), by_range=False)
    monkeypatch.setattr(ranges, "MOST_ASKED", 1)
    assert candidates(table, frame(table, ASKED), index="range") == all_files(table)


@pytest.mark.feature("H18")
@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"write.parquet.bloom-filter-enabled.column.nowhere": "true"}, ColumnNotFound),
        ({"write.parquet.bloom-filter-enabled.column.k": "perhaps"}, InvalidOption),
        ({"write.parquet.bloom-filter-enabled.column.b": "true"}, InvalidOption),
        ({"write.parquet.bloom-filter-enabled.column.l.element": "true"}, InvalidOption),
        ({**ENABLED, "write.parquet.bloom-filter-fpp.column.k": "2"}, InvalidOption),
        ({**ENABLED, "write.parquet.bloom-filter-ndv.column.k": "many"}, InvalidOption),
        ({**ENABLED, "write.parquet.bloom-filter-max-bytes": "-1"}, InvalidOption),
    ],
)
def test_bad_settings(lake: Any, properties: dict[str, str], error: type[Exception]) -> None:
    columns = "k string, b boolean, l array<int>"
    with pytest.raises(error, match="write.parquet.bloom-filter-"):
        lake.create_table("indexed.bad", columns, properties=properties)
    assert not lake.table_exists("indexed.bad")
    table = lake.create_table("indexed.good", columns, if_not_exists=True)
    with pytest.raises(error, match="write.parquet.bloom-filter-"):
        table.set_properties(properties)
    assert not table.refresh().properties


@pytest.mark.feature("H18")
def test_a_dropped_column_needs_no_filter(lake: Any) -> None:
    table = lake.create_table("indexed.dropped", "k string, v bigint", properties=ENABLED)
    table.evolve_schema(drop=["k"])
    table.append(lake.spark.range(1).selectExpr("id as v"))
    (path,) = all_files(table)
    assert filters(path) == {"v": False}


@pytest.mark.feature("H18")
def test_fields_of_structs_have_filters_too(lake: Any) -> None:
    table = lake.create_table("indexed.nested", "k string, s struct<a: int, b: int>", properties={"write.parquet.bloom-filter-enabled.column.s.a": "true", "write.parquet.bloom-filter-ndv.column.s.a": "10"})
    for engine in ("native", "arrow"):
        table.overwrite(lake.spark.createDataFrame([("a", (1, 2))], "k string, s struct<a: int, b: int>"), engine=engine)
        (path,) = all_files(table)
        assert filters(path) == {"k": False, "s": True}
