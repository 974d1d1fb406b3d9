"""Random tables: a schema with rows that engines tend to disagree on, a layout, a way to write it and a filter to read it with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.properties.layouts import fits, transform
from tests.properties.predicates import predicate
from tests.properties.values import DECIMALS, PRIMITIVES, column_value

Path = tuple[str, ...]
Leaf = tuple[Path, pa.DataType]

NAMES = ["c", "c", "c", "größe", "two words", "order", "x-y", "1st", "Ünïcode_列"]
MOST_ROWS = 25


@dataclass(frozen=True)
class Example:
    """`where` is None where the table is only read whole."""

    schema: pa.Schema
    rows: list[dict[str, Any]]
    partition_by: list[str]
    sort_by: list[str]
    distribution_mode: str
    fanout: bool
    where: str | None

    @cached_property
    def table(self) -> pa.Table:
        return pa.Table.from_pylist(self.rows, schema=self.schema)

    def as_pyiceberg_reads(self) -> pa.Table:
        """PyIceberg 0.12 makes lists and maps of structs anew from their offsets, and so empty ones of null ones."""
        rows = [{field.name: _without_null_lists(row[field.name], field.type) for field in self.schema} for row in self.rows]
        return pa.Table.from_pylist(rows, schema=self.schema)


def _without_null_lists(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return None if value is None else {field.name: _without_null_lists(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind) and pa.types.is_struct(kind.item_type):
        return [(key, _without_null_lists(item, kind.item_type)) for key, item in value or []]
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        return [_without_null_lists(item, kind.value_type) for item in value or []]
    return value


@st.composite
def examples(draw: st.DrawFn, repeated: bool) -> Example:
    """`repeated` lets columns be lists and maps, and hold them.

    All but the number of rows is drawn at once, as a seed: choice by choice Hypothesis would make five of six examples by
    repeating parts of one, and thirty of them would be too much alike.
    """
    rows, seed = draw(st.sampled_from(range(MOST_ROWS + 1))), draw(st.integers(0, 2**64 - 1))
    return Drawn(Random(seed), repeated).example(rows)


class Drawn:
    """A table drawn by chance."""

    def __init__(self, chance: Random, repeated: bool) -> None:
        self.chance = chance
        self.repeated = repeated

    def example(self, count: int) -> Example:
        chance = self.chance
        fields = self.fields(chance.choice([1, 2, 3, 4]), required=[True, False, False, False])
        leaves = list(leaf_fields(fields))
        partitions = {transform(chance, quoted(path), kind): (path, kind) for path, kind in self.some_of(leaves, [0, 1, 1, 2, 2])}
        filtered, filter_seed = self.some_of(leaves, [0, 1]), chance.random()
        sort_by = [quoted(path) for path, _ in self.some_of(leaves, [0, 0, 1])]
        distribution_mode, fanout = chance.choice(["none", "hash", "range"]), chance.choice([True, False])
        rows = [{field.name: column_value(chance, field) for field in fields} for _ in range(count)]
        return Example(
            schema=pa.schema(fields),
            rows=rows,
            partition_by=[text for text, (path, kind) in partitions.items() if fits(text, kind, leaf_values(rows, path))],
            sort_by=sort_by,
            distribution_mode=distribution_mode,
            fanout=fanout,
            where=next((predicate(Random(filter_seed), quoted(path), kind, leaf_values(rows, path)) for path, kind in filtered), None),
        )

    def some_of(self, leaves: list[Leaf], counts: list[int]) -> list[Leaf]:
        """Columns, one perhaps twice; strings more often, for they make the most of partitions."""
        weights = [4 if pa.types.is_string(kind) else 1 for _, kind in leaves]
        return self.chance.choices(leaves, weights, k=self.chance.choice(counts)) if leaves else []

    def fields(self, count: int, required: list[bool], depth: int = 2) -> list[pa.Field]:
        """Fields with names that differ."""
        chance = self.chance
        return [pa.field(f"{chance.choice(NAMES)}{n}", self.kind(depth), not chance.choice(required)) for n in range(count)]

    def kind(self, depth: int) -> pa.DataType:
        chance = self.chance
        nested = chance.choice(["struct", "list", "map"] if self.repeated else ["struct"])
        if depth == 0 or chance.random() < 0.6:
            return chance.choice([chance.choice(PRIMITIVES)] * 5 + [chance.choice(DECIMALS)])
        if nested == "struct":
            # PySpark takes no Arrow table in which a required field is inside a null struct.
            return pa.struct(self.fields(chance.choice([1, 2, 3]), required=[False], depth=depth - 1))
        inside = self.kind(depth - 1)
        nullable = chance.choice([True, True, False])
        if nested == "list":
            return pa.list_(pa.field("element", inside, nullable))
        return pa.map_(pa.field("key", self.map_key(), False), pa.field("value", inside, nullable))

    def map_key(self) -> pa.DataType:
        """No float: whether -0.0 and 0.0 are one key, and NaN any, is for each engine to say."""
        return self.chance.choice([kind for kind in (*PRIMITIVES, *DECIMALS) if not pa.types.is_floating(kind)])


def leaf_fields(fields: Sequence[pa.Field], above: Path = ()) -> Iterator[Leaf]:
    """Primitive columns and fields of structs, which have one value per row."""
    for field in fields:
        if pa.types.is_struct(field.type):
            yield from leaf_fields(list(field.type), (*above, field.name))
        elif not pa.types.is_nested(field.type):
            yield (*above, field.name), field.type


def leaf_values(rows: Sequence[Any], path: Path) -> list[Any]:
    """The values of a column, null where a struct around it is."""
    for name in path:
        rows = [None if row is None else row[name] for row in rows]
    return list(rows)


def quoted(path: Path) -> str:
    return ".".join(f"`{name}`" for name in path)
