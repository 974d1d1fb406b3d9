"""Changes of a schema, by field id.

Written by hand because PyIceberg's UpdateSchema also takes changes the specification forbids (decimal scale, string to binary).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.expressions.literals import AboveMax, BelowMin, literal
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, PrimitiveType, StructType

from lakewright.errors import ColumnNotFound, IllegalEvolution, SchemaError
from lakewright.plan.conversion import promotion
from lakewright.plan.ddl import parse_type
from lakewright.plan.keys import key_ids
from lakewright.plan.names import did_you_mean, find_field, in_table, match_name
from lakewright.plan.types import check_struct_names, iceberg_type, with_fresh_ids

ROOT = -1


@dataclass
class _Changes:
    """What happens to which field id; what is added is listed under the id of the struct it goes into."""

    dropped: set[int] = field(default_factory=set)
    updates: dict[int, dict[str, Any]] = field(default_factory=dict)
    added: dict[int, list[NestedField]] = field(default_factory=dict)

    def update(self, field_id: int, **values: Any) -> None:
        self.updates.setdefault(field_id, {}).update(values)


def evolve_schema(
    schema: Schema,
    last_column_id: int,
    format_version: int,
    *,
    add: Mapping[str, Any] | None = None,
    rename: Mapping[str, str] | None = None,
    drop: Iterable[str] = (),
    promote: Mapping[str, Any] | None = None,
    move: Mapping[str, Any] | None = None,
    nullable: Iterable[str] = (),
    comments: Mapping[str, str | None] | None = None,
    defaults: Mapping[str, Any] | None = None,
    key: Iterable[str] | None = None,
    spec: PartitionSpec | None = None,
    sort_order: SortOrder | None = None,
    table: str | None = None,
) -> tuple[Schema, int]:
    """The schema after the changes, with the next schema id, and the new last column id.

    Names are those before the change; move and defaults also know the new ones. Nested fields are paths: `address.zip`,
    `items.element.price`, `attributes.value.unit`. key: the columns that tell rows apart from now on. spec and sort_order are the table's current ones: what they use is not dropped.
    """
    change = _Change(schema, last_column_id, format_version, table)
    for path in [drop] if isinstance(drop, str) else drop:
        change.drop(path, spec, sort_order)
    for path, name in (rename or {}).items():
        change.rename(path, name)
    for path, wanted in (promote or {}).items():
        change.promote(path, wanted)
    for path in [nullable] if isinstance(nullable, str) else nullable:
        change.update(path, required=False)
    for path, comment in (comments or {}).items():
        change.update(path, doc=comment)
    remaining = dict(defaults or {})
    for path, wanted in (add or {}).items():
        change.add(path, wanted, remaining.pop(path, None))
    for path, value in remaining.items():
        change.set_default(path, value)
    struct = change.apply()
    for path, place in (move or {}).items():
        struct = _moved(struct, path, place, table)
    check_struct_names(struct)
    if not struct.fields:
        raise IllegalEvolution(f"This would drop every column{in_table(table)}; a table keeps at least one.", table=table)
    after = Schema(*struct.fields, schema_id=schema.schema_id + 1, identifier_field_ids=list(schema.identifier_field_ids))
    if key is not None:
        after = Schema(*struct.fields, schema_id=after.schema_id, identifier_field_ids=list(key_ids(after, key, table).values()))
    return after, change.last_column_id


class _Change:
    def __init__(self, schema: Schema, last_column_id: int, format_version: int, table: str | None) -> None:
        self.schema = schema
        self.last_column_id = last_column_id
        self.format_version = format_version
        self.table = table
        self.changes = _Changes()

    def next_id(self) -> int:
        self.last_column_id += 1
        return self.last_column_id

    def refuse(self, message: str, column: str) -> IllegalEvolution:
        return IllegalEvolution(message, table=self.table, column=column)

    def find(self, path: str) -> NestedField:
        found = find_field(self.schema, path, self.table)
        if found.field_id in self.changes.dropped:
            raise self.refuse(f"Column {path!r}{in_table(self.table)} is dropped and changed at once; do one of them.", path)
        return found

    def is_part(self, path: str) -> bool:
        """Is this the element of a list or the key or value of a map, which has no name, order or place of its own?"""
        parent, _, name = path.rpartition(".")
        above = match_name(parent, self.schema.column_names) if parent else None
        if above is None:
            return False
        kind = self.schema.find_field(above).field_type
        return isinstance(kind, ListType) and name.lower() == "element" or isinstance(kind, MapType) and name.lower() in ("key", "value")

    def drop(self, path: str, spec: PartitionSpec | None, sort_order: SortOrder | None) -> None:
        target = self.find(path)
        if self.is_part(path):
            raise self.refuse(f"{path!r}{in_table(self.table)} is part of a list or map; drop the whole column.", path)
        for field_id in _ids(target):
            name = self.schema.find_column_name(field_id)
            if any(f.source_id == field_id for f in (spec.fields if spec else ())):
                raise self.refuse(f"Column {name!r}{in_table(self.table)} is partitioned by; first evolve_partitions(drop=[…]).", path)
            if any(f.source_id == field_id for f in (sort_order.fields if sort_order else ())):
                raise self.refuse(f"Column {name!r}{in_table(self.table)} is sorted by; first set_sort_order([…]) without it.", path)
            if field_id in self.schema.identifier_field_ids:
                raise self.refuse(f"Column {name!r}{in_table(self.table)} is part of the table's key and stays.", path)
        self.changes.dropped.add(target.field_id)

    def rename(self, path: str, name: str) -> None:
        target = self.find(path)
        if self.is_part(path):
            raise self.refuse(f"{path!r}{in_table(self.table)} is part of a list or map and has no name to change.", path)
        parent = path.rpartition(".")[0]
        if parent and name.startswith(parent + "."):
            name = name[len(parent) + 1 :]
        if not name.strip():
            raise SchemaError(f"Column {path!r}{in_table(self.table)} cannot get an empty name.", table=self.table, column=path)
        self.changes.update(target.field_id, name=name)

    def promote(self, path: str, wanted: Any) -> None:
        target = self.find(path)
        new, _, _ = _type_of(wanted, path)
        if new == target.field_type:
            return
        if promotion(target.field_type, new) is None:
            raise self.refuse(
                f"Column {path!r}{in_table(self.table)} cannot go from {target.field_type} to {new}; Iceberg widens int to long, float to double and "
                "decimal(P, S) to a larger P with the same S. Add a new column and fill it instead.",
                path,
            )
        self.changes.update(target.field_id, field_type=new)

    def update(self, path: str, **values: Any) -> None:
        target = self.find(path)
        if values.get("required") is False and target.field_id in self.schema.identifier_field_ids:
            raise self.refuse(f"Column {path!r}{in_table(self.table)} is part of the table's key and stays required.", path)
        if "doc" in values and self.is_part(path):
            raise self.refuse(f"{path!r}{in_table(self.table)} is part of a list or map; comment on the column itself.", path)
        self.changes.update(target.field_id, **values)

    def add(self, path: str, wanted: Any, default: Any) -> None:
        new_type, required, doc = _type_of(wanted, path)
        parent_id, siblings, name = self.parent_of(path)
        if required and default is None:
            raise self.refuse(
                f"Column {path!r}{in_table(self.table)} cannot be added as required: older rows have no value for it. Add it as optional"
                + (f", or with a default: defaults={{{path!r}: …}}." if self.format_version >= 3 else "; defaults need format version 3, see upgrade(3)."),
                path,
            )
        renamed = {i for i, update in self.changes.updates.items() if "name" in update}
        taken = match_name(name, [f.name for f in siblings if f.field_id not in self.changes.dropped | renamed])
        if taken is not None:
            raise self.refuse(f"There already is a column {taken!r}{in_table(self.table)}; names may not differ only by case. Choose another.", path)
        made = NestedField(self.next_id(), name, new_type, required=required, doc=doc)
        self.changes.added.setdefault(parent_id, []).append(made.model_copy(update=self.default(path, new_type, default, initial=True)))

    def parent_of(self, path: str) -> tuple[int, tuple[NestedField, ...], str]:
        """Id of the struct a new field goes into (lists and maps lend their element's or value's), its fields, and the new field's name."""
        parent, _, name = path.rpartition(".")
        if not name.strip():
            raise SchemaError(f"Cannot add {path!r}{in_table(self.table)}: the name is empty.", table=self.table, column=path)
        if not parent:
            return ROOT, self.schema.fields, name
        target = self.find(parent)
        field_id, kind = target.field_id, target.field_type
        if isinstance(kind, ListType):
            field_id, kind = kind.element_id, kind.element_type
        elif isinstance(kind, MapType):
            field_id, kind = kind.value_id, kind.value_type
        if not isinstance(kind, StructType):
            raise self.refuse(f"Cannot add {path!r}{in_table(self.table)}: {parent!r} is {target.field_type}, not a struct.", path)
        return field_id, kind.fields, name

    def set_default(self, path: str, value: Any) -> None:
        target = self.find(path)
        changed = {"write_default": None} if value is None else self.default(path, target.field_type, value, initial=False)
        self.changes.update(target.field_id, **changed)

    def default(self, path: str, kind: IcebergType, value: Any, *, initial: bool) -> dict[str, Any]:
        return column_default(path, kind, value, initial=initial, format_version=self.format_version, table=self.table)

    def apply(self) -> StructType:
        return self.rewrite_struct(ROOT, self.schema.as_struct())

    def rewrite_struct(self, parent_id: int, struct: StructType) -> StructType:
        fields = []
        for old in struct.fields:
            if old.field_id in self.changes.dropped:
                continue
            update = dict(self.changes.updates.get(old.field_id, {}))
            update.setdefault("field_type", self.rewrite_type(old.field_id, old.field_type))
            fields.append(old.model_copy(update=update))
        for new in self.changes.added.get(parent_id, ()):
            fields.append(new.model_copy(update={"field_type": with_fresh_ids(new.field_type, self.next_id)}))
        if not fields and parent_id != ROOT:
            raise self.refuse(f"This would drop every field of a struct{in_table(self.table)}; drop the struct itself.", "")
        return StructType(*fields)

    def rewrite_type(self, field_id: int, kind: IcebergType) -> IcebergType:
        if isinstance(kind, StructType):
            return self.rewrite_struct(field_id, kind)
        if isinstance(kind, ListType):
            element = self.changes.updates.get(kind.element_id, {})
            element_type = element.get("field_type") or self.rewrite_type(kind.element_id, kind.element_type)
            return ListType(kind.element_id, element_type, element_required=element.get("required", kind.element_required))
        if isinstance(kind, MapType):
            value = self.changes.updates.get(kind.value_id, {})
            key_type = self.changes.updates.get(kind.key_id, {}).get("field_type") or self.rewrite_type(kind.key_id, kind.key_type)
            value_type = value.get("field_type") or self.rewrite_type(kind.value_id, kind.value_type)
            return MapType(kind.key_id, key_type, kind.value_id, value_type, value_required=value.get("required", kind.value_required))
        return kind


