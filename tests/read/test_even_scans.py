"""Scans that are cut in several: the tasks foreseen are those that Spark makes, and the rows are the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from lakewright.lake import Lake
from lakewright.read import even_scans
from lakewright.read.even_scans import MOST_BYTES, OPEN_COST, Packing, dealt, number_of_scans
from lakewright.read.frame import to_dataframe
from lakewright.read.scan import plan_scan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakewright.table import Table

MIB = 1024 * 1024


@pytest.fixture
def small_tasks(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Packing]:
    """Spark's tasks take 128 kB, so that a few small files are several."""
    monkeypatch.setattr(even_scans, "LEAST_BYTES", 0)
    settings = {MOST_BYTES: "128000b", OPEN_COST: "1000"}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield Packing(spark.sparkContext.defaultParallelism, 128_000, 1_000)
    for key in settings:
        spark.conf.unset(key)


@pytest.mark.parametrize(
    ("sizes", "number"),
    [
        ([14 * MIB] * 20, 2),  # 7, 7 and 6 files
        ([14 * MIB] * 20 + [100_000] * 20, 2),
        ([40 * MIB] * 6, 1),  # two tasks of three files each
        ([100 * MIB] * 3, 2),
        ([300 * MIB], 1),  # nothing to deal out
        ([20 * MIB] * 3, 1),  # little to gain
        ([100 * MIB] * 100, 1),  # many tasks in any case
        ([], 1),
    ],
)
def test_as_many_scans_as_keep_the_cores_busy(sizes: list[int], number: int) -> None:
    packing = Packing(2, 128 * MIB, 4 * MIB)
    assert number_of_scans(sizes, packing) == number
    assert packing.time(dealt(sizes, number)) <= packing.time([sizes])


def test_spark_makes_the_tasks_foreseen(spark: SparkSession, tmp_path: Path, small_tasks: Packing) -> None:
    random = np.random.default_rng(1)
    for at, rows in enumerate([30_000, 9_000, 8_000, 3_000, 3_000, 3_000, 500, 100]):
        pq.write_table(pa.table({"n": random.integers(0, 1 << 62, rows)}), tmp_path / f"{at}.parquet", compression="none", use_dictionary=False)
    paths = [str(path) for path in tmp_path.iterdir()]
    foreseen = small_tasks.tasks([os.path.getsize(path) for path in paths])
    assert spark.read.parquet(*paths).rdd.getNumPartitions() == len(foreseen) > small_tasks.cores
    assert sum(foreseen) == sum(map(os.path.getsize, paths))


@pytest.mark.parametrize("told", ["128MB", "134217728b", "131072k", "134217728", "128 m"])
def test_sizes_as_spark_writes_them(told: str) -> None:
    assert even_scans._bytes(told) == 128 * MIB
    assert even_scans._bytes("many") is None


@pytest.mark.parametrize("name", ["name", "_metadata"])
def test_rows_of_several_scans(lake: Lake, spark: SparkSession, small_tasks: Packing, name: str) -> None:
    """With deleted rows, with files that have none beside them, with columns of Spark's own names; as Arrow reads them."""
    table = lake.create_table("a.t", f"id bigint, part int, {name} string", partition_by=["part"], key=["id"], properties={"write.merge.mode": "merge-on-read"})
    rows = spark.range(7_200).select("id", (F.col("id") % 20).cast("int").alias("part"), F.sha2(F.col("id").cast("string"), 256).alias(name))
    table.append(rows)
    table.upsert(rows.where("id % 49 = 0").withColumn(name, F.lit("changed")))
    assert scans(table) == 2  # of files with and without deletes together, each
    assert table.read().where(f"`{name}` = 'changed'").count() == 147
    assert_same(table)


def scans(table: Table) -> int:
    return str(table.read()._jdf.queryExecution().optimizedPlan()).count("] parquet")  # type: ignore[operator]


def assert_same(table: Table) -> None:
    """Arrow reads in tasks of Lakewright's own, however large files are."""
    by_spark, by_arrow = table.read(), table._lake.spark.read.format("lakewright").option("lake", table._lake.location).load("a.t")
    assert sorted(map(tuple, by_spark.collect())) == sorted(map(tuple, by_arrow.collect()))
    state = table._state
    planned = plan_scan(state.io, state.metadata, next(s for s in state.metadata.snapshots() if s.snapshot_id == table.iceberg.current_snapshot().snapshot_id))
    places = [to_dataframe(by_spark.sparkSession, state.io, state.metadata, planned, metadata_columns=True, engine=engine) for engine in ("native", "arrow")]
    assert sorted(places[0].select("id", "_file", "_pos").collect()) == sorted(places[1].select("id", "_file", "_pos").collect())
