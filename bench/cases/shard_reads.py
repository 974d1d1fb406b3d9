"""Reads of a sharded snapshot: gets beside SQLite's own, many at once beside one after another, shard ids beside a loop."""

from __future__ import annotations

from bench.cases import Case, Entry, Scale
from bench.cases.facts import opened
from bench.cases.shards import SHARDS
from bench.contenders import LAKEWRIGHT_SHARD_READS
from bench.shard_snapshot import built_snapshot


def shard_reads(scale: Scale) -> Case:
    params = {"url": built_snapshot(scale.rows, SHARDS), "rows": scale.rows}
    return Case("shards-read", f"reads of {SHARDS} shards of {scale.rows:,} rows", (Entry(LAKEWRIGHT_SHARD_READS, "reads", params),), opened)
