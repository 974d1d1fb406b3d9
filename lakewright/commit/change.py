"""What a commit will do, declared: steps of metadata and of data that publish together or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    """One snapshot: files added, files removed, and what must still be true for it to be right."""

    operation: str
    schema: Schema
    specs: Mapping[int, PartitionSpec]
    added: Sequence[DataFile] = ()
    removed: frozenset[str] = frozenset()
    branch: str = MAIN
    read_snapshot_id: int | None = None
    isolation: str = SERIALIZABLE
    filter: BooleanExpression = field(default_factory=AlwaysTrue)
    partitions: PartitionScope | None = None
    token: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MetadataChange:
    """A change of schema, spec, order, properties or refs, worked out anew on whatever version it is applied to.

    `requirements` says, in the REST catalog's words, what of that version it relied on.
    """

    what: str
    updates: Callable[[Metadata], list[Update]]
    requirements: Callable[[Metadata], list[Json]] = lambda metadata: []


Step = SnapshotChange | MetadataChange
