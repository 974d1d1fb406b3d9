"""Bucket mode postpone: records land on a branch of their own, which holds nothing else, and reach main when a compaction takes them in.

Plain reads, of any engine, see main. What was taken in is recorded by the snapshot of main that did it, so it is never taken in twice, and
a record that lands while a compaction runs waits for the next.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from lakewright.commit.change import MetadataChange
from lakewright.commit.refs import unchanged
from lakewright.commit.result import TOKEN, TOKENS_TAKEN_IN
from lakewright.commit.store import TableState
from lakewright.commit.updates import Update, remove_ref
from lakewright.format.metadata import MAIN, Metadata, Snapshot
from lakewright.keys.buckets import POSTPONE
from lakewright.keys.combine import DELETED, RESET
from lakewright.options import BUCKET_MODE, FIXED_AT_BATCH_WRITE, OUTPUT_SPEC_ID, Options
from lakewright.plan.keys import is_keyed
from lakewright.plan.request import WriteMode, WriteRequest
from lakewright.quoting import quoted
from lakewright.read.frame import to_dataframe
from lakewright.read.scan import Scan, plan_scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakewright.keys.operations import Prepared
    from lakewright.transaction import Transaction

BRANCH = "postponed"
KIND, THROUGH = "lakewright.postponed", "lakewright.postponed-through"
RECORDS, DELETIONS = "records", "deletions"
TO_DELETE = "_lw_to_delete"


def is_postponed(options: Options) -> bool:
    return options[BUCKET_MODE] == POSTPONE and not options[FIXED_AT_BATCH_WRITE]


def postpone(tx: Transaction, prepared: Prepared) -> None:
    """Write the batch to the branch: first which keys are deleted, those among them that have records after that, then the records."""
    from pyspark.sql import functions as F

    batch = prepared.batch
    columns = [quoted(c) for c in batch.columns]
    request = prepared.plain(WriteMode.APPEND)
    rows = batch.source.rows
    kinds = {DELETIONS: rows.where(F.col(DELETED) | F.col(RESET)), RECORDS: rows.where(~F.col(DELETED))} if batch.has_deletes else {RECORDS: rows}
    for number, (kind, rows) in enumerate(kinds.items()):
        tx.write(_to_branch(request, tx.state.metadata, kind, number), rows.select(*columns))


def _to_branch(request: WriteRequest, metadata: Metadata, kind: str, number: int) -> WriteRequest:
    """Under the spec without buckets, which the table began with."""
    first = min(metadata.specs)
    token = f"{request.token}-{number}" if request.token and number else request.token
    properties = {**request.snapshot_properties, KIND: kind}
    return replace(request, branch=BRANCH, makes_branch=True, token=token, snapshot_properties=properties, options={**request.options, OUTPUT_SPEC_ID.key: first})


def pending(metadata: Metadata) -> list[Snapshot]:
    """The commits on the branch that main has not taken in, oldest first."""
    head = metadata.head(BRANCH) if BRANCH in metadata.refs else None
    if head is None or not is_keyed(metadata.properties):
        return []
    done = _taken_in(metadata)
    waiting = []
    for snapshot in metadata.ancestors(head.snapshot_id):
        if snapshot.snapshot_id == done:
            break
        waiting.append(snapshot)
    return waiting[::-1]


def _taken_in(metadata: Metadata) -> int | None:
    head = metadata.head(MAIN)
    through = (s.summary.get(THROUGH) for s in metadata.ancestors(head.snapshot_id if head else None))
    return next((int(found) for found in through if found is not None), None)


def what_is_taken_in(waiting: list[Snapshot]) -> dict[str, str]:
    """For the snapshot of main: how far the branch was read, and the tokens of what was read, which are known by it from then on."""
    tokens = [token for snapshot in waiting if (token := snapshot.summary.get(TOKEN)) is not None]
    return {THROUGH: str(waiting[-1].snapshot_id), TOKENS_TAKEN_IN: json.dumps(tokens)}


def pending_records(spark: SparkSession, state: TableState, waiting: list[Snapshot]) -> DataFrame:
    """All records that wait, in the order they came, with TO_DELETE for those that delete."""
    from pyspark.sql import functions as F

    frames = [rows.withColumn(TO_DELETE, F.lit(kind == DELETIONS)) for kind, rows in _added(spark, state, waiting)]
    return reduce(lambda one, other: one.union(other), frames)


def _added(spark: SparkSession, state: TableState, waiting: list[Snapshot]) -> Iterator[tuple[str, DataFrame]]:
    files = plan_scan(state.io, state.metadata, waiting[-1]).files
    for snapshot in waiting:
        own = tuple(f for f in files if f.snapshot_id == snapshot.snapshot_id)
        yield snapshot.summary.get(KIND, RECORDS), to_dataframe(spark, state.io, state.metadata, Scan(snapshot, own))


def emptied(head: int) -> MetadataChange:
    """The branch goes, if nothing came to it meanwhile; else it stays, and what is taken in is known by main."""

    def updates(metadata: Metadata) -> list[Update]:
        return [remove_ref(BRANCH)] if metadata.refs.get(BRANCH, {}).get("snapshot-id") == head else []

    return MetadataChange("take in postponed records", updates, lambda metadata: [unchanged(metadata, BRANCH)])
