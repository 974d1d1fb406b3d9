"""What occurred in an example, counted to prove that the run met what it is for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from tests.properties.strategies import Example, leaf_fields, leaf_values, quoted

WANTED = [
    *["decimals", "structs", "NaN", "null", "before 1970", "'' partition", "null partition", "NaN partition", "filtered", "sorted"],
    *["0 transforms", "1 transforms", "2 transforms", "distribution none", "distribution hash", "distribution range"],
]
WANTED_OF_ARROW = [*WANTED, "lists", "maps"]


def events(example: Example) -> Iterator[str]:
    """Names of what occurred, each once."""
    kinds = {name for field in example.schema for name in _kinds(field.type)}
    yield from kinds
    yield from {name for row in example.rows for value in row.values() for name in _met(value)}
    leaves = list(leaf_fields(example.schema))
    identities = [value for path, _ in leaves if quoted(path) in example.partition_by for value in leaf_values(example.rows, path)]
    if None in identities:
        yield "null partition"
    if "" in [value for value in identities if isinstance(value, str)]:
        yield "'' partition"
    if any("NaN" in _met(value) for value in identities):
        yield "NaN partition"
    if not example.rows:
        yield "no rows"
    if example.sort_by:
        yield "sorted"
    if example.where is not None:
        yield "filtered"
    yield f"{len(example.partition_by)} transforms"
    yield f"distribution {example.distribution_mode}"


def _kinds(kind: pa.DataType, inside: str = "") -> Iterator[str]:
    if pa.types.is_map(kind):
        yield "maps"
        yield from _kinds(kind.item_type, "maps")
    elif pa.types.is_list(kind):
        yield "lists"
        yield from _kinds(kind.value_type, "lists")
    elif pa.types.is_struct(kind):
        yield f"structs in {inside}" if inside else "structs"
        for field in kind:
            yield from _kinds(field.type)
    else:
        yield "decimals" if pa.types.is_decimal(kind) else str(kind)


def _met(value: Any) -> set[str]:
    match value:
        case None:
            return {"null"}
        case float() if math.isnan(value):
            return {"NaN"}
        case datetime():
            return {"before 1970"} if value.year < 1970 else set()
        case date():
            return {"before 1970"} if value.year < 1970 else set()
        case dict():
            return {name for item in value.values() for name in _met(item)}
        case list() | tuple():
            return {name for item in value for name in _met(item)}
    return set()
