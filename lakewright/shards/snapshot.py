"""One version as a reader holds it: its manifest, and its shards as they are opened. A reader swaps it whole for the next.

The way of a get is kept short: the shard is found and asked in one function made for the snapshot's kind of keys, without locks. A
shard that is not open yet stands in its place in the list and opens at its first use.
"""

from __future__ import annotations

import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, cast

import numpy as np
import pyarrow as pa
import xxhash

from lakewright.errors import ReaderClosed
from lakewright.shards.backends import Shard, backend_named
from lakewright.shards.backends.protocol import Keys
from lakewright.shards.cache import ShardCache
from lakewright.shards.keys import Key, KeyType, canonical, checked, encoded_text, numbers
from lakewright.shards.manifest import Manifest, ShardEntry
from lakewright.shards.metrics import MetricsHook
from lakewright.shards.publish import Pointer
from lakewright.shards.routing import HashRouting
from lakewright.shards.store import Store

Route = Callable[[Any, Mapping[str, Any] | None], int]
_VECTORISED_FROM = 64  # keys; below it the arrays cost more than they save


class Opener:
    """Opens shards for the snapshots of one reader."""

    def __init__(self, store: Store, cache: ShardCache, metrics: MetricsHook | None) -> None:
        self.store, self.cache, self.metrics = store, cache, metrics

    def open(self, manifest: Manifest, entry: ShardEntry, give_up: Callable[[], bool] = bool) -> Shard:
        began = time.perf_counter()
        copy = self.cache.open(self.store, entry, give_up)
        try:
            shard = backend_named(manifest.backend).open(copy.folder, manifest.key_type)
        except BaseException:
            copy.close()
            raise
        weakref.finalize(shard, copy.close)
        if self.metrics:
            self.metrics.increment("shard_opens_total")
            self.metrics.observe("shard_open_seconds", time.perf_counter() - began)
        return shard


class Snapshot:
    """`get(key, routing)` and `route(key, routing)` are made at the start; `previous` is the version before, until this one is known to be whole."""

    def __init__(self, manifest: Manifest, pointer: Pointer, opener: Opener) -> None:
        self.manifest, self.pointer, self.previous = manifest, pointer, cast("Snapshot | None", None)
        backend_named(manifest.backend)  # refused now, not at the first get
        self._opener, self._opening = opener, [threading.Lock() for _ in manifest.shards]
        self._opened: list[int] = []
        own = weakref.ref(self)
        self.shards: list[Any] = [EMPTY if entry.path is None else Unopened(own, entry.shard_id) for entry in manifest.shards]
        self.decode = None if manifest.codec.name == "binary" else manifest.codec.decode
        self.route = _route(manifest)
        self.get = _get(manifest, self.shards, self.route, self.decode)

    def opened(self, shard_id: int) -> Shard:
        """The shard, opened if it is not."""
        with self._opening[shard_id]:
            shard = self.shards[shard_id]
            if isinstance(shard, Unopened):
                shard = self._opener.open(self.manifest, self.manifest.shards[shard_id], self._give_up)
                self.shards[shard_id] = shard
                self._opened.append(shard_id)
                if self.is_proven():
                    self.previous = None
            return cast(Shard, shard)

    def adopt(self, other: Snapshot) -> None:
        """Take over the open shards that are the same files."""
        for entry, theirs in zip(self.manifest.shards, other.manifest.shards, strict=False):
            shard = other.shards[entry.shard_id]
            if entry.path is not None and (entry.path, entry.checksum) == (theirs.path, theirs.checksum) and not isinstance(shard, Unopened):
                self.shards[entry.shard_id] = shard
                self._opened.append(entry.shard_id)

    def is_proven(self) -> bool:
        """Whether every shard was found whole."""
        return len(self._opened) == sum(entry.path is not None for entry in self.manifest.shards)

    def open_ids(self) -> set[int]:
        return set(self._opened)

    def _give_up(self) -> bool:
        """Close the shard that was opened longest ago, to make room for another."""
        if self.previous is not None:
            self.previous = None
            return True
        try:
            shard_id = self._opened.pop(0)
        except IndexError:
            return False
        self.shards[shard_id] = Unopened(weakref.ref(self), shard_id)
        return True

    def grouped(self, keys: Sequence[Key], routing: Mapping[str, Any] | None) -> tuple[Sequence[Key], dict[int, Keys]]:
        """The keys, plain, and which of them are to be found in which shard."""
        key_type = self.manifest.key_type
        if len(keys) >= _VECTORISED_FROM and isinstance(self.manifest.routing, HashRouting):
            plain, column, shards = _hashed(keys, key_type, self.manifest.routing)
            if key_type == "int":
                return plain, _split(numbers(column), numbers(shards))
            return plain, _collected(plain, shards.to_pylist())
        plain = [checked(key, key_type) for key in keys]
        return plain, _collected(plain, [self.route(key, routing) for key in plain])

    def scanned(self, start: Key | None, end: Key | None, prefix: str | bytes | None) -> list[Iterator[tuple[Key, Any]]]:
        """A scan of each shard that may have such keys."""
        within = [entry.shard_id for entry in self.manifest.shards if entry.path is not None and _may_have(entry, start, end)]
        return [self.opened(shard_id).scan(start, end, prefix) for shard_id in within]


