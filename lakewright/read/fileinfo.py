"""A small DataFrame with one row per data file, joined to rows by the file they come from: metadata columns, and the scope of deletes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from lakewright.errors import DuplicateColumn
from lakewright.format.data_file import DataFile
from lakewright.format.lineage import ROW_ID, ROW_ID_NAME, ROW_SEQUENCE, ROW_SEQUENCE_NAME
from lakewright.format.metadata import Metadata
from lakewright.format.paths import partition_path
from lakewright.quoting import quoted
from lakewright.read.layout import FILE, POSITION, placeholder
from lakewright.read.prune import partition_key
from lakewright.read.scan import FileScan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

METADATA_COLUMNS = {
    "_commit_id": "bigint",
    "_commit_time": "timestamp",
    ROW_ID_NAME: "bigint",
    ROW_SEQUENCE_NAME: "bigint",
    "_key": "string",
    "_partition": "string",
    "_spec_id": "int",
    "_file": "string",
    "_pos": "bigint",
}
KEY, PATH, SEQUENCE, SNAPSHOT, TIME, SPEC, PARTITION, FIRST_ROW = (
    f"_lw_info_{name}" for name in ("key", "path", "sequence", "snapshot", "time", "spec", "partition", "first_row")
)

COMMIT_SEQUENCE, COMMIT, COMMIT_TIME = (f"_lw_commit_{name}" for name in ("sequence", "id", "time"))


def lineage_fields(metadata: Metadata) -> list[NestedField]:
    """Row ids and sequence numbers that v3 files may hold for rows moved from other files."""
    if metadata.format_version < 3:
        return []
    return [NestedField(i, placeholder(i), LongType(), required=False) for i in (ROW_ID, ROW_SEQUENCE)]


def check_no_clash(schema: Schema, table: str | None) -> None:
    taken = {name.lower() for name in METADATA_COLUMNS}
    clash = next((f.name for f in schema.fields if f.name.lower() in taken), None)
    if clash is not None:
        raise DuplicateColumn(
            f"Column {clash!r} has the name of a metadata column, so metadata=True cannot add it. Rename it, or read without metadata.",
            table=table,
            column=clash,
        )


def with_file_info(spark: SparkSession, metadata: Metadata, files: Sequence[FileScan], frame: DataFrame, key: Callable[[str], str]) -> DataFrame:
    """The frame with what is known of each row's file. `key` turns a file's path into what FILE holds."""
    from pyspark.sql import functions as F

    frame = frame.join(F.broadcast(_file_info(spark, metadata, files, key)), F.col(FILE) == F.col(KEY), "left")
    if metadata.format_version < 3:
        return frame
    return frame.join(F.broadcast(_commits(spark, metadata)), F.col(placeholder(ROW_SEQUENCE)) == F.col(COMMIT_SEQUENCE), "left")


def metadata_values(metadata: Metadata, schema: Schema) -> list[Column]:
    """The columns of `metadata=True`, from a frame that went through `with_file_info`."""
    from pyspark.sql import functions as F

    row_id, sequence, commit, time = F.col(FIRST_ROW) + F.col(POSITION), F.col(SEQUENCE), F.col(SNAPSHOT), F.col(TIME)
    if metadata.format_version >= 3:
        is_older = F.col(placeholder(ROW_SEQUENCE)).isNotNull()  # than its file: it was copied there unchanged
        row_id = F.coalesce(F.col(placeholder(ROW_ID)), row_id)
        sequence = F.coalesce(F.col(placeholder(ROW_SEQUENCE)), sequence)
        commit, time = F.when(is_older, F.col(COMMIT)).otherwise(commit), F.when(is_older, F.col(COMMIT_TIME)).otherwise(time)
    values = (commit, time, row_id, sequence, _key(schema), F.col(PARTITION), F.col(SPEC), F.col(PATH), F.col(POSITION))
    return [value.alias(name) for name, value in zip(METADATA_COLUMNS, values, strict=True)]


class PartitionNames:
    """Partitions of files as their paths would have them: `region=eu/day=2020-01-01`, or nothing."""

    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata
        fields = {i: f for schema in (*metadata.schemas.values(), metadata.schema) for i, f in schema._lazy_id_to_field.items()}
        sources = {f.source_id for spec in metadata.specs.values() for f in spec.fields}
        # Columns since dropped included: their partitions keep their names.
        self._sources = Schema(*(NestedField(i, placeholder(i), fields[i].field_type if i in fields else StringType()) for i in sorted(sources)))
        self._known: dict[tuple[int, tuple[Any, ...]], str] = {}

    def of(self, file: DataFile) -> str:
        key = (file.spec_id, partition_key(file.partition))
        if key not in self._known:
            self._known[key] = partition_path(self.metadata.specs[file.spec_id], self._sources, file.partition)
        return self._known[key]


def _key(schema: Schema) -> Column:
    """The key of a row as text: the value itself, or `a:1,b:x` where several columns make it.

    A comma inside a value has a backslash before it, and so has a backslash, so that two keys never have the same text.
    """
    from pyspark.sql import functions as F

    names = [schema.find_column_name(i) or "" for i in schema.identifier_field_ids]
    if not names:
        return F.lit(None).cast("string")
    ordered = sorted(names, key=schema.column_names.index)
    values = [F.col(".".join(quoted(part) for part in name.split("."))).cast("string") for name in ordered]
    if len(values) == 1:
        return values[0]
    escaped = [F.regexp_replace(value, r"([\\,])", r"\\$1") for value in values]
    return F.concat_ws(",", *(F.concat(F.lit(f"{name}:"), value) for name, value in zip(ordered, escaped, strict=True)))


def _file_info(spark: SparkSession, metadata: Metadata, files: Sequence[FileScan], key: Callable[[str], str]) -> DataFrame:
    """A file's commit is that of its data sequence number, which a rewrite may have kept; files of format 1 have none."""
    commits = {snapshot.sequence_number: snapshot for snapshot in metadata.snapshots() if snapshot.sequence_number}
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots()}
    partitions = PartitionNames(metadata)
    data = [file.data_file for file in files]
    committed = [commits.get(file.sequence_number) if file.sequence_number else by_id.get(file.snapshot_id or 0) for file in files]
    columns = {
        KEY: pa.array([key(d.file_path) for d in data], pa.string()),
        PATH: pa.array([d.file_path for d in data], pa.string()),
        SEQUENCE: pa.array([file.sequence_number for file in files], pa.int64()),
        SNAPSHOT: pa.array([c and c.snapshot_id for c in committed], pa.int64()),
        TIME: pa.array([c and c.timestamp_ms * 1000 for c in committed], pa.int64()).cast(pa.timestamp("us", tz="UTC")),
        SPEC: pa.array([d.spec_id for d in data], pa.int32()),
        PARTITION: pa.array([partitions.of(d) for d in data], pa.string()),
        FIRST_ROW: pa.array([d.first_row_id for d in data], pa.int64()),
    }
    return spark.createDataFrame(pa.table(columns))


def _commits(spark: SparkSession, metadata: Metadata) -> DataFrame:
    """Snapshots by their sequence number, as far as the history is kept; those of format 1 have none of their own."""
    known = [snapshot for snapshot in metadata.snapshots() if snapshot.sequence_number]
    columns = {
        COMMIT_SEQUENCE: pa.array([snapshot.sequence_number for snapshot in known], pa.int64()),
        COMMIT: pa.array([snapshot.snapshot_id for snapshot in known], pa.int64()),
        COMMIT_TIME: pa.array([snapshot.timestamp_ms * 1000 for snapshot in known], pa.int64()).cast(pa.timestamp("us", tz="UTC")),
    }
    return spark.createDataFrame(pa.table(columns))
