"""The rows of images as a DataFrame, and what became of each: inserted, updated or deleted.

All steps of a range go through one plan, each row with the number of its step, so that a long range costs no more to plan than a
short one. A file is read once for every set of deletes it is looked at with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from lakewright.format.lineage import ROW_ID, ROW_SEQUENCE
from lakewright.format.metadata import Metadata
from lakewright.plan.types import spark_struct
from lakewright.quoting import quoted
from lakewright.read.change_files import Image, by_step, sides
from lakewright.read.deleted_bits import CHUNK_BITS
from lakewright.read.fileinfo import lineage_fields
from lakewright.read.layout import FILE, POSITION, placeholder
from lakewright.read.located import located_rows
from lakewright.read.native_deletes import frame_column, path_to
from lakewright.read.native_positions import BITS, CHUNKS, NUMBER, OF, chunks_of, is_set
from lakewright.read.scan import FileScan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

CHANGE_TYPE, CHANGE_ORDINAL, COMMIT_SNAPSHOT_ID = "_change_type", "_change_ordinal", "_commit_snapshot_id"
LOG_COLUMNS = {CHANGE_TYPE: "string", CHANGE_ORDINAL: "int", COMMIT_SNAPSHOT_ID: "bigint"}
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = "insert", "update_before", "update_after", "delete"
STEP, AFTER, ROW, SEQUENCE, FIRST_ROW, FILE_SEQUENCE, USES, PICK_OF, NET, TWIN = (
    f"_lw_change_{name}" for name in ("step", "after", "row", "sequence", "first_row", "file_sequence", "uses", "pick_of", "net", "twin")
)


@dataclass
class _Read:
    """One file with one set of deletes, and the images it gives."""

    file: FileScan
    images: list[Image] = field(default_factory=list)


def changed_rows(spark: SparkSession, io: FileIO, metadata: Metadata, images: Sequence[Image], schema: Schema, *, small: Container[int] = ()) -> DataFrame:
    """The rows that differ, with CHANGE_TYPE and STEP. Rows of a key are one row; without a key, those of a row id; else all are equal in rank.

    Where all rows of a step are of one side there is nothing to compare. small: steps known to change so few rows that their ids fit
    every task; with lineage, the rows that such a step only copied are then left out before any is moved between tasks.
    """
    groups: dict[tuple[bool, bool, bool], list[Image]] = defaultdict(list)
    for own in by_step(images):
        two_sided = len(sides(own)) > 1
        has_row_ids = two_sided and all(image.has_row_ids for image in own)
        is_traced = has_row_ids and own[0].step in small
        groups[two_sided, has_row_ids and (is_traced or not schema.identifier_field_ids), is_traced].extend(own)
    frames = []
    for (two_sided, row_ids, is_traced), some in groups.items():
        rows = _rows(spark, io, metadata, some, schema, row_ids=row_ids)
        frames.append(_compared(_without_copies(rows) if is_traced else rows, schema) if two_sided else _alone(rows))
    names = [*(quoted(f.name) for f in schema.fields), CHANGE_TYPE, STEP]
    return reduce(lambda left, right: left.unionAll(right), (frame.select(*names) for frame in frames)) if frames else _nothing(spark, schema)


def key_columns(schema: Schema) -> list[Column]:
    return [frame_column(path_to(schema, field_id)) for field_id in sorted(schema.identifier_field_ids)]


def _alone(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.withColumn(CHANGE_TYPE, F.when(_column(AFTER), INSERT).otherwise(DELETE))


def _without_copies(rows: DataFrame) -> DataFrame:
    """Without rows that have the same id and were last changed by the same commit before and after."""
    from pyspark.sql import functions as F

    lineage = [STEP, ROW, SEQUENCE]
    changed = rows.groupBy(*lineage).agg(_net().alias(NET)).where(f"{NET} <> 0").select(*lineage)
    return rows.join(F.broadcast(changed), lineage, "left_semi")


def _compared(rows: DataFrame, schema: Schema) -> DataFrame:
    """What is the same before and after cancels out, copies counted; what is left of one key or row id on both sides is an update."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    values = [quoted(f.name) for f in schema.fields]
    own = [ROW] if ROW in rows.columns and not schema.identifier_field_ids else []
    identity = [_column(name) for name in own] or key_columns(schema)
    net = rows.groupBy(STEP, *own, *values).agg(_net().alias(NET)).where(f"{NET} <> 0")
    left = net.withColumn(AFTER, _column(NET) > 0).withColumn(TWIN, F.explode(F.sequence(F.lit(1), F.abs(NET).cast("int"))))
    if not identity:
        return _alone(left)
    ordered = Window.partitionBy(STEP, AFTER, *identity).orderBy(TWIN)
    left = left.withColumn(TWIN, F.row_number().over(ordered))
    is_update = F.count(F.lit(1)).over(Window.partitionBy(STEP, TWIN, *identity)) == 2
    on_side = [F.when(_column(AFTER), after).otherwise(before) for after, before in ((UPDATE_AFTER, UPDATE_BEFORE), (INSERT, DELETE))]
    return left.withColumn(CHANGE_TYPE, F.when(is_update, on_side[0]).otherwise(on_side[1]))


