"""The key of a table: the columns that tell its rows apart, which Iceberg calls identifier fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, NestedField, StructType

from lakewright.errors import SchemaError
from lakewright.plan.names import find_field, in_table, unquoted

KEY, ORDERING = "lakewright.key", "lakewright.ordering"


def is_keyed(properties: Mapping[str, str]) -> bool:
    """Whether a table promises one row for each key, which identifier fields alone do not."""
    return bool(properties.get(KEY))


def with_key(schema: Schema, key: Sequence[str], table: str | None = None) -> Schema:
    """The schema of a new table with its key, whose columns are required."""
    if not key:
        return schema
    ids = key_ids(schema, key, table, must_be_required=False)
    nested = [name for name in key if schema.find_field(ids[name]) not in schema.fields and not schema.find_field(ids[name]).required]
    if nested:
        raise SchemaError(f"{nested[0]!r}{in_table(table)} is part of the key, so it and the structs around it must be NOT NULL.", table=table, column=nested[0])
    fields = [f.model_copy(update={"required": True}) if f.field_id in ids.values() else f for f in schema.fields]
    return Schema(*fields, schema_id=schema.schema_id, identifier_field_ids=list(ids.values()))


def key_ids(schema: Schema, names: Iterable[str], table: str | None = None, *, must_be_required: bool = True) -> dict[str, int]:
    """The ids of the columns of a key, by the names given; refuses what the format does not take as one."""
    found: dict[str, int] = {}
    single = {f.field_id: whole for f, whole in _single_valued(schema.as_struct(), True)}
    for name in names:
        field = find_field(schema, unquoted(name), table)
        why = None
        if field.field_id not in single:
            why = "is inside a list or map"
        elif not field.field_type.is_primitive or isinstance(field.field_type, (FloatType, DoubleType)):
            why = f"is {field.field_type}, which does not tell rows apart"
        elif must_be_required and not single[field.field_id]:
            why = "may be null, or a struct around it may"
        if why is not None:
            raise SchemaError(f"Column {name!r}{in_table(table)} cannot be part of the key: it {why}. A key takes required columns of a plain type, and no float or double.", table=table, column=name)
        found[name] = field.field_id
    return found


def _single_valued(struct: StructType, required: bool) -> Iterable[tuple[NestedField, bool]]:
    """Fields that have one value per row, and whether that is never null."""
    for field in struct.fields:
        whole = required and field.required
        yield field, whole
        if isinstance(field.field_type, StructType):
            yield from _single_valued(field.field_type, whole)
