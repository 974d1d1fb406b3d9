"""Merge engines: what becomes of a key's row when another record of the key comes.

An engine is one SQL expression for each column, over `old` (the row) and `new` (the record). The same expressions merge a record into
the table and combine the records of a batch, so both end in the same row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlglot
from pyiceberg.types import ListType
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakewright.errors import ColumnNotFound, InvalidOption
from lakewright.keys.definition import NEW, OLD, Definition, split
from lakewright.keys.imports import PYTHON, imported, is_own
from lakewright.options import MERGE_ENGINE, Options
from lakewright.plan.names import did_you_mean, find_field, match_name, unquoted
from lakewright.quoting import quoted

LATEST, FIRST_ROW, PARTIAL_UPDATE, AGGREGATE, EXPRESSION = "latest", "first-row", "partial-update", "aggregate", "expression"
ENGINES = (LATEST, FIRST_ROW, PARTIAL_UPDATE, AGGREGATE, EXPRESSION)
OF_COLUMN, OF_GROUP = "lakewright.merge.", "lakewright.merge.group."

Function = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Engine:
    """values: columns of the row after the merge. first: columns that the first record of a key does not bring itself.
    takes_late: whether a record older than the row may have a part in it. function: a user's own, instead of values."""

    name: str
    values: Mapping[str, str]
    first: Mapping[str, str] = field(default_factory=dict)
    takes_late: bool = True
    function: Function | None = None

    @property
    def keeps_first(self) -> bool:
        return self.name == FIRST_ROW

    @property
    def takes_latest(self) -> bool:
        return self.name == LATEST


DELETING = Engine(LATEST, {}, takes_late=False)  # records that are keys to delete


def engine_of(definition: Definition, options: Options, columns: Iterable[str], function: Function | None = None) -> Engine:
    """The engine of a table for records with these columns, top-level ones of the table."""
    name = options[MERGE_ENGINE]
    merged = [column for column in columns if column not in definition.key_columns]
    if function is not None or is_own(name):
        return Engine(PYTHON, {}, function=function or imported(name, "lakewright.merge-engine", definition.table))
    if name not in ENGINES:
        raise InvalidOption(f"lakewright.merge-engine of {definition.table} is {name!r}; it takes one of {', '.join(ENGINES)} or python:<module>:<function>.", table=definition.table)
    given = _given(definition, options.properties)
    if given and name not in (AGGREGATE, EXPRESSION):
        raise InvalidOption(f"{OF_COLUMN}{next(iter(given))} of {definition.table} is for the merge engines aggregate and expression, and its engine is {name}.", table=definition.table)
    match name:
        case "latest":
            return Engine(name, {c: _new(c) for c in merged}, takes_late=False)
        case "first-row":
            return Engine(name, {}, takes_late=False)
        case "partial-update":
            return Engine(name, _partial(definition, options.properties, merged))
        case "aggregate":
            functions = {c: given.get(c, "last").strip().lower() for c in merged}
            return Engine(name, {c: _aggregate(c, function, definition) for c, function in functions.items()}, {c: "1" for c, f in functions.items() if f == "count"})
    return Engine(name, {c: _expression(c, given[c], definition) if c in given else _latest(c, definition) for c in merged})


def _given(definition: Definition, properties: Mapping[str, str]) -> dict[str, str]:
    """`lakewright.merge.<column>` by column."""
    found = {}
    for setting, value in properties.items():
        if setting.startswith(OF_COLUMN) and not setting.startswith(OF_GROUP):
            found[_column(setting.removeprefix(OF_COLUMN), setting, definition)] = value
    return found


def _column(text: str, setting: str, definition: Definition) -> str:
    names = [f.name for f in definition.schema.fields]
    name = match_name(unquoted(text), names)
    if name is None:
        raise ColumnNotFound(f"{setting} of {definition.table} names column {text!r}, which is not there. {did_you_mean(text, names)}", table=definition.table, column=text)
    return name


