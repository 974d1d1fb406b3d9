"""Partition transforms that a column may have."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
from pyiceberg.utils.decimal import truncate_decimal

BUCKETS, WIDTHS = (1, 2, 5, 16), (1, 2, 10, 50)


def transform(chance: Random, column: str, kind: pa.DataType) -> str:
    """One of all that take the column's type, as `partition_by` has it."""
    name = chance.choice(["identity", *legal_transforms(kind)] * 2 + ["void"])
    if name == "identity":
        return column
    if name in ("bucket", "truncate"):
        return f"{name}({chance.choice(BUCKETS if name == 'bucket' else WIDTHS)}, {column})"
    return f"{name}({column})"


def legal_transforms(kind: pa.DataType) -> list[str]:
    """All but void, which takes every type."""
    found = ["identity"]
    if not (pa.types.is_boolean(kind) or pa.types.is_floating(kind)):
        found.append("bucket")
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind):
        found.append("truncate")
    if pa.types.is_temporal(kind):
        found += ["year", "month", "day"]
    return [*found, "hour"] if pa.types.is_timestamp(kind) else found


def fits(partition_by: str, kind: pa.DataType, column: list[Any]) -> bool:
    """Decimals truncated below the least of their type are no values of it: such rows are refused, here as by the reference implementation."""
    if not (pa.types.is_decimal(kind) and partition_by.startswith("truncate(")):
        return True
    width, least = int(partition_by[len("truncate(") :].split(",")[0]), Decimal(f"-{10**kind.precision - 1}E-{kind.scale}")
    return all(truncate_decimal(value, width) >= least for value in column if value is not None)
