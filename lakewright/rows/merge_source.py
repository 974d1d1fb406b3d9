"""The source of a MERGE: read once, counted, and asked for the range of its keys, so that files outside it are left alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import sqlglot
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, LessThanOrEqual, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, BooleanType, DateType, DecimalType, IcebergType, IntegerType, LongType, StringType, TimestampType, TimestamptzType
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakewright.plan.filters import parse_where
from lakewright.plan.names import match_name
from lakewright.plan.request import RowRequest, Then
from lakewright.plan.types import spark_type
from lakewright.quoting import quoted
from lakewright.rows.expressions import column_of, is_column
from lakewright.rows.kept import kept
from lakewright.session import time_zone

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakewright.read.scan import FileScan
    from lakewright.rows.row_plan import RowContext, RowPlan

SOURCE_ROW = "_lw_source_row"
SOURCE_HASH = "_lw_source_hash"
BROADCAST_ROWS, BROADCAST_BYTES = 2_000_000, 128 * 1024 * 1024
BOUNDS: tuple[Any, Any] = (GreaterThanOrEqual, LessThanOrEqual)
RANGED = (IntegerType, LongType, StringType, DateType, DecimalType)
HASHED = (*RANGED, BinaryType, BooleanType, TimestampType, TimestamptzType)


@dataclass(frozen=True)
class SourceKey:
    """A column of the table and an expression of the source that the ON condition wants equal to it."""

    column: str
    column_type: IcebergType
    expression: str


class Index(Protocol):
    """Finds the files that may have rows of a batch's keys. It may name files too many, and never leaves one out."""

    def candidates(self, context: RowContext, source: MergeSource, files: Sequence[FileScan]) -> Sequence[FileScan]: ...


class AtHand(Protocol):
    """Source rows in this process, as a table, and what finds their matches without Spark."""

    @property
    def table(self) -> pa.Table: ...

    def planned(self, context: RowContext, request: RowRequest, source: MergeSource) -> RowPlan | None:
        """None where Spark would do better."""


@dataclass(frozen=True)
class MergeSource:
    """The source, read once: checkpointed, or at hand. ranges: least and greatest value of each key expression, None where all are null.
    hashed: the keys of SOURCE_HASH. index: what knows better than ranges which files can have a match."""

    made: Callable[[], DataFrame]
    columns: tuple[str, ...]
    count: int
    ranges: dict[str, tuple[Any, Any] | None]
    hashed: tuple[SourceKey, ...] = ()
    index: Index | None = None
    at_hand: AtHand | None = None

    @cached_property
    def rows(self) -> DataFrame:
        return self.made()

    def collected(self, columns: Sequence[str]) -> pa.Table:
        """These columns in this process."""
        return self.rows.select(*map(quoted, columns)).toArrow() if self.at_hand is None else self.at_hand.table.select(list(columns))

    def is_small(self, columns: Iterable[str] | None = None) -> bool:
        """Whether its rows, or these columns of them, can be with every task."""
        wanted = set(self.rows.columns if columns is None else columns)
        width = sum(_width(field.dataType.typeName()) for field in self.rows.schema.fields if field.name in wanted)
        return self.count <= BROADCAST_ROWS and self.count * width <= BROADCAST_BYTES

    def condition(self, request: RowRequest, schema: Schema, *, by_hash: bool) -> Column:
        """ON. Spark looks up one long faster than texts or several columns, so those are joined by a hash; the comparison of the
        values beside it is put so that Spark does not take it for a second key of the join. A column of another type since has other hashes."""
        from pyspark.sql import functions as F

        assert request.on is not None
        if not self.hashed or not by_hash or any(schema.find_type(key.column) != key.column_type for key in self.hashed):
            return column_of(request.on)
        t = [F.col(f"{quoted(request.target_alias)}.{quoted(key.column)}") for key in self.hashed]
        s = [F.expr(key.expression) for key in self.hashed]
        equal = reduce(and_, ((mine <= theirs) & (mine >= theirs) for mine, theirs in zip(t, s, strict=True)))
        return (F.xxhash64(*t) == F.col(f"{quoted(request.source_alias)}.{SOURCE_HASH}")) & equal


def read_source(request: RowRequest, schema: Any) -> MergeSource:
    """Materialise the source: whatever it is computed from, and however often, its rows are these from here on."""
    from pyspark.sql import functions as F

    assert request.source is not None
    rows = request.source.select(*map(quoted, used_columns(request))).withColumn(SOURCE_ROW, F.monotonically_increasing_id())
    keys = [key for key in equal_keys(request, schema) if _same_type(rows, request, key)]
    hashed = hashed_keys(request, keys)
    if hashed:
        rows = rows.alias(request.source_alias).withColumn(SOURCE_HASH, F.xxhash64(*(F.expr(key.expression) for key in hashed)))
    rows = kept(rows, eager=False)
    keys = [key for key in keys if isinstance(key.column_type, RANGED)]
    aliased = rows.alias(request.source_alias)
    bounds = [bound for n, key in enumerate(keys) for bound in (F.min(F.expr(key.expression)).alias(f"low{n}"), F.max(F.expr(key.expression)).alias(f"high{n}"))]
    found = aliased.agg(F.count(F.lit(1)).alias("rows"), *bounds).collect()[0]
    ranges = {key.column: None if found[f"low{n}"] is None else (found[f"low{n}"], found[f"high{n}"]) for n, key in enumerate(keys)}
    return MergeSource(lambda: rows, tuple(request.source.columns), int(found["rows"]), ranges, hashed)


