"""Position and equality deletes that other engines wrote."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType, StructType

from lakewright.errors import UnsupportedFormat
from lakewright.read.native import FIELD_ID_READ

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("compiled")

TRIPS = Schema(NestedField(1, "id", IntegerType()), NestedField(2, "region", StringType()), NestedField(3, "fare", DoubleType()))
BY_REGION = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
ROWS = [{"id": i, "region": "eu" if i % 2 else "us", "fare": float(i)} for i in range(6)]


@pytest.fixture(params=["native", "arrow"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def with_id(name: str, field_id: int, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(field_id)})


def ids(table: Any, spark: SparkSession, engine: str) -> list[int]:
    return sorted(row.id for row in table.read(spark, engine=engine).collect())


def keys(*values: int | None, kind: pa.DataType | None = None, name: str = "id") -> pa.Table:
    kind = kind or pa.int32()
    return pa.table([pa.array(values, kind)], schema=pa.schema([with_id(name, 1, kind)]))


def test_position_deletes(spark: SparkSession, other_table: Callable[..., Any], engine: str) -> None:
    table = other_table(TRIPS).append(ROWS)
    data = table.files()[0].data_file
    table.commit([table.delete_positions("d", [(data.file_path, 1), (data.file_path, 4), ("file:///elsewhere", 0)], data)])
    assert ids(table, spark, engine) == [0, 2, 3, 5]


def test_position_deletes_keep_to_their_partition_and_age(spark: SparkSession, other_table: Callable[..., Any], engine: str) -> None:
    table = other_table(TRIPS, partition_spec=BY_REGION).append(ROWS)
    eu, us = sorted((f.data_file for f in table.files()), key=lambda f: str(f.partition))
    table.commit([table.delete_positions("d", [(eu.file_path, 0), (us.file_path, 0)], eu)])
    assert ids(table, spark, engine) == [0, 2, 3, 4, 5]


def test_equality_deletes_reach_older_files_only(spark: SparkSession, other_table: Callable[..., Any], engine: str) -> None:
    table = other_table(TRIPS).append(ROWS)
    data = table.files()[0].data_file
    table.commit([table.delete_values("d", keys(1, 2, None), [1], data)])
    table.commit([replace(data, file_path=_copy(data.file_path))], content=0)
    assert ids(table, spark, engine) == [0, 0, 1, 2, 3, 3, 4, 4, 5, 5]


def _copy(path: str) -> str:
    target = path.replace(".parquet", "-later.parquet")
    shutil.copy(path.removeprefix("file://"), target.removeprefix("file://"))
    return target


def test_equality_deletes_keep_to_their_partition(spark: SparkSession, other_table: Callable[..., Any], engine: str) -> None:
    table = other_table(TRIPS, partition_spec=BY_REGION).append(ROWS)
    eu = next(f.data_file for f in table.files() if f.data_file.partition == ("eu",))
    table.commit([table.delete_values("d", keys(0, 1), [1], eu)])
    assert ids(table, spark, engine) == [0, 2, 3, 4, 5]


def test_equality_deletes_without_partition_hold_everywhere(spark: SparkSession, other_table: Callable[..., Any], engine: str) -> None:
    table = other_table(TRIPS, partition_spec=BY_REGION).append(ROWS)
    with table.iceberg.update_spec() as update:
        update.remove_field("region")
    eu = table.refresh().files()[0].data_file
    table.commit([table.delete_values("d", keys(0, 1), [1], eu, spec_id=1, partition=())])
    assert ids(table, spark, engine) == [2, 3, 4, 5]


def test_nulls_and_nans_are_equal_to_themselves(spark: SparkSession, other_table: Callable[..., Any], engine: str) -> None:
    nan = float("nan")
    table = other_table(TRIPS).append([{"id": 1, "region": None, "fare": nan}, {"id": 2, "region": None, "fare": 1.0}, {"id": 3, "region": "eu", "fare": nan}])
    data = table.files()[0].data_file
    values = pa.table([pa.array([None], pa.string()), pa.array([nan])], schema=pa.schema([with_id("region", 2, pa.string()), with_id("fare", 3, pa.float64())]))
    table.commit([table.delete_values("d", values, [3, 2], data)])
    assert ids(table, spark, engine) == [2, 3]


def test_deletes_of_renamed_and_promoted_columns(spark: SparkSession, other_table: Callable[..., Any], engine: str) -> None:
    table = other_table(TRIPS).append(ROWS)
    data = table.files()[0].data_file
    with table.iceberg.update_schema() as update:
        update.update_column("id", LongType())
        update.rename_column("id", "trip")
    table.refresh().commit([table.delete_values("d", keys(1, 2), [1], data), table.delete_values("e", keys(3, kind=pa.int64(), name="trip"), [1], data)])
    assert sorted(row.trip for row in table.read(spark, engine=engine).collect()) == [0, 4, 5]


@pytest.mark.parametrize("by_id", ["true", "false"])
def test_deletes_by_a_column_that_was_dropped(spark: SparkSession, other_table: Callable[..., Any], engine: str, by_id: str) -> None:
    table = other_table(TRIPS).append(ROWS)
    data = table.files()[0].data_file
    table.commit([table.delete_values("d", keys(1, 2), [1], data)])
    table.metadata.raw["schemas"].append({"schema-id": 1, "type": "struct", "fields": table.metadata.raw["schemas"][0]["fields"][1:]})
    table.metadata.raw["current-schema-id"] = 1
    spark.conf.set(FIELD_ID_READ, by_id)
    try:
        assert sorted(row.fare for row in table.read(spark, engine=engine).collect()) == [0.0, 3.0, 4.0, 5.0]
    finally:
        spark.conf.set(FIELD_ID_READ, "true")


def test_deletes_by_a_field_of_a_struct(spark: SparkSession, other_table: Callable[..., Any], engine: str) -> None:
    schema = Schema(
        NestedField(1, "id", IntegerType()), NestedField(2, "at", StructType(NestedField(3, "x", IntegerType()), NestedField(4, "y", IntegerType())))
    )
    table = other_table(schema).append([{"id": 1, "at": {"x": 1, "y": 1}}, {"id": 2, "at": {"x": 2, "y": 1}}, {"id": 3, "at": None}])
    data = table.files()[0].data_file
    at = pa.struct([with_id("x", 3, pa.int32())])
    table.commit([table.delete_values("d", pa.table([pa.array([{"x": 1}], at)], schema=pa.schema([with_id("at", 2, at)])), [3], data)])
    assert ids(table, spark, engine) == [2, 3]


def test_positions_and_values_together_with_files_left_alone(spark: SparkSession, other_table: Callable[..., Any], engine: str) -> None:
    table = other_table(TRIPS, partition_spec=BY_REGION).append(ROWS)
    eu = next(f.data_file for f in table.files() if f.data_file.partition == ("eu",))
    table.commit([table.delete_positions("p", [(eu.file_path, 0)], eu), table.delete_values("v", keys(5), [1], eu)])
    assert [bool(f.deletes) for f in sorted(table.files(), key=lambda f: str(f.data_file.partition))] == [True, False]
    rows = table.read(spark, engine=engine, metadata_columns=True).collect()
    assert sorted((row.id, row._partition, row._pos) for row in rows) == [(0, "region=us", 0), (2, "region=us", 1), (3, "region=eu", 1), (4, "region=us", 2)]


@pytest.mark.parametrize("kind", ["AVRO", "ORC"])
def test_delete_files_in_other_formats_are_refused(other_table: Callable[..., Any], kind: str) -> None:
    table = other_table(TRIPS).append(ROWS)
    data = table.files()[0].data_file
    table.commit([table.delete_positions("d", [(data.file_path, 1)], data, file_format=kind)])
    with pytest.raises(UnsupportedFormat, match=f"d.parquet is {kind}"):
        table.files()


def test_data_files_in_other_formats_are_refused(other_table: Callable[..., Any]) -> None:
    table = other_table(TRIPS).append(ROWS)
    data = table.files()[0].data_file
    table.commit([replace(data, file_path="file:///a/b.orc", file_format="ORC")], content=0)
    with pytest.raises(UnsupportedFormat, match=r"b\.orc is ORC"):
        table.files()
