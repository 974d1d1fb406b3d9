"""The Iceberg Spark runtime, with a Hadoop catalog in a local folder and its default settings."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any

from bench.contenders.spark_session import session, source
from bench.job import Job, Params
from bench.peer import RUNTIME_JAR


class Append(Job):
    partitioning = ""

    def __init__(self, scratch: Path) -> None:
        super().__init__(scratch)
        self.spark = session({
            "spark.driver.extraClassPath": str(RUNTIME_JAR),
            "spark.sql.catalog.peer": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.peer.type": "hadoop",
            "spark.sql.catalog.peer.warehouse": str(scratch / "warehouse"),
            "spark.sql.catalog.peer.cache-enabled": "false",
        })

    def prepare(self, params: Params) -> None:
        self.rows = source(self.spark, params["files"])
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in self.rows.schema)
        self.spark.sql("DROP TABLE IF EXISTS peer.bench.lineitem PURGE")
        self.spark.sql(f"CREATE TABLE peer.bench.lineitem ({columns}) USING iceberg {self.partitioning}")

    def run(self) -> None:
        self.rows.writeTo("peer.bench.lineitem").append()

    def outcome(self, full: bool) -> dict[str, Any]:
        versions = glob.glob(str(self.scratch / "warehouse/bench/lineitem/metadata/*.metadata.json"))
        return {"metadata": max(versions, key=lambda path: int(Path(path).name[1:].split(".")[0]))}


class AppendByMonth(Append):
    partitioning = "PARTITIONED BY (month(l_shipdate))"


JOBS: dict[str, type[Job]] = {"append": Append, "append-by-month": AppendByMonth}
