"""Lakewright on the session that the other contenders on Spark get, in an embedded lake."""

from __future__ import annotations

import contextlib
import io
import time
from pathlib import Path
from typing import Any

import lakewright as lw
from bench.contenders.spark_session import LAKEWRIGHT, session, source
from bench.contenders.windows import per_commit
from bench.job import Job, Params
from bench.many_files import SCHEMA, TABLE, file_facts, sql_catalog
from lakewright.commit.change import APPEND, SnapshotChange
from lakewright.commit.publish import publish
from lakewright.commit.runs import new_run_id
from lakewright.commit.store import TableState
from lakewright.format.data_file import DataFile
from lakewright.options import resolve

NAME = "bench.lineitem"


class Append(Job):
    partition_by: tuple[str, ...] = ()

    def __init__(self, scratch: Path) -> None:
        super().__init__(scratch)
        self.spark = session(LAKEWRIGHT)

    def prepare(self, params: Params) -> None:
        self.rows = source(self.spark, params["files"])
        self.lake = lw.connect(self.scratch / "lake", spark=self.spark, progress="off")
        self.table = self.lake.create_table(NAME, self.rows.schema, partition_by=self.partition_by)

    def run(self) -> None:
        self.table.append(self.rows)

    def outcome(self, full: bool) -> dict[str, Any]:
        return {"metadata": self.lake.table(NAME).iceberg.metadata_location}


class AppendByMonth(Append):
    partition_by = ("month(l_shipdate)",)


class AppendDataSource(Append):
    def run(self) -> None:
        self.rows.write.format("lakewright").mode("append").option("lake", str(self.scratch / "lake")).save(NAME)


class CommitFiles(Job):
    """The commit step alone: the files are there, as the tasks of a write would have left them."""

    def prepare(self, params: Params) -> None:
        self.lake = lw.connect(self.scratch / "lake", progress="off")
        self.lake.create_table(TABLE, SCHEMA, partition_by=["day"])
        self.files = _data_files(params["count"])

    def run(self) -> dict[str, float] | None:
        _commit(self.lake, self.files)
        return None

    def outcome(self, full: bool) -> dict[str, Any]:
        return {"metadata": self.lake.table(TABLE).iceberg.metadata_location}


class CommitHistory(CommitFiles):
    """Single-file commits one after another by a writer that keeps its table, as `t.append` in a loop does."""

    def run(self) -> dict[str, float]:
        known: TableState | None = None

        def commit(file: DataFile) -> None:
            nonlocal known
            known = _commit(self.lake, [file], known)

        return per_commit(commit, self.files)


class CommitHistoryAnew(CommitFiles):
    """The same by writers that each open the table for their one commit, and so read its history."""

    def run(self) -> dict[str, float]:
        return per_commit(lambda file: _commit(self.lake, [file]), self.files)


class PlanAndOpen(Job):
    def __init__(self, scratch: Path) -> None:
        super().__init__(scratch)
        self.spark = session(LAKEWRIGHT)

    def prepare(self, params: Params) -> None:
        lake = lw.connect(params["catalog"]["warehouse"], spark=self.spark, catalog=sql_catalog(params["catalog"]), progress="off")
        self.table = lake.table(TABLE)

    def run(self) -> dict[str, float] | None:
        self.rows = self.table.read()
        with contextlib.redirect_stdout(io.StringIO()):
            self.rows.explain()
        return None

    def outcome(self, full: bool) -> dict[str, Any]:
        return {"files_opened": len(self.rows.inputFiles()), **({"rows": self.rows.count()} if full else {})}


class CommitAndPlan(PlanAndOpen):
    """What a driver holds for many data files: their descriptions as tasks hand them in, the commit, and the plan to read them."""

    def prepare(self, params: Params) -> None:
        self.lake = lw.connect(self.scratch / "lake", spark=self.spark, progress="off")
        self.lake.create_table(TABLE, SCHEMA, partition_by=["day"])
        self.spark.range(1).count()
        self.count = params["count"]

    def run(self) -> dict[str, float]:
        begin = time.perf_counter()
        _commit(self.lake, _data_files(self.count))
        committed = time.perf_counter() - begin
        self.table = self.lake.table(TABLE)
        super().run()
        return {"commit_wall": committed}

    def outcome(self, full: bool) -> dict[str, Any]:
        return {"files_opened": len(self.rows.inputFiles())}


def _data_files(count: int) -> list[DataFile]:
    return [DataFile(spec_id=0, **{**facts, "split_offsets": tuple(facts["split_offsets"])}) for facts in file_facts(count)]


def _commit(lake: lw.Lake, files: list[DataFile], known: TableState | None = None) -> TableState:
    state = lake.store.load(tuple(TABLE.split(".")), known)
    metadata = state.metadata
    head = metadata.head("main")
    change = SnapshotChange(APPEND, metadata.schema, metadata.specs, files, read_snapshot_id=head.snapshot_id if head else None)
    return publish(lake.store, state, [change], run_id=new_run_id(), options=resolve({}, {}, metadata.properties)).state


JOBS: dict[str, type[Job]] = {
    "append": Append,
    "append-by-month": AppendByMonth,
    "append-data-source": AppendDataSource,
    "commit-files": CommitFiles,
    "commit-history": CommitHistory,
    "commit-history-anew": CommitHistoryAnew,
    "plan-and-open": PlanAndOpen,
    "commit-and-plan": CommitAndPlan,
}
