"""PyIceberg with a SQLite catalog: Arrow writes, fast appends, and its scan plan read by Spark with default settings."""

from __future__ import annotations

import contextlib
import io
import os
import time
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from pyiceberg.transforms import MonthTransform
from pyspark.sql import SparkSession

from bench.contenders.windows import per_commit
from bench.job import Job, Params
from bench.many_files import TABLE, create, fast_append, file_facts, fresh_catalog, pyiceberg_files, sql_catalog


class Append(Job):
    partition_by: str | None = None

    def prepare(self, params: Params) -> None:
        self.source = ds.dataset(params["files"], format="parquet")
        catalog = fresh_catalog(self.scratch)
        catalog.create_namespace("bench")
        self.table = catalog.create_table("bench.lineitem", self.source.schema)
        if self.partition_by:
            with self.table.update_spec() as spec:
                spec.add_field(self.partition_by, MonthTransform(), "month")

    def run(self) -> None:
        self.table.append(self.source.to_table())

    def outcome(self, full: bool) -> dict[str, Any]:
        return {"metadata": self.table.metadata_location}


class AppendByMonth(Append):
    partition_by = "l_shipdate"


class CommitFiles(Job):
    def prepare(self, params: Params) -> None:
        self.table = create(fresh_catalog(self.scratch))
        self.files = pyiceberg_files(file_facts(params["count"]), self.table)

    def run(self) -> dict[str, float] | None:
        fast_append(self.table, self.files)
        return None

    def outcome(self, full: bool) -> dict[str, Any]:
        return {"metadata": self.table.metadata_location}


class CommitHistory(CommitFiles):
    """Single-file commits one after another by a writer that keeps its table."""

    def run(self) -> dict[str, float]:
        return per_commit(lambda file: fast_append(self.table, [file]), self.files)


class PlanAndOpen(Job):
    def __init__(self, scratch: Path) -> None:
        super().__init__(scratch)
        memory = os.environ.get("BENCH_DRIVER_MEMORY", "4g")
        self.spark = SparkSession.builder.master("local[2]").config("spark.driver.memory", memory).config("spark.ui.enabled", "false").getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")

    def prepare(self, params: Params) -> None:
        self.table = sql_catalog(params["catalog"]).load_table(TABLE)

    def run(self) -> dict[str, float]:
        begin = time.perf_counter()
        files = [task.file.file_path for task in self.table.scan().plan_files()]
        planned = time.perf_counter() - begin
        self.rows = self.spark.read.parquet(*files)
        with contextlib.redirect_stdout(io.StringIO()):
            self.rows.explain()
        return {"plan_wall": planned}

    def outcome(self, full: bool) -> dict[str, Any]:
        return {"files_opened": len(self.rows.inputFiles()), **({"rows": self.rows.count()} if full else {})}


JOBS: dict[str, type[Job]] = {
    "append": Append,
    "append-by-month": AppendByMonth,
    "commit-files": CommitFiles,
    "commit-history": CommitHistory,
    "plan-and-open": PlanAndOpen,
}
