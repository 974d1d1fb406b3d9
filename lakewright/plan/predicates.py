"""Comparisons of a column with constants, as Iceberg expressions that mean what Spark means.

Two things differ between them. In SQL a comparison with null is neither true nor false, while Iceberg's `!=` and `not in` match
nulls. And to Spark NaN equals NaN and is larger than every number, while Iceberg's bounds leave NaN out. So every predicate comes
as a pair: an inclusive one to rule files out with, and a strict one to tell that all rows of a file match.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, tzinfo
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from typing import Any
from uuid import UUID

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
)
from pyiceberg.expressions.literals import (
    BinaryLiteral,
    BooleanLiteral,
    DateLiteral,
    DecimalLiteral,
    DoubleLiteral,
    FixedLiteral,
    FloatLiteral,
    Literal,
    LongLiteral,
    StringLiteral,
    TimestampLiteral,
    UUIDLiteral,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from lakewright.plan.constants import Constant, as_timestamp, as_timestamp_ntz, parse_date

# PyIceberg's predicates take names and values in their own __init__, which a type checker does not see through pydantic.
Predicate = Callable[..., BooleanExpression]
COMPARISONS: dict[str, Predicate] = {
    "=": EqualTo,
    "!=": NotEqualTo,
    "<": LessThan,
    "<=": LessThanOrEqual,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
}
IS_NULL: Predicate = IsNull
NOT_NULL: Predicate = NotNull
IS_NAN: Predicate = IsNaN
NOT_NAN: Predicate = NotNaN
IN: Predicate = In
NOT_IN: Predicate = NotIn
STARTS_WITH: Predicate = StartsWith
NOT_STARTS_WITH: Predicate = NotStartsWith
INVERSE = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
MIRROR = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Pair:
    """inclusive: true wherever the SQL may be TRUE. strict: true only where it is TRUE. exact: inclusive is true just where the SQL is."""

    inclusive: BooleanExpression
    strict: BooleanExpression
    exact: bool


UNKNOWN = Pair(AlwaysTrue(), AlwaysFalse(), False)
ALWAYS = Pair(AlwaysTrue(), AlwaysTrue(), True)
NEVER = Pair(AlwaysFalse(), AlwaysFalse(), True)


def both(left: Pair, right: Pair) -> Pair:
    return Pair(And(left.inclusive, right.inclusive), And(left.strict, right.strict), left.exact and right.exact)


def either(left: Pair, right: Pair) -> Pair:
    return Pair(Or(left.inclusive, right.inclusive), Or(left.strict, right.strict), left.exact and right.exact)


@dataclass(frozen=True)
class ColumnRef:
    """A column by its full name. may_be_null: it or a struct around it is optional."""

    name: str
    type: IcebergType
    required: bool
    may_be_null: bool
    nested: bool

    @property
    def is_float(self) -> bool:
        return isinstance(self.type, (FloatType, DoubleType))


def is_null(column: ColumnRef) -> Pair:
    if not column.may_be_null:
        return NEVER
    # A required field of an optional struct: PyIceberg would bind IsNull to false, though the struct may be null.
    if column.required or not column.type.is_primitive:
        return UNKNOWN
    return Pair(IS_NULL(column.name), IS_NULL(column.name), True)


def not_null(column: ColumnRef) -> Pair:
    if not column.may_be_null:
        return ALWAYS
    if column.required or not column.type.is_primitive:
        return UNKNOWN
    return Pair(NOT_NULL(column.name), NOT_NULL(column.name), True)


def is_nan(column: ColumnRef) -> Pair:
    return Pair(IS_NAN(column.name), IS_NAN(column.name), True) if column.is_float else UNKNOWN


def not_nan(column: ColumnRef) -> Pair:
    """isnan(null) is false to Spark, so its negation holds for nulls."""
    return Pair(NOT_NAN(column.name), NOT_NAN(column.name), True) if column.is_float else UNKNOWN


def _guarded(column: ColumnRef, matches: BooleanExpression, *, nan_matches: bool) -> Pair:
    """A predicate on the values of a column, kept from matching nulls, and NaN where Spark does not match it.

    Strictly nothing is told of nested columns, for which PyIceberg's strict evaluator has no metrics.
    """
    present = not_null(column)
    strict = And(matches, present.strict)
    if column.is_float and not nan_matches:
        strict = And(strict, NOT_NAN(column.name))
    return Pair(And(matches, present.inclusive), AlwaysFalse() if column.nested else strict, present.exact)


def compare(column: ColumnRef, operator: str, constant: Constant, zone: tzinfo | None) -> Pair:
    if constant.kind == "null":
        return NEVER
    bounds = _bounds(column.type, constant, zone)
    if bounds is None:
        return UNKNOWN
    if isinstance(column.type, (UUIDType, FixedType, BooleanType)) and operator not in ("=", "!="):
        return UNKNOWN
    if operator in ("=", "!="):
        if bounds.exact is None:
            return NEVER if operator == "=" else not_null(column)
        return _guarded(column, COMPARISONS[operator](column.name, bounds.exact), nan_matches=operator == "!=")
    # x < 2.5 is x < 3 and x <= 2.5 is x <= 2 for whole numbers; the same for other steps.
    limit = bounds.above if operator in ("<", ">=") else bounds.below
    if limit is None:
        everything = (operator in ("<", "<=")) == bounds.beyond_top
        if everything:
            return both(not_null(column), not_nan(column)) if column.is_float and operator in ("<", "<=") else not_null(column)
        return is_nan(column) if column.is_float and operator in (">", ">=") else NEVER
    matches = COMPARISONS[operator](column.name, limit)
    if column.is_float and operator in (">", ">="):
        return _guarded(column, Or(matches, IS_NAN(column.name)), nan_matches=True)
    return _guarded(column, matches, nan_matches=False)


def is_in(column: ColumnRef, constants: list[Constant], zone: tzinfo | None, *, negated: bool) -> Pair:
    kinds = {c.kind for c in constants} - {"null"}
    # Spark casts all of an IN list to one type, and dates to text when the list is text.
    if len(kinds) > 1 and not kinds <= {"int", "decimal"} or kinds == {"string"} and isinstance(column.type, (TimestampType, TimestamptzType)):
        return UNKNOWN
    if negated and any(c.kind == "null" for c in constants):
        return NEVER
    literals = []
    for constant in constants:
        if constant.kind == "null":
            continue
        bounds = _bounds(column.type, constant, zone)
        if bounds is None or isinstance(column.type, FloatType) and bounds.exact is None:
            return UNKNOWN
        if bounds.exact is not None:
            literals.append(bounds.exact)
    if not literals:
        return not_null(column) if negated else NEVER
    return _guarded(column, (NOT_IN if negated else IN)(column.name, literals), nan_matches=negated)


def starts_with(column: ColumnRef, prefix: str, *, negated: bool) -> Pair:
    if not isinstance(column.type, StringType):
        return UNKNOWN
    if not prefix:
        return NEVER if negated else not_null(column)
    return _guarded(column, (NOT_STARTS_WITH if negated else STARTS_WITH)(column.name, prefix), nan_matches=False)


@dataclass(frozen=True)
class _Bounds:
    """Where a constant lies among the values a column can have: the value it equals, the nearest at or below, the nearest at or above."""

    exact: Literal[Any] | None
    below: Literal[Any] | None
    above: Literal[Any] | None
    beyond_top: bool = False


def _at(literal: Literal[Any]) -> _Bounds:
    return _Bounds(literal, literal, literal)


def _bounds(kind: IcebergType, constant: Constant, zone: tzinfo | None) -> _Bounds | None:
    """None where Spark's implicit casts make the comparison another one than that of the two values."""
    value = constant.value
    match kind:
        case IntegerType() | LongType():
            return _whole(kind, constant)
        case DecimalType():
            return _decimal(kind, constant)
        case FloatType():
            return _float(constant)
        case DoubleType() if constant.kind in ("int", "decimal", "double"):
            return _at(DoubleLiteral(float(value))) if math.isfinite(float(value)) else None
        case StringType() if constant.kind == "string":
            return _at(StringLiteral(value))
        case BooleanType() if constant.kind == "boolean":
            return _at(BooleanLiteral(value))
        case BinaryType() if constant.kind == "binary":
            return _at(BinaryLiteral(value))
        case FixedType() if constant.kind == "binary":
            return _at(FixedLiteral(value)) if len(value) == len(kind) else None
        case UUIDType() if constant.kind == "string":
            return _uuid(value)
        case DateType() if constant.kind in ("date", "string"):
            day = parse_date(value) if constant.kind == "string" else constant
            return _at(DateLiteral(day.value)) if day else None
        case TimestamptzType() if constant.kind in ("timestamp", "timestamp_ntz", "date", "string"):
            moment = as_timestamp(constant, zone)
            return _at(TimestampLiteral(moment.value)) if moment else None
        case TimestampType() if constant.kind in ("timestamp_ntz", "date", "string") or constant.kind == "timestamp" and zone is UTC:
            wall = constant if constant.kind == "timestamp" else as_timestamp_ntz(constant)
            return _at(TimestampLiteral(wall.value)) if wall else None
    return None


