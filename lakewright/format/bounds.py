"""Column bounds: Iceberg's single-value bytes of Parquet statistics, shortened without losing a value.

Written by hand because PyIceberg turns each bound into a Python object and back, which is most of the cost of a commit of many files.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

_INT, _LONG, _FLOAT, _DOUBLE = (struct.Struct(code).pack for code in ("<i", "<q", "<f", "<d"))
_FIRST_SURROGATE, _LAST_SURROGATE = 0xD800, 0xDFFF

Encode = Callable[[Any], bytes]


def decode_integer(raw: int | bytes) -> int:
    """A statistic of an integer or decimal column: Parquet keeps decimals as integers or as big-endian bytes."""
    return int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw


def encode_decimal(unscaled: int) -> bytes:
    """Big-endian two's complement in the fewest bytes."""
    length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return unscaled.to_bytes(length, "big", signed=True)


def unscaled(value: Decimal, scale: int) -> int:
    """The integer a decimal is kept as; exact at any precision."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    magnitude = int("".join(map(str, digits)))
    shift = exponent + scale
    scaled = int(magnitude * 10**shift if shift >= 0 else magnitude // 10**-shift)
    return -scaled if sign else scaled


def raw_encoder(field_type: PrimitiveType) -> Encode | None:
    """What turns a raw Parquet statistic (for decimals the unscaled integer) into Iceberg's bytes; None for types without bounds."""
    if isinstance(field_type, (IntegerType, DateType)):
        return _INT
    if isinstance(field_type, (LongType, TimeType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)):
        return _LONG
    if isinstance(field_type, FloatType):
        return _FLOAT
    if isinstance(field_type, DoubleType):
        return _DOUBLE
    if isinstance(field_type, DecimalType):
        return encode_decimal
    if isinstance(field_type, BooleanType):
        return lambda value: b"\x01" if value else b"\x00"
    if isinstance(field_type, (StringType, BinaryType, FixedType, UUIDType)):
        return bytes
    return None


def encode_value(field_type: PrimitiveType, value: Any) -> bytes:
    """Iceberg's single-value bytes of a value in internal form, as partition summaries hold them."""
    return bytes(to_bytes(field_type, value))


def increment_string(text: str) -> str | None:
    """The least string above every string that begins with `text`, no longer than it; None if there is none."""
    for at in range(len(text) - 1, -1, -1):
        code = ord(text[at])
        if code < sys.maxunicode:
            code += 1
            if _FIRST_SURROGATE <= code <= _LAST_SURROGATE:
                code = _LAST_SURROGATE + 1
            return text[:at] + chr(code)
    return None


def increment_binary(data: bytes) -> bytes | None:
    """The least bytes above everything that begins with `data`, no longer than it; None if there are none."""
    stem = data.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,)) if stem else None


def truncate_string(lower: bytes, upper: bytes, length: int | None) -> tuple[bytes | None, bytes | None]:
    """Bounds of at most `length` code points; text that is not UTF-8 gets none, since readers could not decode it."""
    try:
        low, high = lower.decode(), upper.decode()
    except UnicodeDecodeError:
        return None, None
    if length is None:
        return lower, upper
    if len(low) > length:
        lower = low[:length].encode()
    if len(high) <= length:
        return lower, upper
    above = increment_string(high[:length])
    return lower, None if above is None else above.encode()


def truncate_binary(lower: bytes, upper: bytes, length: int) -> tuple[bytes | None, bytes | None]:
    """Bounds of at most `length` bytes."""
    return lower[:length], upper if len(upper) <= length else increment_binary(upper[:length])


def float_bounds(lower: float, upper: float) -> tuple[float, float] | None:
    """Bounds by the specification: never NaN, and zero is -0.0 below and +0.0 above."""
    if math.isnan(lower) or math.isnan(upper):
        return None
    return -0.0 if lower == 0 else lower, 0.0 if upper == 0 else upper