def used_columns(request: RowRequest) -> list[str]:
    """The source's columns that the statement names, and only those are kept; all of them where that cannot be told."""
    assert request.source is not None
    columns: list[str] = request.source.columns
    values = [value for clause in request.clauses for value in ((clause.values or {}).values() if clause.then is not Then.DELETE else ())]
    conditions = [clause.condition for clause in request.clauses if clause.condition is not None]
    takes_all = any(clause.values is None and clause.then is not Then.DELETE for clause in request.clauses)
    return columns if takes_all else named_in((request.on, *conditions, *values), columns)


def named_in(expressions: Iterable[Any], columns: list[str]) -> list[str]:
    """Those of the columns that the expressions name; all of them where that cannot be told."""
    expressions = list(expressions)
    if len(set(map(str.lower, columns))) < len(columns) or any(map(is_column, expressions)):
        return columns
    try:
        parsed = [sqlglot.parse_one(text, dialect="spark") for text in expressions if isinstance(text, str)]
    except SqlglotError:
        return columns
    if any(node.find(exp.Star, exp.Query) for node in parsed):
        return columns
    named = {part.name.lower() for node in parsed for part in node.find_all(exp.Identifier)}
    return [column for column in columns if column.lower() in named]


def hashed_keys(request: RowRequest, keys: list[SourceKey]) -> tuple[SourceKey, ...]:
    """The keys if ON is nothing but equalities of columns, and they are more than one number, which Spark looks up as it is."""
    if len(keys) != len(_conjuncts(request)) or not all(sqlglot.parse_one(key.expression, dialect="spark").key == "column" for key in keys):
        return ()
    return worth_hashing(keys)


def worth_hashing(keys: Sequence[SourceKey]) -> tuple[SourceKey, ...]:
    return () if len(keys) == 1 and isinstance(keys[0].column_type, IntegerType | LongType | DateType) else tuple(keys)


def pruning_filter(context: RowContext, request: RowRequest, source: MergeSource) -> BooleanExpression:
    """What a row must satisfy to match any source row, as far as ON tells: key ranges, and what ON says of the table alone."""
    if source.count == 0:
        return AlwaysFalse()
    parts: list[BooleanExpression] = []
    for column, found in source.ranges.items():
        if found is None:
            return AlwaysFalse()
        parts += [bound(Reference(column), literal(value)) for bound, value in zip(BOUNDS, found, strict=True)]
    for text in _target_only(context, request):
        parts.append(parse_where(text, context.schema, context.table, session_tz=time_zone(context.spark)).iceberg)
    return reduce(And, parts, AlwaysTrue())  # type: ignore[arg-type]


def equal_keys(request: RowRequest, schema: Any) -> Iterator[SourceKey]:
    """`t.column = expression of s` among the conjuncts of ON."""
    seen: set[str] = set()
    for part in _conjuncts(request):
        if not isinstance(part, exp.EQ):
            continue
        for side, other in ((part.this, part.expression), (part.expression, part.this)):
            column = _column_of(side, request.target_alias, schema)
            if column is None or column[0] in seen or not _only_of(other, request.source_alias):
                continue
            if isinstance(column[1], HASHED):
                seen.add(column[0])
                yield SourceKey(column[0], column[1], other.sql(dialect="spark"))


def _conjuncts(request: RowRequest) -> list[exp.Expr]:
    if not isinstance(request.on, str):
        return []
    parsed = sqlglot.parse_one(request.on, dialect="spark").unnest()
    return [part.unnest() for part in parsed.flatten()] if isinstance(parsed, exp.And) else [parsed]


def _column_of(node: exp.Expr, alias: str, schema: Any) -> tuple[str, IcebergType] | None:
    """A top-level column of the table, named with its alias."""
    node = node.unnest()
    if not isinstance(node, exp.Column) or len(node.parts) != 2 or node.table.lower() != alias.lower():
        return None
    name = match_name(node.name, (f.name for f in schema.fields))
    return None if name is None or "." in name else (name, next(f.field_type for f in schema.fields if f.name == name))


def is_of_one(value: Any, alias: str) -> bool:
    """Whether a value is SQL text over columns, all of the one with this alias."""
    try:
        return isinstance(value, str) and _only_of(sqlglot.parse_one(value, dialect="spark"), alias)
    except SqlglotError:
        return False


def _only_of(node: exp.Expr, alias: str) -> bool:
    columns = list(node.find_all(exp.Column))
    return bool(columns) and all(c.table.lower() == alias.lower() for c in columns) and not node.find(exp.Query)


def _target_only(context: RowContext, request: RowRequest) -> Iterator[str]:
    """Conjuncts that look at the table alone, without its alias, as `where` takes them."""
    for part in _conjuncts(request):
        if _only_of(part, request.target_alias) and all(len(c.parts) == 2 for c in part.find_all(exp.Column)):
            bare = part.copy()
            for column in bare.find_all(exp.Column):
                column.set("table", None)
            yield bare.sql(dialect="spark")


def _same_type(rows: DataFrame, request: RowRequest, key: SourceKey) -> bool:
    """Where ON compares different types Spark casts one of them, and the order of values may not survive that."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    try:
        given = rows.alias(request.source_alias).select(F.expr(key.expression).alias("key")).schema["key"].dataType
    except AnalysisException:
        return False
    return bool(given == spark_type(key.column_type))


def _width(kind: str) -> int:
    return {"boolean": 1, "byte": 1, "short": 2, "integer": 4, "float": 4, "date": 4, "string": 32, "binary": 64}.get(kind, 16)
