"""A guess at the bytes a row takes in Parquet, for a table that has no files yet to tell."""

from __future__ import annotations

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    MapType,
    StringType,
    StructType,
    UUIDType,
)

ELEMENTS = 4


def estimated_row_size(schema: Schema) -> float:
    """Rather too little than too much: a first file somewhat too large costs less than one split off with a few rows."""
    return max(1.0, _size(schema.as_struct()) / 2)


def _size(kind: IcebergType) -> float:
    match kind:
        case StructType():
            return sum(_size(field.field_type) for field in kind.fields)
        case ListType():
            return ELEMENTS * _size(kind.element_type)
        case MapType():
            return ELEMENTS * (_size(kind.key_type) + _size(kind.value_type))
        case FixedType():
            return float(len(kind))
        case BooleanType():
            return 0.2
        case IntegerType() | DateType():
            return 2.5
        case FloatType():
            return 3.5
        case DecimalType():
            return 3.0 if kind.precision <= 18 else 8.0
        case UUIDType():
            return 16.0
        case StringType() | BinaryType():
            return 8.0
    return 5.0