def _old(column: str) -> str:
    return f"{OLD}.{quoted(column)}"


def _new(column: str) -> str:
    return f"{NEW}.{quoted(column)}"


def _latest(column: str, definition: Definition) -> str:
    return f"if({definition.is_not_late}, {_new(column)}, {_old(column)})"


def _filled(column: str, is_newer: str) -> str:
    """The newer value that is not null."""
    return f"if({is_newer}, coalesce({_new(column)}, {_old(column)}), coalesce({_old(column)}, {_new(column)}))"


def _partial(definition: Definition, properties: Mapping[str, str], columns: list[str]) -> dict[str, str]:
    groups: dict[str, str] = {}
    for setting, value in properties.items():
        if setting.startswith(OF_GROUP):
            order = _column(setting.removeprefix(OF_GROUP), setting, definition)
            for column in (order, *(_column(text, setting, definition) for text in split(value))):
                if groups.setdefault(column, order) != order:
                    raise InvalidOption(f"Column {column!r} of {definition.table} is ordered by {groups[column]!r} and, in {setting}, by {order!r}; it can be in one group.", table=definition.table, column=column)
    return {c: _filled(c, _in_group(groups[c], columns) if c in groups else definition.is_not_late) for c in columns}


def _in_group(order: str, columns: list[str]) -> str:
    return f"({_new(order)} is not null and ({_old(order)} is null or {_new(order)} >= {_old(order)}))" if order in columns else "false"


def _aggregate(column: str, function: str, definition: Definition) -> str:
    old, new = _old(column), _new(column)
    match function:
        case "sum" | "count":
            return f"coalesce({old} + {new}, {old}, {new})"
        case "min":
            return f"least({old}, {new})"
        case "max":
            return f"greatest({old}, {new})"
        case "first":
            return f"coalesce({old}, {new})"
        case "last":
            return _filled(column, definition.is_not_late)
        case "collect":
            if not isinstance(find_field(definition.schema, column).field_type, ListType):
                raise InvalidOption(f"{OF_COLUMN}{column} of {definition.table} is collect, which gathers values in a list; the column is none.", table=definition.table, column=column)
            return f"coalesce(concat({old}, {new}), {old}, {new})"
        case "bool_or":
            return f"coalesce({old} or {new}, {old}, {new})"
        case "bool_and":
            return f"coalesce({old} and {new}, {old}, {new})"
    known = "sum, min, max, count, first, last, collect, bool_or, bool_and"
    raise InvalidOption(f"{OF_COLUMN}{column} of {definition.table} is {function!r}; the merge engine aggregate takes one of {known}.", table=definition.table, column=column)


def _expression(column: str, text: str, definition: Definition) -> str:
    """A user's expression, read and written anew, so that it can only be an expression of `old` and `new`."""
    try:
        parsed = sqlglot.parse_one(text, dialect="spark")
    except (SqlglotError, RecursionError) as error:
        raise InvalidOption(f"{OF_COLUMN}{column} of {definition.table} cannot be read: {error}", table=definition.table, column=column) from None
    if parsed.find(exp.Query, exp.AggFunc, exp.Window):
        raise InvalidOption(f"{OF_COLUMN}{column} of {definition.table} is {text!r}; it takes an expression of one row and one record.", table=definition.table, column=column)
    for node in parsed.find_all(exp.Column):
        names = [part.name for part in node.parts]
        if len(names) < 2 or names[0].lower() not in (OLD, NEW) or match_name(names[1], (f.name for f in definition.schema.fields)) is None:
            raise ColumnNotFound(
                f"{OF_COLUMN}{column} of {definition.table} names {'.'.join(names)!r}; columns of the row are called {OLD}.<column>, those of the record {NEW}.<column>.",
                table=definition.table,
                column=column,
            )
    return parsed.sql(dialect="spark")
