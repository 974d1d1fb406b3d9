"""A scan as a DataFrame, read by Spark itself or by Arrow in Python tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from lakewright.errors import UnsupportedOperation
from lakewright.format.metadata import Metadata
from lakewright.plan.types import spark_struct
from lakewright.quoting import quoted
from lakewright.read.arrow_frame import scan_arrow
from lakewright.read.fileinfo import METADATA_COLUMNS, check_no_clash, lineage_fields, metadata_values, with_file_info
from lakewright.read.layout import FILE, FILE_SIZE, POSITION
from lakewright.read.native import scan_native
from lakewright.read.native_deletes import apply_deletes, dropped_fields, equality_ids
from lakewright.read.paths import is_hidden, reported_path, spark_path, spark_reaches
from lakewright.read.scan import FileScan, Scan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

AUTO, NATIVE, ARROW = "auto", "native", "arrow"
FEW = 4  # times as many rows in files with deletes as in those without


def to_dataframe(
    spark: SparkSession,
    io: FileIO,
    metadata: Metadata,
    scan: Scan,
    *,
    schema: Schema | None = None,
    where: str | Column | None = None,
    metadata_columns: bool = False,
    engine: str = AUTO,
    table: str | None = None,
    whole: bool = True,
) -> DataFrame:
    """The rows of a planned scan, in the columns of `schema` (the current one unless given), filtered by `where`.

    engine: `native` reads with Spark, `arrow` in Python tasks; `auto` takes Spark for every file Spark can open.
    whole: all of the files is read, not few row groups that a filter leaves.
    """
    schema = schema or metadata.schema
    if metadata_columns:
        check_no_clash(schema, table)
    native, arrow = split_by_engine(spark, scan.files, engine)
    frames = _native_frames(spark, io, metadata, native, schema, metadata_columns, whole)
    if arrow:
        frames.append(_arrow_frame(spark, io, metadata, arrow, schema, metadata_columns))
    frame = reduce(lambda left, right: left.unionAll(right), frames) if frames else _empty(spark, schema, metadata_columns)
    return frame if where is None else frame.where(where)


def split_by_engine(spark: SparkSession, files: Sequence[FileScan], engine: str) -> tuple[list[FileScan], list[FileScan]]:
    """Which files Spark reads and which Arrow reads."""
    if engine == ARROW:
        return [], list(files)
    reached: dict[str, bool] = {}
    native: list[FileScan] = []
    arrow: list[FileScan] = []
    for file in files:
        path = file.data_file.file_path
        root = path.split("/", 3)[0]
        if root not in reached:
            reached[root] = spark_reaches(spark, path)
        (native if reached[root] and not is_hidden(path) else arrow).append(file)
    if engine == NATIVE and arrow:
        path = arrow[0].data_file.file_path
        raise UnsupportedOperation(f"Spark cannot read {path}: it has no file system for it, or passes over its name. Read with engine='arrow' or 'auto'.")
    return native, arrow


def _native_frames(spark: SparkSession, io: FileIO, metadata: Metadata, files: Sequence[FileScan], schema: Schema, metadata_columns: bool, whole: bool) -> list[DataFrame]:
    lineage = lineage_fields(metadata) if metadata_columns else []
    frames = []
    for deleted, group in _by_deletes(files).items():
        extra = [*lineage, *(dropped_fields(metadata, schema, equality_ids(group)) if deleted else ())]
        wide = Schema(*schema.fields, *extra, schema_id=schema.schema_id)
        place = (FILE, POSITION, FILE_SIZE) if deleted or metadata_columns else ()
        frame = scan_native(spark, io, metadata, [file.data_file for file in group], wide, place=place, whole=whole)
        if deleted:
            frame = apply_deletes(spark, io, metadata, group, wide, frame)
        is_shown = not (extra or deleted or metadata_columns)
        frames.append(frame if is_shown else _shown(spark, metadata, group, schema, frame, metadata_columns))
    return frames


def _by_deletes(files: Sequence[FileScan]) -> dict[bool, list[FileScan]]:
    """Files that deletes apply to, and others, for which it need not be asked where a row stands; together where these others are few, since a scan costs more to plan than they do to read."""
    groups: dict[bool, list[FileScan]] = defaultdict(list)
    for file in files:
        groups[bool(file.deletes)].append(file)
    if len(groups) == 2 and _rows(groups[False]) * FEW <= _rows(groups[True]) and not equality_ids(files):
        return {True: list(files)}
    return groups


def _rows(files: Sequence[FileScan]) -> int:
    return sum(file.data_file.record_count for file in files)


def _shown(spark: SparkSession, metadata: Metadata, files: Sequence[FileScan], schema: Schema, frame: DataFrame, metadata_columns: bool) -> DataFrame:
    names = [quoted(f.name) for f in schema.fields]
    if not metadata_columns:
        return frame.selectExpr(*names)
    frame = with_file_info(spark, metadata, files, frame, lambda path: reported_path(spark_path(spark, path)))
    return frame.select(*names, *metadata_values(metadata, schema))


def _arrow_frame(spark: SparkSession, io: FileIO, metadata: Metadata, files: Sequence[FileScan], schema: Schema, metadata_columns: bool) -> DataFrame:
    wide = Schema(*schema.fields, *(lineage_fields(metadata) if metadata_columns else ()), schema_id=schema.schema_id)
    frame = scan_arrow(spark, io, metadata, files, wide, with_position=metadata_columns)
    if not metadata_columns:
        return frame
    frame = with_file_info(spark, metadata, files, frame, lambda path: path)
    return frame.select(*(quoted(f.name) for f in schema.fields), *metadata_values(metadata, schema))


def _empty(spark: SparkSession, schema: Schema, metadata_columns: bool) -> DataFrame:
    from pyspark.sql import functions as F

    frame = spark.createDataFrame([], spark_struct(schema.as_struct(), nullable=True))
    if not metadata_columns:
        return frame
    return frame.select("*", *(F.lit(None).cast(kind).alias(name) for name, kind in METADATA_COLUMNS.items()))
