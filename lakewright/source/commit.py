"""The last step of a write through the Data Source: the publish, and what becomes of its files otherwise."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakewright.commit import metadata_changes
from lakewright.commit.change import APPEND, OVERWRITE, SnapshotChange, Step
from lakewright.commit.publish import publish
from lakewright.commit.result import RUN_ID, Commit
from lakewright.commit.runs import FAILED, RUNNING, SUCCEEDED, Run, beating, read_record, record_path
from lakewright.commit.store import TableState
from lakewright.errors import CommitOutcomeUnknown
from lakewright.format.data_file import DataFile
from lakewright.format.storage import delete_tree
from lakewright.options import ISOLATION
from lakewright.plan.request import WriteMode
from lakewright.progress import summary
from lakewright.source.options import load
from lakewright.write.leftovers import delete_until_quiet
from lakewright.write.messages import TaskMessage, winners

if TYPE_CHECKING:
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
    replaced: dict[str, Any] = {}
    if mode is not WriteMode.APPEND:
        from lakewright.source.replacement import replacement_of

        replacement = replacement_of(run, mode, files, session)
        replaced = {name: getattr(replacement, name) for name in ("removed", "removed_vectors", "filter", "partitions")}
    if not files and not replaced.get("removed"):
        return []
    reconciled = run.reconciled(options)
    change = SnapshotChange(
        operation=APPEND if mode is WriteMode.APPEND else OVERWRITE,
        schema=reconciled.schema,
        specs=base.specs,
        added=files,
        branch=run.request.branch,
        read_snapshot_id=head.snapshot_id if head else None,
        isolation=options[ISOLATION],
        token=run.request.token,
        properties=run.snapshot_properties(session),
        **replaced,
    )
    if not reconciled.changed:
        return [change]
    return [metadata_changes.merge_schema(run.state.name, base.schema, reconciled.schema, reconciled.last_column_id), change]


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
