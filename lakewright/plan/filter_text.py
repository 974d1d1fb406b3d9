"""The text of a `where`, parsed: checked against the table's columns, and what of it Iceberg can tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo
from typing import Any

import sqlglot
from pyiceberg.expressions import AlwaysFalse
from pyiceberg.schema import Schema
from pyiceberg.types import StructType
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from lakewright.errors import ColumnNotFound, InvalidFilter
from lakewright.plan.constants import Constant, constant, zone_of
from lakewright.plan.dates import compare_day
from lakewright.plan.names import did_you_mean, in_table, match_name
from lakewright.plan.predicates import (
    ALWAYS,
    INVERSE,
    MIRROR,
    NEVER,
    UNKNOWN,
    ColumnRef,
    Pair,
    both,
    compare,
    either,
    is_in,
    is_nan,
    is_null,
    not_nan,
    not_null,
    starts_with,
)

OPERATORS: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
UNSTABLE = {
    "rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id", "spark_partition_id", "input_file_name",
    "reflect", "java_method", "try_reflect",
    "current_timestamp", "current_date", "current_time", "localtimestamp", "now", "curdate", "unix_timestamp",
}  # fmt: skip


def translate(where: str, schema: Schema, table: str | None, session_tz: str | None, *, deterministic: bool, also: set[str]) -> Pair:
    """What Iceberg can tell of a condition, once it is found to be one that may be asked of the table."""
    node = _parsed(where, table)
    _check(node, where, schema, table, deterministic, also)
    try:
        return _Translation(where, schema, zone_of(session_tz)).true(node)
    except RecursionError:  # conditions nested in conditions too deep to look into
        return UNKNOWN


def _parsed(where: str, table: str | None) -> exp.Expr:
    if not where.strip():
        raise InvalidFilter("The where is empty; leave it out to mean every row.", table=table)
    try:
        statements = [s for s in sqlglot.parse(where, dialect="spark") if s is not None]
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        at = f" at line {first['line']}, column {first['col']}, near {first['highlight']!r}" if first.get("line") else ""
        raise InvalidFilter(f"Cannot read the where {where!r}{at}: {first.get('description') or error}", table=table) from None
    except SqlglotError as error:
        raise InvalidFilter(f"Cannot read the where {where!r}: {error}", table=table) from None
    except RecursionError:
        raise InvalidFilter(f"The where that begins {where[:60]!r} has more brackets in brackets than can be read; say it with IN, or join a table of values.", table=table) from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Condition):
        raise InvalidFilter(f"The where {where!r} is not one condition; give one, such as \"region = 'eu' and fare > 0\".", table=table)
    return statements[0]


def _chained(node: Any) -> list[exp.Expr]:
    """The conditions that one kind of AND or OR joins, however many: they come as a chain that is as deep as it is long."""
    parts, kind = [], type(node)
    while isinstance(node, kind):
        parts.append(node.right)
        node = node.left
    return [node, *reversed(parts)]


def _halved(combine: Callable[[Pair, Pair], Pair], parts: Sequence[Pair]) -> Pair:
    """All parts combined, the first half with the second, so that what comes out is flat."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return combine(_halved(combine, parts[:middle]), _halved(combine, parts[middle:]))


def _outside_queries(node: exp.Expr) -> Iterator[exp.Expr]:
    """The node and what is below it, without subqueries, whose columns are another's."""
    return node.walk(prune=lambda n: isinstance(n, exp.Query))


def _check(node: exp.Expr, where: str, schema: Schema, table: str | None, deterministic: bool, also: set[str]) -> None:
    for part in _outside_queries(node):
        if isinstance(part, (exp.Column, exp.Dot)) and not isinstance(part.parent, exp.Dot):
            path = _path(part)
            if path and path[0] not in also:
                _resolve(schema, path, table)
        elif isinstance(part, exp.Window) or isinstance(part, exp.AggFunc) and not isinstance(part.parent, exp.Window):
            raise InvalidFilter(f"The where {where!r} uses {part.sql('spark')}, which spans rows; a where looks at one row.", table=table)
        elif isinstance(part, exp.Placeholder):
            raise InvalidFilter(f"The where {where!r} has a parameter {part.sql('spark')}; write its value into the text.", table=table)
        elif deterministic and isinstance(part, exp.Func) and function_name(part) in UNSTABLE:
            raise InvalidFilter(
                f"The where {where!r} uses {function_name(part)}(), which may give another answer next time; write its value into the text.", table=table
            )


