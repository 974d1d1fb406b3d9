"""What a commit will do, declared: steps of metadata and of data that publish together or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import cached_property

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from lakewright.commit.updates import Update
from lakewright.format.data_file import DataFile
from lakewright.format.metadata import MAIN, Json, Metadata
from lakewright.read.prune import partition_key

APPEND, OVERWRITE, DELETE, REPLACE = "append", "overwrite", "delete", "replace"
SERIALIZABLE, SNAPSHOT = "serializable", "snapshot"


def operation_of(added: Sized, removed: Sized, deletes: Sized) -> str:
    """The name of a change by what it does: data files added, data files removed, delete files or vectors added."""
    if not removed and not deletes:
        return APPEND
    return OVERWRITE if added else DELETE


@dataclass(frozen=True)
class PartitionScope:
    """Whole partitions of one spec; a file of another spec may hold rows of any of them."""

    spec_id: int
    partitions: frozenset[tuple[object, ...]]

    def covers(self, file: DataFile) -> bool:
        return file.spec_id != self.spec_id or partition_key(file.partition) in self._keys

    @cached_property
    def _keys(self) -> frozenset[tuple[object, ...]]:
        return frozenset(partition_key(partition) for partition in self.partitions)


@dataclass(frozen=True)
class SnapshotChange:
    """One snapshot: files added, files removed, and what must still be true for it to be right.

    `added` holds data files, delete files and deletion vectors. `removed` names data files and delete files by path,
    `removed_vectors` deletion vectors by the data file they are of, since several share a Puffin file. `touched` are data
    files the change deletes rows of or replaces: they must still be there, without further deletes. `rows_read` says that
    the change rests on the rows `filter` selected, as DELETE, UPDATE and MERGE do. `command` is what was asked for, where
    that says more than the operation: update, merge, upsert. `is_always_serializable`: no setting makes it less strict.
    `makes_branch`: a branch that is not there begins with it; no expiry takes a snapshot from that branch.
    """

    operation: str
    schema: Schema
    specs: Mapping[int, PartitionSpec]
    added: Sequence[DataFile] = ()
    removed: frozenset[str] = frozenset()
    removed_vectors: frozenset[str] = frozenset()
    touched: frozenset[str] = frozenset()
    rows_read: bool = False
    branch: str = MAIN
    read_snapshot_id: int | None = None
    isolation: str = SERIALIZABLE
    filter: BooleanExpression = field(default_factory=AlwaysTrue)
    partitions: PartitionScope | None = None
    token: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    command: str | None = None
    is_always_serializable: bool = False
    makes_branch: bool = False

    @property
    def name(self) -> str:
        return self.command or self.operation


@dataclass(frozen=True)
class MetadataChange:
    """A change of schema, spec, order, properties or refs, worked out anew on whatever version it is applied to.

    `requirements` says, in the REST catalog's words, what of that version it relied on.
    """

    what: str
    updates: Callable[[Metadata], list[Update]]
    requirements: Callable[[Metadata], list[Json]] = lambda metadata: []


Step = SnapshotChange | MetadataChange
