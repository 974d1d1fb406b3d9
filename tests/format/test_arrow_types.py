"""The Arrow types of files, against PyIceberg's."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
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

from lakewright.format.arrow_types import arrow_schema, arrow_type

PRIMITIVES: list[IcebergType] = [
    BinaryType(),
    BooleanType(),
    DateType(),
    DecimalType(1, 0),
    DecimalType(9, 2),
    DecimalType(38, 38),
    DoubleType(),
    FixedType(1),
    FixedType(16),
    FloatType(),
    GeographyType(),
    GeometryType(),
    IntegerType(),
    LongType(),
    StringType(),
    TimeType(),
    TimestampNanoType(),
    TimestampType(),
    TimestamptzNanoType(),
    TimestamptzType(),
    UUIDType(),
    UnknownType(),
]


def same(schema: Schema) -> bool:
    ours, theirs = arrow_schema(schema), schema_to_pyarrow(schema, include_field_ids=True)
    return bool(ours.equals(theirs, check_metadata=True)) and _described(ours) == _described(theirs)


def _described(schema: pa.Schema) -> str:
    """Also what `equals` does not look at: metadata within nested types."""
    return "\n".join(_field(field) for field in schema)


def _field(field: pa.Field) -> str:
    kind = field.type
    children = ""
    if pa.types.is_map(kind):
        children = f"<{_field(kind.key_field)}, {_field(kind.item_field)}>"
    elif pa.types.is_nested(kind):
        children = f"<{', '.join(_field(kind.field(n)) for n in range(kind.num_fields))}>"
    return f"{field.name}: {kind} {field.nullable} {field.metadata} {children}"


@pytest.mark.parametrize("kind", PRIMITIVES, ids=str)
def test_primitives(kind: IcebergType) -> None:
    assert arrow_type(kind) == schema_to_pyarrow(kind, include_field_ids=False)
    assert same(Schema(NestedField(7, "c", kind, required=False)))


@pytest.mark.parametrize("required", [True, False])
def test_nullability_documentation_and_names(required: bool) -> None:
    assert same(Schema(NestedField(3, "a.b ü", LongType(), required=required, doc="what it is"), NestedField(9, "", StringType(), required=not required)))


@pytest.mark.parametrize("required", [True, False])
def test_nested_types(required: bool) -> None:
    struct = StructType(NestedField(10, "x", LongType(), required=required, doc="x"), NestedField(11, "y", DecimalType(10, 3), required=not required))
    in_list = ListType(element_id=20, element_type=struct, element_required=required)
    in_map = MapType(key_id=30, key_type=StringType(), value_id=31, value_type=in_list, value_required=required)
    deep = StructType(NestedField(40, "m", in_map, required=required), NestedField(41, "l", ListType(42, in_map, element_required=not required)))
    for kind in (struct, in_list, in_map, deep):
        assert same(Schema(NestedField(1, "c", kind, required=required)))


def test_an_empty_schema() -> None:
    assert same(Schema())
