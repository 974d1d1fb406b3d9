"""Arrow batches in the types and with the field ids that go into the file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, IcebergType, NestedField, StructType

from lakewright.errors import NullInRequiredColumn
from lakewright.format.arrow_types import arrow_schema
from lakewright.read.prune import optional_schema


def file_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of the table's files; ids also on list elements, map keys and map values.

    Within structs every field may be null in the file, as it must be where the struct itself is; rows are checked instead.
    """
    return pa.schema([field.with_type(_nullable_within(field.type)) for field in arrow_schema(schema)])


def to_file_schema(batch: pa.RecordBatch, target: pa.Schema, schema: Schema, table: str) -> pa.RecordBatch:
    """The batch cast to the file's types; columns are matched by position, and required ones checked for nulls."""
    arrays = []
    for array, kind, field in zip(batch.columns, target.types, schema.fields, strict=True):
        _require_no_nulls(array, field, field.name, table)
        arrays.append(_convert(array, kind))
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def in_file_types(table: pa.Table, names: Sequence[str], schema: Schema) -> list[pa.Array]:
    """Columns as the table's files have them, so that they compare with those."""
    fields = optional_schema(Schema(*(schema.find_field(name) for name in names)))
    target = file_schema(fields)
    given = pa.RecordBatch.from_arrays([_whole(table.column(name)) for name in names], names=list(names))
    return list(to_file_schema(given, target, fields, "").columns)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def nan_counts(batch: pa.RecordBatch, schema: Schema) -> dict[int, int]:
    """NaNs of each float column, also within structs, by field id."""
    counts: dict[int, int] = {}
    for field, array in zip(schema.fields, batch.columns, strict=True):
        _count_nans(field.field_id, field.field_type, array, counts)
    return counts


def _count_nans(field_id: int, kind: IcebergType, array: pa.Array, counts: dict[int, int]) -> None:
    if isinstance(kind, FloatType | DoubleType):
        counts[field_id] = pc.sum(pc.is_nan(array)).as_py() or 0
    elif isinstance(kind, StructType):
        for child, values in zip(kind.fields, array.flatten(), strict=True):
            _count_nans(child.field_id, child.field_type, values, counts)


def _nullable_within(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_nullable_within(field.type)).with_nullable(True) for field in kind])
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_nullable_within(kind.value_type)))
    if pa.types.is_map(kind):
        key, item = (field.with_type(_nullable_within(field.type)) for field in (kind.key_field, kind.item_field))
        return pa.map_(key, item)
    return kind


def _require_no_nulls(array: pa.Array, field: NestedField, path: str, table: str) -> None:
    if field.required and array.null_count:
        raise NullInRequiredColumn(
            f"A row has null for {path!r}, which table {table} requires; filter it out or use coalesce. Nothing was written.", table=table, column=path
        )
    if isinstance(field.field_type, StructType) and any(_has_required(child) for child in field.field_type.fields):
        present = array.filter(array.is_valid()) if array.null_count else array
        for index, child in enumerate(field.field_type.fields):
            _require_no_nulls(pc.struct_field(present, [index]), child, f"{path}.{child.name}", table)


def _has_required(field: NestedField) -> bool:
    return field.required or (isinstance(field.field_type, StructType) and any(_has_required(child) for child in field.field_type.fields))


def _convert(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """A cast that also makes UUIDs of text and keeps the field metadata of nested types."""
    if isinstance(kind, pa.UuidType):
        return _uuids(array)
    if pa.types.is_struct(kind):
        children = [_convert(child, field.type) for child, field in zip(array.flatten(), kind, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=_mask(array))
    if pa.types.is_large_list(kind):
        large = array.cast(pa.large_list(array.type.value_type))
        return pa.LargeListArray.from_arrays(large.offsets, _convert(large.values, kind.value_type), type=kind, mask=_mask(large))
    if pa.types.is_map(kind):
        keys, items = _convert(array.keys, kind.key_type), _convert(array.items, kind.item_type)
        return pa.MapArray.from_arrays(_offsets(array), keys, items, type=kind)
    return array if array.type == kind else array.cast(kind)


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _offsets(array: pa.MapArray) -> pa.Array:
    """Offsets with null where the map is, which is how MapArray.from_arrays is told of nulls."""
    if not array.null_count:
        return array.offsets
    present = pa.concat_arrays([array.is_valid(), pa.array([True])])
    return pc.if_else(present, array.offsets, pa.scalar(None, array.offsets.type))


def _uuids(array: pa.Array) -> pa.Array:
    values: Any = array
    if isinstance(array.type, pa.UuidType):
        return array
    if not (pa.types.is_fixed_size_binary(array.type) or pa.types.is_binary(array.type)):
        values = [None if text is None else UUID(text).bytes for text in array.to_pylist()]
        return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))
    return pa.ExtensionArray.from_storage(pa.uuid(), array.cast(pa.binary(16)))
