"""One row-level operation, from request to the change to commit: plan the delta, materialise it, say what it rests on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from lakewright.commit.change import SERIALIZABLE, SnapshotChange, operation_of
from lakewright.commit.result import PLAN_MS, ROWS_COPIED, ROWS_DELETED, ROWS_INSERTED, ROWS_UPDATED, SHUFFLE_MS, WRITE_MS, clause_rows, milliseconds
from lakewright.errors import MultipleMatches
from lakewright.options import DELETE_ISOLATION, DELETE_MODE, MERGE_ISOLATION, MERGE_MODE, UPDATE_ISOLATION, UPDATE_MODE
from lakewright.plan.overwrite import with_their_deletes
from lakewright.plan.request import Clause, Command, RowRequest, Then
from lakewright.read.scan import FileScan
from lakewright.rows.change_rows import plan_change
from lakewright.rows.matches import explain_matches, require_unique
from lakewright.rows.merge import plan_merge
from lakewright.rows.merge_source import MergeSource
from lakewright.rows.row_plan import RowContext, RowPlan
from lakewright.rows.small_files import fold
from lakewright.write.delta_at_hand import DeltaAtHand
from lakewright.write.delta_here import materialise_here
from lakewright.write.delta_write import Materialised, materialise
from lakewright.write.engine import running

MODE = {Command.DELETE: DELETE_MODE, Command.UPDATE: UPDATE_MODE, Command.MERGE: MERGE_MODE}
ISOLATION = {Command.DELETE: DELETE_ISOLATION, Command.UPDATE: UPDATE_ISOLATION, Command.MERGE: MERGE_ISOLATION}
COUNTED = {Then.DELETE: ROWS_DELETED, Then.UPDATE: ROWS_UPDATED, Then.INSERT: ROWS_INSERTED}
NOTHING = Materialised((), (), frozenset(), frozenset(), frozenset(), frozenset(), {}, 0)


class Phases(Protocol):
    """Progress, as far as this module reports any."""

    def phase(self, name: str) -> AbstractContextManager[None]: ...

    def update(self, counts: str = "") -> None: ...


def change_rows(context: RowContext, request: RowRequest, source: MergeSource | None, progress: Phases) -> SnapshotChange | None:
    """The change that carries out the request; None where no row is concerned."""
    began = time.monotonic()
    with progress.phase("plan"), running(context.spark, f"lakewright-{context.write.run_id}", context.table):
        plan = plan_change(context, request) if source is None else plan_merge(context, request, source)
        if request.unique:
            require_unique(plan, request, context.schema, context.table)
    planned, planned_at = time.monotonic(), time.time()
    with progress.phase("write"):
        made = _materialised(context, request, plan)
        made, folded = fold(context, made) if request.called else (made, ())
    if not (plan.whole or made.touched or made.added):
        return None
    change = _change(context, request, plan, made, folded)
    return change if request.called is None else replace(change, properties={**change.properties, **plan.lookup, **_times(planned - began, made.began - planned_at, time.monotonic() - planned)})


def _times(planned: float, before_tasks: float, written: float) -> Mapping[str, str]:
    """Until the first task began, rows were on their way to the tasks. Its clock may be another host's, so the time is kept within what there was."""
    shuffled = min(max(before_tasks, 0.0), written)
    return {PLAN_MS: milliseconds(planned), SHUFFLE_MS: milliseconds(shuffled), WRITE_MS: milliseconds(written - shuffled)}


def _materialised(context: RowContext, request: RowRequest, plan: RowPlan) -> Materialised:
    if plan.delta is None or plan.plan is None:
        return NOTHING
    try:
        return materialise_here(context.spark, plan.plan, plan.delta) if isinstance(plan.delta, DeltaAtHand) else materialise(plan.plan, plan.delta)
    except MultipleMatches as error:
        raise explain_matches(context, request, plan, error) from error


def _change(context: RowContext, request: RowRequest, plan: RowPlan, made: Materialised, folded: tuple[FileScan, ...] = ()) -> SnapshotChange:
    replaced = [f for f in plan.read if f.data_file.file_path in made.replaced]
    removed, vectors = with_their_deletes(context.state, context.metadata, context.head, (*plan.whole, *replaced, *folded))
    gone = removed | made.superseded_deletes
    return SnapshotChange(
        operation=operation_of(made.added, gone, made.deletes),
        schema=context.schema,
        specs=context.metadata.specs,
        added=(*made.added, *made.deletes),
        removed=gone,
        removed_vectors=vectors | made.superseded_vectors,
        touched=made.touched | (made.matched if plan.relies_on_matches else frozenset()) | {f.data_file.file_path for f in plan.whole},
        rows_read=True,
        branch=request.branch,
        read_snapshot_id=context.head.snapshot_id if context.head else None,
        isolation=SERIALIZABLE if request.is_always_serializable else context.options[ISOLATION[request.command]],
        filter=plan.filter,
        token=request.token,
        properties={**request.snapshot_properties, **_counts(request.clauses, plan.whole, made)},
        command=request.name,
        is_always_serializable=request.is_always_serializable,
    )


def _counts(clauses: tuple[Clause, ...], whole: tuple[FileScan, ...], made: Materialised) -> Mapping[str, str]:
    """Rows deleted, updated, inserted and copied, and how many each clause of a MERGE changed."""
    rows: Counter[str] = Counter({ROWS_COPIED: made.copied, ROWS_DELETED: sum(map(_live_rows, whole)), ROWS_UPDATED: 0, ROWS_INSERTED: 0})
    for number, changed in made.counts.items():
        rows[COUNTED[clauses[number].then]] += changed
    if len(clauses) > 1:
        rows.update({clause_rows(number): made.counts.get(number, 0) for number in range(len(clauses))})
    return {key: str(value) for key, value in rows.items()}


def _live_rows(file: FileScan) -> int:
    return file.data_file.record_count - sum(d.data_file.record_count for d in file.deletes)
