"""Row lineage of rows that go into another file: they keep their ids, and the commit that last changed them unless it is this one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.format.lineage import ROW_ID_NAME, ROW_SEQUENCE_NAME
from lakewright.write.delta_rows import Positions
from lakewright.write.source_file import SourceFile


def carried_lineage(source: SourceFile, rows: pa.RecordBatch | pa.Table | None, start: int, count: int, changed: Positions) -> list[pa.Array]:
    """`_row_id` and `_last_updated_sequence_number` of `count` rows from position `start`; `changed` counts from there.

    rows: what the file has in these columns, None where it has neither. A file without a first row id is from before row
    lineage, or new itself: its rows have no ids yet and get them from this commit.
    """
    first = source.data_file.first_row_id
    row_ids = None if rows is None else _plain(source.own_lineage(rows, ROW_ID_NAME))
    if row_ids is None:
        row_ids = pa.nulls(count, pa.int64()) if first is None else pa.array(np.arange(first + start, first + start + count, dtype=np.int64))
    elif row_ids.null_count and first is not None:
        row_ids = pc.coalesce(row_ids, pa.array(np.arange(first + start, first + start + count, dtype=np.int64)))
    return [row_ids, _sequences(source, rows, row_ids, count, changed)]


def _sequences(source: SourceFile, rows: pa.RecordBatch | pa.Table | None, row_ids: pa.Array, count: int, changed: Positions) -> pa.Array:
    own = None if rows is None else _plain(source.own_lineage(rows, ROW_SEQUENCE_NAME))
    file_sequence = pa.scalar(None if source.target.is_new else source.scan.sequence_number, pa.int64())
    sequences = pa.repeat(file_sequence, count) if own is None else pc.coalesce(own, file_sequence) if own.null_count else own
    if not len(changed) and not row_ids.null_count:
        return sequences
    unknown = np.zeros(count, dtype=bool)
    unknown[changed] = True
    mask = pa.array(unknown)
    return pc.if_else(pc.or_(mask, row_ids.is_null()) if row_ids.null_count else mask, pa.scalar(None, pa.int64()), sequences)


def _plain(column: pa.Array | pa.ChunkedArray | None) -> pa.Array | None:
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column
