"""A table's metadata as DataFrames: history, snapshots, files, partitions, manifests, entries, refs and runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.io import FileIO
from pyiceberg.types import PrimitiveType

from lakewright.format.data_file import DATA, POSITION_DELETES, DataFile, ManifestFile
from lakewright.format.manifests import read_manifest, read_manifest_list
from lakewright.format.metadata import Metadata, Snapshot
from lakewright.read.fileinfo import PartitionNames
from lakewright.read.scan import live_entries
from lakewright.read.values import internal_array

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakewright.commit.runs import RunRecord

CONTENTS = {0: "data", 1: "position deletes", 2: "equality deletes"}
MANIFEST_CONTENTS = {0: "data", 1: "deletes"}
WHEN = pa.timestamp("us", tz="UTC")
COUNTS = pa.map_(pa.string(), pa.int64())
TEXTS = pa.map_(pa.string(), pa.string())

HISTORY = pa.schema(
    [
        ("snapshot_id", pa.int64()),
        ("parent_id", pa.int64()),
        ("committed_at", WHEN),
        ("operation", pa.string()),
        ("summary", TEXTS),
        ("sequence_number", pa.int64()),
        ("schema_id", pa.int32()),
        ("is_current_ancestor", pa.bool_()),
    ]
)
SNAPSHOTS = pa.schema(
    [
        ("committed_at", WHEN),
        ("snapshot_id", pa.int64()),
        ("parent_id", pa.int64()),
        ("operation", pa.string()),
        ("manifest_list", pa.string()),
        ("summary", TEXTS),
    ]
)
ENTRIES = pa.schema(
    [
        ("status", pa.int32()),
        ("snapshot_id", pa.int64()),
        ("sequence_number", pa.int64()),
        ("file_sequence_number", pa.int64()),
        ("content", pa.string()),
        ("file_path", pa.string()),
        ("partition", pa.string()),
        ("record_count", pa.int64()),
        ("file_size_in_bytes", pa.int64()),
    ]
)
REFS = pa.schema(
    [
        ("name", pa.string()),
        ("type", pa.string()),
        ("snapshot_id", pa.int64()),
        ("max_reference_age_in_ms", pa.int64()),
        ("min_snapshots_to_keep", pa.int32()),
        ("max_snapshot_age_in_ms", pa.int64()),
    ]
)
FILES = pa.schema(
    [
        ("content", pa.string()),
        ("file_path", pa.string()),
        ("file_format", pa.string()),
        ("spec_id", pa.int32()),
        ("partition", pa.string()),
        ("record_count", pa.int64()),
        ("file_size_in_bytes", pa.int64()),
        ("snapshot_id", pa.int64()),
        ("sequence_number", pa.int64()),
        ("column_sizes", COUNTS),
        ("value_counts", COUNTS),
        ("null_value_counts", COUNTS),
        ("nan_value_counts", COUNTS),
        ("lower_bounds", TEXTS),
        ("upper_bounds", TEXTS),
        ("split_offsets", pa.list_(pa.int64())),
        ("equality_ids", pa.list_(pa.int32())),
        ("sort_order_id", pa.int32()),
        ("referenced_data_file", pa.string()),
    ]
)
PARTITIONS = pa.schema(
    [
        ("partition", pa.string()),
        ("spec_id", pa.int32()),
        ("record_count", pa.int64()),
        ("file_count", pa.int64()),
        ("total_data_file_size_in_bytes", pa.int64()),
        ("position_delete_record_count", pa.int64()),
        ("position_delete_file_count", pa.int64()),
        ("equality_delete_record_count", pa.int64()),
        ("equality_delete_file_count", pa.int64()),
        ("last_updated_at", WHEN),
        ("last_updated_snapshot_id", pa.int64()),
    ]
)
MANIFESTS = pa.schema(
    [
        ("content", pa.string()),
        ("path", pa.string()),
        ("length", pa.int64()),
        ("partition_spec_id", pa.int32()),
        ("added_snapshot_id", pa.int64()),
        ("sequence_number", pa.int64()),
        ("min_sequence_number", pa.int64()),
        ("added_files_count", pa.int64()),
        ("existing_files_count", pa.int64()),
        ("deleted_files_count", pa.int64()),
        ("added_rows_count", pa.int64()),
        ("existing_rows_count", pa.int64()),
        ("deleted_rows_count", pa.int64()),
        (
            "partition_summaries",
            pa.list_(
                pa.struct(
                    [
                        ("field", pa.string()),
                        ("contains_null", pa.bool_()),
                        ("contains_nan", pa.bool_()),
                        ("lower_bound", pa.string()),
                        ("upper_bound", pa.string()),
                    ]
                )
            ),
        ),
    ]
)
RUNS = pa.schema(
    [
        ("run_id", pa.string()),
        ("operation", pa.string()),
        ("state", pa.string()),
        ("started_at", WHEN),
        ("heartbeat_at", WHEN),
        ("finished_at", WHEN),
        ("token", pa.string()),
        ("branch", pa.string()),
        ("snapshot_id", pa.int64()),
        ("rows", pa.int64()),
        ("files", pa.int64()),
        ("error", pa.string()),
    ]
)


def history(spark: SparkSession, metadata: Metadata) -> DataFrame:
    """Every snapshot kept, oldest first; is_current_ancestor tells those of main's line from branches and what was rolled back."""
    head = metadata.head()
    line = {s.snapshot_id for s in metadata.ancestors(head.snapshot_id)} if head else set()
    rows = [
        (s.snapshot_id, s.parent_id, s.timestamp_ms * 1000, s.operation, list(s.summary.items()), s.sequence_number, s.schema_id, s.snapshot_id in line)
        for s in metadata.snapshots()
    ]
    return frame_of(spark, HISTORY, rows)


