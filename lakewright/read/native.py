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
from lakewright.quoting import quoted
from lakewright.read.even_scans import even_scans
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
REPORTED_AS = {FILE: "file_path", POSITION: "row_index", FILE_SIZE: "file_size"}
METADATA = "_metadata"
UUID_TEXT = "$1-$2-$3-$4-$5"
UUID_PARTS = "^(.{8})(.{4})(.{4})(.{4})(.{12})$"


def scan_native(spark: SparkSession, io: FileIO, metadata: Metadata, files: Sequence[DataFile], schema: Schema, *, place: Sequence[str] = (), whole: bool = True) -> DataFrame:
    """The rows of the files in the columns of the schema. place: which of FILE, POSITION and FILE_SIZE to add, as Spark reports them.
    whole: all of the files is read, not few row groups that a filter leaves."""
    groups = _layouts(spark, io, metadata, files, schema)
    frames = [_scan(spark, metadata, share, schema, layout, place) for layout, members in groups for share in (even_scans(spark, members) if whole else [members])]
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


def _scan(spark: SparkSession, metadata: Metadata, files: Sequence[DataFile], schema: Schema, layout: Layout, place: Sequence[str]) -> DataFrame:
    struct = spark_struct(physical_struct(schema.as_struct(), layout), layout.by_id, nullable=True)
    frame = open_parquet(spark, [file.file_path for file in files], struct)
    places: Sequence[Column | str] = _places(frame, place) if place else []
    values, frame = _with_constants(spark, metadata, files, _constant_fields(metadata, files, schema, layout), frame)
    return _selected(frame, [*(_shown(f, layout, values.get(f.field_id)) for f in schema.fields), *places])


def _selected(frame: DataFrame, shown: Sequence[Column | str]) -> DataFrame:
    """Columns and expressions in SQL; all of them in SQL are one call for the driver, each Column is a dozen."""
    from pyspark.sql import functions as F

    texts = [one for one in shown if isinstance(one, str)]
    return frame.selectExpr(*texts) if len(texts) == len(shown) else frame.select(*(F.expr(one) if isinstance(one, str) else one for one in shown))


def _places(frame: DataFrame, place: Sequence[str]) -> list[Column] | list[str]:
    if any(name.lower() == METADATA for name in frame.columns):
        source = frame.metadataColumn(METADATA)
        return [source[REPORTED_AS[name]].alias(name) for name in place]
    return [f"{METADATA}.{REPORTED_AS[name]} AS {name}" for name in place]


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


def _shown(source: NestedField, layout: Layout, constant: Column | None) -> Column | str:
    """A column as the table shows it; in SQL where that says it all, which a comment on a renamed column is not."""
    from pyspark.sql import functions as F

    name = layout.names[source.field_id]
    if constant is None and _is_as_read(source, layout):
        if name == source.name:
            return quoted(name)
        if not source.doc:
            return f"{quoted(name)} AS {quoted(source.name)}"
    if constant is None and not source.doc and _is_float(source) and not _has_default(source, layout):
        return f"nanvl({quoted(name)}, CAST('NaN' AS {source.field_type})) AS {quoted(source.name)}"
    column = _exposed(F.col(quoted(name)), source, layout) if constant is None else constant
    return column.alias(source.name, metadata=_comment(source))


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
    joined = frame.join(F.broadcast(lookup), frame.metadataColumn("_metadata")[REPORTED_AS[FILE]] == F.col(key), "left")
    return {f.field_id: F.coalesce(F.col(names[f.field_id]).cast(spark_type(f.field_type)), _default(f)) for f in fields}, joined


def _exposed(column: Column, source: NestedField, layout: Layout) -> Column:
    """A column as it was read, as the table shows it."""
    from pyspark.sql import functions as F

    if _is_as_read(source, layout):
        return column
    if _has_default(source, layout):
        return _default(source)
    if _is_float(source):
        return F.nanvl(column, F.lit(float("nan")).cast(spark_type(source.field_type)))
    return _converted(column, source.field_type, layout)


def _is_float(source: NestedField) -> bool:
    return isinstance(source.field_type, (FloatType, DoubleType))


def _is_as_read(source: NestedField, layout: Layout) -> bool:
    return not _has_default(source, layout) and source.field_id not in layout.shielded and not _differs(source.field_type, layout)


def _has_default(source: NestedField, layout: Layout) -> bool:
    return source.field_id in layout.absent and source.initial_default is not None


def _differs(source: IcebergType, layout: Layout) -> bool:
    if isinstance(source, StructType):
        return any(
            layout.names[f.field_id] != f.name or _has_default(f, layout) or _differs(f.field_type, layout)
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
