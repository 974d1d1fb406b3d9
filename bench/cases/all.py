"""Every case by name, in the order they run."""

from __future__ import annotations

from collections.abc import Callable

from bench.cases import Case, Scale
from bench.cases.append import append, append_by_month
from bench.cases.commit import commit_files, commit_history
from bench.cases.compact import compact_fewer, compact_many
from bench.cases.keyed import first_load, incremental, read_all, small_upserts, upsert_many, upsert_random, upsert_recent
from bench.cases.memory import memory_files, memory_rows
from bench.cases.plan import plan_and_open, sql_routing
from bench.cases.row_level import (
    delete_clustered,
    delete_random,
    merge_all_columns,
    merge_many,
    merge_one_column,
    read_after_merge,
    update_clustered,
    update_random,
)
from bench.cases.shard_reads import shard_reads
from bench.cases.shards import build_shards

CASES: dict[str, Callable[[Scale], Case]] = {
    "append": append,
    "append-by-month": append_by_month,
    "commit-files": commit_files,
    "commit-history": commit_history,
    "plan-and-open": plan_and_open,
    "sql-routing": sql_routing,
    "memory-rows": memory_rows,
    "memory-files": memory_files,
    "merge-100k": merge_one_column,
    "merge-100k-all": merge_all_columns,
    "merge-1m": merge_many,
    "delete-random": delete_random,
    "delete-clustered": delete_clustered,
    "update-random": update_random,
    "update-clustered": update_clustered,
    "read-after-merge": read_after_merge,
    "compact-many": compact_many,
    "compact-fewer": compact_fewer,
    "keys-first-load": first_load,
    "keys-upsert-100k": upsert_random,
    "keys-upsert-recent": upsert_recent,
    "keys-upsert-1m": upsert_many,
    "keys-read": read_all,
    "keys-incremental": incremental,
    "keys-small-upserts": small_upserts,
    "shards-build": build_shards,
    "shards-read": shard_reads,
}