class Unopened:
    """Stands for a shard until it is first asked. Refers to its snapshot weakly, so that one no one uses is gone at once."""

    gains_by_threads: ClassVar[bool] = True  # shards are copied and opened beside each other

    def __init__(self, snapshot: weakref.ref[Snapshot], shard_id: int) -> None:
        self._snapshot, self._shard_id = snapshot, shard_id

    def open(self) -> Shard:
        snapshot = self._snapshot()
        if snapshot is None:  # its user holds it
            raise ReaderClosed("The snapshot is no longer in use.")
        return snapshot.opened(self._shard_id)

    def get(self, key: Key) -> bytes | None:
        return self.open().get(key)

    def multi_get(self, keys: Keys, found: dict[Key, bytes | None]) -> None:
        self.open().multi_get(keys, found)


class Empty:
    """A shard without rows: there is no file of it."""

    gains_by_threads: ClassVar[bool] = False

    def get(self, key: Key) -> bytes | None:
        return None

    def multi_get(self, keys: Keys, found: dict[Key, bytes | None]) -> None:
        return

    async def get_async(self, key: Key) -> bytes | None:
        return None


EMPTY = Empty()


def _route(manifest: Manifest) -> Route:
    routing, key_type = manifest.routing, manifest.key_type
    if not isinstance(routing, HashRouting):
        return routing.shard_of
    digest, number = xxhash.xxh3_64_intdigest, routing.num_shards
    pack = _packed(key_type)

    def route(key: Any, given: Mapping[str, Any] | None = None) -> int:
        return digest(pack(checked(key, key_type))) % number

    return route


def _packed(key_type: KeyType) -> Callable[[Any], bytes]:
    kinds: dict[KeyType, Callable[[Any], bytes]] = {"int": struct.Struct("<q").pack, "str": encoded_text, "bytes": bytes}
    return kinds[key_type]


def _get(manifest: Manifest, shards: list[Any], route: Route, decode: Callable[[bytes], Any] | None) -> Callable[[Any, Any], Any]:
    """The function behind a get. What it needs are its own variables, which Python finds fastest."""
    routing, key_type = manifest.routing, manifest.key_type
    python_type = {"int": int, "str": str, "bytes": bytes}[key_type]

    def routed(key: Any, given: Any) -> Any:
        plain = checked(key, key_type)
        value = shards[route(plain, given)].get(plain)
        return value if value is None or decode is None else decode(value)

    if not isinstance(routing, HashRouting):
        return routed
    digest, number, pack = xxhash.xxh3_64_intdigest, routing.num_shards, _packed(key_type)

    def hashed(key: Any, given: Any) -> Any:
        if type(key) is not python_type:
            return routed(key, given)
        try:
            return shards[digest(pack(key)) % number].get(key)
        except struct.error:
            return routed(key, given)

    def decoded(key: Any, given: Any) -> Any:
        value = hashed(key, given)
        return value if value is None else decode(value)  # type: ignore[misc]

    return hashed if decode is None else decoded


def _collected(keys: Sequence[Key], shards: Sequence[int]) -> dict[int, Keys]:
    groups: dict[int, list[Key]] = {}
    for key, shard_id in zip(keys, shards, strict=True):
        groups.setdefault(shard_id, []).append(key)
    return dict(groups.items())


def _split(keys: np.ndarray[Any, Any], shards: np.ndarray[Any, Any]) -> dict[int, Keys]:
    """The same for whole numbers, as arrays."""
    order = np.argsort(shards, kind="stable")
    found, starts = np.unique(shards[order], return_index=True)
    return dict(zip(found.tolist(), np.split(keys[order], starts[1:]), strict=True))


def _hashed(keys: Sequence[Key], key_type: KeyType, routing: HashRouting) -> tuple[Sequence[Key], pa.Array, pa.Int32Array]:
    python_type, arrow_type = {"int": (int, pa.int64()), "str": (str, pa.string()), "bytes": (bytes, pa.binary())}[key_type]
    plain = keys if set(map(type, keys)) == {python_type} else [checked(key, key_type) for key in keys]
    try:
        column = pa.array(plain, arrow_type)
    except (OverflowError, UnicodeError, pa.ArrowInvalid):
        for key in plain:
            canonical(key, key_type)  # names the one that is wrong
        raise
    return plain, column, routing.shards_of(pa.record_batch([column], ["key"]), "key")


def _may_have(entry: ShardEntry, start: Any, end: Any) -> bool:
    if entry.min_key is None or entry.max_key is None:
        return True
    return (start is None or entry.max_key >= start) and (end is None or entry.min_key < end)
