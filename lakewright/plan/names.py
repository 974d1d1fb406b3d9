"""Finding columns by name, as Spark does (case aside when that is not ambiguous), and telling what was near a name that is not there."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from lakewright.errors import ColumnNotFound, DuplicateColumn, SchemaError

_SEGMENT = r"`(?:[^`]|``)+`|\"[^\"]+\"|[^\W]\w*"
PATH = rf"(?:{_SEGMENT})(?:\s*\.\s*(?:{_SEGMENT}))*"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence with near names, else one that lists what there is."""
    names = list(known)
    lowered = {n.lower(): n for n in names}
    near = [lowered[n] for n in difflib.get_close_matches(name.lower(), lowered, n=3)]
    if near:
        return f"Did you mean {', '.join(near)}?"
    return f"There are: {', '.join(names[:20])}{', …' if len(names) > 20 else ''}."


def in_table(table: str | None) -> str:
    return f" of table {table}" if table else ""


def unquoted(path: str) -> str:
    """`a`.`b` or "a".b as a.b, the way Iceberg names nested columns."""
    segments = re.findall(_SEGMENT, path)
    return ".".join(s[1:-1].replace("``", "`") if s[0] in '`"' else s for s in segments)


def match_name(name: str, known: Iterable[str]) -> str | None:
    """The known name meant by `name`: itself, else the one that differs only by case."""
    lowered = None
    for candidate in known:
        if candidate == name:
            return candidate
        if candidate.lower() == name.lower():
            lowered = candidate
    return lowered


def find_field(schema: Schema, path: str, table: str | None = None) -> NestedField:
    """The field at a path such as `a.b`, `items.element.x` or `m.value.x`; raises ColumnNotFound with near names."""
    known = schema.column_names
    name = match_name(path, known)
    if name is None:
        raise ColumnNotFound(f"There is no column {path!r}{in_table(table)}. {did_you_mean(path, known)}", table=table, column=path)
    return schema.find_field(name)


def check_names(names: Iterable[str], table: str | None = None, where: str = "") -> None:
    """Refuse empty names and names that differ only by case, which no engine could tell apart."""
    seen: dict[str, str] = {}
    for name in names:
        if not name or not name.strip():
            raise SchemaError(f"A column{where} has an empty name; every column needs one.", table=table, column=name)
        if name.lower() in seen:
            first = seen[name.lower()]
            raise DuplicateColumn(f"Columns {first!r} and {name!r}{where} have one name, case aside; rename or drop one of them.", table=table, column=name)
        seen[name.lower()] = name
