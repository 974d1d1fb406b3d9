"""What makes a table keyed: its key, the order of its records, and how records of one key become one row. All of it is table properties."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import sqlglot
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, StructType
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakewright.errors import ColumnNotFound, InvalidOption, SchemaError, UnsupportedOperation
from lakewright.format.metadata import Metadata
from lakewright.plan.filter_text import UNSTABLE, function_name
from lakewright.plan.keys import KEY, ORDERING, is_keyed
from lakewright.plan.names import did_you_mean, match_name, unquoted

OLD, NEW = "old", "new"


@dataclass(frozen=True)
class Part:
    """One expression of a key or an ordering: text is as given; column names a plain column, dotted if nested, and is None for anything else."""

    text: str
    column: str | None
    parsed: exp.Expr
    schema: Schema

    def of(self, alias: str | None) -> str:
        """The expression over the rows of that alias, as SQL."""
        return _qualified(self.parsed, alias, self.schema).sql(dialect="spark")

    @property
    def is_top_level(self) -> bool:
        return self.column is not None and any(f.name == self.column for f in self.schema.fields)

    @property
    def sources(self) -> list[str]:
        """The top-level columns it is made of."""
        return list(dict.fromkeys(path[0] for path in self._paths))

    @property
    def fields(self) -> list[tuple[int, IcebergType]]:
        """The columns it is made of, by id, with their types."""
        found = [self.schema.find_field(".".join(path), case_sensitive=False) for path in self._paths]
        return [(field.field_id, field.field_type) for field in found]

    @property
    def _paths(self) -> list[tuple[str, ...]]:
        return [_resolved(node, self.schema) for node in self.parsed.find_all(exp.Column)]


@dataclass(frozen=True)
class Definition:
    """A keyed table's own settings."""

    table: str
    schema: Schema
    key: tuple[Part, ...]
    ordering: tuple[Part, ...]

    @cached_property
    def key_columns(self) -> frozenset[str]:
        """Top-level columns that are a part of the key as they are: rows of one key have the same value."""
        return frozenset(part.column for part in self.key if part.is_top_level and part.column is not None)

    def same_key(self) -> str:
        return " AND ".join(f"{part.of(OLD)} = {part.of(NEW)}" for part in self.key)

    def order_of(self, alias: str | None) -> str | None:
        """A record's place among those of its key; nulls come first. A struct, since structs compare field by field whatever is null."""
        return f"struct({', '.join(part.of(alias) for part in self.ordering)})" if self.ordering else None

    @property
    def is_not_late(self) -> str:
        return f"{self.order_of(NEW)} >= {self.order_of(OLD)}" if self.ordering else "true"


def definition_of(metadata: Metadata, table: str) -> Definition:
    """The settings of a keyed table; raises UnsupportedOperation for one that is not."""
    if not is_keyed(metadata.properties):
        raise UnsupportedOperation(
            f"{table} has no key, so there is nothing to upsert by; make it with create_table(…, key=[…]), or use append or merge.", table=table
        )
    return read_definition(metadata.properties, metadata.schema, table)


def read_definition(properties: Mapping[str, str], schema: Schema, table: str) -> Definition:
    key = tuple(_part(text, schema, KEY, table) for text in split(properties[KEY]))
    ordering = tuple(_part(text, schema, ORDERING, table) for text in split(properties.get(ORDERING, "")))
    for part in ordering:
        _require_comparable(part, table)
    return Definition(table, schema, key, ordering)


def joined(parts: str | Iterable[str]) -> str:
    """A key or ordering as the text of its property."""
    return parts if isinstance(parts, str) else ", ".join(parts)


def split(text: str) -> list[str]:
    """Expressions between commas, those inside brackets aside."""
    parts, depth, start = [], 0, 0
    for token in sqlglot.tokenize(text, dialect="spark"):
        if token.text in ("(", "["):
            depth += 1
        elif token.text in (")", "]"):
            depth -= 1
        elif token.text == "," and not depth:
            parts.append(text[start : token.start])
            start = token.end + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def plain_columns(key: str, schema: Schema) -> Sequence[str] | None:
    """The columns of a key that is nothing but columns, which Iceberg can record; None for any other."""
    names = [match_name(unquoted(text), schema.column_names) for text in split(key)]
    return None if None in names or not names else [name for name in names if name is not None]


def _part(text: str, schema: Schema, setting: str, table: str) -> Part:
    try:
        parsed = sqlglot.parse_one(text, dialect="spark")
    except (SqlglotError, RecursionError) as error:
        raise InvalidOption(f"{setting} of {table} has {text!r}, which cannot be read: {error}", table=table) from None
    if parsed.find(exp.Query, exp.AggFunc, exp.Window):
        raise InvalidOption(f"{setting} of {table} has {text!r}; it takes columns and expressions of one row.", table=table)
    for call in parsed.find_all(exp.Func):
        if function_name(call) in UNSTABLE:
            raise InvalidOption(f"{setting} of {table} has {text!r}, and {function_name(call)}() may give another answer next time.", table=table)
    columns = list(parsed.find_all(exp.Column))
    if not columns:
        raise InvalidOption(f"{setting} of {table} has {text!r}, which names no column.", table=table)
    for node in columns:
        if not _resolved(node, schema):
            name = ".".join(part.name for part in node.parts)
            raise ColumnNotFound(f"{setting} of {table} names column {name!r}, which is not there. {did_you_mean(name, schema.column_names)}", table=table, column=name)
    column = match_name(unquoted(text), schema.column_names) if isinstance(parsed, exp.Column) else None
    return Part(text, column, parsed, schema)


def _require_comparable(part: Part, table: str) -> None:
    if part.column is None:
        return
    if _has_no_order(part.schema.find_field(part.column).field_type):
        raise SchemaError(f"{part.column!r} of {table} cannot order records: a value of its type is neither more nor less than another.", table=table, column=part.column)


def _has_no_order(kind: IcebergType) -> bool:
    if isinstance(kind, MapType):
        return True
    if isinstance(kind, ListType):
        return _has_no_order(kind.element_type)
    return isinstance(kind, StructType) and any(_has_no_order(f.field_type) for f in kind.fields)


def _resolved(node: exp.Column, schema: Schema) -> tuple[str, ...]:
    """The path of a column, its first part a column of the table as that spells it; empty where there is none."""
    names = [part.name for part in node.parts]
    top = match_name(names[0], (f.name for f in schema.fields))
    return () if top is None else (top, *names[1:])


def _qualified(parsed: exp.Expr, alias: str | None, schema: Schema) -> exp.Expr:
    def named(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        path = [*([alias] if alias else []), *_resolved(node, schema)]
        made: exp.Expr = exp.Column(this=exp.to_identifier(path[0], quoted=True))
        for name in path[1:]:
            made = exp.Dot(this=made, expression=exp.to_identifier(name, quoted=True))
        return made

    return parsed.copy().transform(named)
