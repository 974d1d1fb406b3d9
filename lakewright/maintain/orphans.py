"""Files no version of a table refers to: those of dead runs, found by their records, and old strays found by listing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain

from lakewright.commit.runs import ROLLED_BACK, RUNNING, list_runs
from lakewright.commit.store import Store, TableState
from lakewright.commit.updates import now_ms
from lakewright.format.storage import StoredFile, delete_file, list_files, prune_empty_folders
from lakewright.keys.index.record.pointer import index_files
from lakewright.maintain.dead_runs import fence_off, is_dead, settled_by
from lakewright.maintain.reachability import name_of as _name
from lakewright.maintain.reachability import reachable, require_recognised

RUN_IDS = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


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
    require_recognised(state, stored)
    runs = list_runs(state.io, state.metadata.location)
    over = {record.run_id: record.state != RUNNING or is_dead(state, record) for record in runs}
    dead = [record for record in runs if record.state == RUNNING and over[record.run_id]]
    state = store.load(state.identifier, known=state)
    if dead and not dry_run:
        state, settled = fence_off(store, state, dead)
    else:
        settled = [settled_by(state, record) for record in dead]
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


def _is_orphan(file: StoredFile, over: dict[str, bool], cutoff_ms: int) -> bool:
    """A run's record speaks for its files, at any age; without one only age does."""
    owners = [over[run_id] for run_id in RUN_IDS.findall(file.path) if run_id in over]
    return all(owners) if owners else file.modified_ms < cutoff_ms
