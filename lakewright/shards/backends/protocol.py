"""What a backend is: an embedded database that one task writes as local files, and that many readers open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from lakewright.errors import ValueTooLarge
from lakewright.shards.keys import Key, KeyType

Keys = Sequence[Key] | np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class LocalFile:
    """A file a writer made; its name is below the shard's path."""

    name: str
    path: str


class ShardWriter(Protocol):
    """One shard being written. Keys may come in any order, and are loaded fastest in theirs; a key that comes twice is an error."""

    rows: int

    def write(self, keys: pa.Array, values: pa.Array) -> None:
        """Add rows: keys as a key column holds them, values as binary."""

    def finish(self) -> list[LocalFile]:
        """Close the shard and name its files."""

    def abort(self) -> None:
        """Give up; the scratch folder is its owner's to remove."""


class Shard(Protocol):
    """One shard being read, by any number of threads at once. gains_by_threads: whether several shards are asked faster beside each other."""

    gains_by_threads: ClassVar[bool]

    def get(self, key: Key) -> bytes | None: ...

    def multi_get(self, keys: Keys, found: dict[Key, bytes | None]) -> None:
        """Put the values of the keys that are there where they belong."""

    async def get_async(self, key: Key) -> bytes | None: ...

    def scan(self, start: Key | None = None, end: Key | None = None, prefix: str | bytes | None = None) -> Iterator[tuple[Key, bytes]]:
        """Rows in the order of their keys, from `start` up to but without `end`, or those whose key begins with `prefix`."""

    def close(self) -> None: ...


class Backend(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def max_value_bytes(self) -> int: ...

    def writer(self, scratch: str, key_type: KeyType) -> ShardWriter:
        """A shard to be written in an empty local folder."""

    def open(self, folder: str, key_type: KeyType) -> Shard:
        """The shard whose files are in a local folder."""


def check_sizes(values: pa.Array, limit: int, backend: str) -> None:
    """`ValueTooLarge` for the first value above the limit."""
    if len(values) == 0 or values.nbytes <= limit:
        return
    import pyarrow.compute as pc

    sizes = pc.binary_length(values)
    largest = pc.max(sizes).as_py()
    if largest > limit:
        raise ValueTooLarge(f"A value of {largest} bytes, in row {pc.index(sizes, largest).as_py()} of its batch, is above the {limit} bytes a value may have in {backend}.")


def listed(keys: Keys) -> Sequence[Key]:
    """Keys as Python has them."""
    return keys.tolist() if isinstance(keys, np.ndarray) else keys


def after_prefix(prefix: bytes) -> bytes | None:
    """The first bytes after all that begin with the prefix; None where there are none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None
