"""Bloom filters of Parquet column chunks, read: whether a value may be there. No Python library reads them.

A filter is a row of blocks of eight 32-bit words. A value's hash chooses a block by its upper half, and one bit of each of the
block's words by its lower half; a value is there only if all eight are set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from lakewright.format.bounds import unscaled
from lakewright.format.parquet_footer import Chunk, Input, read_range
from lakewright.format.parquet_schema import TYPE, TYPE_LENGTH, Leaf
from lakewright.format.thrift import Struct, ThriftError, child, decode, integer, needed

BLOCK_BYTES = 32
MAX_FILTER = 128 << 20
_HEADER = 64
_SALT = np.array([0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32)
_INT32, _INT64, _BYTE_ARRAY, _FIXED = 1, 2, 6, 7


@dataclass(frozen=True)
class BloomFilter:
    blocks: np.ndarray[Any, np.dtype[np.uint32]]

    def may_have(self, hashes: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """For each hash whether its value may be there."""
        upper, lower = hashes >> np.uint64(32), hashes.astype(np.uint32)
        block = (upper * np.uint64(len(self.blocks))) >> np.uint64(32)
        bits = np.uint32(1) << ((lower[:, None] * _SALT[None, :]) >> np.uint32(27))
        there: np.ndarray[Any, np.dtype[np.bool_]] = ((self.blocks[block.astype(np.int64)] & bits) == bits).all(axis=1)
        return there


def read_bloom(source: Input, size: int, chunk: Chunk) -> BloomFilter | None:
    """The filter of a column chunk of a file of that size; None if it has none, or one of a kind that is not known here."""
    if chunk.bloom is None:
        return None
    offset, _ = chunk.bloom
    header, begin = decode(read_range(source, (offset, min(_HEADER, size - offset))))
    length = needed(integer(header, 1), "size of a bloom filter")
    if not all(_is_first_kind(header, part) for part in (2, 3, 4)):
        return None
    if length <= 0 or length % BLOCK_BYTES or length > MAX_FILTER or offset + begin + length > size:
        raise ThriftError(f"a bloom filter of {length} bytes at {offset} is not in the file")
    words = np.frombuffer(read_range(source, (offset + begin, length)), "<u4").astype(np.uint32)
    return BloomFilter(words.reshape(-1, 8))


def _is_first_kind(header: Struct, part: int) -> bool:
    """Algorithm, hash and compression are unions, of which one kind each is defined: split blocks, XXH64, none."""
    union = child(header, part)
    return union is None or list(union) == [1]


@dataclass(frozen=True)
class Hashed:
    """storable: which of the values the column can hold at all, since a column may have been narrower once."""

    hashes: np.ndarray[Any, np.dtype[np.uint64]]
    storable: np.ndarray[Any, np.dtype[np.bool_]]


def value_hashes(values: Sequence[Any], leaf: Leaf, scale: int = 0) -> Hashed | None:
    """Hashes of values as the file's column has them; None where it is not known how it has them.

    Numbers and dates come as int, texts as str, bytes and Decimal as they are; a decimal has the column's scale.
    """
    import xxhash

    encoded = [_plain(value, leaf, scale) for value in values]
    if any(one is NotImplemented for one in encoded):
        return None
    hashes = np.array([0 if one is None else xxhash.xxh64_intdigest(one) for one in encoded], np.uint64)
    return Hashed(hashes, np.array([one is not None for one in encoded], np.bool_))


def _plain(value: Any, leaf: Leaf, scale: int) -> Any:
    """The bytes that are hashed; None for a number that is too large for the column, NotImplemented for a form that is not known."""
    physical = integer(leaf.node.element, TYPE)
    if isinstance(value, str | bytes):
        return (value.encode() if isinstance(value, str) else value) if physical == _BYTE_ARRAY else NotImplemented
    number = unscaled(value, scale) if isinstance(value, Decimal) else int(value)
    width = {_INT32: 4, _INT64: 8}.get(physical or 0, (integer(leaf.node.element, TYPE_LENGTH) or 0) if physical == _FIXED and isinstance(value, Decimal) else 0)
    if not width:
        return NotImplemented
    if not -(1 << 8 * width - 1) <= number < 1 << 8 * width - 1:
        return None
    return number.to_bytes(width, "big" if physical == _FIXED else "little", signed=True)
