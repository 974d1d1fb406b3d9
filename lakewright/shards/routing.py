"""Which shard a key belongs to: one implementation for the writer and the reader.

By hash: xxh3_64 with seed 0 over the key's canonical bytes, modulo the number of shards. By expression: see `cel.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from lakewright.errors import InvalidRouting, UnsupportedSnapshot
from lakewright.shards.cel import CelRouting, cel_from_json, cel_routing, cel_types
from lakewright.shards.keys import Key, canonical, key_array, numbers

__all__ = ["MOST_SHARDS", "CelRouting", "HashRouting", "Routing", "cel_routing", "cel_types", "hashes", "routing_from_json", "shard_of", "shards_for"]

MOST_SHARDS = 100_000  # paths have five digits for the shard
_ROWS = 1 << 14  # what fits a processor's cache: whole columns would be read from memory at every step
_FLIP = np.uint64(0xC73AB174C5ECD5A2)  # xxh3's secret for inputs of 4 to 8 bytes, its halves changed
_PRIME = np.uint64(0x9FB21C651E98DF25)


def shard_of(key: Key, num_shards: int) -> int:
    """The shard of a key in a snapshot routed by hash."""
    return int(xxhash.xxh3_64_intdigest(canonical(key)) % _valid(num_shards))


def shards_for(rows: int, max_keys_per_shard: int) -> int:
    """How many shards keep each at or below a number of keys, on average."""
    if max_keys_per_shard < 1:
        raise InvalidRouting(f"max_keys_per_shard is {max_keys_per_shard}; it takes a number from 1.")
    return max(1, -(-rows // max_keys_per_shard))


@dataclass(frozen=True)
class HashRouting:
    """By the hash of the key."""

    num_shards: int

    def __post_init__(self) -> None:
        _valid(self.num_shards)

    def shard_of(self, key: Key, routing: Mapping[str, Any] | None = None) -> int:
        return shard_of(key, self.num_shards)

    def shards_of(self, batch: pa.RecordBatch | pa.Table, key_column: str) -> pa.Int32Array:
        """The shard of every row."""
        keys = key_array(batch.column(key_column), key_column)
        shards, start = np.empty(len(keys), np.int32), 0
        for block in _blocks(numbers(keys)) if keys.type == pa.int64() else (hashes(keys),):
            shards[start : start + len(block)] = _remainders(block, self.num_shards)
            start += len(block)
        return pa.Int32Array.from_buffers(pa.int32(), len(shards), [None, pa.py_buffer(shards)])  # pa.array would import pandas first, which takes a second

    @property
    def uses_only_key(self) -> bool:
        return True

    def to_json(self) -> dict[str, Any]:
        return {"kind": "hash", "function": "xxh3_64", "seed": 0, "num_shards": self.num_shards}


Routing = HashRouting | CelRouting


def routing_from_json(described: Mapping[str, Any]) -> Routing:
    """The routing a manifest describes; one this version does not know is refused, since its keys would be looked for in wrong places."""
    kind = described.get("kind")
    if kind == "cel":
        return cel_from_json(described)
    if kind != "hash" or described.get("function") != "xxh3_64" or described.get("seed") != 0:
        raise UnsupportedSnapshot(f"The snapshot is routed by {dict(described)!r}, which this version does not know. Read it with a newer one.")
    return HashRouting(described["num_shards"])


def hashes(column: pa.Array | pa.ChunkedArray, name: str = "key") -> np.ndarray[Any, np.dtype[np.uint64]]:
    """xxh3_64 of every key of a column, without a Python object for any of them."""
    keys = key_array(column, name)
    if keys.type == pa.int64():
        return _hashes_of_numbers(numbers(keys))
    import polars
    import polars_hash

    frame = polars.DataFrame({"key": polars.Series(polars.from_arrow(keys))})
    return frame.select(polars_hash.col("key").nchash.xxh3_64(seed=0)).to_series().to_numpy()


def _hashes_of_numbers(given: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.concatenate([block.copy() for block in _blocks(given)]) if len(given) else np.empty(0, np.uint64)


def _blocks(keys: np.ndarray[Any, np.dtype[np.int64]]) -> Iterator[np.ndarray[Any, np.dtype[np.uint64]]]:
    """xxh3_64 of 8 bytes each, as the reference does it for inputs of 4 to 8 bytes, in blocks that are overwritten by the next.

    By hand since no library hashes a column of numbers this way.
    """
    given = np.ascontiguousarray(keys, "<i8").view(np.uint64)
    kept, moved, hashed = (np.empty(_ROWS, np.uint64) for _ in range(3))
    for start in range(0, len(given), _ROWS):
        block = given[start : start + _ROWS]
        flipped, part, out = kept[: len(block)], moved[: len(block)], hashed[: len(block)]
        np.bitwise_xor(block, _FLIP_TURNED, out=flipped)
        np.left_shift(flipped, _TURNS[0][1], out=out)
        for step, bits in _TURNS[1:]:
            step(flipped, bits, out=part)
            np.bitwise_xor(out, part, out=out)
        np.multiply(out, _PRIME, out=out)
        np.right_shift(out, 35, out=part)
        np.add(part, 8, out=part)
        np.bitwise_xor(out, part, out=out)
        np.multiply(out, _PRIME, out=out)
        np.right_shift(out, 28, out=part)
        np.bitwise_xor(out, part, out=out)
        yield out


def _turn(bits: int) -> tuple[tuple[Any, np.uint64], ...]:
    """A rotation to the left as two shifts, whose results have no bit in common."""
    return ((np.left_shift, np.uint64(bits)), (np.right_shift, np.uint64(64 - bits)))


# The halves of each number are swapped first: that turn of 32 is part of the three turns.
_TURNS = (*_turn(32), *_turn(17), *_turn(56))
_FLIP_TURNED = np.uint64((int(_FLIP) >> 32 | int(_FLIP) << 32) & 0xFFFFFFFFFFFFFFFF)


def _remainders(hashed: np.ndarray[Any, np.dtype[np.uint64]], num_shards: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    if num_shards & (num_shards - 1) == 0:
        return hashed & np.uint64(num_shards - 1)
    # numpy divides by one number with multiplications; its remainder does not.
    return hashed - hashed // np.uint64(num_shards) * np.uint64(num_shards)


def _valid(num_shards: int) -> int:
    if isinstance(num_shards, bool) or not isinstance(num_shards, int) or not 1 <= num_shards <= MOST_SHARDS:
        raise InvalidRouting(f"The number of shards is {num_shards!r}; it takes a whole number from 1 to {MOST_SHARDS}.")
    return num_shards
