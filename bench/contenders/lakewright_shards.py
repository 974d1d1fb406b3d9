"""Lakewright's build of a sharded snapshot, on the session that other contenders on Spark get."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lakewright.shards as shards
from bench.contenders.shard_files import Busy
from bench.contenders.spark_session import session, source
from bench.job import Job, Params


class Build(Job):
    def __init__(self, scratch: Path) -> None:
        super().__init__(scratch)
        self.spark = session()

    def prepare(self, params: Params) -> None:
        self.rows = source(self.spark, params["files"])
        self.url = self.scratch / "pairs"
        self.config = shards.ShardConfig(url=str(self.url), key="id", value="payload", num_shards=params["shards"])

    def run(self) -> dict[str, float]:
        with Busy(self.url / "shards") as busy:
            self.result = shards.write(self.rows, self.config, progress="off")
        return {"busy": busy.share, **{f"{phase}_wall": seconds for phase, seconds in self.result.durations.items()}}

    def outcome(self, full: bool) -> dict[str, Any]:
        return {"files": [str(self.url / str(entry.path) / entry.files[0].name) for entry in self.result.shards], "table": ("kv", "k", "v")}


JOBS: dict[str, type[Job]] = {"build": Build}
