"""First rows of a keyed table: written as they come and looked at in the files, or read and combined first where that does not do."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewright.errors import NullKey
from lakewright.keys.definition import Definition, definition_of
from lakewright.keys.written_keys import written_keys
from lakewright.lake import Lake
from lakewright.read.scan import FileScan, plan_scan
from lakewright.table import Table
from tests.keys.kit import keyed, records, rows

A, B, C = (1, "eu", 1.0, 10), (2, "us", 2.0, 10), (3, "eu", 3.0, 10)
OPERATIONS = ["bulk_insert", "insert", "upsert", "overwrite"]


def written_and_committed(table: Table) -> tuple[set[str], set[str]]:
    folder = Path(table.location.removeprefix("file://")) / "data"
    return {str(path) for path in folder.rglob("*.parquet")}, {row.file_path.removeprefix("file://") for row in table.files().collect()}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_records_are_computed_once(lake: Lake, operation: str) -> None:
    from pyspark.sql import functions as F
    from pyspark.sql.types import LongType

    computed = lake.spark.sparkContext.accumulator(0)

    def same(value: int) -> int:
        computed.add(1)
        return value

    batch = lake.spark.range(100).select(F.udf(same, LongType())("id").alias("id"), F.lit("eu").alias("region"), F.lit(1.0).alias("fare"), F.lit(1).alias("at"))
    commit = getattr(keyed(lake), operation)(batch)
    assert computed.value == 100
    assert commit.added_rows == 100 and commit.summary["lakewright.records"] == "100" and commit.summary["lakewright.records-combined"] == "0"


@pytest.mark.parametrize("key", [["id"], ["region"], ["region", "id"]])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_key_that_is_there_twice_is_combined_and_leaves_no_file(lake: Lake, operation: str, key: list[str]) -> None:
    table = keyed(lake, key=key)
    later = (*A[:3], 11)
    batch = records(lake, A, B).unionAll(records(lake, later))
    commit = getattr(table, operation)(batch)
    assert rows(table) == [later, B]
    assert commit.summary["lakewright.records"] == "3" and commit.summary["lakewright.records-combined"] == "1"
    written, committed = written_and_committed(table)
    assert written == committed


@pytest.mark.parametrize("key", [["id"], ["region"]])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_null_key_is_refused_and_leaves_no_file(lake: Lake, operation: str, key: list[str]) -> None:
    table = keyed(lake, key=key)
    null = (None, "eu", 1.0, 1) if key == ["id"] else (4, None, 1.0, 1)
    with pytest.raises(NullKey, match="1 of 2 records"):
        getattr(table, operation)(records(lake, B, null))
    assert written_and_committed(table) == (set(), set())


@pytest.mark.parametrize("kind", ["int", "bigint", "date"])
def test_whole_numbers_are_compared_without_a_job(lake: Lake, kind: str) -> None:
    """In files that overlap, touch, or lie apart."""
    value = "date_add(date'1969-12-01', int(id))" if kind == "date" else f"{kind}(id - 20)"
    table = keyed(lake, schema=f"id {kind}, part int", partition_by=["part"], ordering="part")
    batch = lake.spark.range(60).selectExpr(f"{value} as id", "int(id % 2 + 2 * (id div 40)) as part")
    table.bulk_insert(batch)
    files = [file.data_file for file in _files(table)]
    assert len(files) == 4
    found = written_keys(table._state.io, files, _definition(table))
    assert found is not None and (found.rows, found.nulls, found.is_unique) == (60, 0, True)
    again = written_keys(table._state.io, [*files, files[0]], _definition(table))
    assert again is not None and not again.is_unique


def test_rows_that_came_meanwhile_send_an_upsert_the_long_way(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table was without rows when the upsert was planned, and is not any more when it is planned again."""
    from lakewright import transaction

    table, other = keyed(lake), None
    write = transaction.write_files

    def slow(*given: object) -> object:
        nonlocal other
        if other is None:
            other = lake.table(table.name)
            other.upsert(records(lake, A, C))
        return write(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(transaction, "write_files", slow)
    table.upsert(records(lake, (*A[:3], 11), B))
    assert rows(table) == [(*A[:3], 11), B, C]


def _files(table: Table) -> list[FileScan]:
    metadata = table._state.metadata
    return list(plan_scan(table._state.io, metadata, metadata.head_if_any("main"), with_metrics=True).files)


def _definition(table: Table) -> Definition:
    return definition_of(table._state.metadata, table.name)
