"""Bucket mode postpone: records land on a branch of their own, which holds nothing else, and reach main when a compaction takes them in.

Plain reads, of any engine, see main. The commit that takes records in also drops the branch, or says how far it was read if more landed
meanwhile, so nothing is taken in twice. The branch keeps all its snapshots, whoever expires others, and nothing else is written to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import takewhile
from typing import TYPE_CHECKING

from lakewright.commit.change import REPLACE, MetadataChange
from lakewright.commit.refs import unchanged
from lakewright.commit.result import POSTPONED, POSTPONED_BRANCH, TOKEN, TOKENS_TAKEN_IN
from lakewright.commit.store import TableState
from lakewright.commit.updates import Update, remove_properties, remove_ref, set_properties
from lakewright.errors import CommitConflict, UnsupportedOperation
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

THROUGH = "lakewright.postponed-through"
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
    properties = {**request.snapshot_properties, POSTPONED: kind}
    return replace(request, branch=POSTPONED_BRANCH, makes_branch=True, token=token, snapshot_properties=properties, options={**request.options, OUTPUT_SPEC_ID.key: first})


def pending(metadata: Metadata) -> list[Snapshot]:
    """The commits on the branch that main has not taken in, oldest first."""
    head = metadata.head(POSTPONED_BRANCH) if POSTPONED_BRANCH in metadata.refs else None
    if head is None or not is_keyed(metadata.properties):
        return []
    done = metadata.properties.get(THROUGH)
    return list(takewhile(lambda snapshot: str(snapshot.snapshot_id) != done, metadata.ancestors(head.snapshot_id)))[::-1]


def tokens_of(waiting: Sequence[Snapshot]) -> dict[str, str]:
    """For the snapshot of main: the tokens of what it takes in, which are known by it from then on."""
    return {TOKENS_TAKEN_IN: json.dumps([token for snapshot in waiting if (token := snapshot.summary.get(TOKEN)) is not None])}


def pending_records(spark: SparkSession, state: TableState, waiting: Sequence[Snapshot]) -> DataFrame:
    """All records that wait, in the order they came, with TO_DELETE for those that delete."""
    from pyspark.sql import functions as F

    frames = [rows.withColumn(TO_DELETE, F.lit(kind == DELETIONS)) for kind, rows in _added(spark, state, waiting)]
    return reduce(lambda one, other: one.union(other), frames)


def _added(spark: SparkSession, state: TableState, waiting: Sequence[Snapshot]) -> Iterator[tuple[str, DataFrame]]:
    files = plan_scan(state.io, state.metadata, waiting[-1]).files
    for snapshot in waiting:
        own = tuple(f for f in files if f.snapshot_id == snapshot.snapshot_id)
        if own and snapshot.operation == REPLACE:
            raise UnsupportedOperation(
                f"Snapshot {snapshot.snapshot_id} of branch {POSTPONED_BRANCH} of {state.name} rewrote files there, so records that wait cannot be told from deletions any more. "
                f"Roll it back (t.rollback({snapshot.parent_id}, branch={POSTPONED_BRANCH!r})), then compact.",
                table=state.name,
            )
        yield snapshot.summary.get(POSTPONED, RECORDS), to_dataframe(spark, state.io, state.metadata, Scan(snapshot, own))


class TakenInMeanwhile(CommitConflict):
    """Another compaction was first."""


def require_waiting(metadata: Metadata, waiting: Sequence[Snapshot], table: str) -> None:
    """Raises TakenInMeanwhile unless these are still the first that wait."""
    ids = [snapshot.snapshot_id for snapshot in waiting]
    if [snapshot.snapshot_id for snapshot in pending(metadata)[: len(ids)]] != ids:
        raise TakenInMeanwhile(f"Postponed records of {table} were taken in by another compaction meanwhile.", table=table)


def taken_in(waiting: Sequence[Snapshot], table: str) -> MetadataChange:
    """The branch goes, if nothing came to it meanwhile; else it stays, and how far it was read is a property of the table."""
    head = waiting[-1].snapshot_id

    def updates(metadata: Metadata) -> list[Update]:
        require_waiting(metadata, waiting, table)
        if metadata.refs[POSTPONED_BRANCH]["snapshot-id"] != head:
            return set_properties({THROUGH: str(head)})
        return [remove_ref(POSTPONED_BRANCH), *(remove_properties([THROUGH]) if THROUGH in metadata.properties else [])]

    return MetadataChange("take in postponed records", updates, lambda metadata: [unchanged(metadata, name) for name in (POSTPONED_BRANCH, MAIN)])