def snapshots(spark: SparkSession, metadata: Metadata) -> DataFrame:
    """Every snapshot kept, oldest first, with the columns other engines give it."""
    rows = [(s.timestamp_ms * 1000, s.snapshot_id, s.parent_id, s.operation, s.manifest_list, list(s.summary.items())) for s in metadata.snapshots()]
    return frame_of(spark, SNAPSHOTS, rows)


def refs(spark: SparkSession, metadata: Metadata) -> DataFrame:
    """Branches and tags."""
    keys = ("type", "snapshot-id", "max-ref-age-ms", "min-snapshots-to-keep", "max-snapshot-age-ms")
    return frame_of(spark, REFS, [(name, *(ref.get(key) for key in keys)) for name, ref in sorted(metadata.refs.items())])


def files(spark: SparkSession, io: FileIO, metadata: Metadata, snapshot: Snapshot | None = None) -> DataFrame:
    """Data and delete files of a snapshot (the head's unless given). Bounds are text, by column name."""
    names, types = _columns(metadata)
    partition = PartitionNames(metadata)

    def counts(values: dict[int, int]) -> list[tuple[str, int]]:
        return [(names[i], count) for i, count in values.items() if i in names]

    def bounds(values: dict[int, bytes]) -> list[tuple[str, str | None]]:
        return [(names[i], _readable(value, types[i])) for i, value in values.items() if i in types]

    rows = []
    for entry in live_entries(io, metadata, snapshot or metadata.head()):
        f = entry.data_file
        maps = (counts(f.column_sizes), counts(f.value_counts), counts(f.null_value_counts), counts(f.nan_value_counts))
        said = (CONTENTS[f.content], f.file_path, f.file_format.upper(), f.spec_id, partition.of(f), f.record_count, f.file_size_in_bytes)
        rest = (list(f.split_offsets), list(f.equality_ids), f.sort_order_id, f.referenced_data_file)
        rows.append((*said, entry.snapshot_id, entry.sequence_number, *maps, bounds(f.lower_bounds), bounds(f.upper_bounds), *rest))
    return frame_of(spark, FILES, rows)


def partitions(spark: SparkSession, io: FileIO, metadata: Metadata, snapshot: Snapshot | None = None) -> DataFrame:
    """One row per partition and spec, with what is in it and the commit that last added to it."""
    times = {s.snapshot_id: s.timestamp_ms for s in metadata.snapshots()}
    partition = PartitionNames(metadata)
    found: dict[tuple[str, int], list[int]] = {}
    latest: dict[tuple[str, int], tuple[int, int]] = {}
    for entry in live_entries(io, metadata, snapshot or metadata.head(), with_metrics=False):
        f = entry.data_file
        key = (partition.of(f), f.spec_id)
        _tally(found.setdefault(key, [0] * 7), f)
        if entry.snapshot_id in times:
            latest[key] = max(latest.get(key, (0, 0)), (times[entry.snapshot_id], entry.snapshot_id))
    rows = []
    for key in sorted(found):
        at, by = latest.get(key, (None, None))
        rows.append((*key, *found[key], None if at is None else at * 1000, by))
    return frame_of(spark, PARTITIONS, rows)


