"""What must still be true of the newest head for a change to be right. Each rule is one function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from pyiceberg.io import FileIO
from pyiceberg.schema import Schema, index_name_by_id

from lakewright.commit.change import APPEND, REPLACE, SERIALIZABLE, SnapshotChange
from lakewright.commit.concern import Targets
from lakewright.commit.result import command_of
from lakewright.errors import NotABranch, RefNotFound, StalePlan
from lakewright.format.data_file import ADDED, DELETED, POSITION_DELETES, DataFile, ManifestFile
from lakewright.format.manifests import read_manifest, read_manifest_list
from lakewright.format.metadata import MAIN, Metadata, Snapshot
from lakewright.read.prune import Pruner

REWRITES_ONLY = {REPLACE}
Later = tuple[Snapshot, list[ManifestFile]]


def require_branch(metadata: Metadata, branch: str, table: str, *, may_be_new: bool = False) -> None:
    """Writes go to a branch that exists; tags and historical snapshots never change."""
    ref = metadata.refs.get(branch)
    if ref is None and branch != MAIN and not may_be_new:
        if branch.isdigit():
            raise NotABranch(f"{branch} is not a branch of {table}: a snapshot of the past cannot be written to. Make a branch at it with create_branch(name, at={branch}).", table=table)
        raise RefNotFound(f"{table} has no branch {branch!r}; create_branch({branch!r}) makes one.", table=table)
    if ref is not None and ref["type"] != "branch":
        raise NotABranch(f"{branch!r} is a tag of {table}, and tags do not move. Write to a branch: create_branch(name, at={branch!r}).", table=table)


def validate(io: FileIO, change: SnapshotChange, metadata: Metadata, table: str) -> None:
    """Raise StalePlan where another commit since the read snapshot broke what the change relies on."""
    schema_still_fits(change.schema, metadata, table)
    specs_still_fit(change, metadata, table)
    deletes_fit_the_format(change, metadata, table)
    if change.operation == APPEND and not change.rows_read and not change.touched:
        return
    later = [_later(io, snapshot) for snapshot in snapshots_since(metadata, change, table)]
    if not later:
        return
    files_still_there(io, change, metadata, later, table)
    no_further_deletes(io, change, metadata, later, table)
    if change.isolation == SERIALIZABLE and change.operation != REPLACE:
        no_conflicting_data(io, change, metadata, later, table)


def lost_files(io: FileIO, change: SnapshotChange, metadata: Metadata, table: str) -> frozenset[str]:
    """Of the data files a change removes, those that later commits removed too or deleted rows of: the rest of it still holds."""
    later = [_later(io, snapshot) for snapshot in snapshots_since(metadata, change, table)]
    head = metadata.head_if_any(change.branch)
    assert head is not None
    gone = {file.file_path for _, file in _entries(io, metadata, later, DELETED, content=0)}
    targets = Targets(io, metadata, head, change.removed - gone)
    deleted = {path for _, file in _entries(io, metadata, later, ADDED, content=1) for path in targets.all_concerned_by(file)}
    return change.removed & (gone | deleted)


def schema_still_fits(written: Schema, metadata: Metadata, table: str) -> None:
    """Files are read by field id: each id they carry must mean the same column, and no column may have become required."""
    if written == metadata.schema:
        return
    known = {pair for schema in metadata.schemas.values() for pair in index_name_by_id(schema).items()}
    strangers = [name for field_id, name in index_name_by_id(written).items() if (field_id, name) not in known]
    if strangers:
        raise StalePlan(f"Column {strangers[0]} of {table} got another id from a commit made meanwhile; run the write again.", table=table, column=strangers[0])
    required_before = {f.field_id for f in written.fields if f.required}
    for field in metadata.schema.fields:
        if field.required and field.field_id not in required_before and field.initial_default is None:
            raise StalePlan(f"Column {field.name} of {table} became required while rows were written without that check; run the write again.", table=table, column=field.name)


def specs_still_fit(change: SnapshotChange, metadata: Metadata, table: str) -> None:
    """A file is filed under the spec it was written with; that spec must still mean the same."""
    for spec_id in {f.spec_id for f in change.added}:
        planned, now = change.specs[spec_id], metadata.specs.get(spec_id)
        if now is None or now.fields != planned.fields:
            raise StalePlan(f"Partition spec {spec_id} of {table} is not what it was when its files were written; run the write again.", table=table)


def deletes_fit_the_format(change: SnapshotChange, metadata: Metadata, table: str) -> None:
    """Format 3 takes deletion vectors and no new position delete files, format 2 the reverse; an upgrade may have come between."""
    for file in change.added:
        if file.content == POSITION_DELETES and file.is_vector != (metadata.format_version >= 3):
            kind = "a deletion vector" if file.is_vector else "a position delete file"
            raise StalePlan(f"{table} has format version {metadata.format_version}, which does not take {kind} such as {file.file_path}; run the operation again.", table=table)


def snapshots_since(metadata: Metadata, change: SnapshotChange, table: str) -> Iterator[Snapshot]:
    """The snapshots of the branch that came after the one the plan read."""
    head = metadata.head_if_any(change.branch)
    before = head.snapshot_id if head else None
    for snapshot in metadata.ancestors(before):
        if snapshot.snapshot_id == change.read_snapshot_id:
            return
        yield snapshot
        before = snapshot.parent_id
    if change.read_snapshot_id is not None:
        raise StalePlan(
            f"Snapshot {change.read_snapshot_id}, which this {change.name} read, is no longer in the line of {change.branch} of {table}: "
            "the branch was rolled back or replaced. Run the operation again.",
            table=table,
        )
    if before is not None:
        raise StalePlan(f"{change.branch} of {table} had no snapshot when this {change.name} was planned, and those it got since have partly expired. Run the operation again.", table=table)


def files_still_there(io: FileIO, change: SnapshotChange, metadata: Metadata, later: Sequence[Later], table: str) -> None:
    """Always: each file the change removes, or deletes rows of, is still in the table, so no other commit replaced or compacted it."""
    files = change.touched | change.removed
    if not (files or change.removed_vectors):
        return
    for snapshot, file in _entries(io, metadata, later, DELETED):
        if (file.referenced_data_file in change.removed_vectors) if file.is_vector else (file.file_path in files):
            _conflict(change, snapshot, f"replaced or removed a file it changes ({file.file_path})", table)


def no_further_deletes(io: FileIO, change: SnapshotChange, metadata: Metadata, later: Sequence[Later], table: str) -> None:
    """Always: no rows were deleted from a file the change removes or deletes rows of, be it the same row or another.

    Else a replaced file would bring them back, a row both deleted and updated would live on, and a data file get a second
    deletion vector. Other files do not matter, so writers that are not at the same files do not conflict.
    """
    head = metadata.head_if_any(change.branch)
    vectors = {f.referenced_data_file for f in change.added if f.is_vector and f.referenced_data_file is not None}
    paths = change.touched | change.removed | change.removed_vectors | vectors
    if head is None or not paths:
        return
    targets = Targets(io, metadata, head, paths)
    for snapshot, file in _entries(io, metadata, later, ADDED, content=1):
        concerned = targets.concerned_by(file)
        if concerned is not None:
            _conflict(change, snapshot, f"deleted rows of a file it changes ({concerned}, by {file.file_path})", table)


def no_conflicting_data(io: FileIO, change: SnapshotChange, metadata: Metadata, later: Sequence[Later], table: str) -> None:
    """Serializable: no rows were added to what the operation read."""
    covered = _coverage(change, metadata)
    added = "rows to what it read" if change.rows_read else "rows to what it replaces"
    option = f"{change.command}_isolation_level" if change.command in ("update", "merge", "delete") else "isolation_level"
    hint = "" if change.is_always_serializable else f", or with {option}='snapshot' if added rows may stay"
    for snapshot, file in _entries(io, metadata, later, ADDED, content=0):
        if snapshot.operation not in REWRITES_ONLY and covered(file):
            _conflict(change, snapshot, f"added {added} ({file.file_path})", table, hint)


def _later(io: FileIO, snapshot: Snapshot) -> Later:
    """A snapshot and the manifests it wrote, which say what it added and removed."""
    return snapshot, [m for m in read_manifest_list(io, snapshot.manifest_list) if m.added_snapshot_id == snapshot.snapshot_id]


def _entries(io: FileIO, metadata: Metadata, later: Sequence[Later], status: int, content: int | None = None) -> Iterator[tuple[Snapshot, DataFile]]:
    """The files that later snapshots added or removed."""
    for snapshot, manifests in later:
        for manifest in manifests:
            count = manifest.added_files_count if status == ADDED else manifest.deleted_files_count
            if count and content in (None, manifest.content):
                for entry in read_manifest(io, manifest, metadata.specs, with_metrics=status == ADDED):
                    if entry.status == status and entry.snapshot_id == snapshot.snapshot_id:
                        yield snapshot, entry.data_file


def _coverage(change: SnapshotChange, metadata: Metadata) -> Callable[[DataFile], bool]:
    """Whether a data file may hold rows of what the operation read or replaces."""
    if change.partitions is not None:
        return change.partitions.covers
    return Pruner(change.filter, change.schema, metadata.schemas, metadata.specs).keeps_file


def _conflict(change: SnapshotChange, other: Snapshot, did: str, table: str, hint: str = "") -> NoReturn:
    stale = StalePlan(
        f"This {change.name} of {table} read snapshot {change.read_snapshot_id}, and since then the {command_of(other)} {other.snapshot_id} {did}. "
        f"Nothing was changed; run the operation again{hint}.",
        table=table,
    )
    stale.by_rewrite = other.operation in REWRITES_ONLY
    raise stale
