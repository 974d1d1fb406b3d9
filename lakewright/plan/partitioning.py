"""Partition specs and sort orders, from the way people write them: `day(ts)`, `bucket(16, id)`, `ts desc nulls last`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import NestedField, StructType

from lakewright.errors import IllegalEvolution, InvalidTransform
from lakewright.plan.names import PATH, did_you_mean, find_field, in_table, unquoted

PLAIN: dict[str, Transform[Any, Any]] = {
    "identity": IdentityTransform(),
    "year": YearTransform(),
    "month": MonthTransform(),
    "day": DayTransform(),
    "hour": HourTransform(),
    "void": VoidTransform(),
}
ALIASES = {"years": "year", "months": "month", "days": "day", "hours": "hour", "date": "day", "date_hour": "hour", "trunc": "truncate", "always_null": "void"}
WAYS = "identity(c), bucket(n, c), truncate(n, c), year(c), month(c), day(c), hour(c) and void(c)"
_CALL = re.compile(r"(\w+)\s*\((.*)\)", re.DOTALL)
_NAMED = re.compile(r"(.*?)\s+as\s+(`[^`]+`|\w+)", re.DOTALL | re.IGNORECASE)
_ORDERED = re.compile(r"(.*?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class TransformTerm:
    """`bucket(16, id)` as a column path and a transform; name is what `as` gave it."""

    column: str
    transform: Transform[Any, Any]
    name: str | None = None


def parse_partition_field(text: str) -> TransformTerm:
    """`day(ts)`, `bucket(16, id)`, `truncate(name, 4)`, `region`, each with or without `as name`."""
    named = _NAMED.fullmatch(text.strip())
    term = _parse_term(named.group(1) if named else text)
    return TransformTerm(term.column, term.transform, unquoted(named.group(2))) if named else term


def _parse_term(text: str) -> TransformTerm:
    text = text.strip()
    if re.fullmatch(PATH, text):
        return TransformTerm(unquoted(text), IdentityTransform())
    call = _CALL.fullmatch(text)
    if call is None:
        raise InvalidTransform(f"Cannot read {text!r} as a column or a transform; transforms are {WAYS}.")
    name = ALIASES.get(call.group(1).lower(), call.group(1).lower())
    arguments = [a.strip() for a in call.group(2).split(",")]
    if name not in PLAIN and name not in ("bucket", "truncate"):
        raise InvalidTransform(f"There is no transform {call.group(1)!r}. {did_you_mean(name, [*PLAIN, 'bucket', 'truncate'])} Transforms are {WAYS}.")
    numbers = [a for a in arguments if re.fullmatch(r"[+-]?\d+", a)]
    columns = [a for a in arguments if re.fullmatch(PATH, a) and a not in numbers]
    wanted = 0 if name in PLAIN else 1
    if len(columns) != 1 or len(numbers) != wanted or len(arguments) != wanted + 1:
        raise InvalidTransform(f"{text!r} does not give {name} {'a number and one column' if wanted else 'just one column'}; transforms are {WAYS}.")
    if not wanted:
        return TransformTerm(unquoted(columns[0]), PLAIN[name])
    width = int(numbers[0])
    if not 1 <= width <= 2**31 - 1:
        raise InvalidTransform(f"{text!r} needs a number above 0.")
    return TransformTerm(unquoted(columns[0]), BucketTransform(width) if name == "bucket" else TruncateTransform(width))


def _bound(term: TransformTerm, text: str, schema: Schema, table: str | None) -> NestedField:
    """The column of a transform, if the transform takes its type and it is not inside a list or map."""
    field = find_field(schema, term.column, table)
    if field.field_id not in _single_valued(schema.as_struct()):
        raise InvalidTransform(
            f"{text!r}: {term.column!r}{in_table(table)} has several values per row; use a column or a struct's field.", table=table, column=term.column
        )
    if not field.field_type.is_primitive or not term.transform.can_transform(field.field_type):
        raise InvalidTransform(
            f"{text!r}: {term.column!r}{in_table(table)} is {_shown(field)}, which {_takes(term.transform)}.", table=table, column=term.column
        )
    return field


def _single_valued(struct: StructType) -> Iterator[int]:
    for field in struct.fields:
        yield field.field_id
        if isinstance(field.field_type, StructType):
            yield from _single_valued(field.field_type)


def _shown(field: NestedField) -> str:
    return str(field.field_type) if field.field_type.is_primitive else f"a {type(field.field_type).__name__.removesuffix('Type').lower()}"


def _takes(transform: Transform[Any, Any]) -> str:
    match transform:
        case BucketTransform():
            return "bucket does not take; it takes int, long, decimal, date, timestamps, string, binary"
        case TruncateTransform():
            return "truncate does not take; it takes int, long, decimal, string, binary"
        case HourTransform():
            return "hour does not take; it takes timestamps"
        case YearTransform() | MonthTransform() | DayTransform():
            return f"{transform} does not take; it takes dates and timestamps"
        case _:
            return "no row can be partitioned or sorted by; use a column or field with a plain type"


def build_spec(schema: Schema, partition_by: Iterable[str], *, spec_id: int = 0, last_partition_id: int = 999, table: str | None = None) -> PartitionSpec:
    """A spec for a new table, its fields named as Iceberg names them."""
    fields: list[PartitionField] = []
    for text in partition_by:
        term = parse_partition_field(text)
        source = _bound(term, text, schema, table)
        if any(f.source_id == source.field_id and str(f.transform) == str(term.transform) for f in fields):
            raise InvalidTransform(f"{text!r} is given twice; each transform of a column partitions once.", table=table, column=term.column)
        fields.append(_new_field(term, source, schema, fields, last_partition_id + len(fields) + 1, table, with_width=False))
    return PartitionSpec(*fields, spec_id=spec_id)


def _new_field(
    term: TransformTerm, source: NestedField, schema: Schema, others: list[PartitionField], field_id: int, table: str | None, *, with_width: bool
) -> PartitionField:
    column = schema.find_column_name(source.field_id) or source.name
    taken = {f.name.lower() for f in others}
    # A partition field may carry a column's name only if it is that column's identity.
    taken |= {n.lower() for n in schema.column_names if not (isinstance(term.transform, IdentityTransform) and n == column)}
    if term.name is not None:
        if term.name.lower() in taken:
            raise InvalidTransform(
                f"The partition field name {term.name!r} is already that of a column or partition field{in_table(table)}; choose another.", table=table
            )
        return PartitionField(source_id=source.field_id, field_id=field_id, transform=term.transform, name=term.name)
    candidates = _names(column, term.transform)
    if with_width:
        candidates = candidates[::-1]
    name = next((n for n in candidates if n.lower() not in taken), None) or next(
        n for i in range(2, len(taken) + 3) if (n := f"{candidates[-1]}_{i}").lower() not in taken
    )
    return PartitionField(source_id=source.field_id, field_id=field_id, transform=term.transform, name=name)


def _names(column: str, transform: Transform[Any, Any]) -> list[str]:
    """The name Iceberg gives in a new table, then the one it gives to an added field."""
    match transform:
        case IdentityTransform():
            return [column]
        case BucketTransform():
            return [f"{column}_bucket", f"{column}_bucket_{transform.num_buckets}"]
        case TruncateTransform():
            return [f"{column}_trunc", f"{column}_trunc_{transform.width}"]
        case VoidTransform():
            return [f"{column}_null"]
        case _:
            return [f"{column}_{transform}"]


def evolve_spec(
    spec: PartitionSpec,
    specs: Mapping[int, PartitionSpec] | Iterable[PartitionSpec],
    schema: Schema,
    last_partition_id: int,
    *,
    add: Iterable[str] = (),
    drop: Iterable[str] = (),
    table: str | None = None,
) -> tuple[PartitionSpec, int]:
    """The spec after the changes, and the last partition id. An equal earlier spec comes back with its own id, else the id is a new one.

    drop takes transforms (`month(ts)`) or names of partition fields (`ts_month`).
    """
    history = list(specs.values()) if isinstance(specs, Mapping) else list(specs)
    fields = list(spec.fields)
    for text in drop:
        fields.remove(_dropped(text, fields, schema, table))
    for text in add:
        term = parse_partition_field(text)
        source = _bound(term, text, schema, table)
        if any(_is(f, source, term) for f in fields):
            raise IllegalEvolution(f"Table {table or ''} is already partitioned by {text!r}.".replace("  ", " "), table=table, column=term.column)
        field = _reused(term, source, history, fields)
        if field is None:
            last_partition_id += 1
            field = _new_field(term, source, schema, fields, last_partition_id, table, with_width=True)
        fields.append(field)
    for known in history:
        if [_identity(f) for f in known.fields] == [_identity(f) for f in fields]:
            return known, last_partition_id
    return PartitionSpec(*fields, spec_id=max(s.spec_id for s in [spec, *history]) + 1), last_partition_id


def _is(field: PartitionField, source: NestedField, term: TransformTerm) -> bool:
    return field.source_id == source.field_id and str(field.transform) == str(term.transform)


def _identity(field: PartitionField) -> tuple[int, str, str, int]:
    return field.source_id, str(field.transform), field.name, field.field_id


def _dropped(text: str, fields: list[PartitionField], schema: Schema, table: str | None) -> PartitionField:
    by_name = {f.name.lower(): f for f in fields}
    if unquoted(text).lower() in by_name and re.fullmatch(PATH, text.strip()):
        return by_name[unquoted(text).lower()]
    term = parse_partition_field(text)
    source = find_field(schema, term.column, table)
    for field in fields:
        if _is(field, source, term):
            return field
    now = ", ".join(f"{f.transform}({schema.find_column_name(f.source_id)})" for f in fields) or "nothing"
    raise IllegalEvolution(f"Table {table or ''} is not partitioned by {text!r}; it is by {now}.".replace("  ", " "), table=table, column=term.column)


def _reused(term: TransformTerm, source: NestedField, history: list[PartitionSpec], fields: list[PartitionField]) -> PartitionField | None:
    """The specification asks that a field which was in an earlier spec gets its id again."""
    taken = {f.name.lower() for f in fields} | {str(f.field_id) for f in fields}
    for known in history:
        for field in known.fields:
            if _is(field, source, term) and field.name.lower() not in taken and str(field.field_id) not in taken and term.name in (None, field.name):
                return field
    return None


def build_sort_order(schema: Schema, sort_by: Iterable[str], *, order_id: int = 1, table: str | None = None) -> SortOrder:
    """`ts desc nulls last`, `bucket(16, id)`; nulls come first when ascending, last when descending. An empty list is the unsorted order 0."""
    fields = []
    for text in sort_by:
        parts = _ORDERED.fullmatch(text.strip())
        assert parts is not None
        term = _parse_term(parts.group(1))
        source = _bound(term, text, schema, table)
        if isinstance(term.transform, VoidTransform):
            raise InvalidTransform(f"{text!r} sorts nothing: void is null for every row.", table=table, column=term.column)
        direction = SortDirection.DESC if (parts.group(2) or "").lower() == "desc" else SortDirection.ASC
        nulls = (parts.group(3) or ("first" if direction is SortDirection.ASC else "last")).lower()
        null_order = NullOrder.NULLS_FIRST if nulls == "first" else NullOrder.NULLS_LAST
        fields.append(SortField(source_id=source.field_id, transform=term.transform, direction=direction, null_order=null_order))
    return SortOrder(*fields, order_id=order_id) if fields else UNSORTED_SORT_ORDER
