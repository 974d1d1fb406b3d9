"""Whatever the index, an upsert ends in the same rows; and it reads the files that have its keys, and few others."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from lakewright.errors import InvalidOption
from lakewright.keys.definition import Definition
from tests.keys.index_kit import all_files, candidates, contents, files_with, frame, keyed, load

if TYPE_CHECKING:
    from lakewright.read.scan import FileScan

OWN = "python:tests.keys.test_index:ByBounds"


class ByBounds:
    """An index of a user, by the bounds of files."""

    def __init__(self, definition: Definition) -> None:
        self.key = definition.key[0].text

    def candidates(self, context: Any, source: Any, files: Sequence[FileScan]) -> Sequence[FileScan]:
        keys = {row[0] for row in source.rows.select(self.key).collect()}
        field_id = context.schema.find_field(self.key).field_id
        return [f for f in files if any(f.data_file.lower_bounds[field_id] <= key.encode() <= f.data_file.upper_bounds[field_id] for key in keys)]


class Liar(ByBounds):
    def candidates(self, context: Any, source: Any, files: Sequence[FileScan]) -> Sequence[FileScan]:
        from dataclasses import replace

        return [replace(files[0], data_file=replace(files[0].data_file, file_path="elsewhere"))]


@pytest.mark.feature("H3")
@pytest.mark.parametrize("index", ["auto", "range", "bucket", "record", OWN])
def test_every_index_ends_in_the_same_rows(lake: Any, index: str) -> None:
    drawn = random.Random(5)
    table = keyed(lake, partition_by=["bucket(3, k)"] if index == "bucket" else [], properties={"lakewright.index": index})
    model = {f"k{n:03}": n for n in range(200)}
    load(table, frame(table, model))
    records = {f"k{drawn.randrange(240):03}": 1000 + n for n in range(12)}
    table.upsert(frame(table, records))
    model |= records
    assert contents(table) == model


@pytest.mark.feature("H3", "H13")
def test_few_keys_read_few_files_and_the_summary_says_so(lake: Any) -> None:
    table = keyed(lake)
    load(table, frame(table, {f"k{n:03}": n for n in range(200)}))
    commit = table.upsert(frame(table, {"k001": 1, "k199": 2, "m": 3}))
    summary = commit.summary
    assert (summary["lakewright.files-considered"], summary["lakewright.files-read"]) == ("8", "2")
    assert all(int(summary[f"lakewright.{what}-ms"]) >= 0 for what in ("lookup", "plan", "write"))


KINDS = {
    "bigint": "id * 3",
    "int": "int(id - 300)",
    "date": "date_add(date'1970-01-01', int(id) - 300)",
    "decimal(20,3)": "cast((id - 300) / 8 as decimal(20,3))",
    "string": "concat('begins alike', id div 100, id, 'é')",
    "timestamp": "timestamp_seconds(id)",
}


@pytest.mark.feature("H3")
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_are_compared_key_by_key(lake: Any, kind: str) -> None:
    value = KINDS[kind]
    table = keyed(lake, f"k {kind}, v bigint")
    rows = lake.spark.range(600).selectExpr(f"{value} as k", "id as v")
    load(table, rows, files=6)
    records = rows.where("v in (3, 590)")
    found = candidates(table, records, index="range")
    assert files_with(table, "v in (3, 590)") <= found
    assert len(found) == (6 if kind == "timestamp" else 2)  # times are looked up without bounds
    if kind == "int":
        table.evolve_schema(promote={"k": "bigint"})
        assert candidates(table, records, index="range") == found


@pytest.mark.feature("H3")
def test_keys_that_lie_anywhere_are_not_collected(lake: Any) -> None:
    table = keyed(lake)
    load(table, frame(table, {f"k{n:03}": n for n in range(200)}), by_range=False)
    assert candidates(table, frame(table, {"k000": 0, "k199": 1}), index="range") == all_files(table)


@pytest.mark.feature("H3")
def test_composite_and_made_keys(lake: Any) -> None:
    table = keyed(lake, "d timestamp, n int, v bigint", key=["date_format(d, 'yyyyMMdd')", "n"])
    rows = lake.spark.range(300).selectExpr("timestamp_seconds(id * 40000) as d", "int(id) as n", "id as v")
    load(table, rows.select("n", "d", "v"))
    records = rows.where("v in (7, 250)")
    for index in ("range", "record"):
        assert candidates(table, records, index=index) == files_with(table, "v in (7, 250)")
    lake.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")  # the key's days are others then
    try:
        assert candidates(table, records, index="record") == files_with(table, "v in (7, 250)")
    finally:
        lake.spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("hash", "it takes one of auto, range, bucket, record or python:<module>:<class>"),
        ("bucket", r"partition_by=\['bucket\(16, k\)'\]"),
        ("python:tests.keys.nowhere:Index", "cannot be imported"),
        ("python:tests.keys.test_index:NoSuch", "cannot be imported"),
        ("python:tests.keys.index_kit:keyed", "has no method candidates"),
    ],
)
@pytest.mark.feature("H3")
def test_a_setting_that_does_not_fit(lake: Any, setting: str, said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        keyed(lake, properties={"lakewright.index": setting})
    table = keyed(lake)
    with pytest.raises(InvalidOption, match=said):
        table.set_properties({"lakewright.index": setting})
    assert "lakewright.index" not in table.refresh().properties


@pytest.mark.feature("H3")
def test_an_index_that_does_not_fit_at_use(lake: Any) -> None:
    bucketed = keyed(lake, partition_by=["bucket(3, k)"], properties={"lakewright.index": "bucket"})
    with pytest.raises(InvalidOption, match="lakewright.index of .* is bucket"):
        bucketed.evolve_partitions(drop=["bucket(3, k)"])
    table = keyed(lake)
    rows = frame(table, {"a": 1, "b": 2})
    load(table, rows, files=2)
    for how, said in (({"index": "bucket"}, "lakewright.index of .* is bucket"), ({"index": "python:tests.keys.test_index:Liar"}, "names elsewhere, which is none of the files")):
        before = table.refresh()._state.metadata.head()
        with pytest.raises(InvalidOption, match=said):
            table.upsert(rows, **how)
        assert table.refresh()._state.metadata.head() == before
    unhashable = keyed(lake, "k string, v bigint", key=["double(k)"])
    load(unhashable, frame(unhashable, {"1": 1, "2": 2}), files=2)
    with pytest.raises(InvalidOption, match="cannot be hashed reliably"):
        unhashable.upsert(frame(unhashable, {"1": 3}), index="record")
