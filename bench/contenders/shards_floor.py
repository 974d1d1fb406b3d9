"""The floor for building shards: one process per core reads Parquet, routes, sorts and loads into SQLite; no Spark.

Rows go from the process that read them to the one that writes their shard through Arrow files, once. Rows are loaded as Python's
sqlite3 loads many, by executemany; `build-many` loads a hundred with each statement, as Lakewright does.
"""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
from collections.abc import Iterator, Sequence
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.contenders.shard_files import Busy
from bench.job import Job, Params
from lakewright.shards.routing import HashRouting

ONE = "INSERT INTO kv VALUES (?, ?)"


class Build(Job):
    rows_of_a_statement = 1

    def __init__(self, scratch: Path) -> None:
        super().__init__(scratch)
        self.pool: Pool = multiprocessing.get_context("spawn").Pool(os.cpu_count())

    def prepare(self, params: Params) -> None:
        self.files, self.shards = params["files"], params["shards"]
        self.parts, self.out = self.scratch / "parts", self.scratch / "out"
        self.parts.mkdir()
        self.out.mkdir()

    def run(self) -> dict[str, float]:
        with Busy(self.out) as busy:
            self.pool.starmap(route, [(file, self.shards, str(self.parts)) for file in self.files], chunksize=1)
            self.written = self.pool.starmap(load, [(shard, str(self.parts), str(self.out), self.rows_of_a_statement) for shard in range(self.shards)], chunksize=1)
        return {"busy": busy.share}

    def outcome(self, full: bool) -> dict[str, Any]:
        return {"files": self.written, "table": ("kv", "k", "v")}

    def close(self) -> None:
        self.pool.terminate()


def route(file: str, shards: int, parts: str) -> None:
    """One Arrow file for each shard that the Parquet file has rows for."""
    routing, name = HashRouting(shards), Path(file).stem
    writers: dict[int, pa.ipc.RecordBatchFileWriter] = {}
    for batch in pq.ParquetFile(file).iter_batches(batch_size=100_000):
        ids = routing.shards_of(batch, "id").to_numpy()
        order = np.argsort(ids, kind="stable")
        ends = np.searchsorted(ids[order], np.arange(shards + 1))
        ordered = batch.take(pa.array(order))
        for shard in range(shards):
            if ends[shard] < ends[shard + 1]:
                if shard not in writers:
                    writers[shard] = pa.ipc.new_file(f"{parts}/{shard}-{name}.arrow", batch.schema)
                writers[shard].write_batch(ordered.slice(ends[shard], ends[shard + 1] - ends[shard]))
    for writer in writers.values():
        writer.close()


def load(shard: int, parts: str, out: str, rows_of_a_statement: int) -> str:
    """The rows of a shard in the order of their keys, in one transaction without a journal."""
    rows = pa.concat_tables([_read(path) for path in sorted(Path(parts).glob(f"{shard}-*.arrow"))]).combine_chunks()
    rows = rows.take(pc.sort_indices(rows, sort_keys=[("id", "ascending")]))
    path = f"{out}/{shard:05d}.sqlite"
    connection = sqlite3.connect(path, isolation_level=None)
    for setting in ("page_size=4096", "journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE"):
        connection.execute(f"PRAGMA {setting}")
    connection.execute("CREATE TABLE kv (k INTEGER PRIMARY KEY, v BLOB NOT NULL)")
    connection.execute("BEGIN")
    for batch in rows.to_batches(max_chunksize=20_000):
        keys, values = (column.to_pylist() for column in batch.columns)
        whole = len(keys) - len(keys) % rows_of_a_statement if rows_of_a_statement > 1 else 0
        connection.executemany(ONE + ", (?, ?)" * (rows_of_a_statement - 1), _together(keys[:whole], values[:whole], rows_of_a_statement))
        connection.executemany(ONE, zip(keys[whole:], values[whole:], strict=True))
    connection.execute("COMMIT")
    connection.close()
    return path


def _together(keys: Sequence[Any], values: Sequence[Any], rows: int) -> Iterator[Sequence[Any]]:
    pairs: list[Any] = [None] * (2 * len(keys))
    pairs[::2], pairs[1::2] = keys, values
    for start in range(0, len(pairs), 2 * rows):
        yield pairs[start : start + 2 * rows]


def _read(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()


class BuildMany(Build):
    rows_of_a_statement = 100


JOBS: dict[str, type[Job]] = {"build": Build, "build-many": BuildMany}
