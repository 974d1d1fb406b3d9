"""The source of a MERGE: read once, counted, and asked for the range of its keys, so that files outside it are left alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import sqlglot
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, LessThanOrEqual, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.types import DateType, DecimalType, IcebergType, IntegerType, LongType, StringType
from sqlglot import exp

from lakewright.plan.filters import parse_where
from lakewright.plan.names import match_name
from lakewright.plan.request import RowRequest
from lakewright.plan.types import spark_type
from lakewright.session import time_zone

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakewright.rows.row_plan import RowContext

SOURCE_ROW = "_lw_source_row"
BROADCAST_ROWS, BROADCAST_BYTES = 2_000_000, 128 * 1024 * 1024
BOUNDS: tuple[Any, Any] = (GreaterThanOrEqual, LessThanOrEqual)
RANGED = (IntegerType, LongType, StringType, DateType, DecimalType)


@dataclass(frozen=True)
class KeyRange:
    """A column of the table and an expression of the source that the ON condition wants equal to it."""

    column: str
    column_type: IcebergType
    expression: str


@dataclass(frozen=True)
class MergeSource:
    """The checkpointed source; ranges: least and greatest value of each key expression, None where all are null."""

    rows: DataFrame
    columns: tuple[str, ...]
    count: int
    ranges: dict[str, tuple[Any, Any] | None]

    @property
    def is_small(self) -> bool:
        width = sum(_width(field.dataType.typeName()) for field in self.rows.schema.fields)
        return self.count <= BROADCAST_ROWS and self.count * width <= BROADCAST_BYTES


def read_source(request: RowRequest, schema: Any) -> MergeSource:
    """Materialise the source: whatever it is computed from, and however often, its rows are these from here on."""
    from pyspark.sql import functions as F

    assert request.source is not None
    rows = request.source.withColumn(SOURCE_ROW, F.monotonically_increasing_id()).localCheckpoint(eager=False)
    keys = [key for key in key_ranges(request, schema) if _same_type(rows, request, key)]
    aliased = rows.alias(request.source_alias)
    bounds = [bound for n, key in enumerate(keys) for bound in (F.min(F.expr(key.expression)).alias(f"low{n}"), F.max(F.expr(key.expression)).alias(f"high{n}"))]
    found = aliased.agg(F.count(F.lit(1)).alias("rows"), *bounds).collect()[0]
    ranges = {key.column: None if found[f"low{n}"] is None else (found[f"low{n}"], found[f"high{n}"]) for n, key in enumerate(keys)}
    return MergeSource(rows, tuple(request.source.columns), int(found["rows"]), ranges)


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


def key_ranges(request: RowRequest, schema: Any) -> Iterator[KeyRange]:
    """`t.column = expression of s` among the conjuncts of ON, for columns whose order Iceberg and Spark agree on."""
    seen: set[str] = set()
    for part in _conjuncts(request):
        if not isinstance(part, exp.EQ):
            continue
        for side, other in ((part.this, part.expression), (part.expression, part.this)):
            column = _column_of(side, request.target_alias, schema)
            if column is None or column[0] in seen or not _only_of(other, request.source_alias):
                continue
            if isinstance(column[1], RANGED):
                seen.add(column[0])
                yield KeyRange(column[0], column[1], other.sql(dialect="spark"))


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


def _same_type(rows: DataFrame, request: RowRequest, key: KeyRange) -> bool:
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
