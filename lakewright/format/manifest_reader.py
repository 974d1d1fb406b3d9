"""Manifests and manifest lists of any writer and format version, read into our own types.

Fields are found by their ids, since names differ between writers and versions; the ids are those of `avro_schemas`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.partitioning import PartitionSpec

from lakewright.errors import CorruptFile, PermissionRefused
from lakewright.format.avro_decoding import FIELD_ID, AvroFile, field_type, not_null
from lakewright.format.avro_schemas import METRIC_FIELDS
from lakewright.format.data_file import ADDED, DATA, DELETED, EXISTING, DataFile, ManifestEntry, ManifestFile, PartitionFieldSummary

Record = dict[Any, Any]
_REMEDY = "Restore it from a backup, or roll the table back to a snapshot that does not use it."


def read_manifest(
    io: FileIO,
    manifest: ManifestFile,
    specs: Mapping[int, PartitionSpec],
    *,
    with_metrics: bool = True,
    live_only: bool = False,
) -> Iterator[ManifestEntry]:
    """Entries in order, with snapshot, sequence numbers and first row ids inherited from the list.

    `with_metrics=False` leaves out sizes, counts and bounds, which are most of the work. `live_only` leaves out deleted entries.
    """
    path = manifest.manifest_path
    data = _load(io, path, "Manifest")
    if len(data) < manifest.manifest_length:
        raise CorruptFile(f"Manifest {path} has {len(data)} of its {manifest.manifest_length} bytes: it is truncated. {_REMEDY}")
    next_row_id = manifest.first_row_id if manifest.content == DATA else None
    try:
        file = AvroFile(data, skip=() if with_metrics else METRIC_FIELDS)
        to_entry = _entry_decoder(file.schema, manifest, specs[manifest.partition_spec_id])
        for record in file:
            entry = to_entry(record)
            if next_row_id is not None and entry.data_file.first_row_id is None and entry.status != DELETED:
                entry = replace(entry, data_file=replace(entry.data_file, first_row_id=next_row_id))
                next_row_id += entry.data_file.record_count
            if not (live_only and entry.status == DELETED):
                yield entry
    except Exception as error:  # damaged bytes make the decoder fail in any way
        raise _corrupt("Manifest", path, error) from error


def read_manifest_list(io: FileIO, path: str) -> list[ManifestFile]:
    """The manifests of a snapshot, in order."""
    data = _load(io, path, "Manifest list")
    try:
        manifests = [_manifest(record) for record in AvroFile(data)]
    except Exception as error:  # damaged bytes make the decoder fail in any way
        raise _corrupt("Manifest list", path, error) from error
    return [_counted(io, manifest) for manifest in manifests]


def _load(io: FileIO, path: str, what: str) -> bytes:
    try:
        with io.new_input(path).open(seekable=False) as stream:
            return bytes(stream.read())
    except FileNotFoundError as error:
        raise CorruptFile(f"{what} {path} is missing. {_REMEDY}") from error
    except PermissionError as error:
        raise PermissionRefused(f"{what} {path} may not be read: {error}. Grant read access to it.") from error
    except OSError as error:
        raise CorruptFile(f"{what} {path} cannot be read: {error}. {_REMEDY}") from error


def _corrupt(what: str, path: str, error: Exception) -> CorruptFile:
    return CorruptFile(f"{what} {path} is damaged and cannot be decoded ({type(error).__name__}: {error}). {_REMEDY}")


def _entry_decoder(schema: Any, manifest: ManifestFile, spec: PartitionSpec) -> Callable[[Record], ManifestEntry]:
    """A function from Avro record to entry."""
    to_partition = _partition_decoder(field_type(field_type(schema, 2), 102), spec)
    spec_id, added_by, number = manifest.partition_spec_id, manifest.added_snapshot_id, manifest.sequence_number

    def decode(record: Record) -> ManifestEntry:
        file, status = record[2], record[0]
        value = file.get
        # Format 1 has no sequence numbers, which stands for 0; so do the lists of such tables.
        inherited = number if status == ADDED or number == 0 else None
        snapshot, sequence, file_sequence = record.get(1), record.get(3), record.get(4)
        return ManifestEntry(
            status,
            added_by if snapshot is None else snapshot,
            inherited if sequence is None else sequence,
            inherited if file_sequence is None else file_sequence,
            DataFile(
                file_path=file[100],
                record_count=file[103],
                file_size_in_bytes=file[104],
                spec_id=spec_id,
                partition=to_partition(file[102]),
                content=value(134) or DATA,
                file_format=file[101].upper(),
                column_sizes=value(108) or {},
                value_counts=value(109) or {},
                null_value_counts=value(110) or {},
                nan_value_counts=value(137) or {},
                lower_bounds=value(125) or {},
                upper_bounds=value(128) or {},
                key_metadata=value(131),
                split_offsets=tuple(value(132) or ()),
                equality_ids=tuple(value(135) or ()),
                sort_order_id=value(140),
                first_row_id=value(142),
                referenced_data_file=value(143),
                content_offset=value(144),
                content_size_in_bytes=value(145),
            ),
        )

    return decode


def _partition_decoder(struct: Any, spec: PartitionSpec) -> Callable[[Record], tuple[Any, ...]]:
    """From the Avro tuple to values in the order of the spec's fields; a file without ids has them by name."""
    defined: dict[str, Any] = {}
    converters: dict[Any, Callable[[Any], Any] | None] = {}
    for field in struct["fields"]:
        kind = not_null(field["type"])
        if isinstance(kind, dict) and "name" in kind:
            defined[kind["name"]] = kind
        converters[field.get(FIELD_ID, field["name"])] = _value_decoder(defined.get(kind, kind) if isinstance(kind, str) else kind)
    keys = [field.field_id if field.field_id in converters else field.name for field in spec.fields]
    plan = [(key, converters.get(key)) for key in keys]

    def decode(values: Record) -> tuple[Any, ...]:
        return tuple([_converted(values.get(key), convert) for key, convert in plan])

    return decode


