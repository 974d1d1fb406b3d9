"""Columns encoded as Parquet in memory, one at a time, so that their chunks can be copied into another file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakewright.format.parquet_footer import NotGraftable, RowGroup, read_footer

MOST_BUFFERED = 64 << 20


@dataclass(frozen=True)
class Encoded:
    """A file with one column in one row group."""

    data: pa.BufferReader
    group: RowGroup


def encode_column(field: pa.Field, values: pa.ChunkedArray, settings: Mapping[str, Any]) -> Encoded:
    """Raises NotGraftable for a null where the field has no place for one."""
    values = fitting(field, values)
    schema = pa.schema([field])
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, **settings) as writer:
        writer.write_table(pa.Table.from_arrays([values], schema=schema), row_group_size=max(1, len(values)))
    data = sink.getvalue()
    footer = read_footer(pa.BufferReader(data), "in memory")
    if len(footer.row_groups) != 1:
        raise NotGraftable(f"a row group of it has {len(values)} rows, more than Arrow writes into one")
    return Encoded(pa.BufferReader(data), footer.row_groups[0])


def fitting(field: pa.Field, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values as the field takes them. Raises NotGraftable for a null where it has no place for one."""
    values = pa.chunked_array([conform(chunk, field.type) for chunk in values.chunks], type=field.type)
    if (where := _misplaced_null(values, field)) is not None:
        raise NotGraftable(f"its column {where} is required and gets a null")
    return values


def conform(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values as this type: at no cost where only names and nullability below the top differ."""
    if values.type == kind:
        return values
    if _same_layout(values.type, kind):
        return pa.array(_Relabelled(values, kind))
    return values.cast(kind)


class Rows:
    """Rows of batches, handed out column by column: held in memory up to a limit, in a temporary file beyond it."""

    def __init__(self, schema: pa.Schema, folder: str, most_buffered: int) -> None:
        self.num_rows = 0
        self._schema = schema
        self._path = os.path.join(folder, "rows.arrow")
        self._most_buffered = most_buffered
        self._buffered: list[pa.RecordBatch] = []
        self._size = 0
        self._spill: pa.ipc.RecordBatchFileWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        arrays = [conform(batch.column(field.name), field.type) for field in self._schema]
        self._buffered.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._size += self._buffered[-1].nbytes
        self.num_rows += batch.num_rows
        if self._size > self._most_buffered:
            self._flush()

    def end(self) -> None:
        if self._spill is not None:
            self._flush()
            self._spill.close()
            pa.default_memory_pool().release_unused()  # else small buffers freed just now stay beside the large ones to come

    def column(self, index: int) -> pa.ChunkedArray:
        if self._spill is None:
            return pa.chunked_array([batch.column(index) for batch in self._buffered], type=self._schema.field(index).type)
        with pa.OSFile(self._path) as spilled:
            return pa.ipc.open_file(spilled, options=pa.ipc.IpcReadOptions(included_fields=[index])).read_all().column(0)

    def _flush(self) -> None:
        if self._spill is None:
            self._spill = pa.ipc.new_file(self._path, self._schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
        for batch in self._buffered:
            self._spill.write_batch(batch)
        self._buffered, self._size = [], 0


@contextmanager
def collected(batches: Iterable[pa.RecordBatch], schema: pa.Schema, most_buffered: int) -> Iterator[Rows]:
    with tempfile.TemporaryDirectory(prefix="lakewright-") as folder:
        rows = Rows(schema, folder, most_buffered)
        for batch in batches:
            if batch.num_rows:
                rows.add(batch)
        rows.end()
        yield rows


class _Relabelled:
    """An array as Arrow's C interface shows it, under another type of the same layout."""

    def __init__(self, values: pa.Array, kind: pa.DataType) -> None:
        self._values = values
        self._kind = kind

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._kind.__arrow_c_schema__(), self._values.__arrow_c_array__()[1]


def _same_layout(one: pa.DataType, other: pa.DataType) -> bool:
    if not one.num_fields or isinstance(one, pa.BaseExtensionType):
        return bool(one == other)
    if one.id != other.id or one.num_fields != other.num_fields:
        return False
    if pa.types.is_struct(one) and [one.field(i).name for i in range(one.num_fields)] != [other.field(i).name for i in range(other.num_fields)]:
        return False
    if pa.types.is_fixed_size_list(one) and one.list_size != other.list_size:
        return False
    return all(_same_layout(one.field(i).type, other.field(i).type) for i in range(one.num_fields))


def _misplaced_null(values: pa.ChunkedArray, field: pa.Field) -> str | None:
    """The path of a required field that holds a null. Arrow's writer lets those of structs pass and writes a value instead."""
    if not field.nullable and values.null_count:
        return str(field.name)
    if not _has_required(field.type):
        return None
    for chunk in values.chunks:
        for inner, below in _below(chunk):
            if (where := _misplaced_null(pa.chunked_array([inner]), below)) is not None:
                return f"{field.name}.{where}"
    return None


def _below(values: pa.Array) -> Iterator[tuple[pa.Array, pa.Field]]:
    kind = values.type
    if pa.types.is_struct(kind):
        present = values.is_valid() if values.null_count else None
        for place in range(kind.num_fields):
            inner = values.field(place)
            yield (inner if present is None else inner.filter(present)), kind.field(place)
    elif pa.types.is_map(kind):
        yield pa.array(_Relabelled(values, pa.list_(kind.field(0)))).flatten(), kind.field(0)
    else:
        yield values.flatten(), kind.field(0)


def _has_required(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return False
    if pa.types.is_map(kind):  # its entries and keys are required as such, and Arrow has no others
        below = [kind.key_field.with_nullable(True), kind.item_field]
    else:
        below = [kind.field(place) for place in range(kind.num_fields)]
    return any(not field.nullable or _has_required(field.type) for field in below)
