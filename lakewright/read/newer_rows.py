"""Rows of a file that were changed after a commit, told by their lineage; row groups without any are not read."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from lakewright.format.lineage import ROW_SEQUENCE
from lakewright.read.arrow_scan import ArrowFile, ArrowRead, DeletedRows, RowGroups, read_batches
from lakewright.read.layout import field_id_of, placeholder
from lakewright.read.parquet import opened

SEQUENCE = NestedField(ROW_SEQUENCE, placeholder(ROW_SEQUENCE), LongType(), required=False)


def with_sequence(schema: Schema) -> Schema:
    """The columns, and the sequence number of the commit that last changed a row; null is that of the file."""
    return Schema(*schema.fields, SEQUENCE, schema_id=schema.schema_id)


def newer_part(io: FileIO, path: str, newer_than: int) -> RowGroups:
    """What of a data file may have rows that were changed after a sequence number."""
    with opened(io, path) as parquet:
        return RowGroups(parquet.metadata, newer_groups(parquet, newer_than))


def newer_rows(io: FileIO, read: ArrowRead, file: ArrowFile, newer_than: int, deletes: DeletedRows, part: RowGroups) -> Iterator[pa.RecordBatch]:
    """The live rows of a part of a file, itself newer than that, which were changed after a sequence number; the read is one `with_sequence`."""
    for batch in read_batches(io, read, file, deletes, part):
        own = batch.column(SEQUENCE.name)
        yield batch if own.null_count == len(own) else batch.filter(pc.or_(own.is_null(), pc.fill_null(pc.greater(own, newer_than), False)))


def newer_groups(parquet: pq.ParquetFile, newer_than: int) -> list[int]:
    """The row groups but those that say by their statistics that they hold nothing newer."""
    name = next((f.name for f in parquet.schema_arrow if field_id_of(f) == ROW_SEQUENCE), None)
    footer = parquet.metadata
    place = next((at for at in range(footer.num_columns) if footer.schema.column(at).path == name), None)
    return [group for group in range(footer.num_row_groups) if _may_be_newer(footer.row_group(group), place, newer_than)]


def _may_be_newer(group: pq.RowGroupMetaData, place: int | None, newer_than: int) -> bool:
    told = group.column(place).statistics if place is not None else None
    if told is None or not told.has_null_count or told.null_count or not told.has_min_max:
        return True
    return bool(told.max > newer_than)