def _converted(value: Any, convert: Callable[[Any], Any] | None) -> Any:
    return value if convert is None or value is None else convert(value)


def _value_decoder(kind: Any) -> Callable[[Any], Any] | None:
    logical = kind.get("logicalType") if isinstance(kind, dict) else None
    if logical == "decimal":
        scale = int(kind.get("scale", 0))
        return lambda raw: _decimal(int.from_bytes(raw, "big", signed=True), scale)
    if logical == "uuid":
        return lambda raw: uuid.UUID(raw) if isinstance(raw, str) else uuid.UUID(bytes=raw)
    return None


def _decimal(unscaled: int, scale: int) -> Decimal:
    """Exact at any precision, unlike arithmetic, which rounds to the context's."""
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))


def _manifest(record: Record) -> ManifestFile:
    value = record.get
    summaries = value(507)
    return ManifestFile(
        manifest_path=record[500],
        manifest_length=record[501],
        partition_spec_id=record[502],
        content=value(517) or 0,
        sequence_number=value(515) or 0,
        min_sequence_number=value(516) or 0,
        added_snapshot_id=record[503],
        added_files_count=record[504],
        existing_files_count=record[505],
        deleted_files_count=record[506],
        added_rows_count=record[512],
        existing_rows_count=record[513],
        deleted_rows_count=record[514],
        partitions=None if summaries is None else tuple(_summary(summary) for summary in summaries),
        key_metadata=value(519),
        first_row_id=value(520),
    )


def _summary(record: Record) -> PartitionFieldSummary:
    return PartitionFieldSummary(record[509], record.get(518), record.get(510), record.get(511))


def _counted(io: FileIO, manifest: ManifestFile) -> ManifestFile:
    """Lists of format 1 may leave counts out; then the manifest's own entries give them."""
    counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
    rows = (manifest.added_rows_count, manifest.existing_rows_count, manifest.deleted_rows_count)
    if None not in counts + rows:
        return manifest
    entries = list(read_manifest(io, manifest, {manifest.partition_spec_id: PartitionSpec(spec_id=manifest.partition_spec_id)}, with_metrics=False))
    files = {state: [entry.data_file.record_count for entry in entries if entry.status == state] for state in (EXISTING, ADDED, DELETED)}
    return replace(
        manifest,
        added_files_count=len(files[ADDED]),
        existing_files_count=len(files[EXISTING]),
        deleted_files_count=len(files[DELETED]),
        added_rows_count=sum(files[ADDED]),
        existing_rows_count=sum(files[EXISTING]),
        deleted_rows_count=sum(files[DELETED]),
    )