def _whole(kind: IntegerType | LongType, constant: Constant) -> _Bounds | None:
    if constant.kind not in ("int", "decimal", "double"):
        return None
    if constant.kind == "double" and (not math.isfinite(constant.value) or abs(constant.value) >= 2**53):
        return None
    number = Decimal(constant.value)
    if constant.kind == "decimal" and max(20, number.adjusted() + 1) + _scale(number) > 38:
        return None
    below, above = int(number.to_integral_value(ROUND_FLOOR)), int(number.to_integral_value(ROUND_CEILING))
    low, high = type(kind).min, type(kind).max
    if not (low <= below and above <= high):
        # To a decimal that no long can reach Spark compares without looking at the row, so that nulls match too.
        reachable = constant.kind == "int" and LongType.min <= number <= LongType.max
        return _Bounds(None, None, None, beyond_top=below > low) if reachable else None
    return _Bounds(LongLiteral(below) if below == above else None, LongLiteral(below), LongLiteral(above))


def _scale(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _decimal(kind: DecimalType, constant: Constant) -> _Bounds | None:
    if constant.kind not in ("int", "decimal"):
        return None
    number = Decimal(constant.value)
    if max(kind.precision - kind.scale, number.adjusted() + 1, 20 if constant.kind == "int" else 0) + max(kind.scale, _scale(number)) > 38:
        return None
    with localcontext(prec=80):  # Python keeps 28 digits unless told
        step = Decimal(1).scaleb(-kind.scale)
        top = Decimal(10) ** (kind.precision - kind.scale) - step
        below, above = number.quantize(step, ROUND_FLOOR), number.quantize(step, ROUND_CEILING)
    if not (-top <= below and above <= top):
        return _Bounds(None, None, None, beyond_top=number > 0)
    return _Bounds(DecimalLiteral(below) if below == above else None, DecimalLiteral(below), DecimalLiteral(above))


def _float(constant: Constant) -> _Bounds | None:
    """Spark compares a float with a decimal or double as doubles; a whole number may become a float, which is the same up to 2^24."""
    if constant.kind not in ("int", "decimal", "double") or constant.kind == "int" and abs(constant.value) > 2**24:
        return None
    number = float(constant.value)
    if not math.isfinite(number) or abs(number) > FloatType.max:
        return None
    nearest = float(struct.unpack("<f", struct.pack("<f", number))[0])
    if nearest == number:
        return _at(FloatLiteral(nearest))
    below, above = (nearest, _next_float(nearest, up=True)) if nearest < number else (_next_float(nearest, up=False), nearest)
    if not (math.isfinite(below) and math.isfinite(above)):
        return None
    return _Bounds(None, FloatLiteral(below), FloatLiteral(above))


def _next_float(value: float, *, up: bool) -> float:
    if value == 0.0:
        return math.copysign(2.0**-149, 1 if up else -1)
    bits = struct.unpack("<i", struct.pack("<f", value))[0]
    bits += 1 if (value > 0) == up else -1
    return float(struct.unpack("<f", struct.pack("<i", bits))[0])


def _uuid(text: str) -> _Bounds | None:
    """To Spark a uuid is text in its usual form."""
    try:
        return _at(UUIDLiteral(UUID(text).bytes)) if str(UUID(text)) == text else None
    except ValueError:
        return None
