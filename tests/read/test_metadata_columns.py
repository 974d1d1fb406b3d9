"""The columns of metadata=True."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import IntegerType, NestedField, StringType

from lakewright.errors import DuplicateColumn
from lakewright.read.fileinfo import METADATA_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRIPS = Schema(NestedField(1, "id", IntegerType(), required=True), NestedField(2, "region", StringType(), required=True), identifier_field_ids=[1])
BY_REGION = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))


@pytest.mark.feature("I25", "H5")
@pytest.mark.parametrize("engine", ["native", "arrow"])
def test_metadata_columns(spark: SparkSession, other_table: Callable[..., Any], engine: str) -> None:
    table = other_table(TRIPS, partition_spec=BY_REGION).append([{"id": 1, "region": "eu"}, {"id": 2, "region": "eu"}])
    with table.iceberg.update_spec() as update:
        update.add_field("id", BucketTransform(1), "b")
    table.append([{"id": 3, "region": "us"}])
    first, second = sorted(table.metadata.snapshots(), key=lambda s: s.sequence_number)
    frame = table.read(spark, engine=engine, metadata_columns=True)
    assert frame.columns == ["id", "region", *METADATA_COLUMNS]
    rows = {row.id: row for row in frame.collect()}
    paths = {f.data_file.partition: f.data_file.file_path for f in table.files()}
    stamp = "unix_millis(_commit_time) as millis"
    times = {row.id: row.millis for row in frame.selectExpr("id", stamp).collect()}
    assert times == {1: first.timestamp_ms, 2: first.timestamp_ms, 3: second.timestamp_ms}
    assert isinstance(rows[1]._commit_time, datetime)
    old = (first.snapshot_id, None, 1, "region=eu", 0, paths["eu",])
    for at, number in enumerate((1, 2)):
        row = rows[number]
        assert (row._commit_id, row._row_id, row._last_updated_sequence_number, row._partition, row._spec_id, row._file, row._pos, row._key) == (
            *old,
            at,
            str(number),
        )
    row = rows[3]
    assert (row._commit_id, row._last_updated_sequence_number, row._partition, row._spec_id, row._file) == (
        second.snapshot_id,
        2,
        "region=us/b=0",
        1,
        paths["us", 0],
    )


@pytest.mark.feature("H5")
def test_a_key_of_several_columns_names_them(spark: SparkSession, other_table: Callable[..., Any]) -> None:
    keyed = Schema(*TRIPS.fields, identifier_field_ids=[1, 2])
    table = other_table(keyed).append([{"id": 1, "region": "eu"}, {"id": 2, "region": "a,b\\c:d"}])
    assert [row._key for row in table.read(spark, metadata_columns=True).sort("id").collect()] == ["id:1,region:eu", "id:2,region:a\\,b\\\\c:d"]


def test_a_table_without_rows_or_keys(spark: SparkSession, other_table: Callable[..., Any]) -> None:
    plain = Schema(NestedField(1, "id", IntegerType()))
    table = other_table(plain)
    empty = table.read(spark, metadata_columns=True).schema
    full = table.append([{"id": 1}]).read(spark, metadata_columns=True)
    assert [(f.name, f.dataType) for f in full.schema] == [(f.name, f.dataType) for f in empty]
    row = full.collect()[0]
    assert (row._key, row._partition) == (None, "")


def test_a_column_with_the_name_of_one(spark: SparkSession, other_table: Callable[..., Any]) -> None:
    table = other_table(Schema(NestedField(1, "_file", IntegerType()))).append([{"_file": 1}])
    assert table.rows(spark) == [(1,)]
    with pytest.raises(DuplicateColumn, match="_file"):
        table.read(spark, metadata_columns=True)
