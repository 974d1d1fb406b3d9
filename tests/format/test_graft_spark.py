"""Files of Spark's own writer, grafted and read back by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.format.graft_kit import SETTINGS, Graft, check_offsets, column, footer_of, graft, rows_of, statistics_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 6000
ROW_ID = column("_row_id", pa.int64(), 2147483540)
FILTERS = (
    "id >= 1000 AND id < 1010",
    "name = 'name 77'",
    "name = 'new 78'",
    "name = 'nowhere'",
    "price > 59.9",
    "price < 0",
    "wide = 12345678901234567890.5",
    "at > timestamp '2020-01-01 01:30:00'",
    "place.x = 17",
    "size(tags) = 0",
    "id IN (5, 4000)",
    "name IS NULL",
    "_row_id = 4242",
)


def spark_rows(spark: SparkSession) -> DataFrame:
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructField, StructType

    made = spark.range(ROWS).select(
        "id",
        F.expr("if(id % 10 = 3, null, concat('name ', id))").alias("name"),
        F.expr("cast(id / 100 as decimal(9, 2))").alias("price"),
        F.expr("cast(id + 0.5 as decimal(30, 1))").alias("wide"),
        F.expr("timestamp '2020-01-01 00:00:00' + make_interval(0, 0, 0, 0, 0, 0, id)").alias("at"),
        F.expr("cast(date_add(date '2020-01-01', cast(id % 900 as int)) as date)").alias("day"),
        F.expr("cast(id as double) / 7").alias("ratio"),
        F.expr("if(id % 7 = 0, null, named_struct('x', id, 'y', concat('y', id % 5)))").alias("place"),
        F.expr("array_repeat(cast(id % 50 as string), cast(id % 3 as int))").alias("tags"),
        F.expr("map('k', id, 'l', null)").alias("counts"),
    )
    identified = StructType([StructField(f.name, f.dataType, True, {"parquet.field.id": place}) for place, f in enumerate(made.schema, 1)])
    return made.sparkSession.createDataFrame(made.collect(), identified).coalesce(1)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return spark_rows(spark)


def written(rows: DataFrame, folder: Path, version: str, codec: str) -> Path:
    """One file of several row groups, with bloom filters and pages of a few hundred rows."""
    options = {
        "parquet.writer.version": version,
        "compression": codec,
        "parquet.bloom.filter.enabled#name": "true",
        "parquet.bloom.filter.enabled#id": "true",
        "parquet.bloom.filter.expected.ndv#name": "2000",
        "parquet.bloom.filter.expected.ndv#id": "2000",
        "parquet.block.row.count.limit": "1700",
        "parquet.page.row.count.limit": "300",
    }
    rows.write.options(**options).parquet(str(folder))
    (path,) = folder.glob("*.parquet")
    return path


def read(spark: SparkSession, path: Path, schema: Any) -> DataFrame:
    return spark.read.schema(schema).parquet(str(path))


@pytest.mark.feature("I15")
@pytest.mark.parametrize(("version", "codec"), [("v1", "snappy"), ("v2", "zstd")])
def test_spark_reads_a_graft_as_it_reads_a_plain_rewrite(spark: SparkSession, rows: DataFrame, tmp_path: Path, version: str, codec: str) -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    source = written(rows, tmp_path / "source", version, codec)
    before = footer_of(source)
    assert len(before.row_groups) == 4
    assert "parquet-mr" in before.created_by
    assert sum(chunk.bloom is not None for group in before.row_groups for chunk in group.chunks) == 8
    old = pq.read_table(source)
    changed = {
        "name": pc.replace_substring(old["name"], "name", "new"),
        "price": pc.negate(old["price"]).cast(old.schema.field("price").type),
        "tags": pa.chunked_array([old["tags"].combine_chunks().take(pa.array(range(ROWS))[::-1])]),
        "_row_id": pa.chunked_array([pa.array(range(ROWS), pa.int64())]),
    }
    fields = [old.schema.field(name) for name in ("name", "price", "tags")] + [ROW_ID]
    groups = {0: frozenset(changed), 1: frozenset({"price"}), 2: None}
    target, plain = tmp_path / "grafted.parquet", tmp_path / "plain.parquet"
    settings = {**SETTINGS, "data_page_version": "2.0" if version == "v2" else "1.0"}
    kept = {2: [place % 2 == 0 for place in range(before.row_groups[2].num_rows)]}
    expected = graft(source, target, Graft(changed, fields, frozenset({"ratio"}), groups, kept, settings))
    pq.write_table(expected, plain)

    assert rows_of(pq.read_table(target)) == rows_of(expected)
    leaves = sum(len(c.leaves) for c in footer_of(target).columns)
    assert check_offsets(target) == (leaves * len(before.row_groups), 8)
    assert footer_of(target).row_groups[2].num_rows < before.row_groups[2].num_rows
    assert statistics_of(target)["at"][:2] == statistics_of(source)["at"][:2]

    schema = StructType([f for f in rows.schema if f.name != "ratio"] + [StructField("_row_id", LongType(), True, {"parquet.field.id": 2147483540})])
    grafted, rewritten = read(spark, target, schema), read(spark, plain, schema)
    assert grafted.orderBy("_row_id").collect() == rewritten.orderBy("_row_id").collect()
    for condition in FILTERS:
        found = grafted.where(condition).orderBy("_row_id").collect()
        assert found == rewritten.where(condition).orderBy("_row_id").collect(), condition
    assert grafted.where("name = 'new 78'").count() == 1


def test_spark_columns_can_be_encoded_beside_copied_ones(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    from lakewright.format.graft import GraftWriter

    source = written(rows, tmp_path / "source", "v1", "zstd")
    with source.open("rb") as data, (tmp_path / "out").open("wb") as out:
        schema = pq.read_schema(source)
        writer = GraftWriter(data, out, keep=None, changed=schema, settings=SETTINGS)
    assert writer.encode_everywhere == frozenset()
    assert writer.can_encode_groups


def test_spark_timestamps_of_twelve_bytes_are_not(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    from lakewright.format.graft import GraftWriter

    rows.select("id", "at").write.option("spark.sql.parquet.outputTimestampType", "INT96").parquet(str(tmp_path / "source"))
    (source,) = (tmp_path / "source").glob("*.parquet")
    with source.open("rb") as data, (tmp_path / "out").open("wb") as out:
        at = column("at", pa.timestamp("us", tz="UTC"), 5)
        writer = GraftWriter(data, out, keep=None, changed=pa.schema([at]), settings=SETTINGS)
    assert writer.encode_everywhere == {"at"}
    assert writer.can_encode_groups
    with source.open("rb") as data, (tmp_path / "out").open("wb") as out:
        assert not GraftWriter(data, out, keep=None, changed=pa.schema([]), settings=SETTINGS).can_encode_groups