def manifests(spark: SparkSession, io: FileIO, metadata: Metadata, snapshot: Snapshot | None = None) -> DataFrame:
    """The manifests of a snapshot (the head's unless given)."""
    chosen = snapshot or metadata.head()
    return frame_of(spark, MANIFESTS, [_manifest(metadata, m) for m in (read_manifest_list(io, chosen.manifest_list) if chosen else ())])


def entries(spark: SparkSession, io: FileIO, metadata: Metadata, snapshot: Snapshot | None = None) -> DataFrame:
    """Every line of a snapshot's manifests; status 0: existing, 1: added, 2: deleted."""
    chosen = snapshot or metadata.head()
    partition = PartitionNames(metadata)
    rows = []
    for manifest in read_manifest_list(io, chosen.manifest_list) if chosen else ():
        for entry in read_manifest(io, manifest, metadata.specs, with_metrics=False):
            f = entry.data_file
            numbers = (entry.status, entry.snapshot_id, entry.sequence_number, entry.file_sequence_number)
            rows.append((*numbers, CONTENTS[f.content], f.file_path, partition.of(f), f.record_count, f.file_size_in_bytes))
    return frame_of(spark, ENTRIES, rows)


def runs(spark: SparkSession, records: Iterable[RunRecord]) -> DataFrame:
    """Runs by their records, as `commit.runs.list_runs` gives them."""

    def micros(millis: int | None) -> int | None:
        return None if millis is None else millis * 1000

    rows = [
        (
            r.run_id,
            r.operation,
            r.state,
            *map(micros, (r.started_ms, r.heartbeat_ms, r.finished_ms)),
            r.token,
            r.branch,
            r.snapshot_id,
            r.rows,
            r.files,
            r.error,
        )
        for r in records
    ]
    return frame_of(spark, RUNS, rows)


def _tally(counts: list[int], file: DataFile) -> None:
    """Add a file to: rows, files, bytes; then rows and files of position deletes and of equality deletes."""
    if file.content == DATA:
        counts[0] += file.record_count
        counts[1] += 1
        counts[2] += file.file_size_in_bytes
    else:
        at = 3 if file.content == POSITION_DELETES else 5
        counts[at] += file.record_count
        counts[at + 1] += 1


def _manifest(metadata: Metadata, m: ManifestFile) -> tuple[Any, ...]:
    _, types = _columns(metadata)
    summaries = []
    for field, summary in zip(metadata.specs[m.partition_spec_id].fields, m.partitions or (), strict=False):
        source = types.get(field.source_id)
        result = field.transform.result_type(source) if source is not None else None
        lower, upper = (_readable(bound, result) for bound in (summary.lower_bound, summary.upper_bound))
        summaries.append((field.name, summary.contains_null, summary.contains_nan, lower, upper))
    counts = (m.added_files_count, m.existing_files_count, m.deleted_files_count, m.added_rows_count, m.existing_rows_count, m.deleted_rows_count)
    numbers = (m.partition_spec_id, m.added_snapshot_id, m.sequence_number, m.min_sequence_number)
    return (MANIFEST_CONTENTS[m.content], m.manifest_path, m.manifest_length, *numbers, *counts, summaries)


def _columns(metadata: Metadata) -> tuple[dict[int, str], dict[int, PrimitiveType]]:
    """Names and types of all columns by id; of those dropped, what they last were."""
    names: dict[int, str] = {}
    types: dict[int, PrimitiveType] = {}
    for schema in (*metadata.schemas.values(), metadata.schema):
        for field_id, field in schema._lazy_id_to_field.items():
            names[field_id] = schema.find_column_name(field_id) or field.name
            if isinstance(field.field_type, PrimitiveType):
                types[field_id] = field.field_type
    return names, types


def _readable(bound: bytes | None, source: Any) -> str | None:
    """A bound as text; None where the bytes say nothing under this type."""
    if bound is None or source is None:
        return None
    try:
        value = internal_array([from_bytes(source, bound)], source)[0].as_py()
    except (ValueError, TypeError, ArithmeticError, pa.ArrowException):
        return None
    return value.hex() if isinstance(value, bytes) else str(value)


def frame_of(spark: SparkSession, schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=schema))
