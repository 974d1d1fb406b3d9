"""What must still be true of the newest head for a change to be right. Each rule is one function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NoReturn

from pyiceberg.io import FileIO
from pyiceberg.schema import Schema, index_name_by_id

from lakewright.commit.change import APPEND, SERIALIZABLE, SnapshotChange
from lakewright.errors import CommitConflict, NotABranch, RefNotFound
from lakewright.format.data_file import ADDED, DATA, DataFile
from lakewright.format.manifests import read_manifest, read_manifest_list
from lakewright.format.metadata import MAIN, Metadata, Snapshot
from lakewright.read.prune import Pruner

REWRITES_ONLY = {"replace"}


def require_branch(metadata: Metadata, branch: str, table: str) -> None:
    """Writes go to a branch that exists; tags and historical snapshots never change."""
    ref = metadata.refs.get(branch)
    if ref is None and branch != MAIN:
        if branch.isdigit():
            raise NotABranch(f"{branch} is not a branch of {table}: a snapshot of the past cannot be written to. Make a branch at it with create_branch(name, at={branch}).", table=table)
        raise RefNotFound(f"{table} has no branch {branch!r}; create_branch({branch!r}) makes one.", table=table)
    if ref is not None and ref["type"] != "branch":
        raise NotABranch(f"{branch!r} is a tag of {table}, and tags do not move. Write to a branch: create_branch(name, at={branch!r}).", table=table)


def validate(io: FileIO, change: SnapshotChange, metadata: Metadata, table: str) -> None:
    """Raise CommitConflict where another commit since the read snapshot broke what the change relies on."""
    schema_still_fits(change.schema, metadata, table)
    specs_still_fit(change, metadata, table)
    if change.operation == APPEND:
        return
    later = list(snapshots_since(metadata, change, table))
    if not later:
        return
    no_conflicting_deletes(io, change, metadata, later, table)
    if change.isolation == SERIALIZABLE:
        no_conflicting_data(io, change, metadata, later, table)


def schema_still_fits(written: Schema, metadata: Metadata, table: str) -> None:
    """Files are read by field id: each id they carry must mean the same column, and no column may have become required."""
    if written == metadata.schema:
        return
    known = {pair for schema in metadata.schemas.values() for pair in index_name_by_id(schema).items()}
    strangers = [name for field_id, name in index_name_by_id(written).items() if (field_id, name) not in known]
    if strangers:
        raise CommitConflict(f"Column {strangers[0]} of {table} got another id from a commit made meanwhile; run the write again.", table=table, column=strangers[0])
    required_before = {f.field_id for f in written.fields if f.required}
    for field in metadata.schema.fields:
        if field.required and field.field_id not in required_before and field.initial_default is None:
            raise CommitConflict(f"Column {field.name} of {table} became required while rows were written without that check; run the write again.", table=table, column=field.name)


def specs_still_fit(change: SnapshotChange, metadata: Metadata, table: str) -> None:
    """A file is filed under the spec it was written with; that spec must still mean the same."""
    for spec_id in {f.spec_id for f in change.added}:
        planned, now = change.specs[spec_id], metadata.specs.get(spec_id)
        if now is None or now.fields != planned.fields:
            raise CommitConflict(f"Partition spec {spec_id} of {table} is not what it was when its files were written; run the write again.", table=table)


def snapshots_since(metadata: Metadata, change: SnapshotChange, table: str) -> Iterator[Snapshot]:
    """The snapshots of the branch that came after the one the plan read."""
    head = metadata.head(change.branch)
    for snapshot in metadata.ancestors(head.snapshot_id if head else None):
        if snapshot.snapshot_id == change.read_snapshot_id:
            return
        yield snapshot
    if change.read_snapshot_id is not None:
        raise CommitConflict(
            f"Snapshot {change.read_snapshot_id}, which this {change.operation} read, is no longer in the line of {change.branch} of {table}: "
            "the branch was rolled back or replaced. Run the operation again.",
            table=table,
        )


def no_conflicting_data(io: FileIO, change: SnapshotChange, metadata: Metadata, later: list[Snapshot], table: str) -> None:
    """Serializable: no rows were added to what the operation read."""
    covered = _coverage(change, metadata)
    for snapshot, file in _added_by(io, metadata, later, content=0):
        if snapshot.operation not in REWRITES_ONLY and covered(file):
            _conflict(change, snapshot, f"added rows to what it replaces ({file.file_path})", table)


def no_conflicting_deletes(io: FileIO, change: SnapshotChange, metadata: Metadata, later: list[Snapshot], table: str) -> None:
    """Always: no rows were deleted from what the operation read, or it would bring them back."""
    covered = _coverage(change, metadata)
    for snapshot, file in _added_by(io, metadata, later, content=1):
        if covered(file):
            _conflict(change, snapshot, f"deleted rows of what it replaces ({file.file_path})", table)


def _added_by(io: FileIO, metadata: Metadata, snapshots: list[Snapshot], content: int) -> Iterator[tuple[Snapshot, DataFile]]:
    for snapshot in snapshots:
        for manifest in read_manifest_list(io, snapshot.manifest_list):
            if manifest.content == content and manifest.added_snapshot_id == snapshot.snapshot_id and manifest.added_files_count:
                for entry in read_manifest(io, manifest, metadata.specs):
                    if entry.status == ADDED and entry.snapshot_id == snapshot.snapshot_id:
                        yield snapshot, entry.data_file


def _coverage(change: SnapshotChange, metadata: Metadata) -> Callable[[DataFile], bool]:
    """Whether a file may hold rows the operation read. The metrics of delete files say nothing of the rows they delete."""
    if change.partitions is not None:
        return change.partitions.covers
    pruner = Pruner(change.filter, change.schema, metadata.schemas, metadata.specs)
    return lambda file: pruner.keeps_file(file) if file.content == DATA else pruner.keeps_partition(file)


def _conflict(change: SnapshotChange, other: Snapshot, did: str, table: str) -> NoReturn:
    raise CommitConflict(
        f"This {change.operation} of {table} read snapshot {change.read_snapshot_id}, and since then the {other.operation} {other.snapshot_id} {did}. "
        "Nothing was changed; run the operation again, or with isolation_level='snapshot' if added rows may stay.",
        table=table,
    )
