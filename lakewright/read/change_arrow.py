"""Changes worked out with Arrow in one process, where no session is there to plan them: the same rows as `change_rows` gives."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from lakewright.format.deletion_vector import Positions, to_array
from lakewright.format.lineage import ROW_ID
from lakewright.format.metadata import Metadata
from lakewright.read.arrow_scan import ArrowFile, ArrowRead, DeletedRows, arrow_file, arrow_read, read_batches
from lakewright.read.change_files import Image, by_step, sides
from lakewright.read.change_rows import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from lakewright.read.fileinfo import lineage_fields
from lakewright.read.layout import POSITION, placeholder
from lakewright.read.native_deletes import path_to


@dataclass(frozen=True)
class ArrowImage:
    """An image that pickles. only: its positions, or None for all live rows."""

    file: ArrowFile
    is_after: bool
    only: Positions | None


@dataclass(frozen=True)
class ArrowStep:
    """What tells one state from the next. by_row_id: rows are known by their ids; else by the key, where there is one."""

    number: int
    images: tuple[ArrowImage, ...]
    by_row_id: bool


@dataclass(frozen=True)
class ArrowChanges:
    """How the rows of steps are read and compared; it pickles."""

    schema: Schema
    read: ArrowRead


@dataclass(frozen=True)
class Changed:
    """Rows of a step by what became of them."""

    number: int
    kind: str
    rows: pa.Table


def arrow_changes(metadata: Metadata, images: Sequence[Image], schema: Schema) -> tuple[ArrowChanges, list[ArrowStep]]:
    lineage = [f for f in lineage_fields(metadata) if f.field_id == ROW_ID]
    wide = Schema(*schema.fields, *lineage, schema_id=schema.schema_id)
    read = arrow_read(metadata, [image.file for image in images], wide, with_position=True)
    steps = []
    for own in by_step(images):
        files = tuple(ArrowImage(arrow_file(metadata, i.file, wide), i.is_after, None if i.only is None else to_array(i.only)) for i in own)
        steps.append(ArrowStep(own[0].step, files, all(i.has_row_ids for i in own) and len(sides(own)) > 1 and not schema.identifier_field_ids))
    return ArrowChanges(schema, read), steps


def changed(io: FileIO, changes: ArrowChanges, step: ArrowStep) -> list[Changed]:
    deletes = DeletedRows(io, changes.read)
    before, after = (_rows(io, changes, [i for i in step.images if i.is_after is side], deletes) for side in (False, True))
    gone, come = _differing(changes, step, before, after)
    updates = list(_paired(changes, step, before, after, gone, come))
    updated_from, updated_to = {old for old, _ in updates}, {new for _, new in updates}
    parts = (
        (DELETE, before, [at for at in gone if at not in updated_from]),
        (UPDATE_BEFORE, before, [old for old, _ in updates]),
        (UPDATE_AFTER, after, [new for _, new in updates]),
        (INSERT, after, [at for at in come if at not in updated_to]),
    )
    width = len(changes.schema.fields)
    return [Changed(step.number, kind, rows.select(range(width)).take(pa.array(places, pa.int64()))) for kind, rows, places in parts if places]


def latest_by_key(changes: ArrowChanges, log: Iterable[Changed]) -> Iterator[pa.Table]:
    """The last image of each key that a log leaves there. The log goes from the first step to the last, and what a step takes away comes before what it gives."""
    held = [part for part in log if part.kind != UPDATE_BEFORE]
    last: dict[Hashable, int] = {}
    keys = [_identities(changes.schema, part.rows) for part in held]
    for part, own in zip(held, keys, strict=True):
        for key in own:
            last[key] = part.number
    for part, own in zip(held, keys, strict=True):
        if part.kind != DELETE:
            yield part.rows.filter(pa.array([last[key] == part.number for key in own], pa.bool_()))


def _rows(io: FileIO, changes: ArrowChanges, images: Sequence[ArrowImage], deletes: DeletedRows) -> pa.Table:
    """Columns of the table, then the row id."""
    width = len(changes.schema.fields)
    schema = pa.schema([*(changes.read.output.field(at) for at in range(width)), pa.field(placeholder(ROW_ID), pa.int64())])
    tables = []
    for image in images:
        for batch in read_batches(io, changes.read, image.file, deletes):
            if image.only is not None:
                batch = batch.filter(pa.array(np.isin(batch.column(POSITION).to_numpy(), image.only)))
            tables.append(pa.table([*batch.columns[:width], _row_ids(batch, image)], schema=schema))
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _row_ids(batch: pa.RecordBatch, image: ArrowImage) -> pa.Array:
    first = image.file.scan.data_file.first_row_id
    if first is None:
        return pa.nulls(batch.num_rows, pa.int64())
    own = pc.add(batch.column(POSITION), first)
    return pc.coalesce(batch.column(placeholder(ROW_ID)), own) if placeholder(ROW_ID) in batch.schema.names else own


def _differing(changes: ArrowChanges, step: ArrowStep, before: pa.Table, after: pa.Table) -> tuple[list[int], list[int]]:
    """Places of the rows that the other side has not, copies counted."""
    if not before.num_rows or not after.num_rows:
        return list(range(before.num_rows)), list(range(after.num_rows))
    width = len(changes.schema.fields) + step.by_row_id
    there: dict[Hashable, list[int]] = defaultdict(list)
    for at, row in enumerate(_values(before, range(width))):
        there[row].append(at)
    come = []
    for at, row in enumerate(_values(after, range(width))):
        if there.get(row):
            there[row].pop()
        else:
            come.append(at)
    return sorted(at for places in there.values() for at in places), come


def _paired(changes: ArrowChanges, step: ArrowStep, before: pa.Table, after: pa.Table, gone: list[int], come: list[int]) -> Iterator[tuple[int, int]]:
    """Places of the two images of one row."""
    if not gone or not come or not (step.by_row_id or changes.schema.identifier_field_ids):
        return
    old, new = (_row_identities(changes, step, rows) for rows in (before, after))
    left: dict[Hashable, list[int]] = defaultdict(list)
    for at in reversed(gone):
        left[old[at]].append(at)
    for at in come:
        if left.get(new[at]):
            yield left[new[at]].pop(), at


def _row_identities(changes: ArrowChanges, step: ArrowStep, rows: pa.Table) -> list[Hashable]:
    return rows.column(len(changes.schema.fields)).to_pylist() if step.by_row_id else _identities(changes.schema, rows)


def _identities(schema: Schema, rows: pa.Table) -> list[Hashable]:
    columns = []
    for field_id in sorted(schema.identifier_field_ids):
        name, *inner = path_to(schema, field_id)
        column = rows.column(name)
        for part in inner:
            column = pc.struct_field(column, part)
        columns.append([_hashable(value, column.type) for value in column.to_pylist()])
    return list(zip(*columns, strict=True))


def _values(rows: pa.Table, columns: Iterable[int]) -> Iterator[Hashable]:
    return zip(*([_hashable(value, rows.column(at).type) for value in rows.column(at).to_pylist()] for at in columns), strict=True)


def _hashable(value: Any, kind: pa.DataType) -> Hashable:
    """Equal where Spark takes values for equal: NaN equals NaN, and a map has no order."""
    if value is None:
        return None
    if pa.types.is_floating(kind):
        return "NaN" if math.isnan(value) else float(value)
    if pa.types.is_struct(kind):
        return tuple(_hashable(value[f.name], f.type) for f in kind)
    if pa.types.is_map(kind):
        return tuple(sorted(((_hashable(k, kind.key_type), _hashable(v, kind.item_type)) for k, v in value), key=repr))
    if pa.types.is_list(kind):
        return tuple(_hashable(item, kind.value_type) for item in value)
    return value  # type: ignore[no-any-return]
