"""Reads of a sharded snapshot beside what they rest on: SQLite's own get, as many single gets, a loop over the keys."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from statistics import quantiles
from typing import Any

import pyarrow as pa

import lakewright.shards as shards
from bench.job import Job, Params
from bench.shards_data import keys_of
from lakewright.shards.routing import HashRouting, shard_of

GETS, TURN, MANY, ROUTED = 40_000, 500, 10_000, 1_000_000
_GET = "SELECT v FROM kv WHERE k=?"


class Reads(Job):
    """Each pair of figures is taken in turns within one run, on keys drawn anew, so that what else the machine does meets both."""

    def prepare(self, params: Params) -> None:
        self.reader = shards.open(params["url"], eager=True, verify=False)
        self.keys, self.draw = keys_of(params["rows"]), random.Random(params.get("seed", 0))
        self.own = [_own(self.reader, shard_id) for shard_id in range(self.reader.manifest.num_shards)]
        for many in (self.drawn(MANY), self.drawn(MANY)):
            self.reader.multi_get(many)
            for key in many:
                self.own[self.reader.shard_of(key)].execute(_GET, (key,)).fetchone()

    def run(self) -> dict[str, float]:
        return {**self.point_gets(), **self.many_gets(), **self.shard_ids()}

    def point_gets(self) -> dict[str, float]:
        own, ours = [], []
        for _ in range(GETS // TURN):
            pairs = [(self.own[self.reader.shard_of(key)].execute, (key,)) for key in self.drawn(TURN)]
            own += [_nanoseconds(lambda execute, given: execute(_GET, given).fetchone()[0], *pair) for pair in pairs]
            ours += [_nanoseconds(self.reader.get, key) for key in self.drawn(TURN)]
        return {name: value for label, times in (("own", own), ("get", ours)) for name, value in zip((f"{label}_p50_ns", f"{label}_p99_ns"), _centiles(times), strict=True)}

    def many_gets(self) -> dict[str, float]:
        singly, at_once = [], []
        for _ in range(9):
            keys = self.drawn(MANY)
            singly.append(_nanoseconds(lambda keys: [self.reader.get(key) for key in keys], keys))
            keys = self.drawn(MANY)
            at_once.append(_nanoseconds(self.reader.multi_get, keys))
        return {"gets_ns": sorted(singly)[4], "multi_get_ns": sorted(at_once)[4]}

    def shard_ids(self) -> dict[str, float]:
        """The loop is over plain numbers, which a loop over rows would have to get out of them first."""
        column = pa.array(self.keys[:ROUTED])
        batch, plain = pa.record_batch([column], ["id"]), column[: ROUTED // 5].to_pylist()
        routing = HashRouting(16)
        looped = _nanoseconds(lambda: [shard_of(key, 16) for key in plain]) * (len(column) / len(plain))
        return {"loop_ns": looped, "shard_ids_ns": min(_nanoseconds(routing.shards_of, batch, "id") for _ in range(5))}

    def drawn(self, number: int) -> list[int]:
        return [int(self.keys[self.draw.randrange(len(self.keys))]) for _ in range(number)]

    def outcome(self, full: bool) -> dict[str, Any]:
        keys = self.drawn(1000)
        return {"rows": self.reader.manifest.rows, "found": sum(value is not None for value in self.reader.multi_get(keys).values()) / len(set(keys))}

    def clean(self) -> None:
        self.reader.close()
        for cursor in self.own:
            cursor.connection.close()
        super().clean()


def _own(reader: shards.ShardReader, shard_id: int) -> sqlite3.Cursor:
    """SQLite as one would open the file by hand, with the settings the reader has."""
    path = reader.store.local_path(f"{reader.manifest.shards[shard_id].path}/shard.sqlite")
    cursor = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True, isolation_level=None).cursor()
    cursor.execute("PRAGMA cache_size=-4096")
    return cursor


def _nanoseconds(act: Callable[..., Any], *given: Any) -> int:
    begin = time.perf_counter_ns()
    act(*given)
    return time.perf_counter_ns() - begin


def _centiles(times: list[int]) -> tuple[float, float]:
    hundredths = quantiles(times, n=100)
    return hundredths[49], hundredths[98]


JOBS: dict[str, type[Job]] = {"reads": Reads}
