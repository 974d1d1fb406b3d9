"""Iceberg types as the Arrow types of the files, as PyIceberg converts them, but without the modules that its conversion imports."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

FIELD_ID, DOC = b"PARQUET:field_id", b"doc"
_PRIMITIVES: dict[type[IcebergType], pa.DataType] = {
    BinaryType: pa.large_binary(),
    BooleanType: pa.bool_(),
    DateType: pa.date32(),
    DoubleType: pa.float64(),
    FloatType: pa.float32(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    StringType: pa.large_string(),
    TimeType: pa.time64("us"),
    TimestampNanoType: pa.timestamp("ns"),
    TimestampType: pa.timestamp("us"),
    TimestamptzNanoType: pa.timestamp("ns", tz="UTC"),
    TimestamptzType: pa.timestamp("us", tz="UTC"),
    UUIDType: pa.uuid(),
    UnknownType: pa.null(),
}


def arrow_schema(schema: Schema) -> pa.Schema:
    """The schema with field ids, also on list elements, map keys and map values."""
    return pa.schema([arrow_field(field) for field in schema.fields])


def arrow_field(field: NestedField) -> pa.Field:
    metadata: dict[bytes, Any] = {DOC: field.doc} if field.doc else {}
    return pa.field(field.name, arrow_type(field.field_type), nullable=field.optional, metadata={**metadata, FIELD_ID: str(field.field_id)})


def arrow_type(kind: IcebergType) -> pa.DataType:
    if isinstance(kind, StructType):
        return pa.struct([arrow_field(field) for field in kind.fields])
    if isinstance(kind, ListType):
        return pa.large_list(arrow_field(kind.element_field))
    if isinstance(kind, MapType):
        return pa.map_(arrow_field(kind.key_field), arrow_field(kind.value_field))
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, FixedType):
        return pa.binary(len(kind))
    if type(kind) in _PRIMITIVES:
        return _PRIMITIVES[type(kind)]
    # Geometries depend on what else is installed.
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return schema_to_pyarrow(kind, include_field_ids=False)
