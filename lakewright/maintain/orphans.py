"""Files no version of a table refers to: those of dead runs, found by their records, and old strays found by listing."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from lakewright.commit.metadata_changes import set_properties
from lakewright.commit.publish import publish
from lakewright.commit.result import RUN_ID
from lakewright.commit.runs import ROLLED_BACK, RUNNING, SUCCEEDED, RunRecord, list_runs, mark_path, new_run_id, write_record
from lakewright.commit.store import Store, TableState
from lakewright.commit.updates import now_ms
from lakewright.errors import UnsupportedOperation
from lakewright.format.data_file import DELETED
from lakewright.format.manifests import read_manifest, read_manifest_list
from lakewright.format.storage import StoredFile, delete_file, list_files, prune_empty_folders, write_atomically
from lakewright.keys.index.record.pointer import index_files
from lakewright.options import resolve

FENCE = "lakewright.runs-settled-at"
RUN_IDS = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
log = logging.getLogger("lakewright")


@dataclass(frozen=True)
class Removed:
    """What a clean-up deleted, or would delete."""

    files: tuple[str, ...]
    bytes: int
    runs_rolled_back: tuple[str, ...]
    dry_run: bool

    def __str__(self) -> str:
        verb = "would delete" if self.dry_run else "deleted"
        return f"{verb} {len(self.files):,} files, {self.bytes / 1024 / 1024:.1f} MiB; runs rolled back: {len(self.runs_rolled_back)}"


def remove_orphans(store: Store, state: TableState, *, older_than_hours: float = 72, dry_run: bool = False) -> Removed:
    """Settle dead runs and delete what they left, then unreferenced files older than the given age. Live runs are left alone."""
    # In this order: a file listed has its run's record by then, and what a run recorded as succeeded committed is in the state.
    stored = [f for folder in ("data", "metadata", "index") for f in list_files(state.io, f"{state.metadata.location}/{folder}")]
    _require_recognised(state, stored)
    runs = list_runs(state.io, state.metadata.location)
    over = {record.run_id: not record.alive for record in runs}
    dead = [record for record in runs if record.state == RUNNING and over[record.run_id]]
    state = store.load(state.identifier, known=state)
    if dead and not dry_run:
        state, settled = _fence_off(store, state, dead)
    else:
        settled = [_settled(state, record) for record in dead]
    used = {_name(path) for path in chain(reachable(state), index_files(state.io, state.metadata.location))}
    cutoff = now_ms() - int(older_than_hours * 3_600_000)
    doomed = [f for f in stored if _name(f.path) not in used and _is_orphan(f, over, cutoff)]
    if not dry_run:
        for file in doomed:
            delete_file(state.io, file.path)
        for record in runs:
            if over[record.run_id]:
                prune_empty_folders(record.prefix)
    rolled_back = tuple(record.run_id for record in settled if record.state == ROLLED_BACK)
    return Removed(tuple(f.path for f in doomed), sum(f.size for f in doomed), rolled_back, dry_run)


def _require_recognised(state: TableState, stored: list[StoredFile]) -> None:
    """Files are compared by name; where even the newest metadata file has another name in the listing, none would be recognised."""
    if _name(state.metadata_location) not in {_name(f.path) for f in stored}:
        raise UnsupportedOperation(
            f"Clean-up of {state.name} stopped: a listing of {state.metadata.location} does not show {state.metadata_location}, so used files "
            "could not be told from unused ones. Is the location a link, or reached under another name? Nothing was deleted.",
            table=state.name,
        )


def _fence_off(store: Store, state: TableState, dead: list[RunRecord]) -> tuple[TableState, list[RunRecord]]:
    """Mark dead runs, then move the table on by one version: a run that only slept loses its compare-and-swap and sees the mark."""
    location = state.metadata.location
    for record in dead:
        write_atomically(state.io, mark_path(location, record.run_id), b"")
    fence = set_properties({FENCE: str(now_ms())})
    state = publish(store, state, [fence], run_id=new_run_id(), options=resolve({}, {}, state.metadata.properties)).state
    settled = [_settled(state, record) for record in dead]
    for record in settled:
        write_record(state.io, location, record)
    return state, settled


def reachable(state: TableState) -> Iterator[str]:
    """Every file some kept version of the table refers to."""
    metadata = state.metadata
    yield state.metadata_location
    for entry in metadata.raw.get("metadata-log") or []:
        yield entry["metadata-file"]
    for kind in ("statistics", "partition-statistics"):
        for statistics in metadata.raw.get(kind) or []:
            yield statistics["statistics-path"]
    seen: set[str] = set()
    for snapshot in metadata.snapshots():
        yield snapshot.manifest_list
        for manifest in read_manifest_list(state.io, snapshot.manifest_list):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                yield manifest.manifest_path
                for file in read_manifest(state.io, manifest, metadata.specs, with_metrics=False):
                    if file.status != DELETED:
                        yield file.data_file.file_path


def _is_orphan(file: StoredFile, over: dict[str, bool], cutoff_ms: int) -> bool:
    """A run's record speaks for its files, at any age; without one only age does."""
    owners = [over[run_id] for run_id in RUN_IDS.findall(file.path) if run_id in over]
    return all(owners) if owners else file.modified_ms < cutoff_ms


def _settled(state: TableState, record: RunRecord) -> RunRecord:
    """A run that died: succeeded if its commit is there, else rolled back."""
    snapshot = next((s for s in state.metadata.snapshots() if s.raw.get("summary", {}).get(RUN_ID) == record.run_id), None)
    if snapshot is not None:
        return replace(record, state=SUCCEEDED, finished_ms=now_ms(), snapshot_id=snapshot.snapshot_id)
    log.info("run %s died without a commit; its files are deleted", record.run_id)
    return replace(record, state=ROLLED_BACK, finished_ms=now_ms(), error=record.error or "the run stopped renewing its lease")


def _name(path: str) -> str:
    """A path without scheme and doubled slashes, so that file:/x and file:///x are one."""
    rest = path.split(":", 1)[-1] if ":" in path.split("/", 1)[0] else path
    return "/" + rest.lstrip("/")
