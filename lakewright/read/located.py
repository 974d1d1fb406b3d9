"""The live rows of chosen files together with where each one is: what a delta is computed from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from lakewright.format.lineage import ROW_ID
from lakewright.format.metadata import Metadata
from lakewright.quoting import quoted
from lakewright.read.arrow_frame import scan_arrow
from lakewright.read.frame import AUTO, split_by_engine
from lakewright.read.layout import FILE, FILE_SIZE, POSITION, placeholder
from lakewright.read.native import scan_native
from lakewright.read.native_deletes import apply_deletes, dropped_fields, equality_ids
from lakewright.read.paths import reported_path, spark_path
from lakewright.read.scan import FileScan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STORED_ROW_ID = placeholder(ROW_ID)


def located_rows(spark: SparkSession, io: FileIO, metadata: Metadata, files: Sequence[FileScan], schema: Schema, *, row_ids: bool) -> tuple[DataFrame, dict[str, str]]:
    """The rows with FILE and POSITION, and what FILE says for each path. row_ids adds STORED_ROW_ID, null where the file has none.

    All columns are there; Spark reads those that are used.
    """
    native, arrow = split_by_engine(spark, files, AUTO)
    extra = [NestedField(ROW_ID, STORED_ROW_ID, LongType(), required=False)] if row_ids else []
    columns = [quoted(f.name) for f in (*schema.fields, *extra)]
    frames = []
    for deleted in (False, True):
        group = [file for file in native if bool(file.deletes) is deleted]
        if group:
            wide = Schema(*schema.fields, *extra, *(dropped_fields(metadata, schema, equality_ids(group)) if deleted else ()), schema_id=schema.schema_id)
            place = (FILE, POSITION, FILE_SIZE) if deleted else (FILE, POSITION)
            frame = scan_native(spark, io, metadata, [file.data_file for file in group], wide, place=place)
            frames.append(apply_deletes(spark, io, metadata, group, wide, frame).select(*columns, FILE, POSITION) if deleted else frame)
    if arrow:
        wide = Schema(*schema.fields, *extra, schema_id=schema.schema_id)
        frames.append(scan_arrow(spark, io, metadata, arrow, wide, with_position=True).select(*columns, FILE, POSITION))
    names = {f.data_file.file_path: reported_path(spark_path(spark, f.data_file.file_path)) for f in native}
    names.update({f.data_file.file_path: f.data_file.file_path for f in arrow})
    return reduce(lambda left, right: left.unionAll(right), frames), names
