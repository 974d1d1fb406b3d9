"""Hudi with its defaults but for the table type, the index and the codec, which is the session's for all."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame

from bench.contenders.keyed_spark import KeyedSpark
from bench.job import Job
from bench.keyed_data import KEY, ORDERING, PARTITION
from bench.keyed_peers import HUDI_JAR

RECORD_INDEX = {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.record.index.enable": "true"}
# One bucket per partition: a partition is far below the gigabytes that Hudi advises for a bucket.
BUCKET_INDEX = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}


class Hudi(KeyedSpark):
    index = RECORD_INDEX

    def __init__(self, scratch: Path) -> None:
        super().__init__(scratch, {
            "spark.driver.extraClassPath": str(HUDI_JAR),
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
            "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        })
        self.path = str(self.live / "orders")

    def create(self) -> None:
        """The first write makes the table."""

    def load(self) -> None:
        self._write(self.files, "bulk_insert", "overwrite")

    def upsert(self) -> None:
        self._write(self.changes, "upsert", "append")

    def _write(self, files: list[str], operation: str, mode: str) -> None:
        options = {
            "hoodie.table.name": "orders",
            "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
            "hoodie.datasource.write.operation": operation,
            "hoodie.datasource.write.recordkey.field": KEY,
            "hoodie.datasource.write.partitionpath.field": PARTITION,
            "hoodie.datasource.write.precombine.field": ORDERING,
            "hoodie.parquet.compression.codec": "zstd",
            **self.index,
        }
        self.incoming(files).write.format("hudi").options(**options).mode(mode).save(self.path)

    def loaded(self) -> None:
        self.first = self._last_completion()

    def _last_completion(self) -> str:
        """Completed instants are named <requested>_<completed>.<action>; incremental reads go by the latter."""
        done = [path.name.split(".")[0].split("_")[1] for path in Path(self.path, ".hoodie", "timeline").glob("[0-9]*_*")]
        return max(done)

    def rows(self) -> DataFrame:
        return self.spark.read.format("hudi").load(self.path)

    def last_commit(self) -> DataFrame:
        options = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": self.first}
        return self.spark.read.format("hudi").options(**options).load(self.path)


class HudiBucket(Hudi):
    index = BUCKET_INDEX


JOBS: dict[str, type[Job]] = {"cow-record": Hudi, "cow-bucket": HudiBucket}
