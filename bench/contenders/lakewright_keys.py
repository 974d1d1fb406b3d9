"""Lakewright's keyed tables: key, ordering column and partition, and nothing else but the mode at hand."""

from __future__ import annotations

import time
from math import ceil
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame
from pyspark.sql.functions import count
from pyspark.sql.functions import sum as total

import lakewright as lw
from bench.contenders.keyed_spark import KeyedSpark
from bench.contenders.spark_session import LAKEWRIGHT
from bench.job import Job, Params
from bench.keyed_data import KEY, ORDERING, PARTITION
from bench.row_changes import COPY_ON_WRITE, MERGE_ON_READ
from lakewright.options import TARGET_FILE_SIZE

NAME = "bench.orders"
EARLY, LATE, WINDOW = 5, 50, 2


class LakewrightKeys(KeyedSpark):
    mode = COPY_ON_WRITE
    is_peer = False

    def __init__(self, scratch: Path) -> None:
        super().__init__(scratch, LAKEWRIGHT)

    def create(self) -> None:
        properties = {f"write.{command}.mode": self.mode for command in ("delete", "update", "merge")}
        rows = self.incoming(self.files)
        self._connect().create_table(NAME, rows.schema, partition_by=[PARTITION], key=[KEY], ordering=ORDERING, properties=properties)
        self.reopen()

    def load(self) -> None:
        self.table.bulk_insert(self.incoming(self.files))

    def loaded(self) -> None:
        snapshot = self.table.refresh().iceberg.current_snapshot()
        assert snapshot is not None
        self.first = snapshot.snapshot_id

    def reopen(self) -> None:
        self.table = self._connect().table(NAME)

    def _connect(self) -> lw.Lake:
        return lw.connect(self.live / "lake", spark=self.spark, progress="off")

    def upsert(self) -> None:
        self.commit = self.table.upsert(self.incoming(self.changes))

    def run(self) -> dict[str, float] | None:
        """The phases of a write stand beside its wall time."""
        super().run()
        commit = getattr(self, "commit", None)
        return {f"{phase}_ms": float(commit.summary.get(f"lakewright.{phase}-ms", 0)) for phase in ("plan", "write")} if commit else None

    def rows(self) -> DataFrame:
        return self.table.read()

    def last_commit(self) -> DataFrame:
        return self.table.changes(since=self.first)


class LakewrightMergeOnRead(LakewrightKeys):
    mode = MERGE_ON_READ


class SmallUpserts(LakewrightKeys):
    """One upsert after another; what the fifth and the last cost, and how many files there are for those that the target size calls for."""

    def prepare(self, params: Params) -> None:
        super().prepare(params)
        self.batches = [self.incoming([file]) for file in params["changes"]]

    def run(self) -> dict[str, float]:
        seconds = []
        for batch in self.batches:
            begin = time.perf_counter()
            self.table.upsert(batch)
            seconds.append(time.perf_counter() - begin)
        return {"early_wall": _around(seconds, EARLY), "late_wall": _around(seconds, LATE), "files_of_allowed": self._files_of_allowed()}

    def _files_of_allowed(self) -> float:
        """Data files by those allowed: what the target size calls for, and one more per partition."""
        sizes = self.table.files().where("content = 'data'").groupBy("partition").agg(count("*").alias("files"), total("file_size_in_bytes").alias("bytes")).collect()
        return sum(row["files"] for row in sizes) / sum(ceil(row["bytes"] / TARGET_FILE_SIZE.default) + 1 for row in sizes)


class SmallUpsertsMergeOnRead(SmallUpserts):
    mode = MERGE_ON_READ


def _around(seconds: list[float], nth: int) -> float:
    """The median of the nearest five, so that one pause decides nothing."""
    last = min(nth + WINDOW, len(seconds))
    return median(seconds[last - 2 * WINDOW - 1 : last])


JOBS: dict[str, type[Job]] = {"cow": LakewrightKeys, "mor": LakewrightMergeOnRead, "small-cow": SmallUpserts, "small-mor": SmallUpsertsMergeOnRead}
