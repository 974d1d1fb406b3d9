"""Manifests and manifest lists as Avro files.

Written by hand because PyIceberg's writer knows only data content and format 2, and writes one Avro block per entry.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from pydantic_core import to_json
from pyiceberg.io import FileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, BooleanType, DecimalType, DoubleType, FixedType, FloatType, IcebergType, PrimitiveType, StringType, UUIDType
from pyiceberg.utils.decimal import decimal_required_bytes

from lakewright.format import avro_encoding as avro
from lakewright.format import avro_schemas
from lakewright.format.bounds import encode_value, unscaled
from lakewright.format.data_file import ADDED, DATA, DELETED, EXISTING, DataFile, ManifestEntry, ManifestFile, PartitionFieldSummary

UNASSIGNED = -1
_CONTENT_NAMES = ("data", "deletes")


class _FieldSummary:
    """Range of one partition field over the entries of a manifest."""

    def __init__(self, field_type: IcebergType) -> None:
        assert isinstance(field_type, PrimitiveType)
        self._type = field_type
        self._null = self._nan = False
        self._low: Any = None
        self._high: Any = None

    def add(self, value: Any) -> None:
        if value is None:
            self._null = True
        elif value != value:  # only NaN is unlike itself
            self._nan = True
        elif self._low is None:
            self._low = self._high = value
        elif value < self._low:
            self._low = value
        elif value > self._high:
            self._high = value

    def done(self) -> PartitionFieldSummary:
        if self._low is None:
            return PartitionFieldSummary(self._null, self._nan, None, None)
        return PartitionFieldSummary(self._null, self._nan, encode_value(self._type, self._low), encode_value(self._type, self._high))


class _Tally:
    """What the manifest list will say of the manifest being written."""

    def __init__(self, partition_types: list[IcebergType]) -> None:
        self.files = [0, 0, 0]
        self.rows = [0, 0, 0]
        self.unassigned_rows = 0
        self.min_sequence_number = UNASSIGNED
        self.summaries = [_FieldSummary(kind) for kind in partition_types]

    def add(self, entry: ManifestEntry) -> None:
        self.files[entry.status] += 1
        self.rows[entry.status] += entry.data_file.record_count
        if entry.status != DELETED and entry.data_file.first_row_id is None:
            self.unassigned_rows += entry.data_file.record_count
        for summary, value in zip(self.summaries, entry.data_file.partition, strict=True):
            summary.add(value)
        sequence = entry.sequence_number
        if sequence is not None and entry.status != DELETED and (self.min_sequence_number == UNASSIGNED or sequence < self.min_sequence_number):
            self.min_sequence_number = sequence


def write_manifest(
    io: FileIO,
    path: str,
    *,
    spec: PartitionSpec,
    schema: Schema,
    content: int,
    snapshot_id: int,
    entries: Iterable[ManifestEntry],
    format_version: int = 2,
) -> ManifestFile:
    """Write entries as they come and return the manifest's line for the list.

    `spec` is the entries' own, `schema` one that has its source columns, `content` 0 for data and 1 for deletes. An added
    entry may leave snapshot and sequence numbers None, to be inherited; an existing or deleted one must have the latter.
    The result's sequence numbers are UNASSIGNED (-1) until `write_manifest_list` gives them.
    """
    kinds = [field.field_type for field in spec.partition_type(schema).fields]
    tally = _Tally(kinds)

    def records() -> Iterator[bytes]:
        encode_file = _file_encoder(kinds, format_version)
        for entry in entries:
            tally.add(entry)
            yield _encode_entry(entry, snapshot_id) + encode_file(entry.data_file)

    header = {
        "schema": schema.model_dump_json(),
        "schema-id": str(schema.schema_id),
        "partition-spec": to_json(spec.fields).decode(),
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(format_version),
        "content": _CONTENT_NAMES[content],
    }
    with io.new_output(path).create(overwrite=True) as stream:
        length = avro.write_container(stream, avro_schemas.manifest_entry(spec, schema, format_version), header, records())
    return ManifestFile(
        manifest_path=path,
        manifest_length=length,
        partition_spec_id=spec.spec_id,
        content=content,
        sequence_number=UNASSIGNED,
        min_sequence_number=tally.min_sequence_number,
        added_snapshot_id=snapshot_id,
        added_files_count=tally.files[ADDED],
        existing_files_count=tally.files[EXISTING],
        deleted_files_count=tally.files[DELETED],
        added_rows_count=tally.rows[ADDED],
        existing_rows_count=tally.rows[EXISTING],
        deleted_rows_count=tally.rows[DELETED],
        partitions=tuple(summary.done() for summary in tally.summaries),
        unassigned_rows=tally.unassigned_rows,
    )


def assign_row_ids(manifests: Iterable[ManifestFile], next_row_id: int) -> tuple[list[ManifestFile], int]:
    """Data manifests with a first row id each, as format 3 asks, and the next id that is free.

    A manifest that has one keeps it; delete manifests have none. The others get one in order, and room for the rows that inherit
    from it: those of files without an id of their own, or of all live files where nobody counted.
    """
    assigned = []
    for manifest in manifests:
        if manifest.content == DATA and manifest.first_row_id is None:
            live_rows = manifest.existing_rows_count + manifest.added_rows_count
            inheriting = live_rows if manifest.unassigned_rows is None else manifest.unassigned_rows
            manifest = replace(manifest, first_row_id=next_row_id)
            next_row_id += inheriting
        assigned.append(manifest)
    return assigned, next_row_id


def write_manifest_list(
    io: FileIO,
    path: str,
    *,
    snapshot_id: int,
    parent_id: int | None,
    sequence_number: int,
    manifests: Iterable[ManifestFile],
    format_version: int = 2,
    first_row_id: int | None = None,
) -> list[ManifestFile]:
    """Write the list of a snapshot, and return it as it reads: manifests without a sequence number get the snapshot's.

    Format 3 also wants the snapshot's `first_row_id`, and manifests that went through `assign_row_ids`.
    """
    header = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_id is None else str(parent_id),
        "sequence-number": str(sequence_number),
        "format-version": str(format_version),
    }
    if first_row_id is not None:
        header["first-row-id"] = str(first_row_id)
    listed = [_numbered(manifest, snapshot_id, sequence_number) for manifest in manifests]
    with io.new_output(path).create(overwrite=True) as stream:
        avro.write_container(stream, avro_schemas.manifest_file(format_version), header, (_encode_manifest(m, format_version) for m in listed))
    return listed


def _numbered(manifest: ManifestFile, snapshot_id: int, sequence_number: int) -> ManifestFile:
    if manifest.sequence_number != UNASSIGNED and manifest.min_sequence_number != UNASSIGNED:
        return manifest
    if manifest.sequence_number == UNASSIGNED and manifest.added_snapshot_id != snapshot_id:
        raise ValueError(f"Manifest {manifest.manifest_path} has no sequence number and is not of snapshot {snapshot_id}, which could give it one.")
    return replace(
        manifest,
        sequence_number=sequence_number if manifest.sequence_number == UNASSIGNED else manifest.sequence_number,
        min_sequence_number=sequence_number if manifest.min_sequence_number == UNASSIGNED else manifest.min_sequence_number,
    )


def _encode_entry(entry: ManifestEntry, snapshot_id: int) -> bytes:
    if entry.sequence_number is None and entry.status != ADDED:
        raise ValueError(f"The entry of {entry.data_file.file_path} has no sequence number; only an added file inherits one.")
    snapshot = snapshot_id if entry.snapshot_id is None and entry.status == DELETED else entry.snapshot_id
    numbers = (snapshot, entry.sequence_number, entry.file_sequence_number)
    return avro.encode_long(entry.status) + b"".join(avro.encode_optional(avro.encode_long, number) for number in numbers)


def _file_encoder(kinds: list[IcebergType], format_version: int) -> Callable[[DataFile], bytes]:
    """A function from data file to Avro, its fields in the order of `avro_schemas.manifest_entry`."""
    encoders = [_partition_encoder(kind) for kind in kinds]
    long, optional = avro.encode_long, avro.encode_optional

    def encode(file: DataFile) -> bytes:
        parts = [long(file.content), avro.encode_string(file.file_path), avro.encode_string(file.file_format)]
        parts += [optional(encode, value) for encode, value in zip(encoders, file.partition, strict=True)]
        parts += (
            long(file.record_count),
            long(file.file_size_in_bytes),
            avro.optional_counts(file.column_sizes),
            avro.optional_counts(file.value_counts),
            avro.optional_counts(file.null_value_counts),
            avro.optional_counts(file.nan_value_counts),
            avro.optional_bounds(file.lower_bounds),
            avro.optional_bounds(file.upper_bounds),
            optional(avro.encode_bytes, file.key_metadata),
            avro.optional_longs(file.split_offsets),
            avro.optional_longs(file.equality_ids),
            optional(long, file.sort_order_id),
        )
        if format_version >= 3:
            parts.append(optional(long, file.first_row_id))
        parts.append(optional(avro.encode_string, file.referenced_data_file))
        if format_version >= 3:
            parts += (optional(long, file.content_offset), optional(long, file.content_size_in_bytes))
        return b"".join(parts)

    return encode


def _partition_encoder(kind: IcebergType) -> avro.Encoder:
    """Dates, times and timestamps are integers in internal form, like the results of most transforms."""
    if isinstance(kind, StringType):
        return avro.encode_string
    if isinstance(kind, BinaryType):
        return avro.encode_bytes
    if isinstance(kind, FixedType):
        return bytes
    if isinstance(kind, BooleanType):
        return avro.encode_boolean
    if isinstance(kind, FloatType):
        return avro.encode_float
    if isinstance(kind, DoubleType):
        return avro.encode_double
    if isinstance(kind, UUIDType):
        return lambda value: value.bytes if isinstance(value, uuid.UUID) else bytes(value)
    if isinstance(kind, DecimalType):
        size, scale = decimal_required_bytes(kind.precision), kind.scale
        return lambda value: unscaled(value, scale).to_bytes(size, "big", signed=True)
    return avro.encode_long


def _encode_manifest(manifest: ManifestFile, format_version: int) -> bytes:
    """A line of the list, its fields in the order of `avro_schemas.manifest_file`."""
    numbers = (
        manifest.manifest_length,
        manifest.partition_spec_id,
        manifest.content,
        manifest.sequence_number,
        manifest.min_sequence_number,
        manifest.added_snapshot_id,
        manifest.added_files_count,
        manifest.existing_files_count,
        manifest.deleted_files_count,
        manifest.added_rows_count,
        manifest.existing_rows_count,
        manifest.deleted_rows_count,
    )
    parts = [avro.encode_string(manifest.manifest_path), *map(avro.encode_long, numbers)]
    parts.append(avro.encode_optional(_encode_summaries, manifest.partitions))
    parts.append(avro.encode_optional(avro.encode_bytes, manifest.key_metadata))
    if format_version >= 3:
        parts.append(avro.encode_optional(avro.encode_long, manifest.first_row_id))
    return b"".join(parts)


def _encode_summaries(summaries: tuple[PartitionFieldSummary, ...]) -> bytes:
    return avro.encode_array([_encode_summary(summary) for summary in summaries])


def _encode_summary(summary: PartitionFieldSummary) -> bytes:
    nan = avro.encode_optional(avro.encode_boolean, summary.contains_nan)
    ends = (avro.encode_optional(avro.encode_bytes, end) for end in (summary.lower_bound, summary.upper_bound))
    return b"".join((avro.encode_boolean(summary.contains_null), nan, *ends))
