"""MERGE, DELETE and UPDATE into the lineitem table, format 3, copy-on-write and merge-on-read; and reading after it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.cases import Case, Entry, Outcome, Scale
from bench.contenders import ICEBERG_ROWS, LAKEWRIGHT_ROWS
from bench.data import lineitem
from bench.row_changes import COPY_ON_WRITE, MERGE_ON_READ, Change, updates

OURS_COW, OURS_MOR, PEER_COW, PEER_MOR = "lakewright", "lakewright-mor", "iceberg-runtime", "iceberg-mor"
RANDOM, CLUSTERED = "l_orderkey % 100 = 7", "l_orderkey between 30000000 and 30599999"


def merge_one_column(scale: Scale) -> Case:
    return _merge(scale, "merge-100k", scale.rows // 100, "one column set", all_columns=False)


def merge_all_columns(scale: Scale) -> Case:
    return _merge(scale, "merge-100k-all", scale.rows // 100, "all columns set", all_columns=True)


def merge_many(scale: Scale) -> Case:
    return _merge(scale, "merge-1m", scale.rows // 10, "one column set", all_columns=False)


def delete_random(scale: Scale) -> Case:
    return _where(scale, "delete-random", Change("delete", COPY_ON_WRITE, where=RANDOM))


def delete_clustered(scale: Scale) -> Case:
    return _where(scale, "delete-clustered", Change("delete", COPY_ON_WRITE, where=CLUSTERED, sort_by="l_orderkey"))


def update_random(scale: Scale) -> Case:
    return _where(scale, "update-random", Change("update", COPY_ON_WRITE, where=RANDOM))


def update_clustered(scale: Scale) -> Case:
    return _where(scale, "update-clustered", Change("update", COPY_ON_WRITE, where=CLUSTERED, sort_by="l_orderkey"))


def read_after_merge(scale: Scale) -> Case:
    """Every row read, after a merge-on-read MERGE of 1% of the rows."""
    change = Change("merge", MERGE_ON_READ, updates(scale.rows, scale.rows // 100), read=True)
    entries = [_entry(scale, OURS_MOR, change), _entry(scale, PEER_MOR, change)]
    return Case("read-after-merge", f"read all of {scale.rows:,} rows after a merge-on-read MERGE", tuple(entries), agreed)


def agreed(outcome: Outcome, full: bool) -> dict[str, Any]:
    return dict(outcome["facts"])


def _merge(scale: Scale, name: str, count: int, what: str, *, all_columns: bool) -> Case:
    change = Change("merge", COPY_ON_WRITE, updates(scale.rows, count), all_columns)
    lazily = replace(change, mode=MERGE_ON_READ)
    entries = (_entry(scale, OURS_COW, change), _entry(scale, OURS_MOR, lazily), _entry(scale, PEER_COW, change), _entry(scale, PEER_MOR, lazily))
    return Case(name, f"MERGE {count:,} updates into {scale.rows:,} rows, {what}", entries, agreed)


def _where(scale: Scale, name: str, change: Change) -> Case:
    return Case(name, f"{change.command.upper()} of 1% of {scale.rows:,} rows ({name.split('-')[1]})", (_entry(scale, OURS_COW, change), _entry(scale, PEER_COW, change)), agreed)


def _entry(scale: Scale, label: str, change: Change) -> Entry:
    contender = LAKEWRIGHT_ROWS if label.startswith("lakewright") else ICEBERG_ROWS
    return Entry(contender, "change-rows", change.params(lineitem(scale.rows)), label=label)
