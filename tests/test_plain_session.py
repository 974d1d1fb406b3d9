"""A session someone else started: Spark's own defaults where ours are chosen for reading by field id, Arrow and time zones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakewright as lw
from lakewright.lake import Lake
from lakewright.session import SQL_SETTINGS, TIME_ZONE
from lakewright.table import Table

DEFAULTS = {
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.execution.arrow.pyspark.enabled": "false",
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "false",
    "spark.sql.python.filterPushdown.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "32",
    TIME_ZONE: "America/New_York",
}
MODES = ["copy-on-write", "merge-on-read"]


@pytest.fixture
def plain(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    """A lake on a session with none of our settings."""
    assert set(DEFAULTS) == set(SQL_SETTINGS)
    session = spark.newSession()
    for key, value in DEFAULTS.items():
        session.conf.set(key, value)
    yield lw.connect(str(tmp_path / "lake"), spark=session, progress="off")
    assert {key: session.conf.get(key) for key in DEFAULTS} == DEFAULTS


def orders(lake: Lake, mode: str) -> Table:
    properties = {f"write.{command}.mode": mode for command in ("delete", "update", "merge")}
    table = lake.create_table("shop.orders", "id bigint, part int, version int, price double", partition_by=["part"], key=["id"], ordering="version", properties=properties)
    table.bulk_insert(batch(lake, range(100), 1))
    return table


def batch(lake: Lake, ids: Any, version: int) -> Any:
    return lake.spark.createDataFrame([(i, i % 3, version, float(version)) for i in ids], "id bigint, part int, version int, price double").coalesce(1)


def versions(rows: Any) -> dict[int, int]:
    return {row.id: row.version for row in rows.collect()}


def row_ids(table: Table) -> dict[int, int]:
    return {row.id: row._row_id for row in table.read(metadata=True).select("id", "_row_id").collect()}


@pytest.mark.feature("H7")
@pytest.mark.parametrize("mode", MODES)
def test_changes_are_those_of_the_range_alone(plain: Lake, mode: str) -> None:
    table = orders(plain, mode)
    first = table.upsert(batch(plain, range(0, 100, 10), 2))
    second = table.upsert(batch(plain, [1, 20, 200], 3))
    assert versions(table.changes(since=first)) == {1: 3, 20: 3, 200: 3}
    assert versions(table.changes(until=first)) == {i: 2 if i % 10 == 0 else 1 for i in range(100)}
    log = table.changes(since=first, log=True).select("id", "version", "_change_type").collect()
    assert sorted(map(tuple, log)) == [
        *((1, 1, "update_before"), (1, 3, "update_after")),
        *((20, 2, "update_before"), (20, 3, "update_after"), (200, 3, "insert")),
    ]
    table.compact()
    assert versions(table.changes(since=second)) == {}


@pytest.mark.parametrize("mode", MODES)
def test_rows_keep_their_ids_through_one_change_after_another(plain: Lake, mode: str) -> None:
    table = orders(plain, mode)
    before = row_ids(table)
    table.upsert(batch(plain, range(0, 100, 10), 2))
    table.upsert(batch(plain, range(0, 100, 7), 3))
    table.delete("id % 9 = 4")
    table.update({"price": "price + 1"}, where="id < 50")
    table.compact()
    expected = {i: row for i, row in before.items() if i % 9 != 4}
    assert row_ids(table) == expected
    assert versions(table.read()) == {i: 3 if i % 7 == 0 else 2 if i % 10 == 0 else 1 for i in expected}


@pytest.mark.parametrize("mode", MODES)
def test_a_name_that_was_another_column_s(plain: Lake, mode: str) -> None:
    table = orders(plain, mode)
    before = row_ids(table)
    table.evolve_schema(rename={"price": "cost"})
    table.evolve_schema(add={"price": "double"})
    table.update({"price": "cost * 2"}, where="id >= 50")
    found = {row.id: (row.cost, row.price) for row in table.read().collect()}
    assert found == {i: (1.0, 2.0 if i >= 50 else None) for i in range(100)} and row_ids(table) == before
