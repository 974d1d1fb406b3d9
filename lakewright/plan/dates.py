"""Comparisons of the day of a timestamp, `date(ts) = '2020-01-01'`, as bounds on the timestamp itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyiceberg.expressions import AlwaysFalse, And, BooleanExpression, GreaterThanOrEqual, LessThan
from pyiceberg.expressions.literals import TimestampLiteral
from pyiceberg.types import DateType, TimestampType, TimestamptzType

from lakewright.plan.constants import Constant, parse_date
from lakewright.plan.predicates import NEVER, UNKNOWN, ColumnRef, Pair, compare

DAY = 86_400_000_000
_FROM: Callable[..., BooleanExpression] = GreaterThanOrEqual
_BEFORE: Callable[..., BooleanExpression] = LessThan


def compare_day(column: ColumnRef, operator: str, constant: Constant) -> Pair:
    """Only to rule files out. A zone shifts an instant by less than a day, so the bounds of one are wider by a day on each side."""
    if constant.kind == "null":
        return NEVER
    day = parse_date(constant.value) if constant.kind == "string" else constant
    if day is None or day.kind != "date" or operator == "!=":
        return UNKNOWN
    if isinstance(column.type, DateType):
        return compare(column, operator, day, None)
    if not isinstance(column.type, (TimestampType, TimestamptzType)):
        return UNKNOWN
    slack = DAY if isinstance(column.type, TimestamptzType) else 0
    start, end = day.value * DAY, (day.value + 1) * DAY

    def since(micros: int) -> Any:
        return _FROM(column.name, TimestampLiteral(micros - slack))

    def until(micros: int) -> Any:
        return _BEFORE(column.name, TimestampLiteral(micros + slack))

    bounds = {"=": And(since(start), until(end)), "<": until(start), "<=": until(end), ">": since(end), ">=": since(start)}
    return Pair(bounds[operator], AlwaysFalse(), False)