def column_default(path: str, kind: IcebergType, value: Any, *, initial: bool, format_version: int, table: str | None) -> dict[str, Any]:
    """What a default says of its column; initial: also for the rows that are there already."""
    if value is None:
        return {}
    if format_version < 3:
        raise IllegalEvolution(f"Column {path!r}{in_table(table)}: defaults need format version 3; upgrade(3) first, or add it without one.", table=table, column=path)
    if not isinstance(kind, PrimitiveType):
        raise IllegalEvolution(f"Column {path!r}{in_table(table)}: only columns with a plain type can have a default.", table=table, column=path)
    try:
        if isinstance(literal(value).to(kind), (AboveMax, BelowMin)):
            raise ValueError("out of range")
        made = NestedField(1, "c", kind, initial_default=value).initial_default
    except (TypeError, ValueError, ArithmeticError) as error:
        raise SchemaError(f"The default {value!r} of column {path!r}{in_table(table)} is not of type {kind}: {error}.", table=table, column=path) from error
    return {"initial_default": made, "write_default": made} if initial else {"write_default": made}


def _ids(target: NestedField) -> Iterable[int]:
    """The field's id and those of all that is nested in it."""
    yield target.field_id
    if not target.field_type.is_primitive:
        yield from Schema(target)._lazy_id_to_name


