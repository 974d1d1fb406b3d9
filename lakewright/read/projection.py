"""A batch of a data file as Arrow arrays of the table's schema: fields by id, old types widened, what the file lacks filled in.

Written by hand because PyIceberg's projection turns null lists of structs into empty ones.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType, UUIDType

from lakewright.read.layout import Layout
from lakewright.read.values import arrow_type, internal_array


def output_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema Spark takes for a table's rows."""
    return pa.schema([_output_field(f) for f in schema.fields])


def project(batch: pa.RecordBatch, schema: Schema, layout: Layout, constants: Mapping[int, Any], output: pa.Schema | None = None) -> pa.RecordBatch:
    """The batch in the columns of the schema. constants: values by field id for columns the file lacks. output: the `output_schema`, where known."""
    output = output or output_schema(schema)
    arrays = []
    for f, kind in zip(schema.fields, output.types, strict=True):
        if f.field_id in layout.absent:
            arrays.append(_filled(f, batch.num_rows, constants.get(f.field_id, f.initial_default)))
            continue
        array = batch.column(layout.names[f.field_id])
        arrays.append(array if f.field_type.is_primitive and array.type == kind else _projected(array, f.field_type, layout))
    return pa.RecordBatch.from_arrays(arrays, schema=output)


def output_type(source: IcebergType) -> pa.DataType:
    if isinstance(source, StructType):
        return pa.struct([_output_field(f) for f in source.fields])
    if isinstance(source, ListType):
        return pa.list_(pa.field("element", output_type(source.element_type)))
    if isinstance(source, MapType):
        return pa.map_(output_type(source.key_type), output_type(source.value_type))
    return pa.string() if isinstance(source, UUIDType) else arrow_type(source)


def _output_field(source: NestedField) -> pa.Field:
    return pa.field(source.name, output_type(source.field_type), nullable=True)


def _filled(source: NestedField, length: int, value: Any) -> pa.Array:
    if value is None:
        return pa.nulls(length, output_type(source.field_type))
    return pa.repeat(internal_array([value], source.field_type)[0], length)


def _projected(array: pa.Array, source: IcebergType, layout: Layout) -> pa.Array:
    if isinstance(source, StructType):
        children = [_child(array, f, layout) for f in source.fields]
        return pa.StructArray.from_arrays(children, fields=list(output_type(source)), mask=array.is_null())
    if isinstance(source, ListType):
        return pa.ListArray.from_arrays(_offsets(array), _projected(array.values, source.element_type, layout), type=output_type(source))
    if isinstance(source, MapType):
        keys, values = _projected(array.keys, source.key_type, layout), _projected(array.items, source.value_type, layout)
        return pa.MapArray.from_arrays(_offsets(array), keys, values, type=output_type(source))
    return _primitive(array, source)


def _child(array: pa.StructArray, source: NestedField, layout: Layout) -> pa.Array:
    if source.field_id in layout.absent:
        return _filled(source, len(array), source.initial_default)
    return _projected(array.field(layout.names[source.field_id]), source.field_type, layout)


def _offsets(array: pa.ListArray | pa.MapArray) -> pa.Array:
    """Offsets that are null where the list is, which is how Arrow is told of null lists."""
    offsets = array.offsets.cast(pa.int32())
    if array.null_count == 0:
        return offsets
    nulls = pa.concat_arrays([array.is_null(), pa.array([False])])
    return pc.if_else(nulls, pa.scalar(None, pa.int32()), offsets)


def _primitive(array: pa.Array, source: IcebergType) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if isinstance(source, UUIDType):
        return pa.array([None if v is None else str(uuid.UUID(bytes=v)) for v in array.to_pylist()], pa.string())
    target = arrow_type(source)
    # Nanoseconds of other writers lose what the table's type has no place for.
    return array if array.type == target else array.cast(target, safe=not pa.types.is_timestamp(target))
