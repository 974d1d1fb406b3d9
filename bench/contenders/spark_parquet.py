"""The floor: Spark's own Parquet writer, in the same session settings and the same layout, with no table around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql.functions import expr

from bench.contenders.spark_session import MONTH, session, source
from bench.job import Job, Params


class Append(Job):
    def __init__(self, scratch: Path) -> None:
        super().__init__(scratch)
        self.spark = session()

    def prepare(self, params: Params) -> None:
        self.rows = source(self.spark, params["files"])
        self.out = str(self.scratch / "out")

    def run(self) -> None:
        self.rows.write.parquet(self.out)

    def outcome(self, full: bool) -> dict[str, Any]:
        return {"files": [str(path) for path in Path(self.out).rglob("*.parquet")]}


class AppendByMonth(Append):
    def run(self) -> None:
        """One task holds a whole month, so a month becomes one file; the month column goes to the path, as no part of the rows."""
        self.rows.withColumn("month", expr(MONTH)).repartition("month").write.partitionBy("month").parquet(self.out)


JOBS: dict[str, type[Job]] = {"append": Append, "append-by-month": AppendByMonth}
