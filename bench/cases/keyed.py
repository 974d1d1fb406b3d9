"""Keyed tables: orders by month, loaded, upserted, and read as a whole or by the last commit."""

from __future__ import annotations

from typing import Any

from bench.cases import Case, Entry, Outcome, Scale
from bench.contenders import HUDI, LAKEWRIGHT_KEYS, PAIMON, PYICEBERG_KEYS, Contender
from bench.contenders.keyed import INCREMENTAL, LOAD, READ, UPSERT
from bench.keyed_data import orders, random_updates, recent_changes, small_batches

COW, MOR = "lakewright", "lakewright-mor"
COPYING_PEERS = ("hudi-record", "hudi-bucket", "pyiceberg")
MERGING_PEERS = ("paimon-fixed", "paimon-dynamic")
# PyIceberg holds table and changes in memory and compares them in Python: beyond this a round takes minutes.
PYICEBERG_MOST_ROWS = 1_000_000
WARM_UP_BATCHES = 5
# With 3 GiB Hudi ends the first load of 10M rows with a record index by OutOfMemoryError, and the others leave it no more.
HUDI_RECORD_MOST_ROWS = 1_000_000
ENVIRONMENT = {"BENCH_DRIVER_MEMORY": "3g"}

Given = dict[str, Any]


def first_load(scale: Scale) -> Case:
    entries = [entry for entry in _all(scale, _given(scale, LOAD, [])) if entry.name != MOR]
    return Case("keys-first-load", f"first load of {scale.rows:,} rows by month", tuple(entries), agreed, environment=ENVIRONMENT)


def upsert_random(scale: Scale) -> Case:
    return _upsert("keys-upsert-100k", scale, scale.rows // 100)


def upsert_many(scale: Scale) -> Case:
    return _upsert("keys-upsert-1m", scale, scale.rows // 10)


def upsert_recent(scale: Scale) -> Case:
    count = scale.rows // 100
    return Case("keys-upsert-recent", f"upsert of {count:,} keys in the last two of 20 months of {scale.rows:,} rows, a tenth new", tuple(_all(scale, _given(scale, UPSERT, recent_changes(scale.rows, count)))), agreed, environment=ENVIRONMENT)


def read_all(scale: Scale) -> Case:
    changes = random_updates(scale.rows, scale.rows // 100)
    return Case("keys-read", f"read all of {scale.rows:,} rows after an upsert of {scale.rows // 100:,}", tuple(_all(scale, _given(scale, READ, changes))), agreed, environment=ENVIRONMENT)


def incremental(scale: Scale) -> Case:
    """PyIceberg has no incremental read."""
    entries = _all(scale, _given(scale, INCREMENTAL, random_updates(scale.rows, scale.rows // 100)))
    return Case("keys-incremental", f"read what the last commit changed: {scale.rows // 100:,} of {scale.rows:,} rows", tuple(entry for entry in entries if entry.name != "pyiceberg"), agreed, environment=ENVIRONMENT)


def small_upserts(scale: Scale) -> Case:
    given = _given(scale, UPSERT, small_batches(scale.rows))
    warm_up = {**given, "changes": given["changes"][:WARM_UP_BATCHES]}
    entries = tuple(Entry(LAKEWRIGHT_KEYS, job, given, warm_up, label) for job, label in (("small-cow", COW), ("small-mor", MOR)))
    return Case("keys-small-upserts", f"50 upserts of 1,000 rows in a row into {scale.rows:,} rows", entries, agreed, rounds=3, environment=ENVIRONMENT)


def agreed(outcome: Outcome, full: bool) -> dict[str, Any]:
    return dict(outcome["facts"])


def _upsert(name: str, scale: Scale, count: int) -> Case:
    return Case(name, f"upsert of {count:,} random keys into {scale.rows:,} rows", tuple(_all(scale, _given(scale, UPSERT, random_updates(scale.rows, count)))), agreed, environment=ENVIRONMENT)


def _given(scale: Scale, task: str, changes: list[str]) -> Given:
    return {"task": task, "files": orders(scale.rows), "changes": changes}


def _all(scale: Scale, given: Given) -> list[Entry]:
    contenders: list[tuple[Contender, str, str]] = [
        (LAKEWRIGHT_KEYS, "cow", COW), (LAKEWRIGHT_KEYS, "mor", MOR),
        (HUDI, "cow-bucket", "hudi-bucket"),
        (PAIMON, "fixed-bucket", "paimon-fixed"), (PAIMON, "dynamic-bucket", "paimon-dynamic"),
    ]
    if scale.rows <= HUDI_RECORD_MOST_ROWS:
        contenders.append((HUDI, "cow-record", "hudi-record"))
    if scale.rows <= PYICEBERG_MOST_ROWS:
        contenders.append((PYICEBERG_KEYS, "upsert", "pyiceberg"))
    return [Entry(contender, job, given, label=label) for contender, job, label in contenders]
