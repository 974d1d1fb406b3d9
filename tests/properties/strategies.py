"""Random tables: a schema with rows that engines tend to disagree on, a layout, a way to write it and a filter to read it with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.interop.canonical import plain
from tests.properties.predicates import predicates

Path = tuple[str, ...]
Draw = Callable[..., Any]

DECIMALS = [pa.decimal128(*size) for size in ((1, 0), (4, 4), (9, 2), (18, 0), (18, 6), (19, 4), (38, 0), (38, 10))]
PRIMITIVES: list[pa.DataType] = [
    pa.bool_(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.timestamp("us"),
]
NAMES = ["c", "größe", "two words", "order", "x-y", "1st", "Ünïcode_列"]
BUCKETS, WIDTHS = (1, 2, 5, 16), (1, 2, 10, 50)
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


@st.composite
def examples(draw: Draw, repeated: bool) -> Example:
    """`repeated` lets columns be lists and maps, and hold them."""
    fields = draw(st.lists(types(repeated), min_size=1, max_size=5).flatmap(_named))
    schema = pa.schema(fields)
    count = draw(st.integers(0, MOST_ROWS))
    rows = draw(st.lists(st.fixed_dictionaries({f.name: values(f.type, f.nullable) for f in fields}), min_size=count, max_size=count))
    leaves = list(leaf_fields(fields))
    transforms = [transform for path, kind in leaves for transform in legal_transforms(path, kind)]
    columns = [quoted(path) for path, _ in leaves]
    return Example(
        schema=schema,
        rows=rows,
        partition_by=draw(_some_of(transforms, most=2)),
        sort_by=draw(_some_of(columns, most=1)),
        distribution_mode=draw(st.sampled_from(["none", "hash", "range"])),
        fanout=draw(st.booleans()),
        where=draw(st.none() | st.sampled_from(leaves).flatmap(lambda leaf: predicates(quoted(leaf[0]), leaf[1], leaf_values(rows, leaf[0])))) if leaves else None,
    )


def _some_of(choices: Sequence[str], most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(choices), max_size=most, unique=True) if choices else st.just([])


# Schemas


def types(repeated: bool, depth: int = 2) -> st.SearchStrategy[pa.DataType]:
    primitive = st.sampled_from(PRIMITIVES) | st.sampled_from(DECIMALS)
    if depth == 0:
        return primitive
    below = types(repeated, depth - 1)
    # PySpark takes no Arrow table in which a required field is inside a null struct.
    nested = [st.lists(below, min_size=1, max_size=3).flatmap(lambda kinds: _named(kinds, may_be_required=False)).map(pa.struct)]
    if repeated:
        nested.append(st.builds(_list, below, st.booleans()))
        nested.append(st.builds(_map, map_keys(), below, st.booleans()))
    return st.one_of(primitive, primitive, *nested)


def map_keys() -> st.SearchStrategy[pa.DataType]:
    """No floats: whether -0.0 and 0.0 are one key, and NaN any, is for each engine to say."""
    return st.sampled_from([kind for kind in (*PRIMITIVES, *DECIMALS) if not pa.types.is_floating(kind)])


def _named(kinds: list[pa.DataType], may_be_required: bool = True) -> st.SearchStrategy[list[pa.Field]]:
    """Fields with names that differ, mostly nullable."""

    def fields(names: list[str], nullable: list[bool]) -> list[pa.Field]:
        return [pa.field(f"{name}{n}", kind, may_be_null) for n, (name, kind, may_be_null) in enumerate(zip(names, kinds, nullable, strict=True))]

    size = len(kinds)
    names = st.lists(st.just("c") | st.sampled_from(NAMES), min_size=size, max_size=size)
    nullable = st.sampled_from([True, True, True, False]) if may_be_required else st.just(True)
    return st.builds(fields, names, st.lists(nullable, min_size=size, max_size=size))


def _list(kind: pa.DataType, nullable: bool) -> pa.DataType:
    return pa.list_(pa.field("element", kind, nullable))


def _map(key: pa.DataType, value: pa.DataType, nullable: bool) -> pa.DataType:
    return pa.map_(pa.field("key", key, False), pa.field("value", value, nullable))


def leaf_fields(fields: Sequence[pa.Field], above: Path = ()) -> Iterator[tuple[Path, pa.DataType]]:
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


# Partition transforms


def legal_transforms(path: Path, kind: pa.DataType) -> list[str]:
    column = quoted(path)
    found = [column, f"void({column})"]
    if not (pa.types.is_boolean(kind) or pa.types.is_floating(kind)):
        found += [f"bucket({n}, {column})" for n in BUCKETS]
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        found += [f"{unit}({column})" for unit in ("year", "month", "day")]
    if pa.types.is_timestamp(kind):
        found.append(f"hour({column})")
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind):
        found += [f"truncate({width}, {column})" for width in WIDTHS]
    return found


# Values

EPOCH = datetime(1970, 1, 1)
MOMENTS = [
    datetime(1, 1, 1),
    datetime(1582, 10, 4, 12),
    datetime(1900, 1, 1, 0, 0, 0, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    EPOCH,
    datetime(2024, 2, 29, 23, 30),
    datetime(2024, 3, 1),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
]
TEXTS = ["", "", "a", "null", "NULL", "a/b=c d%", "it's \\ \"quoted\"", "Straße", "東京タワー", "\U0001f600\U0010ffff", "e\u0301", " ", "%_", "line\nbreak", "\0", "ab" * 60, "é" * 200, "\U0010ffff" * 20]
BYTES = [b"", b"", b"\0", b"\xff", b"\xff" * 40, b"null", b"\x80abc", b"ab" * 60]
NUMBERS = [0.0, -0.0, 1.5, -1.5, 0.5, float("nan"), float("nan"), float("inf"), float("-inf")]


def values(kind: pa.DataType, nullable: bool) -> st.SearchStrategy[Any]:
    present = _present(kind)
    return st.one_of(st.none(), present, present, present) if nullable else present


def _present(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Mostly of a few values, so that rows share partitions."""
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({f.name: values(f.type, f.nullable) for f in kind})
    if pa.types.is_map(kind):
        pairs = st.tuples(_present(kind.key_type), values(kind.item_type, kind.item_field.nullable))
        return st.lists(pairs, max_size=3, unique_by=lambda pair: repr(plain(pair[0])))
    if pa.types.is_list(kind):
        return st.lists(values(kind.value_type, kind.value_field.nullable), max_size=3)
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_integer(kind):
        limit = 2 ** (kind.bit_width - 1)
        return st.sampled_from([0, 1, -1, 10, -10, 49, limit - 1, -limit]) | st.integers(-limit, limit - 1)
    if pa.types.is_floating(kind):
        largest = 3.4028234663852886e38 if kind.bit_width == 32 else 1.7976931348623157e308
        return st.sampled_from([*NUMBERS, largest, -largest]) | st.floats(width=kind.bit_width)
    if pa.types.is_decimal(kind):
        top = 10**kind.precision - 1
        unscaled = st.sampled_from([0, 1, -1, 5, -5, top, -top]) | st.integers(-top, top)
        return unscaled.map(lambda digits: Decimal(f"{digits}E-{kind.scale}"))
    if pa.types.is_string(kind):
        return st.sampled_from(TEXTS) | st.text(max_size=20)
    if pa.types.is_binary(kind):
        return st.sampled_from(BYTES) | st.binary(max_size=20)
    if pa.types.is_date(kind):
        return st.sampled_from([moment.date() for moment in MOMENTS]) | st.dates(date(1, 1, 1))
    assert pa.types.is_timestamp(kind)
    moments = st.sampled_from(MOMENTS) | st.integers(-3, 3).map(lambda micros: EPOCH + timedelta(microseconds=micros)) | st.datetimes()
    return moments.map(lambda moment: moment.replace(tzinfo=UTC)) if kind.tz else moments