def function_name(node: exp.Func) -> str:
    return (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()


def _path(node: exp.Expr) -> list[str] | None:
    """The parts of a column reference; None for what is more than that."""
    if isinstance(node, exp.Column):
        return [part.name for part in node.parts] if not isinstance(node.this, exp.Star) else None
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        above = _path(node.this)
        return [*above, node.expression.name] if above else None
    return None


def _resolve(schema: Schema, path: list[str], table: str | None) -> ColumnRef | None:
    """The column of a path; None where it goes on into a list or map, which Spark can and Iceberg cannot follow."""
    struct, may_be_null, names = schema.as_struct(), False, []
    for depth, part in enumerate(path):
        name = match_name(part, (f.name for f in struct.fields))
        if name is None:
            full = ".".join(path)
            raise ColumnNotFound(f"There is no column {full!r}{in_table(table)}. {did_you_mean(full, schema.column_names)}", table=table, column=full)
        field = next(f for f in struct.fields if f.name == name)
        names.append(name)
        may_be_null = may_be_null or field.optional
        if depth == len(path) - 1:
            return ColumnRef(".".join(names), field.field_type, field.required, may_be_null, nested=depth > 0)
        if not isinstance(field.field_type, StructType):
            return None
        struct = field.field_type
    return None


class _Translation:
    """What of a condition Iceberg can tell, separately for when it is true and for when it is false: nulls make it neither."""

    def __init__(self, where: str, schema: Schema, zone: tzinfo | None) -> None:
        self.where = where
        self.schema = schema
        self.zone = zone

    def true(self, node: exp.Expr) -> Pair:
        return self.translate(node, False)

    def translate(self, node: exp.Expr, negated: bool) -> Pair:
        match node:
            case exp.Paren():
                return self.translate(node.this, negated)
            case exp.Not():
                return self.translate(node.this, not negated)
            case exp.And() | exp.Or():
                combine = both if isinstance(node, exp.And) != negated else either
                return _halved(combine, [self.translate(part, negated) for part in _chained(node)])
            case exp.Boolean():
                return ALWAYS if bool(node.this) != negated else NEVER
            case exp.Null():
                return NEVER
            case exp.Column() | exp.Dot():
                column = self.column(node)
                return compare(column, "=", Constant("boolean", not negated), self.zone) if column else UNKNOWN
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                return self.comparison(node, negated)
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                return self.null_safe(node, negated != isinstance(node, exp.NullSafeNEQ))
            case exp.Between() if not node.args.get("symmetric"):
                return self.between(node, negated)
            case exp.In():
                return self.membership(node, negated)
            case exp.Is():
                return self.is_(node, negated)
            case exp.IsNan():
                column = self.column(node.this)
                return UNKNOWN if column is None else not_nan(column) if negated else is_nan(column)
            case exp.Like() | exp.StartsWith():
                return self.prefix(node, negated != bool(node.args.get("negate")))
            case exp.Anonymous() if node.name.lower() in ("isnull", "isnotnull") and len(node.expressions) == 1:
                return self.null_test(node.expressions[0], (node.name.lower() == "isnotnull") != negated)
        return UNKNOWN

    def column(self, node: exp.Expr) -> ColumnRef | None:
        while isinstance(node, exp.Paren):
            node = node.this
        path = _path(node)
        if not path or match_name(path[0], (f.name for f in self.schema.fields)) is None:
            return None
        found = _resolve(self.schema, path, None)
        # A dot in a name could be taken for a step into a struct by whoever binds the expression.
        return None if found is None or any("." in part for part in path) else found

    def constant(self, node: exp.Expr) -> Constant | None:
        found = constant(node, self.zone)
        if found is not None and found.kind == "string":
            # Escapes depend on session settings; so does whether "x" is a text or a column.
            quoted = f'"{found.value}"' in self.where and match_name(found.value, (f.name for f in self.schema.fields)) is not None
            if "\\" in self.where or quoted:
                return None
        return found

    def comparison(self, node: exp.Expr, negated: bool) -> Pair:
        operator = OPERATORS[type(node)]
        left, right = node.this, node.expression
        for side, other, as_written in ((left, right, operator), (right, left, MIRROR[operator])):
            of_day, day = self.timestamp_of_day(side), self.constant(other)
            if of_day is not None and day is not None:
                return compare_day(of_day, INVERSE[as_written] if negated else as_written, day)
        column, value = self.column(left), self.constant(right)
        if column is None:
            column, value, operator = self.column(right), self.constant(left), MIRROR[operator]
        if column is None:
            return _fold(value, operator, self.constant(right), negated)
        if value is None:
            return UNKNOWN
        return compare(column, INVERSE[operator] if negated else operator, value, self.zone)

    def timestamp_of_day(self, node: exp.Expr) -> ColumnRef | None:
        """The column of date(c), to_date(c) or cast(c as date)."""
        if isinstance(node, exp.Cast) and node.to.this.name == "DATE" or isinstance(node, exp.TsOrDsToDate) and not node.args.get("format"):
            return self.column(node.this)
        return None

    def null_safe(self, node: exp.Expr, negated: bool) -> Pair:
        left, right = node.this, node.expression
        column, value = self.column(left), self.constant(right)
        if column is None:
            column, value = self.column(right), self.constant(left)
        if column is None or value is None:
            return UNKNOWN
        if value.kind == "null":
            return not_null(column) if negated else is_null(column)
        if negated:
            return either(compare(column, "!=", value, self.zone), is_null(column))
        return compare(column, "=", value, self.zone)

    def between(self, node: exp.Between, negated: bool) -> Pair:
        column, low, high = self.column(node.this), self.constant(node.args["low"]), self.constant(node.args["high"])
        if column is None or low is None or high is None:
            return UNKNOWN
        if negated:
            return either(compare(column, "<", low, self.zone), compare(column, ">", high, self.zone))
        return both(compare(column, ">=", low, self.zone), compare(column, "<=", high, self.zone))

    def membership(self, node: exp.In, negated: bool) -> Pair:
        column = self.column(node.this)
        constants = [self.constant(e) for e in node.expressions]
        if column is None or node.args.get("query") or node.args.get("unnest") or node.args.get("field") or not constants:
            return UNKNOWN
        known = [c for c in constants if c is not None]
        return is_in(column, known, self.zone, negated=negated) if len(known) == len(constants) else UNKNOWN

    def is_(self, node: exp.Is, negated: bool) -> Pair:
        if isinstance(node.expression, exp.Null):
            return self.null_test(node.this, negated)
        if isinstance(node.expression, exp.Boolean) and not negated:
            return self.translate(node.this, not bool(node.expression.this))
        return UNKNOWN

    def null_test(self, node: exp.Expr, wants_value: bool) -> Pair:
        column = self.column(node)
        if column is None:
            return UNKNOWN
        return not_null(column) if wants_value else is_null(column)

    def prefix(self, node: exp.Expr, negated: bool) -> Pair:
        column, pattern = self.column(node.this), self.constant(node.expression)
        if column is None or pattern is None or pattern.kind != "string":
            return UNKNOWN
        if isinstance(node, exp.StartsWith):
            return starts_with(column, pattern.value, negated=negated)
        prefix = pattern.value.split("%")[0].split("_")[0]
        if prefix == pattern.value:
            return compare(column, "!=" if negated else "=", pattern, self.zone)
        if pattern.value == prefix + "%":
            return starts_with(column, prefix, negated=negated)
        if negated:
            return Pair(not_null(column).inclusive, AlwaysFalse(), False)
        return Pair(starts_with(column, prefix, negated=False).inclusive, AlwaysFalse(), False)


def _fold(left: Constant | None, operator: str, right: Constant | None, negated: bool) -> Pair:
    """`1 = 1` and `1 = 0`, which programs write for all and nothing."""
    if operator != "=" or left is None or right is None or left.kind != "int" or right.kind != "int":
        return UNKNOWN
    return ALWAYS if (left.value == right.value) != negated else NEVER
