"""Writing through the Data Source: tasks write files with Arrow, the last step publishes them.

Spark runs each step in a process of its own: `writer()` begins the run, each task renews its lease and writes, and `commit()` or
`abort()` ends it. Only tasks see the session's settings, so they bring them along in their messages, and everything that depends
on them is worked out from there. Each step imports what it alone needs, since it does so anew each time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lakewright.commit.runs import BEATS, BY_TASKS, RUNNING, Run, RunRecord, data_prefix, new_run_id, read_record, record_path, running_runs
from lakewright.commit.store import Store, TableState
from lakewright.commit.updates import now_ms
from lakewright.errors import WriteFailed
from lakewright.format.storage import delete_file
from lakewright.options import LEASE_SECONDS, resolve
from lakewright.source.options import SourceWrite
from lakewright.source.run import SourceRun, require_no_key, seen_settings, without_history
from lakewright.write.messages import TaskMessage

log = logging.getLogger("lakewright")


@dataclass
class SourceMessage(WriterCommitMessage):
    """What a task tells `commit()`: its files, and the settings of the session it saw."""

    written: TaskMessage
    session: Mapping[str, str]


def begin_write(request: SourceWrite, store: Store, state: TableState, rows: StructType) -> DataSourceArrowWriter:
    """Check what can be checked without the session, and begin the run; a token already committed makes it a no-op."""
    from lakewright.commit.publish import find_token
    from lakewright.commit.validate import require_branch

    require_branch(state.metadata, request.branch, state.name)
    require_no_key(state)
    earlier = find_token(state.metadata, request.branch, request.token)
    if earlier is not None:
        log.info("token %s was already committed to %s as snapshot %s", request.token, state.name, earlier.snapshot_id)
        return AlreadyCommitted()
    _roll_back_dead_runs(store, state)
    run_id, now = new_run_id(), now_ms()
    head = state.metadata.head(request.branch)
    record = RunRecord(
        run_id=run_id,
        table=state.name,
        operation="overwrite" if request.overwrite else "append",
        state=RUNNING,
        prefix=data_prefix(state.metadata.location, run_id),
        branch=request.branch,
        token=request.token,
        started_ms=now,
        heartbeat_ms=now,
        lease_seconds=resolve(request.options, {}, state.metadata.properties)[LEASE_SECONDS],
        read_snapshot_id=head.snapshot_id if head else None,
        details={BEATS: BY_TASKS},
    )
    Run(state.io, state.metadata.location, record).begin()
    return LakeWriter(SourceRun(request, without_history(state, request.branch), rows, record))


def _roll_back_dead_runs(store: Store, state: TableState) -> None:
    if any(not record.alive for record in running_runs(state.io, state.metadata.location)):
        from lakewright.maintain.dead_runs import roll_back_dead_runs

        roll_back_dead_runs(store, state)


class LakeWriter(DataSourceArrowWriter):
    def __init__(self, run: SourceRun) -> None:
        self.run = run

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from lakewright.source.project import inside, project_batch
        from lakewright.write.task import write_batches

        context = TaskContext.get()
        assert context is not None
        session = seen_settings(context)
        options = self.run.options(session)
        reconciled = self.run.reconciled(options)
        plan = self.run.plan(options, reconciled)
        table = self.run.state.name
        rows = (project_batch(batch, reconciled, table) for batch in _renewing(iterator, self.run))
        where = self.run.where(session)
        if where is not None:
            rows = (inside(batch, where, reconciled.schema, table) for batch in rows)
        written = write_batches(plan, rows, task=context.partitionId(), attempt=context.attemptNumber(), task_attempt_id=context.taskAttemptId())
        require_running(self.run, written)
        return SourceMessage(written, session)

    def commit(self, messages: list[Any]) -> None:
        from lakewright.source.commit import publish_files

        publish_files(self.run, [message.written for message in messages], messages[0].session)

    def abort(self, messages: list[Any]) -> None:
        from lakewright.source.commit import abandon

        abandon(self.run)


class AlreadyCommitted(DataSourceArrowWriter):
    """The write of a token that is in the table's history: nothing is left to do."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return WriterCommitMessage()

    def commit(self, messages: list[Any]) -> None:
        pass

    def abort(self, messages: list[Any]) -> None:
        pass


def _renewing(batches: Iterator[pa.RecordBatch], run: SourceRun) -> Iterator[pa.RecordBatch]:
    """The batches, renewing the run's lease on the way."""
    pause = run.record.lease_seconds / 3
    due = time.monotonic() + pause - (now_ms() - run.record.heartbeat_ms) / 1000
    for batch in batches:
        if time.monotonic() >= due:
            renew(run)
            due = time.monotonic() + pause
        yield batch


def require_running(run: SourceRun, written: TaskMessage) -> None:
    """Delete a task's own files if its run ended meanwhile: the job failed elsewhere, and its clean-up may have come before them."""
    record = read_record(run.state.io, record_path(run.state.metadata.location, run.record.run_id))
    if record.state == RUNNING:
        return
    for file in written.files:
        with suppress(Exception):
            delete_file(run.state.io, file.file_path)
    raise WriteFailed(f"Run {record.run_id} on {run.state.name} has ended as {record.state}; this task's files were deleted.", table=run.state.name)


def renew(run: SourceRun) -> None:
    """A record that says the run is over is left alone: this may be a task no one waits for any more."""
    location = run.state.metadata.location
    try:
        newest = read_record(run.state.io, record_path(location, run.record.run_id))
        if newest.state == RUNNING and now_ms() - newest.heartbeat_ms >= newest.lease_seconds * 1000 / 6:
            Run(run.state.io, location, newest).renew()
    except Exception as error:
        log.warning("could not renew the lease of run %s: %s", run.record.run_id, error)
