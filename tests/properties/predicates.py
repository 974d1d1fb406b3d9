"""Simple filters on one column, as SQL text, about values that are in it and values that are not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

COMPARISONS = ["=", "<>", "<", "<=", ">", ">=", "<=>"]
OTHERS: dict[str, list[Any]] = {
    "string": ["", "b", "Straß"],
    "binary": [b"", b"\x80"],
    "date32[day]": [date(1969, 12, 31), date(2024, 1, 1)],
}


def predicates(column: str, kind: pa.DataType, present: Sequence[Any]) -> st.SearchStrategy[str]:
    """`present` are the column's own values."""
    known = [value for value in present if value is not None] + _others(kind)
    literals = st.sampled_from(known).map(lambda value: literal(value, kind))
    shapes = [
        st.builds(lambda operator, value: f"{column} {operator} {value}", st.sampled_from(COMPARISONS), literals),
        st.builds(lambda operator, value: f"not ({column} {operator} {value})", st.sampled_from(COMPARISONS), literals),
        st.builds(lambda low, high: f"{column} between {low} and {high}", literals, literals),
        st.builds(lambda words, items: f"{column} {words} ({', '.join(items)})", st.sampled_from(["in", "not in"]), st.lists(literals, min_size=1, max_size=3)),
        st.sampled_from([f"{column} is null", f"{column} is not null"]),
    ]
    if pa.types.is_floating(kind):
        shapes.append(st.sampled_from([f"isnan({column})", f"not isnan({column})"]))
    if pa.types.is_string(kind):
        prefixes = st.sampled_from(known).map(lambda text: literal(text[:2], kind))
        shapes.append(st.builds(lambda prefix: f"startswith({column}, {prefix})", prefixes))
    return st.one_of(shapes)


def _others(kind: pa.DataType) -> list[Any]:
    if pa.types.is_boolean(kind):
        return [True, False]
    if pa.types.is_integer(kind):
        return [0, -7]
    if pa.types.is_floating(kind):
        return [0.0, 1.25, math.nan]
    if pa.types.is_decimal(kind):
        return [Decimal(0)]
    if pa.types.is_timestamp(kind):
        return [datetime(1969, 12, 31, 12), datetime(2024, 2, 29)]
    return OTHERS[str(kind)]


def literal(value: Any, kind: pa.DataType) -> str:
    """A value as Spark's SQL writes it."""
    match value:
        case bool() | int():
            return str(value).lower()
        case float() if not math.isfinite(value):
            return f"double('{value}')"
        case float():
            return f"{value!r}D"
        case Decimal():
            return f"cast('{value:f}' as decimal({kind.precision}, {kind.scale}))"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            return f"{'timestamp' if kind.tz else 'timestamp_ntz'} '{value.replace(tzinfo=None).isoformat(' ', 'microseconds')}'"
        case date():
            return f"date '{value.isoformat()}'"
    escaped = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
