"""The timeline: what was done to a table and what is being done, from its snapshots and its run records together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from lakewright.commit.result import POSTPONED, command_of, commit_of
from lakewright.commit.runs import FAILED, ROLLED_BACK, RUNNING, SUCCEEDED, RunRecord
from lakewright.format.metadata import MAIN, Metadata, Snapshot
from lakewright.read.tables import WHEN, frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIMELINE = pa.schema(
    [
        ("instant", WHEN),
        ("action", pa.string()),
        ("state", pa.string()),
        ("snapshot_id", pa.int64()),
        ("run_id", pa.string()),
        ("branch", pa.string()),
        ("rows", pa.int64()),
        ("deleted_rows", pa.int64()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
        ("duration_ms", pa.int64()),
        ("token", pa.string()),
    ]
)
REQUESTED, INFLIGHT, COMPLETED, STAGED = "requested", "inflight", "completed", "staged"
STATES = {SUCCEEDED: COMPLETED, FAILED: FAILED, ROLLED_BACK: ROLLED_BACK}
SEVERAL = "transaction"  # such a run may make several snapshots, and each says more of itself
STAGED_ID = "wap.id"
Instant = tuple[int | str | None, ...]


def timeline(spark: SparkSession, metadata: Metadata, runs: Iterable[RunRecord], has_files: Callable[[RunRecord], bool]) -> DataFrame:
    """Oldest first. `has_files`: whether a run that is not over has written any."""
    return frame_of(spark, TIMELINE, instants(metadata, list(runs), has_files))


def instants(metadata: Metadata, runs: list[RunRecord], has_files: Callable[[RunRecord], bool]) -> list[Instant]:
    """One of each snapshot, and one of each run that made none of those still kept."""
    by_id = {run.run_id: run for run in runs}
    lines = _lines(metadata)
    made = [(snapshot, by_id.get(commit_of(snapshot).run_id)) for snapshot in metadata.snapshots()]
    with_snapshot = {run.run_id for _, run in made if run is not None}
    found = [_of_snapshot(snapshot, run, lines) for snapshot, run in made]
    found += [_of_run(run, has_files) for run in runs if run.run_id not in with_snapshot]
    return sorted(found, key=lambda instant: instant[0] or 0)


def _lines(metadata: Metadata) -> dict[int, str | None]:
    """The branch in whose line a snapshot is, main before others; None for the line of a tag alone."""
    lines: dict[int, str | None] = {}
    order = sorted(metadata.refs, key=lambda name: (name != MAIN, metadata.refs[name]["type"] != "branch", name))
    for name in order:
        for snapshot in metadata.ancestors(metadata.refs[name]["snapshot-id"]):
            if snapshot.snapshot_id in lines:
                break
            lines[snapshot.snapshot_id] = name if metadata.refs[name]["type"] == "branch" else None
    return lines


def _of_snapshot(snapshot: Snapshot, run: RunRecord | None, lines: Mapping[int, str | None]) -> Instant:
    commit = commit_of(snapshot)
    is_done = snapshot.snapshot_id in lines or POSTPONED in commit.summary  # whose branch goes once they are taken in
    state = COMPLETED if is_done else STAGED if STAGED_ID in commit.summary else ROLLED_BACK
    return (
        snapshot.timestamp_ms * 1000,
        run.operation if run and run.operation != SEVERAL else command_of(snapshot),
        state,
        snapshot.snapshot_id,
        commit.run_id or None,
        run.branch if run else lines.get(snapshot.snapshot_id),
        commit.added_rows,
        commit.deleted_rows,
        commit.added_files,
        int(commit.summary.get("added-files-size", "0")),
        _duration(run),
        commit.token,
    )


def _of_run(run: RunRecord, has_files: Callable[[RunRecord], bool]) -> Instant:
    state = STATES[run.state] if run.state != RUNNING else INFLIGHT if has_files(run) else REQUESTED
    return (run.started_ms * 1000, run.operation, state, run.snapshot_id, run.run_id, run.branch, run.rows, None, run.files, None, _duration(run), run.token)


def _duration(run: RunRecord | None) -> int | None:
    return None if run is None or run.finished_ms is None else run.finished_ms - run.started_ms