def _type_of(wanted: Any, path: str) -> tuple[IcebergType, bool, str | None]:
    """Type, required and comment of an added column, given as text, Spark type, Iceberg type or field."""
    if isinstance(wanted, NestedField):
        return wanted.field_type, wanted.required, wanted.doc
    if isinstance(wanted, str):
        return parse_type(wanted, path)
    if isinstance(wanted, IcebergType):
        return wanted, False, None
    if hasattr(wanted, "typeName"):
        return iceberg_type(wanted, path), False, None
    raise SchemaError(f"The type of column {path!r} is text such as 'bigint', a Spark type or an Iceberg type, not {type(wanted).__name__}.", column=path)


_PLACE = re.compile(r"(first|after|before)\b\s*(.*)", re.IGNORECASE | re.DOTALL)


def _moved(struct: StructType, path: str, place: Any, table: str | None) -> StructType:
    """The struct with one field elsewhere among its siblings."""
    text = " ".join(place) if isinstance(place, (tuple, list)) else str(place)
    parts = _PLACE.fullmatch(text.strip())
    if parts is None or (parts.group(1).lower() == "first") == bool(parts.group(2)):
        raise IllegalEvolution(f"Cannot move {path!r} to {place!r}; say 'first', 'after other' or 'before other'.", table=table, column=path)
    parent, _, name = path.rpartition(".")
    reference = parts.group(2).strip().strip("`")
    if parent and reference.lower().startswith(parent.lower() + "."):
        reference = reference[len(parent) + 1 :]
    return _move_in(struct, parent.split(".") if parent else [], name, parts.group(1).lower(), reference, path, table)


