"""Rows of a batch's keys, found by reading the key columns of files in this process, several files at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, TimestampType, TimestamptzType

from lakewright.format.data_file import DataFile
from lakewright.format.lineage import ROW_ID_NAME
from lakewright.format.storage import threads_for
from lakewright.keys.at_hand.key_codes import KeyPlaces, Numbers
from lakewright.keys.index.ranges import bounds, comparable
from lakewright.plan.delta import DeltaPlan
from lakewright.read.arrow_scan import DeletedRows
from lakewright.write.arrow_rows import file_schema
from lakewright.write.source_file import SourceFile

Flags = np.ndarray[Any, np.dtype[np.bool_]]
ROWS_AT_ONCE = 262_144
TIMES, BYTES_OF_TIME = (TimestampType, TimestamptzType), 8
NONE: Numbers = np.empty(0, np.int64)


@dataclass(frozen=True)
class Wanted:
    """The keys to find, what records are ordered by, and the columns of the table for both."""

    places: KeyPlaces
    order: Sequence[pa.Array]
    key_columns: Schema
    order_columns: Schema
    has_row_ids: bool

    @cached_property
    def least_order(self) -> Any:
        """What no record is before, as bounds of files are compared; None where that cannot be told."""
        if len(self.order) != 1 or self.order[0].null_count or not len(self.order[0]):
            return None
        kind, least = self.order_columns.fields[0].field_type, pc.min(self.order[0])
        plain = pa.int64() if isinstance(kind, TIMES) else pa.int32() if isinstance(kind, DateType) else least.type
        return comparable(least.cast(plain).as_py(), kind)

    def is_newer(self, file: DataFile) -> bool:
        """Whether all rows of a file are before every record, as its bounds say: then none has to be asked."""
        if not self.order:
            return True
        field = self.order_columns.fields[0]
        found = bounds(file, field.field_id, field.field_type) if self.least_order is not None else None
        if found is None or (isinstance(field.field_type, TIMES) and len(file.upper_bounds[field.field_id]) != BYTES_OF_TIME):  # those of a date since promoted
            return False
        return bool(found[1] <= self.least_order)


@dataclass(frozen=True)
class Matches:
    """Live rows that have a key of the batch: the number of their target, their place in its file, their record, and whether that is not late."""

    targets: Numbers
    positions: Numbers
    records: Numbers
    row_ids: pa.Array
    is_fresh: Flags

    def __len__(self) -> int:
        return len(self.positions)


def columns_of(schema: Schema, names: Sequence[str]) -> Schema:
    """These columns as they are read: whatever a file holds, and defaults where it holds nothing."""
    return Schema(*(schema.find_field(name).model_copy(update={"required": False}) for name in names))


def find_rows(io: FileIO, plan: DeltaPlan, wanted: Wanted) -> Matches:
    """The matches in all targets of the plan, in their order."""
    deletes = DeletedRows(io, plan.read)
    deletes.load(target.file.scan for target in plan.files)
    with ThreadPoolExecutor(threads_for(plan.write.data_prefix)) as pool:
        found = pool.map(lambda number: list(_in_file(io, plan, number, wanted, deletes)), range(len(plan.files)))
        return _joined([matches for of_file in found for matches in of_file])


def _in_file(io: FileIO, plan: DeltaPlan, number: int, wanted: Wanted, deletes: DeletedRows) -> Iterator[Matches]:
    with SourceFile(io, plan, plan.files[number], deletes) as source:
        for group, start in source.groups():
            rows, records = _in_group(source, group, wanted)
            if len(rows) and len(gone := source.deleted_in(group, start)):
                live = ~np.isin(rows, gone)
                rows, records = rows[live], records[live]
            if len(rows):
                yield Matches(np.full(len(rows), number), rows + start, records, _row_ids(source, group, rows, start, wanted), _fresh(source, group, rows, records, wanted))


def _in_group(source: SourceFile, group: int, wanted: Wanted) -> tuple[Numbers, Numbers]:
    """Rows of a row group that have a key of the batch, and their records, in pieces, so that memory is used again."""
    types, at = file_schema(wanted.key_columns), 0
    rows, records = [NONE], [NONE]
    for batch in source.pieces(group, wanted.key_columns, types, ROWS_AT_ONCE):
        found, whose = wanted.places.find(batch.columns)
        rows.append(found + at)
        records.append(whose)
        at += batch.num_rows
    return np.concatenate(rows), np.concatenate(records)


def _fresh(source: SourceFile, group: int, rows: Numbers, records: Numbers, wanted: Wanted) -> Flags:
    if wanted.is_newer(source.data_file):
        return np.ones(len(rows), dtype=bool)
    old = source.rows_at(group, rows, wanted.order_columns, file_schema(wanted.order_columns))
    return is_not_late([column.take(pa.array(records)) for column in wanted.order], old.columns, len(rows))


def _row_ids(source: SourceFile, group: int, rows: Numbers, start: int, wanted: Wanted) -> pa.Array:
    first = source.data_file.first_row_id
    given = pa.nulls(len(rows), pa.int64()) if first is None or not wanted.has_row_ids else pa.array(rows + (start + first))
    if not wanted.has_row_ids or ROW_ID_NAME not in source.lineage_names:
        return given
    stored = source.column(group, source.lineage_names[ROW_ID_NAME]).take(pa.array(rows)).combine_chunks().cast(pa.int64())
    return pc.coalesce(stored, given)


def _joined(parts: list[Matches]) -> Matches:
    targets, positions, records = (np.concatenate([NONE, *(getattr(part, name) for part in parts)]) for name in ("targets", "positions", "records"))
    row_ids = pa.concat_arrays([pa.array([], pa.int64()), *(part.row_ids for part in parts)])
    return Matches(targets, positions, records, row_ids, np.concatenate([np.empty(0, dtype=bool), *(part.is_fresh for part in parts)]))


def is_not_late(new: Sequence[pa.Array], old: Sequence[pa.Array], count: int) -> Flags:
    """Whether each of `count` new values is at least the old one, column by column; null is before all else."""
    result: Flags = np.ones(count, dtype=bool)
    for mine, theirs in reversed(list(zip(new, old, strict=True))):
        after = _said(pc.and_(theirs.is_null(), mine.is_valid())) | _said(pc.greater(mine, theirs))
        same = _said(pc.and_(theirs.is_null(), mine.is_null())) | _said(pc.equal(mine, theirs))
        result = after | (same & result)
    return result


def _said(answers: pa.BooleanArray) -> Flags:
    said: Flags = answers.fill_null(False).to_numpy(zero_copy_only=False)
    return said