def _net() -> Column:
    """By how many more rows there are after than before."""
    from pyspark.sql import functions as F

    return F.sum(F.when(_column(AFTER), 1).otherwise(-1))


def _rows(spark: SparkSession, io: FileIO, metadata: Metadata, images: Sequence[Image], schema: Schema, *, row_ids: bool = False) -> DataFrame:
    """The rows with STEP and AFTER; with ROW and SEQUENCE where their ids are asked for."""
    whole = [image for image in images if image.only is None]
    picked = [image for image in images if image.only is not None]
    frames = [_round(spark, io, metadata, reads, schema, is_whole, row_ids) for is_whole, some in ((True, whole), (False, picked)) for reads in _rounds(some)]
    return reduce(lambda left, right: left.unionAll(right), frames)


def _rounds(images: Iterable[Image]) -> list[list[_Read]]:
    """Reads in which no file is twice: a file by its name tells which images a row belongs to.

    Deletes by value hold for every older file of a scan, so only images of one state of the table may be read together with them.
    """
    states: dict[tuple[int, bool] | None, dict[str, list[_Read]]] = defaultdict(lambda: defaultdict(list))
    for image in images:
        by_value = any(not delete.is_position for delete in image.file.deletes)
        reads = states[(image.step, image.is_after) if by_value else None][image.path]
        read = next((read for read in reads if read.file.deletes == image.file.deletes), None)
        if read is None:
            read = _Read(image.file)
            reads.append(read)
        read.images.append(image)
    rounds = ([reads[at] for reads in files.values() if at < len(reads)] for files in states.values() for at in range(max(map(len, files.values()))))
    return list(rounds)


def _round(spark: SparkSession, io: FileIO, metadata: Metadata, reads: Sequence[_Read], schema: Schema, is_whole: bool, row_ids: bool) -> DataFrame:
    from pyspark.sql import functions as F

    wide = Schema(*schema.fields, *(lineage_fields(metadata) if row_ids else ()), schema_id=schema.schema_id)
    rows, names = located_rows(spark, io, metadata, [read.file for read in reads], wide, row_ids=False)
    known = F.broadcast(_lookup(spark, reads, names))
    if is_whole:
        rows = rows.join(known, _column(FILE) == _column(OF)).withColumn(USES, F.explode(USES)).select("*", f"{USES}.{STEP}", f"{USES}.{AFTER}")
    else:
        picks = F.broadcast(_picked(spark, reads, names))
        same = F.xxhash64(FILE).bitwiseXOR(F.shiftright(POSITION, CHUNK_BITS)) == F.xxhash64(PICK_OF).bitwiseXOR(_column(NUMBER))
        same_file = _column(FILE).startswith(_column(PICK_OF)) & _column(PICK_OF).startswith(_column(FILE))  # no second join key
        rows = rows.join(picks, same & is_set(_column(POSITION)) & same_file).join(known, _column(FILE) == _column(OF))
    lineage = []
    if row_ids:
        row_id = F.coalesce(_column(placeholder(ROW_ID)), _column(FIRST_ROW) + _column(POSITION))
        lineage = [row_id.alias(ROW), F.coalesce(_column(placeholder(ROW_SEQUENCE)), _column(FILE_SEQUENCE)).alias(SEQUENCE)]
    return rows.select(*(quoted(f.name) for f in schema.fields), STEP, AFTER, *lineage)


def _lookup(spark: SparkSession, reads: Sequence[_Read], names: dict[str, str]) -> DataFrame:
    use = pa.struct([(STEP, pa.int32()), (AFTER, pa.bool_())])
    columns = {
        OF: pa.array([names[read.file.data_file.file_path] for read in reads], pa.string()),
        FIRST_ROW: pa.array([read.file.data_file.first_row_id for read in reads], pa.int64()),
        FILE_SEQUENCE: pa.array([read.file.sequence_number for read in reads], pa.int64()),
        USES: pa.array([[{STEP: image.step, AFTER: image.is_after} for image in read.images] for read in reads], pa.list_(use)),
    }
    return spark.createDataFrame(pa.table(columns))


def _picked(spark: SparkSession, reads: Sequence[_Read], names: dict[str, str]) -> DataFrame:
    """Bitmaps of the positions that each image is of."""
    tables = []
    for image in (image for read in reads for image in read.images):
        assert image.only is not None
        chunks = pa.Table.from_batches(chunks_of(names[image.path], image.only), CHUNKS).rename_columns([PICK_OF, NUMBER, BITS])
        own = {STEP: pa.array([image.step] * len(chunks), pa.int32()), AFTER: pa.array([image.is_after] * len(chunks), pa.bool_())}
        tables.append(pa.table({**dict(zip(chunks.column_names, chunks.columns, strict=True)), **own}))
    return spark.createDataFrame(pa.concat_tables(tables))


def _nothing(spark: SparkSession, schema: Schema) -> DataFrame:
    from pyspark.sql.types import IntegerType, StringType, StructField, StructType

    shown = spark_struct(schema.as_struct(), nullable=True).fields
    return spark.createDataFrame([], StructType([*shown, StructField(CHANGE_TYPE, StringType()), StructField(STEP, IntegerType())]))


def _column(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(name)
