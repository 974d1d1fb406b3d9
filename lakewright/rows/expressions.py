"""What users write as conditions and values: SQL text, Columns or plain values, and what can be wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import sqlglot
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, NestedField, StructType
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakewright.errors import ColumnNotFound, InvalidFilter, SchemaError
from lakewright.options import Options
from lakewright.plan.assignment import assign
from lakewright.plan.filter_text import UNSTABLE, function_name
from lakewright.plan.names import find_field, match_name, unquoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CALL = re.compile(r"\b(\w+)\(")
_UNKNOWN_COLUMN = ("UNRESOLVED_COLUMN", "FIELD_NOT_FOUND")


def column_of(value: Any) -> Column:
    """Text is SQL, a Column is itself, anything else is a value."""
    from pyspark.sql import functions as F

    if isinstance(value, str):
        return F.expr(value)
    return value if is_column(value) else F.lit(value)


def condition_of(condition: str | Column | None) -> Column:
    """A condition that is null counts as not met."""
    from pyspark.sql import functions as F

    return F.lit(True) if condition is None else F.coalesce(column_of(condition), F.lit(False))


def require_deterministic(condition: str | Column | None, what: str, table: str) -> None:
    """Refuse what may give another answer when evaluated again: a row could then be both matched and not."""
    if condition is None:
        return
    for name in _functions(condition, what, table):
        if name in UNSTABLE:
            raise InvalidFilter(f"The {what} {condition!r} uses {name}(), which may give another answer next time; write its value into the text.", table=table)


def _functions(condition: str | Column, what: str, table: str) -> Iterator[str]:
    if not isinstance(condition, str):
        yield from (name.lower() for name in _CALL.findall(str(condition)))
        return
    try:
        parsed = sqlglot.parse_one(condition, dialect="spark")
    except (SqlglotError, RecursionError) as error:
        raise InvalidFilter(f"Cannot read the {what} {condition[:200]!r}: {error}", table=table) from None
    yield from (function_name(node) for node in parsed.find_all(exp.Func))


@contextmanager
def explaining(what: str, table: str) -> Iterator[None]:
    """Around handing expressions to Spark: an expression it cannot resolve is the caller's mistake, and is told as one."""
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as error:
        reason = str(error).splitlines()[0]
        kind = ColumnNotFound if any(sign in str(error.getCondition()) for sign in _UNKNOWN_COLUMN) else InvalidFilter
        raise kind(f"The {what} of {table} cannot be resolved: {reason} Nothing was changed.", table=table) from error


def assignments(
    rows: DataFrame, values: Mapping[str, Any], schema: Schema, options: Options, *, alias: str | None, old: Callable[[NestedField], Column], what: str, table: str
) -> dict[int, Column]:
    """New values by the id of their top-level column, in the table's types. `old` gives a column's present value, for fields inside it."""
    named = [(_target(name, schema, alias, table), column_of(value)) for name, value in values.items()]
    _require_distinct([path for path, _ in named], what, table)
    with explaining(what, table):
        types = rows.select(*(value.alias(f"_lw_{n}") for n, (_, value) in enumerate(named))).schema if named else ()
    found: dict[int, list[tuple[list[str], Column]]] = {}
    for (path, value), given in zip(named, types, strict=True):
        field = find_field(schema, path, table)
        fitted = assign(value, given.dataType, field, path, options, table)
        top = _top_level(schema, path)
        steps = _steps(top.field_type, path[len(top.name) + 1 :])
        if steps is None:
            raise SchemaError(f"The {what} of {table} assigns {path!r}, which is inside a list or map; assign {top.name!r} as a whole.", table=table, column=path)
        found.setdefault(top.field_id, []).append((steps, fitted))
    new = {f: found[f.field_id] for f in schema.fields if f.field_id in found}
    return {f.field_id: _with_fields(old(f), f.field_type, values) if values[0][0] else values[0][1] for f, values in new.items()}


def _target(name: str, schema: Schema, alias: str | None, table: str) -> str:
    """The full name of the column an assignment names, with or without the table's alias in front."""
    path = unquoted(name)
    first, _, rest = path.partition(".")
    if alias is not None and rest and first.lower() == alias.lower() and match_name(path, schema.column_names) is None:
        path = rest
    field = find_field(schema, path, table)
    found = schema.find_column_name(field.field_id)
    assert found is not None
    return found


def _top_level(schema: Schema, path: str) -> NestedField:
    whole = next((f for f in schema.fields if f.name == path), None)
    return whole or next(f for f in schema.fields if path.startswith(f.name + "."))


def _with_fields(value: Column, kind: IcebergType, new: Sequence[tuple[Sequence[str], Column]]) -> Column:
    """The struct with new values for fields in it, by the names that lead to each. Unlike `Column.withField` it makes a struct where there is none, as SQL does.

    All at once, since a struct made of another says that one again for each of its fields.
    """
    from pyspark.sql import functions as F

    if not new:
        return value
    if not new[0][0]:
        return new[0][1]
    assert isinstance(kind, StructType)
    below = {f.name: [(names[1:], column) for names, column in new if names[0] == f.name] for f in kind.fields}
    return F.struct(*(_with_fields(value.getField(f.name), f.field_type, below[f.name]).alias(f.name) for f in kind.fields))


def _steps(kind: IcebergType, inside: str) -> list[str] | None:
    """The names on the way to a field of a struct; None if the way goes through a list or map."""
    if not inside:
        return []
    if not isinstance(kind, StructType):
        return None
    found = next((f for f in kind.fields if f.name == inside), None) or next(f for f in kind.fields if inside.startswith(f.name + "."))
    below = _steps(found.field_type, inside[len(found.name) + 1 :])
    return None if below is None else [found.name, *below]


def _require_distinct(paths: list[str], what: str, table: str) -> None:
    for n, path in enumerate(paths):
        other = next((p for p in paths[:n] if p == path or p.startswith(path + ".") or path.startswith(p + ".")), None)
        if other is not None:
            raise SchemaError(f"The {what} of {table} assigns {path!r} twice (also as {other!r}); assign each column once.", table=table, column=path)


def is_column(value: Any) -> bool:
    from pyspark.sql import Column

    return isinstance(value, Column)
