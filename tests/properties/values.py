"""Random values of every type: few different ones, so that rows share partitions, and among them the awkward ones."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from tests.interop.canonical import plain

DECIMALS = [pa.decimal128(*size) for size in ((1, 0), (4, 4), (9, 2), (18, 0), (18, 6), (19, 4), (38, 0), (38, 10))]
PRIMITIVES: list[pa.DataType] = [
    pa.bool_(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.timestamp("us"),
]
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
TEXTS = [
    *["", "", "", "", "", "a", "b", "null", "NULL", "__HIVE_DEFAULT_PARTITION__", "a/b=c d%20", 'it\'s \\ "quoted"', "%_", " ", "line\nbreak", "\0"],
    *["Straße", "東京タワー", "e\u0301", "\U0001f600\U0010ffff", "ab" * 60, "é" * 200, "\U0010ffff" * 20, "\ud7ff" * 17],
]
BYTES = [b"", b"", b"\0", b"\xff", b"\xff" * 40, b"null", b"\x80abc", b"ab" * 60]
NUMBERS = [0.0, -0.0, 1.5, -1.5, 0.1, float("nan"), float("nan"), float("inf"), float("-inf"), 1e38, -1e38]


def column_value(chance: Random, field: pa.Field) -> Any:
    return None if field.nullable and chance.random() < 0.2 else value(chance, field.type)


def value(chance: Random, kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return {field.name: column_value(chance, field) for field in kind}
    if pa.types.is_map(kind):
        keys = {repr(plain(key)): key for key in (value(chance, kind.key_type) for _ in range(chance.choice([0, 1, 2, 3])))}
        return [(key, column_value(chance, kind.item_field)) for key in keys.values()]
    if pa.types.is_list(kind):
        return [column_value(chance, kind.value_field) for _ in range(chance.choice([0, 1, 2, 3]))]
    if pa.types.is_timestamp(kind):
        moment = _moment(chance)
        return moment.replace(tzinfo=UTC) if kind.tz else moment
    if pa.types.is_date(kind):
        return _moment(chance).date()
    if pa.types.is_boolean(kind):
        return chance.choice([True, False])
    if pa.types.is_integer(kind):
        limit = 2 ** (kind.bit_width - 1)
        return chance.choice([0, 1, -1, 10, -10, 49, limit - 1, -limit, chance.randrange(-limit, limit)])
    if pa.types.is_decimal(kind):
        top = 10**kind.precision - 1
        return Decimal(f"{chance.choice([0, 1, -1, 5, -5, top, -top, chance.randint(-top, top)])}E-{kind.scale}")
    if pa.types.is_floating(kind):
        return _float(chance, kind)
    return chance.choice([*TEXTS, _text(chance)]) if pa.types.is_string(kind) else chance.choice([*BYTES, chance.randbytes(chance.randrange(20))])


def _moment(chance: Random) -> datetime:
    anywhen = MOMENTS[0] + timedelta(microseconds=chance.randrange((MOMENTS[-1] - MOMENTS[0]) // timedelta(microseconds=1)))
    return chance.choice([*MOMENTS, EPOCH + timedelta(microseconds=chance.randint(-3, 3)), anywhen])


def _float(chance: Random, kind: pa.DataType) -> float:
    """As wide as the type, any bits."""
    double = kind == pa.float64()
    anything = struct.unpack("<d" if double else "<f", chance.randbytes(8 if double else 4))[0]
    return float(struct.unpack("<f", struct.pack("<f", number))[0]) if (number := chance.choice([*NUMBERS, anything])) and not double else number


def _text(chance: Random) -> str:
    """Any characters but halves of surrogate pairs, which are none."""
    points = [chance.choice([chance.randrange(128), chance.randrange(0xD800), chance.randrange(0xE000, 0x110000)]) for _ in range(chance.randrange(20))]
    return "".join(map(chr, points))
