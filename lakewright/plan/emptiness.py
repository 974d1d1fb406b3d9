"""Whether a table, or the partitions that new files go into, are without rows: what is written there can then meet no key."""

from __future__ import annotations

from collections.abc import Sequence

from lakewright.commit.change import PartitionScope
from lakewright.commit.store import TableState
from lakewright.errors import UnsupportedOperation
from lakewright.format.data_file import DataFile
from lakewright.format.metadata import Metadata, Snapshot
from lakewright.read.deletes import only_path
from lakewright.read.scan import FileScan, plan_scan


def has_rows(state: TableState, metadata: Metadata, head: Snapshot | None, scope: PartitionScope | None = None) -> bool:
    """By the snapshot's own totals where they tell, without looking at its files."""
    if head is None or head.summary.get("total-records") == "0":
        return False
    if scope is None and "total-records" in head.summary and head.summary.get("total-delete-files") == "0":
        return True
    return any(_live(f) and (scope is None or scope.covers(f.data_file)) for f in plan_scan(state.io, metadata, head).files)


def require_empty(state: TableState, metadata: Metadata, head: Snapshot | None, scope: PartitionScope | None = None) -> None:
    if has_rows(state, metadata, head, scope):
        where = "the partitions these rows go into have rows" if scope is not None else "it has rows"
        raise UnsupportedOperation(
            f"A bulk insert looks no key up, so {state.name} would get a second row for keys that are there: {where}. Use upsert or insert, or trust=True if no key can be there.",
            table=state.name,
        )


def scope_of(spec_id: int, files: Sequence[DataFile]) -> PartitionScope:
    return PartitionScope(spec_id, frozenset(f.partition for f in files))


def _live(file: FileScan) -> bool:
    """Only vectors and position deletes of this file alone are counted: with any other it is taken to have rows."""
    path = file.data_file.file_path
    gone = sum(d.data_file.record_count for d in file.deletes if d.is_position and only_path(d.data_file) == path)
    return file.data_file.record_count > gone
