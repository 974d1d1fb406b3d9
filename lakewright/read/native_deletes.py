"""Applying deletes to a native scan: by position as `native_positions` does it, and by anti joins on the equality columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StructType

from lakewright.errors import CorruptFile
from lakewright.format.metadata import Metadata
from lakewright.quoting import quoted
from lakewright.read.deletes import DeleteFile, is_unpartitioned
from lakewright.read.layout import FILE, placeholder
from lakewright.read.native import scan_native
from lakewright.read.native_positions import without_positions
from lakewright.read.paths import reported_path, spark_path
from lakewright.read.prune import partition_key
from lakewright.read.scan import FileScan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SEQUENCE, SCOPE = "_lw_scope_sequence", "_lw_scope"


def equality_ids(files: Iterable[FileScan]) -> set[int]:
    return {i for file in files for delete in file.deletes for i in delete.data_file.equality_ids if not delete.is_position}


def dropped_fields(metadata: Metadata, schema: Schema, ids: Iterable[int]) -> list[NestedField]:
    """Columns that deletes compare and the schema no longer has, as the newest schema that had them says."""
    fields = []
    known = set(schema._lazy_id_to_field)
    for field_id in sorted(set(ids) - known):
        found = [f for s in metadata.schemas.values() for f in s.fields if f.field_id == field_id]
        if not found:
            raise CorruptFile(f"A delete file compares column {field_id}, which is in no schema of the table; compact the table with the engine that wrote it.")
        fields.append(NestedField(field_id, placeholder(field_id), found[-1].field_type, required=False))
    return fields


def apply_deletes(spark: SparkSession, io: FileIO, metadata: Metadata, files: Sequence[FileScan], schema: Schema, frame: DataFrame) -> DataFrame:
    """The rows that no delete file removes. The frame has FILE, POSITION and every column that deletes compare."""
    frame = without_positions(spark, io, files, frame)
    groups: dict[tuple[int, ...], dict[str, DeleteFile]] = defaultdict(dict)
    for delete in (d for file in files for d in file.deletes if not d.is_position):
        groups[tuple(sorted(delete.data_file.equality_ids))][delete.path] = delete
    if not groups:
        return frame
    scopes = _Scopes()
    scoped = frame.join(_broadcast(_file_scopes(spark, files, scopes)), frame[FILE] == _column("_lw_scope_of"), "left")
    for ids, deletes in groups.items():
        scoped = _without_equal(spark, io, metadata, list(deletes.values()), ids, schema, scopes, scoped)
    return scoped.drop(SEQUENCE, SCOPE, "_lw_scope_of")


class _Scopes:
    """Numbers for (spec, partition), so that a join compares one integer."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}

    def number(self, spec_id: int, partition: tuple[object, ...]) -> int:
        return self._numbers.setdefault((spec_id, partition_key(partition)), len(self._numbers))


def _file_scopes(spark: SparkSession, files: Sequence[FileScan], scopes: _Scopes) -> DataFrame:
    columns = {
        "_lw_scope_of": pa.array([_reported(spark, file.data_file.file_path) for file in files], pa.string()),
        SEQUENCE: pa.array([file.sequence_number for file in files], pa.int64()),
        SCOPE: pa.array([scopes.number(file.data_file.spec_id, file.data_file.partition) for file in files], pa.int64()),
    }
    return spark.createDataFrame(pa.table(columns))


def _without_equal(
    spark: SparkSession,
    io: FileIO,
    metadata: Metadata,
    deletes: Sequence[DeleteFile],
    ids: tuple[int, ...],
    schema: Schema,
    scopes: _Scopes,
    frame: DataFrame,
) -> DataFrame:
    """One anti join for each of: deletes that hold everywhere, and deletes that hold in their own partition."""
    paths = [path_to(schema, field_id) for field_id in ids]
    keys = Schema(*(f for f in schema.fields if f.name in {path[0] for path in paths}))
    everywhere = [d for d in deletes if is_unpartitioned(metadata.specs[d.data_file.spec_id])]
    local = [d for d in deletes if not is_unpartitioned(metadata.specs[d.data_file.spec_id])]
    for group, is_local in ((everywhere, False), (local, True)):
        if group:
            removed = _deleted_values(spark, io, metadata, group, keys, paths, scopes)
            same = [frame_column(path).eqNullSafe(_column(f"_lw_d{at}")) for at, path in enumerate(paths)]
            same.append(_column("_lw_d_sequence") > _column(SEQUENCE))
            if is_local:
                same.append(_column("_lw_d_scope") == _column(SCOPE))
            frame = frame.join(removed, reduce(lambda a, b: a & b, same), "left_anti")
    return frame


def _deleted_values(
    spark: SparkSession, io: FileIO, metadata: Metadata, deletes: Sequence[DeleteFile], keys: Schema, paths: list[list[str]], scopes: _Scopes
) -> DataFrame:
    """Each deleted value once per scope, with the newest sequence number it was deleted at."""
    from pyspark.sql import functions as F

    rows = scan_native(spark, io, metadata, [d.data_file for d in deletes], keys, place=(FILE,))
    lookup = pa.table(
        {
            "_lw_delete": pa.array([_reported(spark, d.path) for d in deletes], pa.string()),
            "_lw_d_at": pa.array([d.sequence_number for d in deletes], pa.int64()),
            "_lw_d_scope": pa.array([scopes.number(d.data_file.spec_id, d.data_file.partition) for d in deletes], pa.int64()),
        }
    )
    rows = rows.join(_broadcast(spark.createDataFrame(lookup)), F.col(FILE) == F.col("_lw_delete"))
    values = [frame_column(path).alias(f"_lw_d{at}") for at, path in enumerate(paths)]
    return rows.groupBy(*values, "_lw_d_scope").agg(F.max("_lw_d_at").alias("_lw_d_sequence"))


def path_to(schema: Schema, field_id: int) -> list[str]:
    """The names that lead to a field through structs."""

    def search(struct: StructType, found: list[str]) -> list[str] | None:
        for f in struct.fields:
            if f.field_id == field_id:
                return [*found, f.name]
            if isinstance(f.field_type, StructType) and (deeper := search(f.field_type, [*found, f.name])):
                return deeper
        return None

    names = search(schema.as_struct(), [])
    if names is None:
        raise CorruptFile(f"A delete file compares field {field_id}, which is inside a list or map; no reader can apply it.")
    return names


def frame_column(path: Sequence[str]) -> Column:
    return _column(".".join(quoted(name) for name in path))


def _column(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(name)


def _broadcast(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return F.broadcast(frame)


def _reported(spark: SparkSession, path: str) -> str:
    return reported_path(spark_path(spark, path))
