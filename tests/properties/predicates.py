"""Simple filters on one column, as SQL text, about values that are in it and values that are not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from tests.properties.values import value

COMPARISONS = ["=", "<>", "<", "<=", ">", ">=", "<=>"]


def predicate(chance: Random, column: str, kind: pa.DataType, present: Sequence[Any]) -> str:
    """`present` are the column's own values."""
    known = [v for v in present if v is not None] + [value(chance, kind)]

    def some() -> str:
        return literal(chance, chance.choice(known), kind)

    shapes = [
        f"{column} {chance.choice(COMPARISONS)} {some()}",
        f"{column} {chance.choice(COMPARISONS)} {some()}",
        f"not ({some()} {chance.choice(COMPARISONS)} {column})",
        f"{column} between {some()} and {some()}",
        f"{column} {chance.choice(['in', 'not in'])} ({some()}, {some()})",
        f"{column} is {chance.choice(['null', 'not null'])}",
    ]
    if pa.types.is_floating(kind):
        shapes.append(f"{chance.choice(['', 'not '])}isnan({column})")
    if pa.types.is_string(kind):
        shapes.append(f"startswith({column}, {literal(chance, chance.choice(known)[:2], kind)})")
    return chance.choice(shapes)


def literal(chance: Random, given: Any, kind: pa.DataType) -> str:
    """A value as Spark's SQL writes it; decimals with the digits of the column, or those they have."""
    match given:
        case bool() | int():
            return str(given).lower()
        case float():
            return f"{given!r}D" if math.isfinite(given) else f"double('{given}')"
        case Decimal():
            return chance.choice([f"{given:f}", f"cast('{given:f}' as decimal({kind.precision}, {kind.scale}))"])
        case bytes():
            return f"X'{given.hex()}'"
        case datetime():
            return f"{'timestamp' if kind.tz else 'timestamp_ntz'} '{given.replace(tzinfo=None).isoformat(' ', 'microseconds')}'"
        case date():
            return f"date '{given.isoformat()}'"
    escaped = str(given).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
