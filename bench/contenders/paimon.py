"""Paimon's primary-key tables with their defaults but for the bucket mode, the sequence field, the codec and the parallelism.

Its writer shuffles to as many tasks as Spark's setting says, 200, without adaptive execution; and each of them opens a dynamic bucket
of its own in each partition: 200,000 rows became 4,000 files. So it gets as many as the machine has use for.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame

from bench.contenders.keyed_spark import KeyedSpark
from bench.job import Job
from bench.keyed_data import KEY, ORDERING, PARTITION
from bench.keyed_peers import PAIMON_JAR

TASKS = "4"
FIXED = {"bucket": "1"}
DYNAMIC = {"bucket": "-1", "dynamic-bucket.initial-buckets": "1", "dynamic-bucket.assigner-parallelism": TASKS}
NAME = "paimon.bench.orders"


class PaimonFixed(KeyedSpark):
    """One bucket per partition: a partition is far below the 200 MB to 1 GB that Paimon advises for a bucket."""

    buckets = FIXED

    def __init__(self, scratch: Path) -> None:
        super().__init__(scratch, {
            "spark.driver.extraClassPath": str(PAIMON_JAR),
            "spark.sql.shuffle.partitions": TASKS,
            "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
            "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
            "spark.sql.catalog.paimon.warehouse": f"file://{scratch / 'live'}",
        })
        self.path = str(self.live / "bench.db" / "orders")

    def create(self) -> None:
        """A key with the partition in it, as a fixed bucket demands; without it the dynamic one would keep an index over all partitions."""
        rows = self.incoming(self.files)
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rows.schema)
        properties = {"primary-key": f"{PARTITION},{KEY}", "sequence.field": ORDERING, "file.format": "parquet", "file.compression": "zstd", **self.buckets}
        told = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        self.spark.sql("CREATE DATABASE IF NOT EXISTS paimon.bench")
        self.spark.sql(f"DROP TABLE IF EXISTS {NAME}")  # the catalog remembers a table whose folder is gone
        self.spark.sql(f"CREATE TABLE {NAME} ({columns}) PARTITIONED BY ({PARTITION}) TBLPROPERTIES ({told})")

    def load(self) -> None:
        self._write(self.files)

    def upsert(self) -> None:
        self._write(self.changes)

    def _write(self, files: list[str]) -> None:
        self.incoming(files).write.format("paimon").mode("append").save(self.path)

    def loaded(self) -> None:
        self.first = self._latest()

    def rows(self) -> DataFrame:
        return self.spark.read.format("paimon").load(self.path)

    def last_commit(self) -> DataFrame:
        return self.spark.read.format("paimon").option("incremental-between", f"{self.first},{self._latest()}").load(self.path)

    def _latest(self) -> int:
        return max(int(path.name.removeprefix("snapshot-")) for path in Path(self.path, "snapshot").glob("snapshot-*"))


class PaimonDynamic(PaimonFixed):
    buckets = DYNAMIC


JOBS: dict[str, type[Job]] = {"fixed-bucket": PaimonFixed, "dynamic-bucket": PaimonDynamic}
