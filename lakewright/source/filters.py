"""Filters Spark pushes to a Data Source, as Iceberg expressions that rule out files and nothing more."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from pyiceberg import expressions
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, visitors
from pyiceberg.schema import Schema
from pyspark.sql import datasource as pushed

MAX_IN = 1000
iceberg: Any = expressions  # type checkers take its predicates for dataclasses and miss their constructors
_COMPARISONS: dict[type[pushed.Filter], Callable[[str, Any], BooleanExpression]] = {
    pushed.EqualTo: iceberg.EqualTo,
    pushed.GreaterThan: iceberg.GreaterThan,
    pushed.GreaterThanOrEqual: iceberg.GreaterThanOrEqual,
    pushed.LessThan: iceberg.LessThan,
    pushed.LessThanOrEqual: iceberg.LessThanOrEqual,
    pushed.StringStartsWith: iceberg.StartsWith,
}
_NULL_TESTS: dict[type[pushed.Filter], Callable[[str], BooleanExpression]] = {pushed.IsNull: iceberg.IsNull, pushed.IsNotNull: iceberg.NotNull}
_NEGATED: dict[type[pushed.Filter], type[pushed.Filter]] = {
    pushed.GreaterThan: pushed.LessThanOrEqual,
    pushed.GreaterThanOrEqual: pushed.LessThan,
    pushed.LessThan: pushed.GreaterThanOrEqual,
    pushed.LessThanOrEqual: pushed.GreaterThan,
}


def pruning_filter(filters: Iterable[pushed.Filter], schema: Schema) -> BooleanExpression:
    """True for every row that satisfies all filters, and for others too where a filter has no counterpart."""
    conjunction: BooleanExpression = AlwaysTrue()
    for pushed_filter in filters:
        expression = _bindable(_translated(pushed_filter, schema), schema)
        if expression is not None:
            conjunction = And(conjunction, expression)
    return conjunction


def _translated(pushed_filter: pushed.Filter, schema: Schema) -> BooleanExpression | None:
    if isinstance(pushed_filter, pushed.Not):
        return _negated(pushed_filter.child, schema)
    name = _column(pushed_filter, schema)
    if name is None:
        return None
    test = _NULL_TESTS.get(type(pushed_filter))
    if test is not None:
        return test(name)
    value = getattr(pushed_filter, "value", None)
    if isinstance(pushed_filter, pushed.EqualNullSafe):
        return iceberg.IsNull(name) if value is None else iceberg.EqualTo(name, value) if _comparable(value) else None
    if isinstance(pushed_filter, pushed.In):
        values = [v for v in pushed_filter.value if v is not None]
        return iceberg.In(name, set(values)) if values and len(values) <= MAX_IN and all(map(_comparable, values)) else None
    compare = _COMPARISONS.get(type(pushed_filter))
    if compare is None or value is None or not _comparable(value):
        return None
    return compare(name, value)


def _negated(child: pushed.Filter, schema: Schema) -> BooleanExpression | None:
    """A negated comparison turns around; the others keep too many files to be worth pruning by."""
    if isinstance(child, pushed.IsNull):
        return _translated(pushed.IsNotNull(child.attribute), schema)
    if isinstance(child, pushed.IsNotNull):
        return _translated(pushed.IsNull(child.attribute), schema)
    turned: Any = _NEGATED.get(type(child))
    if turned is None:
        return None
    comparison: Any = child
    return _translated(turned(comparison.attribute, comparison.value), schema)


def _column(pushed_filter: Any, schema: Schema) -> str | None:
    path: tuple[str, ...] = pushed_filter.attribute
    if len(path) > 1 and any("." in part for part in path):
        return None
    name = ".".join(path)
    try:
        schema.find_field(name)
    except ValueError:
        return None
    return name


def _comparable(value: Any) -> bool:
    """NaN equals itself in Spark, and compares with nothing in bounds."""
    return not (isinstance(value, float) and math.isnan(value))


def _bindable(expression: BooleanExpression | None, schema: Schema) -> BooleanExpression | None:
    """A literal that does not fit the column as it is would be refused or rounded: Spark alone judges it then."""
    if expression is None:
        return None
    try:
        visitors.bind(schema, expression, case_sensitive=True)
    except (TypeError, ValueError):
        return None
    return expression
