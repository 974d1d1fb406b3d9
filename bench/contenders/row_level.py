"""A row-level change by any contender on Spark: the table is made once, and put back to its first snapshot before each run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.contenders.spark_session import session, source
from bench.job import Job, Params

# Eight files of lineitem stay eight files of the table.
SETTINGS = {"spark.sql.files.maxPartitionBytes": "48m"}
SORTED_FILES = 40


class ChangeRows(Job):
    def __init__(self, scratch: Path, settings: dict[str, str] | None = None) -> None:
        super().__init__(scratch)
        self.spark: SparkSession = session({**SETTINGS, **(settings or {})})
        self.made = False

    def prepare(self, params: Params) -> None:
        self.change = params["change"]
        if not self.made:
            rows = source(self.spark, params["files"])
            if self.change["sort_by"]:
                rows = rows.repartitionByRange(SORTED_FILES, self.change["sort_by"])
            if self.change["files"]:
                rows = rows.repartition(self.change["files"])
            self.make(rows, self.change["mode"])
            self.made = True
        self.put_back()
        self.updates = self.spark.read.parquet(self.change["updates"]) if self.change["updates"] else None
        if self.change["read"]:
            self.apply()

    def run(self) -> None:
        if self.change["read"]:
            self.rows().write.format("noop").mode("overwrite").save()
        else:
            self.apply()

    def outcome(self, full: bool) -> dict[str, Any]:
        if not full:
            return {"facts": {}}
        rows = self.rows()
        found = rows.selectExpr("count(*) n", f"sum(cast(xxhash64({', '.join(rows.columns)}) as decimal(38,0))) s").collect()[0]
        return {"facts": {"rows": found["n"], "checksum": str(found["s"])}}

    def clean(self) -> None:
        """The table is kept for the next round."""

    def make(self, rows: DataFrame, mode: str) -> None:
        raise NotImplementedError

    def put_back(self) -> None:
        raise NotImplementedError

    def apply(self) -> None:
        raise NotImplementedError

    def rows(self) -> DataFrame:
        raise NotImplementedError
