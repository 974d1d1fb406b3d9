"""Random tables: a schema, how it is partitioned and sorted, and rows, biased towards what goes wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

NAMES = ("id", "b c", "ünï", "日付", "UPPER", "x")
TEXTS = ("", "null", "NULL", "__HIVE_DEFAULT_PARTITION__", "a/b=c%20", "naïve", "日本語の長い長い長い長いテキスト", "z" * 40, "€\U0001f600", " ")
BEFORE_1970 = date(1969, 12, 31)


@dataclass(frozen=True)
class Kind:
    """A type with how to draw its values and which transforms take it."""

    type: pa.DataType
    values: st.SearchStrategy[Any]
    transforms: tuple[str, ...] = ()


def _numbers(bits: int) -> st.SearchStrategy[int]:
    edge = 2 ** (bits - 1)
    return st.one_of(st.integers(-20, 20), st.integers(-edge, edge - 1), st.sampled_from([-edge, edge - 1, 0, -1]))


def _floats(width: int) -> st.SearchStrategy[float]:
    return st.one_of(st.just(float("nan")), st.sampled_from([0.0, 1.5, -2.25, float("inf"), float("-inf")]), st.floats(width=width, allow_nan=False).map(lambda v: v + 0.0))


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    top = 10**precision - 1
    return st.one_of(st.integers(-50, 50), st.integers(-top, top)).map(lambda n: Decimal((n < 0, tuple(map(int, str(abs(n)))), -scale)))


MOMENTS = st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)) | st.sampled_from([datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1970, 1, 1), datetime(2024, 2, 29, 12)])
DAYS = st.dates(date(1700, 1, 1), date(2200, 1, 1)) | st.sampled_from([BEFORE_1970, date(1970, 1, 1), date(2024, 2, 29)])
STRINGS = st.sampled_from(TEXTS) | st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=20)
BINARIES = st.binary(max_size=20) | st.sampled_from([b"", b"\xff" * 20, b"\x00"])

WIDTH, TIMES = ("identity", "bucket", "truncate", "void"), ("identity", "bucket", "year", "month", "day", "void")
PRIMITIVES = (
    Kind(pa.bool_(), st.booleans(), ("identity", "void")),
    Kind(pa.int32(), _numbers(32), WIDTH),
    Kind(pa.int64(), _numbers(64), WIDTH),
    Kind(pa.float32(), _floats(32), ("identity", "void")),
    Kind(pa.float64(), _floats(64), ("identity", "void")),
    Kind(pa.decimal128(7, 2), _decimals(7, 2), WIDTH),
    Kind(pa.decimal128(16, 0), _decimals(16, 0), WIDTH),
    Kind(pa.decimal128(38, 10), _decimals(38, 10), WIDTH),
    Kind(pa.string(), STRINGS, WIDTH),
    Kind(pa.binary(), BINARIES, WIDTH),
    Kind(pa.date32(), DAYS, TIMES),
    Kind(pa.timestamp("us"), MOMENTS, (*TIMES, "hour")),
    Kind(pa.timestamp("us", "UTC"), MOMENTS.map(lambda m: m.replace(tzinfo=UTC)), (*TIMES, "hour")),
)
STRING = next(kind for kind in PRIMITIVES if kind.type == pa.string())


def _nullable(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(values, values, values, st.none())


def _struct(first: Kind, second: Kind) -> Kind:
    made = st.fixed_dictionaries({"s": _nullable(first.values), "t é": _nullable(second.values)})
    return Kind(pa.struct([("s", first.type), ("t é", second.type)]), made)


def _list(element: Kind) -> Kind:
    return Kind(pa.list_(element.type), st.lists(_nullable(element.values), max_size=3))


def _map(key: Kind, value: Kind) -> Kind:
    return Kind(pa.map_(key.type, value.type), st.dictionaries(key.values, _nullable(value.values), max_size=3).map(lambda d: list(d.items())))


def kinds(engine: str) -> st.SearchStrategy[Kind]:
    """Lists and maps are not for the native engine, which refuses them."""
    primitive = st.sampled_from(PRIMITIVES)
    struct = st.builds(_struct, primitive, primitive)
    if engine == "native":
        return primitive | primitive | struct
    keys = st.sampled_from([k for k in PRIMITIVES if k.type in (pa.string(), pa.int32(), pa.int64(), pa.date32())])
    nested = st.one_of(struct, st.builds(_list, primitive), st.builds(_map, keys, primitive), st.builds(_list, struct), st.builds(_map, keys, struct))
    return st.one_of(primitive, nested, st.builds(_struct, primitive, st.builds(_list, primitive)))


@dataclass(frozen=True)
class Case:
    rows: pa.Table
    partition_by: tuple[str, ...]
    sort_by: tuple[str, ...]
    distribution: str
    fanout: bool

    def events(self) -> Counter[str]:
        """What of the things that go wrong is in it."""
        found: Counter[str] = Counter({self.distribution: 1, f"{len(self.partition_by)} partition fields": 1})
        for name, kind in zip(self.rows.column_names, self.rows.schema.types, strict=True):
            _count(kind, self.rows[name].to_pylist(), found)
        for text in self.partition_by:
            name = text.split("`")[1]
            found[text.split("(")[0]] += 1
            values = self.rows[name].to_pylist()
            found["null partition"] += None in values
            found["'' partition"] += "" in values and text.startswith("identity")
        return found


def _count(kind: pa.DataType, values: list[Any], found: Counter[str]) -> None:
    present = [v for v in values if v is not None]
    if pa.types.is_list(kind):
        found["list"] += bool(present)
    elif pa.types.is_map(kind):
        found["map"] += bool(present)
    elif pa.types.is_struct(kind):
        found["struct"] += bool(present)
        for field in kind:
            _count(field.type, [v[field.name] for v in present], found)
    elif pa.types.is_decimal(kind):
        found["decimal"] += bool(present)
    elif pa.types.is_floating(kind):
        found["NaN"] += any(v != v for v in present)
    elif pa.types.is_date(kind):
        found["date before 1970"] += any(v <= BEFORE_1970 for v in present)


@st.composite
def cases(draw: st.DrawFn, engine: str) -> Case:
    chosen = draw(st.lists(kinds(engine), min_size=1, max_size=4))
    columns = dict(zip(NAMES, [draw(st.sampled_from([STRING, chosen[0]])), *chosen], strict=False))
    count = draw(st.integers(0, 30))
    arrays = [pa.array(draw(st.lists(_nullable(kind.values), min_size=count, max_size=count)), kind.type) for kind in columns.values()]
    partitionable = [(name, kind) for name, kind in columns.items() if kind.transforms]
    return Case(
        rows=pa.Table.from_arrays(arrays, names=list(columns)),
        partition_by=tuple(draw(_partition_fields(partitionable))),
        sort_by=tuple(draw(_sort_fields([name for name, _ in partitionable]))),
        distribution=draw(st.sampled_from(["none", "hash", "range"])),
        fanout=draw(st.booleans()),
    )


@st.composite
def _partition_fields(draw: st.DrawFn, columns: list[tuple[str, Kind]]) -> list[str]:
    if not columns:
        return []
    fields = []
    for _ in range(draw(st.integers(0, 2))):
        name, kind = draw(st.sampled_from(columns))
        transform = draw(st.sampled_from(kind.transforms))
        width = f"{draw(st.integers(1, 8))}, " if transform in ("bucket", "truncate") else ""
        fields.append(f"{transform}({width}`{name}`)")
    return list({field.split("(")[0] + field.split("`")[1]: field for field in fields}.values())


@st.composite
def _sort_fields(draw: st.DrawFn, columns: list[str]) -> list[str]:
    if not columns or draw(st.booleans()):
        return []
    return [f"`{draw(st.sampled_from(columns))}` {draw(st.sampled_from(['asc', 'desc', 'desc nulls first']))}"]
