"""Runs that ended without saying so: fenced off, settled, and what they left behind deleted. The next writer does it."""

from __future__ import annotations

import logging
from dataclasses import replace

from lakewright.commit.metadata_changes import set_properties
from lakewright.commit.publish import publish
from lakewright.commit.result import RUN_ID
from lakewright.commit.runs import (
    BEATS,
    BY_TASKS,
    LAST_RUN,
    ROLLED_BACK,
    RUNNING,
    SUCCEEDED,
    RunRecord,
    mark_path,
    new_run_id,
    running_path,
    running_runs,
    write_record,
)
from lakewright.commit.store import UNPUBLISHED, Store, TableState
from lakewright.commit.updates import now_ms
from lakewright.format.storage import StoredFile, list_files, prune_empty_folders, try_delete, write_atomically
from lakewright.maintain.reachability import name_of, reachable, require_recognised
from lakewright.options import resolve

FENCE = "lakewright.runs-settled-at"
TASKS_MAY_WAIT = 60  # leases: tasks renew only while rows arrive, and may wait long for them
log = logging.getLogger("lakewright")


def roll_back_dead_runs(store: Store, state: TableState) -> None:
    """What a write does before it begins. It costs one listing of a small folder unless a run died; what fails here fails no write."""
    if state.metadata_location == UNPUBLISHED:
        return
    try:
        dead = [record for record in running_runs(state.io, state.metadata.location) if is_dead(state, record)]
        if dead:
            _roll_back(store, state, dead)
    except Exception as error:
        log.warning("could not roll back dead runs of %s, the next write tries again: %s", state.name, error)


def is_dead(state: TableState, record: RunRecord) -> bool:
    """A run without a process of its own is renewed by its tasks, so silence says little: not before its first file, nor shortly after."""
    return not may_live(record) and (record.details.get(BEATS) != BY_TASKS or has_files(state, record))


def may_live(record: RunRecord) -> bool:
    """Whether a run renewed its lease in time, or a run that only its tasks renew did not long ago."""
    patience = TASKS_MAY_WAIT if record.details.get(BEATS) == BY_TASKS else 1
    return record.state == RUNNING and now_ms() < record.heartbeat_ms + patience * record.lease_seconds * 1000


def has_files(state: TableState, record: RunRecord) -> bool:
    return next(iter(list_files(state.io, record.prefix)), None) is not None


def _roll_back(store: Store, state: TableState, dead: list[RunRecord]) -> None:
    # In this order: what a run committed before it was fenced off is in the state that is looked at after.
    files = {record.run_id: list(list_files(state.io, record.prefix)) for record in dead}
    metadata_files = list(list_files(state.io, f"{state.metadata.location}/metadata"))
    require_recognised(state, metadata_files)
    state, settled = fence_off(store, state, dead)
    without_commit = [record for record in settled if record.state == ROLLED_BACK]
    for record in without_commit:
        files[record.run_id] += [f for f in metadata_files if record.run_id in f.path.rsplit("/", 1)[-1]]
    if any(files[record.run_id] for record in without_commit):
        used = {name_of(path) for path in reachable(state)}
        for record in without_commit:
            _delete_unused(state, record, files[record.run_id], used)


def _delete_unused(state: TableState, record: RunRecord, files: list[StoredFile], used: set[str]) -> None:
    unused = [f for f in files if name_of(f.path) not in used]
    if len(unused) < len(files):  # its commit was there, and has expired since
        write_record(state.io, state.metadata.location, replace(record, state=SUCCEEDED, error=None))
    for file in unused:
        try_delete(state.io, file.path)
    prune_empty_folders(record.prefix)


def fence_off(store: Store, state: TableState, dead: list[RunRecord]) -> tuple[TableState, list[RunRecord]]:
    """Mark dead runs, then move the table on by one version: a run that only slept loses its compare-and-swap and sees the mark."""
    location = state.metadata.location
    for record in dead:
        write_atomically(state.io, mark_path(location, record.run_id), b"")
    fence = set_properties({FENCE: str(now_ms())})
    state = publish(store, state, [fence], run_id=new_run_id(), options=resolve({}, {}, state.metadata.properties)).state
    settled = [settled_by(state, record) for record in dead]
    for record in settled:
        write_record(state.io, location, record)
        try_delete(state.io, running_path(location, record.run_id))
    return state, settled


def settled_by(state: TableState, record: RunRecord) -> RunRecord:
    """A run that died: succeeded if its commit is there, else rolled back."""
    assert record.state == RUNNING
    snapshot = next((s for s in state.metadata.snapshots() if s.raw.get("summary", {}).get(RUN_ID) == record.run_id), None)
    if snapshot is not None:
        return replace(record, state=SUCCEEDED, finished_ms=now_ms(), snapshot_id=snapshot.snapshot_id)
    if state.metadata.properties.get(LAST_RUN) == record.run_id:
        return replace(record, state=SUCCEEDED, finished_ms=now_ms())
    log.info("run %s died without a commit; its files are deleted", record.run_id)
    return replace(record, state=ROLLED_BACK, finished_ms=now_ms(), error=record.error or "the run stopped renewing its lease")