def _move_in(struct: StructType, parents: list[str], name: str, how: str, reference: str, path: str, table: str | None) -> StructType:
    names = [f.name for f in struct.fields]

    def index(wanted: str) -> int:
        found = match_name(wanted, names)
        if found is None:
            raise ColumnNotFound(f"There is no column {wanted!r}{in_table(table)} to move {path!r}. {did_you_mean(wanted, names)}", table=table, column=wanted)
        return names.index(found)

    fields = list(struct.fields)
    if parents:
        at = index(parents[0])
        fields[at] = fields[at].model_copy(update={"field_type": _move_below(fields[at].field_type, parents[1:], name, how, reference, path, table)})
        return StructType(*fields)
    moved = fields[index(name)]
    if how == "first":
        return StructType(moved, *(f for f in fields if f is not moved))
    other = fields[index(reference)]
    if other is moved:
        raise IllegalEvolution(f"Cannot move {path!r} next to itself.", table=table, column=path)
    rest = [f for f in fields if f is not moved]
    at = rest.index(other) + (how == "after")
    return StructType(*rest[:at], moved, *rest[at:])


def _move_below(kind: IcebergType, parents: list[str], name: str, how: str, reference: str, path: str, table: str | None) -> IcebergType:
    if isinstance(kind, StructType):
        return _move_in(kind, parents, name, how, reference, path, table)
    below = parents[1:] if parents and parents[0] in ("element", "value") else parents
    if isinstance(kind, ListType):
        return ListType(kind.element_id, _move_below(kind.element_type, below, name, how, reference, path, table), element_required=kind.element_required)
    if isinstance(kind, MapType):
        value = _move_below(kind.value_type, below, name, how, reference, path, table)
        return MapType(kind.key_id, kind.key_type, kind.value_id, value, value_required=kind.value_required)
    raise IllegalEvolution(f"Cannot move {path!r}{in_table(table)}: its parent is not a struct.", table=table, column=path)
