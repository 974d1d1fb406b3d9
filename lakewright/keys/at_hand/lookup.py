"""Rows of a batch's keys, found by reading the key columns of files in this process, several files at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from lakewright.format.lineage import ROW_ID_NAME
from lakewright.keys.at_hand.key_codes import KeyPlaces, Numbers
from lakewright.plan.delta import DeltaPlan, TargetFile
from lakewright.read.arrow_scan import DeletedRows
from lakewright.read.prune import optional_schema
from lakewright.write.arrow_rows import file_schema
from lakewright.write.delta_here import threads_for
from lakewright.write.source_file import SourceFile

Flags = np.ndarray[Any, np.dtype[np.bool_]]

@dataclass(frozen=True)
class Wanted:
    """What is read of the table: its key columns, and for the rows found the columns that order records."""

    places: KeyPlaces
    key: Schema
    order: Schema
    has_row_ids: bool


@dataclass(frozen=True)
class Matches:
    """Live rows that have a key of the batch: the number of their target, their place in its file, their record, and what they are ordered by."""

    targets: Numbers
    positions: Numbers
    records: Numbers
    row_ids: pa.Array
    order: tuple[pa.Array, ...]

    def __len__(self) -> int:
        return len(self.positions)


def columns_of(schema: Schema, names: Sequence[str]) -> Schema:
    return optional_schema(Schema(*(schema.find_field(name) for name in names)))


def find_rows(io: FileIO, plan: DeltaPlan, wanted: Wanted) -> Matches:
    """The matches in all targets of the plan, in their order."""
    deletes = DeletedRows(io, plan.read)
    deletes.load(target.file.scan for target in plan.files)
    with ThreadPoolExecutor(threads_for(plan.write.data_prefix)) as pool:
        found = pool.map(lambda numbered: list(_in_file(io, plan, *numbered, wanted, deletes)), enumerate(plan.files))
        return _joined([matches for of_file in found for matches in of_file], wanted)


def _in_file(io: FileIO, plan: DeltaPlan, number: int, target: TargetFile, wanted: Wanted, deletes: DeletedRows) -> Iterator[Matches]:
    key_types, order_types = file_schema(wanted.key), file_schema(wanted.order)
    with SourceFile(io, plan, target, deletes) as source:
        for group, start in source.groups():
            rows, records = wanted.places.find(source.whole_columns(group, wanted.key, key_types).columns)
            if not len(rows):
                continue
            gone = source.deleted_in(group, start)
            if len(gone):
                live = ~np.isin(rows, gone)
                rows, records = rows[live], records[live]
            if len(rows):
                order = source.rows_at(group, rows, wanted.order, order_types).columns if wanted.order.fields else []
                yield Matches(np.full(len(rows), number), rows + start, records, _row_ids(source, group, rows, start, wanted), tuple(order))


def _row_ids(source: SourceFile, group: int, rows: Numbers, start: int, wanted: Wanted) -> pa.Array:
    first = source.data_file.first_row_id
    given = pa.nulls(len(rows), pa.int64()) if first is None or not wanted.has_row_ids else pa.array(rows + (start + first))
    if not wanted.has_row_ids or ROW_ID_NAME not in source.lineage_names:
        return given
    stored = source.column(group, source.lineage_names[ROW_ID_NAME]).take(pa.array(rows)).combine_chunks().cast(pa.int64())
    return pc.coalesce(stored, given)


def _joined(parts: list[Matches], wanted: Wanted) -> Matches:
    def numbers(of: list[Numbers]) -> Numbers:
        return np.concatenate([np.empty(0, np.int64), *of])

    order = tuple(pa.concat_arrays([pa.array([], kind), *(part.order[n] for part in parts)]) for n, kind in enumerate(file_schema(wanted.order).types))
    row_ids = pa.concat_arrays([pa.array([], pa.int64()), *(part.row_ids for part in parts)])
    return Matches(numbers([p.targets for p in parts]), numbers([p.positions for p in parts]), numbers([p.records for p in parts]), row_ids, order)


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
