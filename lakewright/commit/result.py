"""What a write returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakewright.format.metadata import Snapshot

TOKEN = "lakewright.token"
TOKENS_TAKEN_IN = "lakewright.tokens-taken-in"
POSTPONED, POSTPONED_BRANCH = "lakewright.postponed", "postponed"
RUN_ID = "lakewright.run-id"
COMMAND = "lakewright.command"
COMPACT = "compact"
NOTHING_WRITTEN = "lakewright.nothing-written"
LOOKUP_MS, FILES_CONSIDERED, FILES_READ = (f"lakewright.{what}" for what in ("lookup-ms", "files-considered", "files-read"))
PLAN_MS, SHUFFLE_MS, WRITE_MS, COMMIT_MS = (f"lakewright.{what}" for what in ("plan-ms", "shuffle-ms", "write-ms", "commit-ms"))
ROWS_DELETED, ROWS_UPDATED, ROWS_INSERTED, ROWS_COPIED = (f"lakewright.rows-{what}" for what in ("deleted", "updated", "inserted", "copied"))


def milliseconds(seconds: float) -> str:
    return str(round(max(0.0, seconds) * 1000))


def clause_rows(number: int) -> str:
    """The property that says how many rows a clause of a MERGE changed; the first clause is number 0 and called 1."""
    return f"lakewright.clause-{number + 1}-rows"


@dataclass(frozen=True)
class Commit:
    """One commit. An updated row counts as deleted and added. `snapshot_id` is None only for a write of nothing into a table that has no snapshot yet.

    `summary` is the snapshot's, and what only became known after it was made: how long the commit took.
    """

    snapshot_id: int | None
    parent_id: int | None
    sequence_number: int
    operation: str
    run_id: str
    token: str | None
    summary: Mapping[str, str] = field(repr=False, compare=False)
    added_files: int = 0
    removed_files: int = 0
    added_rows: int = 0
    deleted_rows: int = 0

    @property
    def nothing_written(self) -> bool:
        """True when there was nothing to add or remove, so that no snapshot was made."""
        return NOTHING_WRITTEN in self.summary


def commit_of(snapshot: Snapshot) -> Commit:
    summary = snapshot.summary

    def number(key: str) -> int:
        return int(summary.get(key, "0"))

    added = number("added-records")
    deleted = max(0, number("deleted-records") + number("added-position-deletes") - number("removed-position-deletes"))
    if ROWS_COPIED in summary:  # a row-level change rewrites rows it does not change; those are neither added nor deleted
        added, deleted = number(ROWS_INSERTED) + number(ROWS_UPDATED), number(ROWS_DELETED) + number(ROWS_UPDATED)
    return Commit(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_id,
        sequence_number=snapshot.sequence_number,
        operation=snapshot.operation,
        run_id=summary.get(RUN_ID, ""),
        token=summary.get(TOKEN),
        summary=summary,
        added_files=number("added-data-files"),
        removed_files=number("deleted-data-files"),
        added_rows=added,
        deleted_rows=deleted,
    )


def command_of(snapshot: Snapshot) -> str:
    """What was asked for, as far as the snapshot tells: merge rather than overwrite."""
    return snapshot.summary.get(COMMAND, snapshot.operation)


def is_compaction(snapshot: Snapshot) -> bool:
    return command_of(snapshot) == COMPACT


def nothing_written(head: Snapshot | None, operation: str, run_id: str, token: str | None) -> Commit:
    return Commit(
        snapshot_id=head.snapshot_id if head else None,
        parent_id=head.parent_id if head else None,
        sequence_number=head.sequence_number if head else 0,
        operation=operation,
        run_id=run_id,
        token=token,
        summary={NOTHING_WRITTEN: "true"},
    )
