"""The bytes of deletion vectors."""

from __future__ import annotations

import struct
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from lakewright.errors import CorruptFile
from lakewright.format.deletion_vector import deserialize, serialize, to_array, to_bitmap

MAGIC = b"\xd1\xd3\x39\x64"
NO_RUNS, ONE_CONTAINER = 12346, 1


def bitmap32(*values: int) -> bytes:
    """A 32-bit Roaring bitmap of one array container, by RoaringFormatSpec: cookie, count, (key, cardinality - 1), offset, values."""
    header = struct.pack("<IIHHI", NO_RUNS, ONE_CONTAINER, 0, len(values) - 1, 16)
    return header + struct.pack(f"<{len(values)}H", *values)


def framed(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body + struct.pack(">I", crc32(body))


BY_HAND = framed(MAGIC + struct.pack("<Q", 2) + struct.pack("<I", 0) + bitmap32(1, 5) + struct.pack("<I", 2) + bitmap32(7))


def test_bytes_are_those_of_the_specification() -> None:
    assert serialize(BitMap64([1, 5, 2 * 2**32 + 7])) == BY_HAND
    assert list(deserialize(BY_HAND, "v")) == [1, 5, 2 * 2**32 + 7]


def test_runs_are_stored_as_runs() -> None:
    assert len(serialize(BitMap64(range(1_000_000)))) < 300


@given(st.sets(st.one_of(st.integers(0, 200_000), st.integers(0, 2**63 - 1)), max_size=300))
def test_round_trip(positions: set[int]) -> None:
    assert set(deserialize(serialize(BitMap64(positions)), "v")) == positions


def test_positions_past_63_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="past"):
        serialize(BitMap64([2**63]))
    with pytest.raises(CorruptFile, match="no file can have"):
        deserialize(framed(MAGIC + BitMap64([2**63]).serialize()), "v")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "fewer than any vector"),
        (BY_HAND[:11], "fewer than any vector"),
        (BY_HAND[:-1], "its length"),
        (BY_HAND + b"\0", "its length"),
        (BY_HAND[:4] + b"\0" + BY_HAND[5:], "begins with 00d33964"),
        (BY_HAND[:-1] + bytes([BY_HAND[-1] ^ 1]), "checksum"),
        (BY_HAND[:30] + bytes([BY_HAND[30] ^ 1]) + BY_HAND[31:], "checksum"),
        (framed(MAGIC + b"\xff" * 40), "cannot be decoded"),
        (framed(MAGIC), "cannot be decoded"),
    ],
)
def test_damage_is_noticed(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptFile, match=f"Deletion vector x.puffin of data file y is damaged.*{reason}"):
        deserialize(data, "x.puffin of data file y")


def test_every_cut_and_every_flipped_bit_is_noticed() -> None:
    damaged = [BY_HAND[:at] for at in range(len(BY_HAND))]
    damaged += [BY_HAND[:at] + bytes([BY_HAND[at] ^ 1 << bit]) + BY_HAND[at + 1 :] for at in range(len(BY_HAND)) for bit in range(8)]
    for data in damaged:
        with pytest.raises(CorruptFile):
            deserialize(data, "v")


def test_arrays_and_bitmaps() -> None:
    positions = np.array([7, 0, 2**40, 7])
    assert to_array(to_bitmap(positions)).tolist() == [0, 7, 2**40]
    assert to_array(BitMap64()).tolist() == []
    with pytest.raises(ValueError, match="-3 is negative"):
        to_bitmap(np.array([1, -3]))
