"""Files without field ids, which a table's name mapping explains; columns that only partitions tell; defaults of v3."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, DoubleType, IntegerType, LongType, NestedField, StructType

from lakewright.errors import CorruptFile
from lakewright.format.data_file import DataFile
from lakewright.read.layout import NAME_MAPPING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "place", StructType(NestedField(4, "x", IntegerType()), NestedField(5, "y", DoubleType()))),
    NestedField(3, "day", DateType()),
)
MAPPING = [
    {"field-id": 1, "names": ["id", "key"]},
    {"field-id": 2, "names": ["place"], "fields": [{"field-id": 4, "names": ["x", "lon"]}, {"field-id": 5, "names": ["y"]}]},
    {"field-id": 3, "names": ["day"]},
]
BY_DAY = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "day"))


@pytest.fixture(params=["native", "arrow"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def foreign_file(table: Any, name: str, rows: pa.Table, partition: tuple[Any, ...] = ()) -> DataFile:
    path = Path(table.folder) / "data" / f"{name}.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(rows, path)
    return DataFile(f"file://{path}", rows.num_rows, path.stat().st_size, 0, partition)


def test_files_without_ids_beside_files_with_them(spark: SparkSession, other_table: Callable[..., Any], engine: str) -> None:
    table = other_table(SCHEMA, properties={NAME_MAPPING: json.dumps(MAPPING)})
    table.append([{"id": 1, "place": {"x": 1, "y": 0.5}, "day": date(2024, 1, 1)}])
    old = pa.table({"key": pa.array([2], pa.int32()), "place": [{"lon": 7, "other": "?"}], "stranger": [1]})
    old = old.set_column(1, "place", pa.array([{"lon": 7, "other": "?"}], pa.struct([("lon", pa.int32()), ("other", pa.string())])))
    table.commit([foreign_file(table, "old", old)], content=0)
    rows = sorted((row.asDict(recursive=True) for row in table.read(spark, engine=engine).collect()), key=lambda row: row["id"])
    assert rows == [{"id": 1, "place": {"x": 1, "y": 0.5}, "day": date(2024, 1, 1)}, {"id": 2, "place": {"x": 7, "y": None}, "day": None}]
    assert table.read(spark, engine=engine).where("place.y is null and id = 2").count() == 1


def test_columns_that_only_the_partition_tells(spark: SparkSession, other_table: Callable[..., Any], engine: str) -> None:
    table = other_table(SCHEMA, partition_spec=BY_DAY, properties={NAME_MAPPING: json.dumps(MAPPING)})
    files = [foreign_file(table, f"day={n}", pa.table({"id": pa.array([n], pa.int64())}), (n,)) for n in (-1, 19_782)]
    table.commit(files, content=0)
    assert sorted((row.id, row.day) for row in table.read(spark, engine=engine).collect()) == [(-1, date(1969, 12, 31)), (19_782, date(2024, 2, 29))]
    assert [row.id for row in table.read(spark, engine=engine, where="day = date'2024-02-29'").collect()] == [19_782]


def test_a_file_nothing_explains(spark: SparkSession, other_table: Callable[..., Any]) -> None:
    table = other_table(SCHEMA)
    with table.iceberg.update_schema() as update:
        update.rename_column("id", "key")
    table.refresh().commit([foreign_file(table, "bare", pa.table({"id": [1]}))], content=0)
    spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "false")
    try:
        with pytest.raises(CorruptFile, match=r"bare\.parquet has no field ids"):
            table.read(spark)
    finally:
        spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")


def test_defaults_of_columns_that_old_files_lack(spark: SparkSession, other_table: Callable[..., Any], engine: str) -> None:
    table = other_table(Schema(NestedField(1, "id", LongType()))).append([{"id": 1}])
    table.metadata.raw["format-version"] = 3
    extra = {"id": 2, "name": "origin", "required": False, "type": "string", "initial-default": "unknown"}
    table.metadata.raw["schemas"].append({"schema-id": 1, "type": "struct", "fields": [*table.metadata.raw["schemas"][0]["fields"], extra]})
    table.metadata.raw["current-schema-id"] = 1
    assert table.rows(spark, engine=engine) == [(1, "unknown")]
    assert table.rows(spark, engine=engine, where="origin = 'unknown'") == [(1, "unknown")]
