"""History, files, partitions, manifests, refs and runs as DataFrames."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import DateType, DoubleType, IntegerType, NestedField, StringType

from lakewright.commit.runs import RunRecord
from lakewright.read import tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRIPS = Schema(
    NestedField(1, "id", IntegerType()), NestedField(2, "region", StringType()), NestedField(3, "day", DateType()), NestedField(4, "fare", DoubleType())
)
SPEC = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"), PartitionField(3, 1001, DayTransform(), "d"))


@pytest.fixture
def trips(other_table: Callable[..., Any]) -> Any:
    table = other_table(TRIPS, partition_spec=SPEC)
    table.append([{"id": 1, "region": "eu", "day": date(1969, 12, 31), "fare": 1.5}, {"id": 2, "region": "eu", "day": date(1969, 12, 31), "fare": None}])
    table.append([{"id": 3, "region": None, "day": date(2024, 2, 29), "fare": 2.5}])
    eu = next(f.data_file for f in table.files() if f.data_file.partition[0] == "eu")
    return table.commit([table.delete_positions("d", [(eu.file_path, 0)], eu)])


def test_history(spark: SparkSession, trips: Any) -> None:
    frame = tables.history(spark, trips.metadata)
    assert frame.columns[:5] == ["snapshot_id", "parent_id", "committed_at", "operation", "summary"]
    assert frame.schema["committed_at"].dataType.typeName() == "timestamp"
    rows = frame.collect()
    assert [row.operation for row in rows] == ["append", "append", "delete"]
    assert [row.parent_id for row in rows] == [None, *(row.snapshot_id for row in rows[:2])]
    assert rows[0].summary["added-records"] == "2" and all(row.is_current_ancestor for row in rows)


def test_files(spark: SparkSession, trips: Any) -> None:
    rows = {(row.content, row.partition): row for row in tables.files(spark, trips.io, trips.metadata).collect()}
    assert set(rows) == {("data", "region=eu/d=1969-12-31"), ("data", "region=null/d=2024-02-29"), ("position deletes", "region=eu/d=1969-12-31")}
    data = rows["data", "region=eu/d=1969-12-31"]
    assert (data.file_format, data.record_count, data.value_counts["id"], data.null_value_counts["fare"]) == ("PARQUET", 2, 2, 1)
    assert (data.lower_bounds["day"], data.upper_bounds["id"], data.lower_bounds["fare"], data.lower_bounds["region"]) == ("1969-12-31", "2", "1.5", "eu")
    assert data.split_offsets and data.file_size_in_bytes > 0 and data.sequence_number == 1


def test_partitions(spark: SparkSession, trips: Any) -> None:
    rows = {row.partition: row for row in tables.partitions(spark, trips.io, trips.metadata).collect()}
    eu, null = rows["region=eu/d=1969-12-31"], rows["region=null/d=2024-02-29"]
    assert (eu.record_count, eu.file_count, eu.position_delete_record_count, eu.position_delete_file_count, eu.equality_delete_file_count) == (2, 1, 1, 1, 0)
    assert (null.record_count, null.spec_id, null.position_delete_record_count) == (1, 0, 0)
    assert eu.last_updated_snapshot_id == trips.metadata.head().snapshot_id and eu.last_updated_at > null.last_updated_at


def test_manifests(spark: SparkSession, trips: Any) -> None:
    rows = tables.manifests(spark, trips.io, trips.metadata).collect()
    assert sorted(row.content for row in rows) == ["data", "data", "deletes"]
    summary = next(row for row in rows if row.content == "deletes").partition_summaries
    assert [(s.field, s.lower_bound, s.contains_null) for s in summary] == [("region", "eu", False), ("d", "1969-12-31", False)]


def test_refs(spark: SparkSession, trips: Any) -> None:
    head = trips.metadata.head().snapshot_id
    trips.metadata.raw["refs"]["v1"] = {"snapshot-id": head, "type": "tag", "max-ref-age-ms": 10}
    rows = [tuple(row) for row in tables.refs(spark, trips.metadata).collect()]
    assert rows == [("main", "branch", head, None, None, None), ("v1", "tag", head, 10, None, None)]


def test_runs(spark: SparkSession) -> None:
    record = RunRecord("r", "t", "append", "running", "p", "main", None, 1_000, 2_000, 60, rows=5)
    row = tables.runs(spark, [record]).selectExpr("run_id", "state", "unix_millis(started_at) as s", "finished_at", "rows").collect()[0]
    assert tuple(row) == ("r", "running", 1_000, None, 5)


def test_a_table_without_snapshots(spark: SparkSession, other_table: Callable[..., Any]) -> None:
    table = other_table(TRIPS)
    frames = [tables.history(spark, table.metadata), tables.refs(spark, table.metadata), tables.runs(spark, [])]
    frames += [make(spark, table.io, table.metadata) for make in (tables.files, tables.partitions, tables.manifests)]
    assert [frame.count() for frame in frames] == [0] * 6


def test_columns_and_partition_sources_since_dropped(spark: SparkSession, trips: Any) -> None:
    kept = [f for f in trips.metadata.raw["schemas"][0]["fields"] if f["name"] != "region"]
    trips.metadata.raw["schemas"].append({"schema-id": 1, "type": "struct", "fields": kept})
    trips.metadata.raw["current-schema-id"] = 1
    rows = tables.files(spark, trips.io, trips.metadata).collect()
    assert {row.partition for row in rows} == {"region=eu/d=1969-12-31", "region=null/d=2024-02-29"}
    assert trips.read(spark, metadata_columns=True).where("_partition like 'region=eu%'").count() == 1
