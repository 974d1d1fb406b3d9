"""The last step of a write through the Data Source: what it replaces, the publish, and what becomes of its files otherwise."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lakewright.commit import metadata_changes
from lakewright.commit.change import APPEND, OVERWRITE, PartitionScope, SnapshotChange, Step
from lakewright.commit.publish import publish
from lakewright.commit.result import RUN_ID, Commit
from lakewright.commit.runs import FAILED, RUNNING, SUCCEEDED, Run, beating, read_record, record_path
from lakewright.commit.store import TableState
from lakewright.errors import CommitOutcomeUnknown, UnsupportedOperation
from lakewright.format.data_file import DataFile
from lakewright.format.storage import delete_tree
from lakewright.options import ISOLATION
from lakewright.plan.overwrite import Replacement, WholeFiles, with_their_deletes
from lakewright.plan.request import WriteMode
from lakewright.progress import summary
from lakewright.read.scan import Scan, live_entries, plan_scan
from lakewright.source.options import load
from lakewright.write.leftovers import delete_until_quiet
from lakewright.write.messages import TaskMessage, winners

if TYPE_CHECKING:
    from lakewright.plan.filters import Filter
    from lakewright.source.run import SourceRun

PUBLISHING = "publishing"
log = logging.getLogger("lakewright")


def publish_files(run: SourceRun, written: Sequence[TaskMessage], session: Mapping[str, str]) -> None:
    """Publish the files of the winning tasks, and end the run."""
    mode, options = run.mode(session), run.options(session)
    store, state = load(run.request.place)
    ongoing = Run(state.io, state.metadata.location, replace(run.record, details={PUBLISHING: True}))
    ongoing.renew()
    try:
        steps = _steps(run, mode, [file for message in winners(written) for file in message.files], session)
        with beating(ongoing):
            commits = publish(store, state, steps, run_id=run.record.run_id, options=options, check_run=ongoing.require_alive).commits if steps else ()
    except CommitOutcomeUnknown:
        raise
    except BaseException as error:
        ongoing.finish(FAILED, error=f"{type(error).__name__}: {error}"[:2000], details={})
        raise
    try:
        _end(run, state, ongoing, commits)
    except Exception as error:
        log.warning("run %s was committed to %s, but its record could not be written: %s", run.record.run_id, state.name, error)
    log.info("%s", _summary(run, commits))


def abandon(run: SourceRun) -> None:
    """Delete the files of a run that failed, unless they are in the table or a publish of them may still land there."""
    location, run_id = run.state.metadata.location, run.record.run_id
    _, state = load(run.request.place)
    record = read_record(state.io, record_path(location, run_id))
    ongoing = Run(state.io, location, record)
    landed = next((s for s in state.metadata.snapshots() if s.raw.get("summary", {}).get(RUN_ID) == run_id), None)
    if landed is not None:
        ongoing.finish(SUCCEEDED, snapshot_id=landed.snapshot_id, details={})
    elif record.state == RUNNING and record.details.get(PUBLISHING):
        log.warning("it is not known whether run %s was committed to %s, so its files stay", run_id, state.name)
    else:
        if record.state == RUNNING:
            ongoing.finish(FAILED, error="the job failed or was cancelled before its commit")
        delete_until_quiet(state.io, run.record.prefix)


def _steps(run: SourceRun, mode: WriteMode, files: list[DataFile], session: Mapping[str, str]) -> list[Step]:
    base, options = run.state.metadata, run.options(session)
    head = base.head(run.request.branch)
    replacement = _replacement(run, mode, files, session)
    if not files and not replacement.removed:
        return []
    reconciled = run.reconciled(options)
    change = SnapshotChange(
        operation=APPEND if mode is WriteMode.APPEND else OVERWRITE,
        schema=reconciled.schema,
        specs=base.specs,
        added=files,
        removed=replacement.removed,
        branch=run.request.branch,
        read_snapshot_id=head.snapshot_id if head else None,
        isolation=options[ISOLATION],
        filter=replacement.filter,
        partitions=replacement.partitions,
        token=run.request.token,
        properties=run.snapshot_properties(session),
    )
    if not reconciled.changed:
        return [change]
    return [metadata_changes.merge_schema(run.state.name, base.schema, reconciled.schema, reconciled.last_column_id), change]


def _replacement(run: SourceRun, mode: WriteMode, files: list[DataFile], session: Mapping[str, str]) -> Replacement:
    state, metadata = run.state, run.state.metadata
    head = metadata.head(run.request.branch)
    where = run.where(session)
    if mode is WriteMode.APPEND or (mode is WriteMode.OVERWRITE_PARTITIONS and not files):
        return Replacement()
    if mode is WriteMode.OVERWRITE_PARTITIONS:
        return _partitions(run, files)
    if where is None:
        return Replacement(removed=frozenset(e.data_file.file_path for e in live_entries(state.io, metadata, head, with_metrics=False)))
    scan = plan_scan(state.io, metadata, head, where, with_metrics=True)
    _require_whole_files(run, scan, where)
    return Replacement(with_their_deletes(state, metadata, head, scan), where.iceberg, None, where)


def _partitions(run: SourceRun, files: list[DataFile]) -> Replacement:
    """The partitions the new files fall into. Rows of files under other specs would have to be split, which takes Spark."""
    state, metadata = run.state, run.state.metadata
    head = metadata.head(run.request.branch)
    scope = PartitionScope(files[0].spec_id, frozenset(file.partition for file in files))
    scan = plan_scan(state.io, metadata, head)
    replaced = tuple(f for f in scan.files if scope.covers(f.data_file))
    foreign = next((f for f in replaced if f.data_file.spec_id != scope.spec_id), None)
    if foreign is not None and metadata.specs[scope.spec_id].fields:
        raise UnsupportedOperation(
            f"File {foreign.data_file.file_path} of {state.name} has the older partition spec {foreign.data_file.spec_id}, so it may hold rows in and outside "
            'the partitions being replaced; format("lakewright") cannot split it. Use t.overwrite_partitions(df).',
            table=state.name,
        )
    return Replacement(with_their_deletes(state, metadata, head, Scan(scan.snapshot, replaced)), partitions=scope)


def _require_whole_files(run: SourceRun, scan: Scan, where: Filter) -> None:
    whole = WholeFiles(where.strict, run.state.metadata)
    partial = next((f for f in scan.files if not whole.match(f.data_file)), None)
    if partial is not None:
        name = run.state.name
        raise UnsupportedOperation(
            f"File {partial.data_file.file_path} of {name} may hold rows in and outside overwrite-filter ({run.request.where}); "
            f'format("lakewright") replaces whole files only. Use t.overwrite(df, where={run.request.where!r}).',
            table=name,
        )


def _end(run: SourceRun, state: TableState, ongoing: Run, commits: Sequence[Commit]) -> None:
    """Files of a run whose token another run committed first are in no version of the table."""
    if not commits:
        ongoing.finish(SUCCEEDED, details={}, rows=0, files=0)
        return
    commit = commits[-1]
    if commit.run_id != run.record.run_id:
        delete_tree(state.io, run.record.prefix)
    ongoing.finish(SUCCEEDED, details={}, snapshot_id=commit.snapshot_id, rows=commit.added_rows, files=commit.added_files)


def _summary(run: SourceRun, commits: Sequence[Commit]) -> str:
    operation, table = run.record.operation, run.state.name
    if not commits:
        return summary(operation, table, None)
    done = commits[-1]
    return summary(operation, table, done.snapshot_id, rows=done.added_rows, files=done.added_files, deleted_rows=done.deleted_rows)
