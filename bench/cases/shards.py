"""Build sharded snapshots: 64-bit keys and values of 100 bytes into 16 SQLite files."""

from __future__ import annotations

import os
import sqlite3
from typing import Any

from bench.cases import Case, Entry, Outcome, Scale
from bench.contenders import LAKEWRIGHT_SHARDS, SHARDS_FLOOR
from bench.shards_data import pairs

SHARDS = 16
MANY = "floor-many"


def build_shards(scale: Scale) -> Case:
    files = pairs(scale.rows)
    params, warm_up = {"files": files, "shards": SHARDS}, {"files": files[: len(files) // 4], "shards": SHARDS}
    entries = (
        Entry(LAKEWRIGHT_SHARDS, "build", params, warm_up),
        Entry(SHARDS_FLOOR, "build", params, warm_up),
        Entry(SHARDS_FLOOR, "build-many", params, warm_up, label=MANY),
    )
    return Case("shards-build", f"build {SHARDS} shards of {scale.rows:,} rows", entries, shard_facts)


def shard_facts(outcome: Outcome, full: bool) -> dict[str, Any]:
    """Rows of each shard; in a full check also sums over their keys and values."""
    table, key, value = outcome.pop("table")
    wanted = "count(*)" + (f", sum({key} % 1000003), sum(length({value})), sum(unicode(hex(substr({value}, 50, 1))))" if full else "")
    facts = {}
    for shard, file in enumerate(outcome["files"]):
        with sqlite3.connect(file) as connection:
            facts[f"shard {shard}"] = connection.execute(f"SELECT {wanted} FROM {table}").fetchone()
        connection.close()
    outcome["file_count"], outcome["bytes"] = len(outcome["files"]), sum(os.path.getsize(file) for file in outcome["files"])
    return facts
