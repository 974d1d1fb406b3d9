"""Which index a table uses. All begin with its partitions, and each after the first sees only the files the one before it left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform

from lakewright.errors import InvalidOption
from lakewright.keys.definition import Definition
from lakewright.keys.imports import imported, is_own
from lakewright.keys.index.partitions import PartitionIndex
from lakewright.keys.index.ranges import RangeIndex
from lakewright.keys.index.record.index import RecordIndex
from lakewright.options import INDEX, Options
from lakewright.plan.distribution import partition_fields
from lakewright.plan.transform_columns import source_path
from lakewright.rows.merge_source import Index

if TYPE_CHECKING:
    from lakewright.read.scan import FileScan
    from lakewright.rows.merge_source import MergeSource
    from lakewright.rows.row_plan import RowContext

AUTO, RANGE, BUCKET, RECORD = "auto", "range", "bucket", "record"
INDEXES = (AUTO, RANGE, BUCKET, RECORD)


def index_of(definition: Definition, options: Options) -> Index:
    name = options[INDEX].strip()
    first = PartitionIndex(definition)
    match name:
        case "auto":
            return Chain((first, RangeIndex(definition), RecordIndex(definition, only_if_there=True)))
        case "range":
            return Chain((first, RangeIndex(definition)))
        case "bucket":
            return BucketIndex(definition)
        case "record":
            return Chain((first, RangeIndex(definition), RecordIndex(definition)))
    return Chain((first, Own(name, own_index(name, definition)(definition))))


@dataclass(frozen=True)
class Chain:
    indexes: tuple[Index, ...]

    def candidates(self, context: RowContext, source: MergeSource, files: Sequence[FileScan]) -> Sequence[FileScan]:
        for index in self.indexes:
            files = index.candidates(context, source, files) if files else files
        return files


@dataclass(frozen=True)
class BucketIndex:
    """A key has one bucket, which its hash tells, so nothing is looked up."""

    definition: Definition

    def candidates(self, context: RowContext, source: MergeSource, files: Sequence[FileScan]) -> Sequence[FileScan]:
        require_bucket(self.definition, context.metadata.spec, context.schema)
        return PartitionIndex(self.definition).candidates(context, source, files)


@dataclass(frozen=True)
class Own:
    """A user's index. What it returns can only narrow the files it was given."""

    name: str
    index: Index

    def candidates(self, context: RowContext, source: MergeSource, files: Sequence[FileScan]) -> Sequence[FileScan]:
        named = {file.data_file.file_path for file in self.index.candidates(context, source, files)}
        unknown = named - {file.data_file.file_path for file in files}
        if unknown:
            raise InvalidOption(f"The index {self.name} of {context.table} names {next(iter(unknown))}, which is none of the files it was given.", table=context.table)
        return [file for file in files if file.data_file.file_path in named]


def check_index(definition: Definition, options: Options, spec: PartitionSpec) -> None:
    """Whether the index fits a table of this partitioning."""
    name = options[INDEX].strip()
    if name == BUCKET:
        require_bucket(definition, spec, definition.schema)
    elif name not in INDEXES:
        own_index(name, definition)


def require_bucket(definition: Definition, spec: PartitionSpec, schema: Schema) -> None:
    buckets = [f for _, f in partition_fields(spec) if isinstance(f.transform, BucketTransform)]
    if not any(source_path(schema, f.source_id)[0] in definition.key_columns for f in buckets):
        first = definition.key[0].text
        raise InvalidOption(
            f"lakewright.index of {definition.table} is bucket, and no bucket of a key column is among its partitions; add one, as in partition_by=['bucket(16, {first})'], or use range.",
            table=definition.table,
        )


def own_index(name: str, definition: Definition) -> Callable[[Definition], Index]:
    """The class of `python:<module>:<class>`, which takes the table's Definition."""
    if not is_own(name):
        raise InvalidOption(f"lakewright.index of {definition.table} is {name!r}; it takes one of {', '.join(INDEXES)} or python:<module>:<class>.", table=definition.table)
    found: Callable[[Definition], Index] = imported(name, "lakewright.index", definition.table)
    if not callable(getattr(found, "candidates", None)):
        raise InvalidOption(f"lakewright.index of {definition.table} is {name!r}, which has no method candidates(context, source, files).", table=definition.table)
    return found
