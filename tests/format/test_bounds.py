from __future__ import annotations

import math
import struct
import sys
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.types import DecimalType

from lakewright.format.bounds import (
    encode_decimal,
    float_bounds,
    increment_binary,
    increment_string,
    truncate_binary,
    truncate_string,
    unscaled,
)

TOP = chr(sys.maxunicode)


@pytest.mark.parametrize(
    ("text", "above"),
    [("ab", "ac"), ("a" + TOP, "b"), (TOP, None), ("", None), ("\ud7ff", "\ue000"), ("a\ud7ff", "a\ue000"), ("\x7f", "\x80"), ("日", "旦")],
    ids=ascii,
)
def test_next_text_by_code_point(text: str, above: str | None) -> None:
    assert increment_string(text) == above


@pytest.mark.parametrize(("data", "above"), [(b"a", b"b"), (b"a\xff\xff", b"b"), (b"\xff", None), (b"", None), (b"\x00\xfe", b"\x00\xff")])
def test_next_bytes(data: bytes, above: bytes | None) -> None:
    assert increment_binary(data) == above


@given(st.text(), st.text(), st.integers(1, 5))
def test_shortened_text_still_bounds(one: str, other: str, length: int) -> None:
    low, high = sorted((one, other))
    lower, upper = truncate_string(low.encode(), high.encode(), length)
    assert lower is not None
    assert lower.decode() <= low
    assert len(lower.decode()) <= length
    assert upper is None or (upper.decode() >= high and len(upper.decode()) <= length)
    assert upper is not None or high[:length] == TOP * length


@given(st.binary(), st.binary(), st.integers(1, 5))
def test_shortened_bytes_still_bound(one: bytes, other: bytes, length: int) -> None:
    low, high = sorted((one, other))
    lower, upper = truncate_binary(low, high, length)
    assert lower is not None
    assert lower <= low
    assert upper is None or (upper >= high and len(upper) <= length)


def test_text_that_is_not_utf8_has_no_bounds() -> None:
    assert truncate_string(b"\xff", b"\xff", 16) == (None, None)


def test_floats() -> None:
    assert float_bounds(1.0, math.nan) is None
    lower, upper = float_bounds(0.0, -0.0) or (0.0, 0.0)
    assert (struct.pack("<d", lower), struct.pack("<d", upper)) == (struct.pack("<d", -0.0), struct.pack("<d", 0.0))


@given(st.integers(-(10**38) + 1, 10**38 - 1))
def test_decimals_are_whole_and_short(number: int) -> None:
    data = encode_decimal(number)
    assert int.from_bytes(data, "big", signed=True) == number
    assert len(data) == 1 or data[:1] not in (b"\x00", b"\xff") or (data[0] ^ data[1]) & 0x80
    value = Decimal(f"{'-' if number < 0 else ''}{abs(number) // 100}.{abs(number) % 100:02d}")
    assert unscaled(value, 2) == number
    assert from_bytes(DecimalType(38, 2), data) == value
