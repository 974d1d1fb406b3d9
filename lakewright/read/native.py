"""Scans by Spark's own Parquet reader: the fastest way for rows that stay in the JVM."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, FloatType, IcebergType, ListType, MapType, NestedField, StructType, UUIDType

from lakewright.format.data_file import DataFile
from lakewright.format.metadata import Metadata
from lakewright.plan.types import spark_struct, spark_type
from lakewright.read.footers import file_schema, identity_value, layout_in, missing, name_mapping
from lakewright.read.layout import FILE, FILE_SIZE, POSITION, Layout, layout_by_id, layout_by_name, needs_footers, physical_struct
from lakewright.read.paths import reported_path, spark_path
from lakewright.read.values import internal_array
from lakewright.session import settings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FIELD_ID_READ = "spark.sql.parquet.fieldId.read.enabled"
LISTING_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
SPARK_LISTS_ITSELF = 32
FOOTER_READERS = 16
READ_OPTIONS = {
    "__globPaths__": "false",  # a name may hold * or [
    "recursiveFileLookup": "true",  # folders named col=value tell nothing here
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
UUID_TEXT = "$1-$2-$3-$4-$5"
UUID_PARTS = "^(.{8})(.{4})(.{4})(.{4})(.{12})$"


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def scan_native(spark: SparkSession, io: FileIO, metadata: Metadata, files: Sequence[DataFile], schema: Schema, *, with_position: bool = False) -> DataFrame:
    """The rows of the files in the columns of the schema; with_position adds FILE and FILE_SIZE (as Spark reports them) and POSITION."""
    groups = _layouts(spark, io, metadata, files, schema)
    frames = [_scan(spark, metadata, members, schema, layout, with_position) for layout, members in groups]
    return reduce(lambda left, right: left.unionAll(right), frames)


def _layouts(spark: SparkSession, io: FileIO, metadata: Metadata, files: Sequence[DataFile], schema: Schema) -> list[tuple[Layout, Sequence[DataFile]]]:
    if not needs_footers(metadata, schema):
        by_id = str(spark.conf.get(FIELD_ID_READ, "false")).lower() == "true"
        shared = layout_by_id(metadata, schema) if by_id else layout_by_name(metadata, schema)
        if shared is not None:
            return [(shared, files)]
    return _by_footer(io, metadata, files, schema)


def _by_footer(io: FileIO, metadata: Metadata, files: Sequence[DataFile], schema: Schema) -> list[tuple[Layout, Sequence[DataFile]]]:
    mapping = name_mapping(metadata)
    with ThreadPoolExecutor(FOOTER_READERS) as pool:
        physical = list(pool.map(lambda file: file_schema(io, file.file_path), files))
    groups: dict[object, tuple[Layout, list[DataFile]]] = {}
    for file, found in zip(files, physical, strict=True):
        layout = layout_in(file, found, schema, mapping)
        groups.setdefault(layout.key, (layout, []))[1].append(file)
    return [(layout, members) for layout, members in groups.values()]


def _scan(spark: SparkSession, metadata: Metadata, files: Sequence[DataFile], schema: Schema, layout: Layout, with_position: bool) -> DataFrame:
    from pyspark.sql import functions as F

    struct = spark_struct(physical_struct(schema.as_struct(), layout), layout.by_id, nullable=True)
    frame = open_parquet(spark, [file.file_path for file in files], struct)
    constant = _constant_fields(metadata, files, schema, layout)
    if with_position or constant:
        source = frame.metadataColumn("_metadata")
        frame = frame.withColumns({FILE: source["file_path"], POSITION: source["row_index"], FILE_SIZE: source["file_size"]})
    values, frame = _with_constants(spark, metadata, files, constant, frame)
    columns = [values.get(f.field_id, _exposed(F.col(quoted(layout.names[f.field_id])), f, layout)).alias(f.name, metadata=_comment(f)) for f in schema.fields]
    return frame.select(*columns, *((FILE, POSITION, FILE_SIZE) if with_position else ()))


def open_parquet(spark: SparkSession, paths: Sequence[str], struct: Any) -> DataFrame:
    from pyspark.errors import AnalysisException

    many = len(paths) > SPARK_LISTS_ITSELF
    try:
        with settings(spark, {LISTING_THRESHOLD: "1000000"}) if many else nullcontext():
            return spark.read.schema(struct).options(**READ_OPTIONS).parquet(*(spark_path(spark, path) for path in paths))
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise missing((error.getMessageParameters() or {}).get("path", str(error))) from error


def _comment(source: NestedField) -> dict[str, str]:
    return {"comment": source.doc} if source.doc else {}


def _constant_fields(metadata: Metadata, files: Sequence[DataFile], schema: Schema, layout: Layout) -> list[NestedField]:
    """Columns that files lack because their partition says it all, as in tables taken over from Hive."""
    if not layout.absent:
        return []
    identities = {f.source_id for file in files for f in metadata.specs[file.spec_id].fields if isinstance(f.transform, IdentityTransform)}
    return [f for f in schema.fields if f.field_id in layout.absent & identities]


def _with_constants(
    spark: SparkSession, metadata: Metadata, files: Sequence[DataFile], fields: Sequence[NestedField], frame: DataFrame
) -> tuple[dict[int, Column], DataFrame]:
    from pyspark.sql import functions as F

    if not fields:
        return {}, frame
    names = {f.field_id: f"_lw_constant_{f.field_id}" for f in fields}
    values = {names[f.field_id]: internal_array([identity_value(metadata, file, f.field_id) for file in files], f.field_type) for f in fields}
    key = "_lw_constants_of"
    lookup = spark.createDataFrame(pa.table({key: [reported_path(spark_path(spark, file.file_path)) for file in files], **values}))
    joined = frame.join(F.broadcast(lookup), F.col(FILE) == F.col(key), "left")
    return {f.field_id: F.coalesce(F.col(names[f.field_id]).cast(spark_type(f.field_type)), _default(f)) for f in fields}, joined


def _exposed(column: Column, source: NestedField, layout: Layout) -> Column:
    """A column as it was read, as the table shows it."""
    from pyspark.sql import functions as F

    shielded = source.field_id in layout.shielded
    if source.field_id in layout.absent and source.initial_default is not None:
        return _default(source)
    if isinstance(source.field_type, (FloatType, DoubleType)):
        nan = F.lit(float("nan")).cast(spark_type(source.field_type))
        return F.nanvl(column, nan) if shielded else column
    return _converted(column, source.field_type, layout) if shielded or _differs(source.field_type, layout) else column


def _differs(source: IcebergType, layout: Layout) -> bool:
    if isinstance(source, StructType):
        return any(
            layout.names[f.field_id] != f.name or (f.field_id in layout.absent and f.initial_default is not None) or _differs(f.field_type, layout)
            for f in source.fields
        )
    if isinstance(source, ListType):
        return _differs(source.element_type, layout)
    if isinstance(source, MapType):
        return _differs(source.key_type, layout) or _differs(source.value_type, layout)
    return isinstance(source, UUIDType)


def _converted(column: Column, source: IcebergType, layout: Layout) -> Column:
    from pyspark.sql import functions as F

    if isinstance(source, StructType):
        inner = [_exposed(column[layout.names[f.field_id]], f, layout).alias(f.name) for f in source.fields]
        return F.when(column.isNotNull(), F.struct(*inner))
    if not _differs(source, layout):
        return column
    if isinstance(source, ListType):
        return F.transform(column, lambda item: _converted(item, source.element_type, layout))
    if isinstance(source, MapType):
        keys = F.transform(F.map_keys(column), lambda item: _converted(item, source.key_type, layout))
        values = F.transform(F.map_values(column), lambda item: _converted(item, source.value_type, layout))
        return F.map_from_arrays(keys, values)
    return F.regexp_replace(F.lower(F.hex(column)), UUID_PARTS, UUID_TEXT)


def _default(source: NestedField) -> Column:
    from pyspark.sql import functions as F

    value = source.initial_default
    return F.lit(str(value) if isinstance(source.field_type, UUIDType) and value is not None else value).cast(spark_type(source.field_type))
