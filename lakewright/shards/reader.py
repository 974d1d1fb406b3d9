"""Reading a published snapshot, without Spark and without Java."""

from __future__ import annotations

import heapq
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from types import TracebackType
from typing import Any, NoReturn, TypeVar, cast

from lakewright.errors import CorruptSnapshot, InvalidShardKey, LakewrightError, ReaderClosed, ShardError
from lakewright.shards.cache import DEFAULT_BYTES, ShardCache
from lakewright.shards.keys import Key, checked
from lakewright.shards.manifest import Manifest, read_manifest
from lakewright.shards.metrics import MetricsHook
from lakewright.shards.publish import Pointer, current, required
from lakewright.shards.snapshot import Opener, Snapshot
from lakewright.shards.store import Store, open_store

log = logging.getLogger("lakewright")
T = TypeVar("T")
_WORKERS = min(8, (os.cpu_count() or 1) + 2)


def open_reader(
    url: str,
    *,
    storage: Mapping[str, str] | None = None,
    cache_dir: str | None = None,
    cache_bytes: int = DEFAULT_BYTES,
    eager: bool = False,
    refresh_every: float | None = None,
    verify: bool = True,
    metrics: MetricsHook | None = None,
) -> ShardReader:
    """Open the snapshot published at a place.

    `storage`: settings of the store, like `s3.endpoint`. `cache_dir`, `cache_bytes`: where shards of a store that is not local are
    copied to, and the most they may take; without a folder, a temporary one. `eager`: open every shard now, not at its first get.
    `refresh_every`: look for a newer version so often, in seconds, in the background. `verify`: check a shard's checksum when it is
    opened. `metrics`: told what is read; see `PrometheusMetrics`.
    """
    kind = ShardReader if metrics is None else MeasuredReader
    return kind(open_store(url, storage), ShardCache(cache_dir, cache_bytes, verify), eager=eager, refresh_every=refresh_every, metrics=metrics)


class ShardReader:
    """Answers gets from the version it holds, from any number of threads; `refresh` swaps it for the current one at once and whole."""

    def __init__(self, store: Store, cache: ShardCache, *, eager: bool = False, refresh_every: float | None = None, metrics: MetricsHook | None = None) -> None:
        self.store, self._cache, self._eager, self._metrics = store, cache, eager, metrics
        self._opener = Opener(store, cache, metrics)
        self._refreshing, self._closed = threading.Lock(), threading.Event()
        self._refused: tuple[str, ShardError] | None = None
        self._pool: ThreadPoolExecutor | None = None
        try:
            self._snapshot = self._loaded(required(store), None)
        except BaseException:
            cache.close()
            raise
        self._tell_version()
        if refresh_every is not None:
            threading.Thread(target=self._keep_fresh, args=(refresh_every,), name="lakewright-shards-refresh", daemon=True).start()

    @property
    def manifest(self) -> Manifest:
        return self._snapshot.manifest

    @property
    def version(self) -> int:
        return self._snapshot.manifest.version

    def get(self, key: Key, routing: Mapping[str, Any] | None = None) -> Any:
        """The value of a key, or None. `routing`: the columns a snapshot routed by an expression needs beside the key."""
        snapshot = self._snapshot
        try:
            return snapshot.get(key, routing)
        except CorruptSnapshot as error:
            return self._again(snapshot, error, lambda other: other.get(key, routing))

    def multi_get(self, keys: Sequence[Key], routing: Mapping[str, Any] | None = None) -> dict[Key, Any]:
        """The values of many keys of one version, in their order; None for those that are not there."""
        return self.multi_get_versioned(keys, routing)[1]

    def multi_get_versioned(self, keys: Sequence[Key], routing: Mapping[str, Any] | None = None) -> tuple[int, dict[Key, Any]]:
        """The same, with the version the values are of."""
        if isinstance(keys, str | bytes):
            raise InvalidShardKey(f"multi_get takes a list of keys, not one {type(keys).__name__}.")
        asked = keys if isinstance(keys, list) else list(keys)
        if self._metrics:
            self._metrics.increment("multi_gets_total")
            self._metrics.increment("multi_get_keys_total", len(asked))
        snapshot = self._snapshot
        try:
            return self._multi_get(snapshot, asked, routing)
        except CorruptSnapshot as error:
            return self._again(snapshot, error, lambda other: self._multi_get(other, asked, routing))

    def scan(self, prefix: str | bytes | None = None, *, start: Key | None = None, end: Key | None = None) -> Iterator[tuple[Key, Any]]:
        """Keys and values of one version in the order of the keys: all, those that begin with `prefix`, or from `start` up to but without `end`."""
        snapshot = self._snapshot
        key_type = snapshot.manifest.key_type
        if prefix is not None and key_type == "int":
            raise InvalidShardKey("Whole numbers have no prefix; scan a range with start and end.")
        stem, first, last = (None if key is None else checked(key, key_type) for key in (prefix, start, end))
        self._count("scans_total")

        def begun(of: Snapshot) -> Iterator[tuple[Key, Any]]:
            return _rows(of, of.scanned(first, last, cast("str | bytes | None", stem)))

        try:
            return begun(snapshot)
        except CorruptSnapshot as error:
            return self._again(snapshot, error, begun)

    def shard_of(self, key: Key, routing: Mapping[str, Any] | None = None) -> int:
        """The shard a key is looked for in."""
        return self._snapshot.route(key, routing)

    def info(self) -> dict[str, Any]:
        """What is served."""
        snapshot = self._snapshot
        manifest = snapshot.manifest
        return {
            "url": self.store.url,
            "version": manifest.version,
            "run_id": manifest.run_id,
            "created_ms": manifest.created_ms,
            "published_ms": snapshot.pointer.published_ms,
            "backend": manifest.backend,
            "key_column": manifest.key_column,
            "key_type": manifest.key_type,
            "value": manifest.codec.to_json(),
            "routing": manifest.routing.to_json(),
            "shards": manifest.num_shards,
            "empty_shards": sum(entry.path is None for entry in manifest.shards),
            "open_shards": len(snapshot.open_ids()),
            "rows": manifest.rows,
            "bytes": manifest.bytes,
            "source_table": manifest.source_table,
            "source_snapshot_id": manifest.source_snapshot_id,
        }

    def refresh(self) -> bool:
        """Take up the current version; whether it is another one. Where it is damaged or unknown, the one held goes on being served and this raises."""
        with self._refreshing:
            if self._closed.is_set():
                raise ReaderClosed(f"The reader of {self.store.url} is closed.", url=self.store.url)
            held = self._snapshot
            try:
                pointer = required(self.store)
                if pointer.publish_id == held.pointer.publish_id:
                    return False
                if self._refused and self._refused[0] == pointer.publish_id:
                    raise self._refused[1]
                fresh = self._loaded(pointer, held)
            except LakewrightError:
                self._count("refresh_failures_total")
                raise
            held.previous = None
            fresh.previous = None if fresh.is_proven() else held
            self._snapshot = fresh
            self._count("refreshes_total")
            self._tell_version()
            return True

    def close(self) -> None:
        """Let go of the shards; gets that are under way end as they began."""
        self._closed.set()
        with self._refreshing:
            self._snapshot = cast(Snapshot, _Closed(self.store.url, self._snapshot.manifest))
            if self._pool is not None:
                self._pool.shutdown(wait=True)
            self._cache.close()

    def __enter__(self) -> ShardReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _multi_get(self, snapshot: Snapshot, keys: list[Key], routing: Mapping[str, Any] | None) -> tuple[int, dict[Key, Any]]:
        plain, groups = snapshot.grouped(keys, routing)
        values: dict[Key, Any] = dict.fromkeys(plain)  # the shards put theirs in; no key is in two of them
        each = [(snapshot.shards[shard_id], group) for shard_id, group in groups.items()]
        if len(each) > 1 and any(shard.gains_by_threads for shard, _ in each):
            list(self._workers().map(lambda one: one[0].multi_get(one[1], values), each))
        else:
            for shard, group in each:
                shard.multi_get(group, values)
        if snapshot.decode is not None:
            values = {key: value if value is None else snapshot.decode(value) for key, value in values.items()}
        return snapshot.manifest.version, values

    def _workers(self) -> ThreadPoolExecutor:
        if self._pool is None:
            with self._refreshing:
                if self._closed.is_set():
                    raise ReaderClosed(f"The reader of {self.store.url} is closed.", url=self.store.url)
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(_WORKERS, "lakewright-shards")
        return self._pool

    def _again(self, failed: Snapshot, error: CorruptSnapshot, act: Callable[[Snapshot], T]) -> T:
        """Do it on another version, since a shard of this one turned out to be damaged or gone: the current one, else the one before."""
        log.warning("version %s of %s is not whole: %s", failed.manifest.version, self.store.url, error)
        with self._refreshing:
            if self._snapshot is failed:
                other = self._newer(failed) or failed.previous
                if other is None:
                    raise error
                self._refused = (failed.pointer.publish_id, error)
                self._snapshot = other
                self._tell_version()
            snapshot = self._snapshot
        return act(snapshot)

    def _newer(self, failed: Snapshot) -> Snapshot | None:
        try:
            pointer = current(self.store)
            if pointer is None or pointer.publish_id == failed.pointer.publish_id:
                return None
            return self._loaded(pointer, failed)
        except ShardError as error:
            log.warning("the current version of %s cannot be taken up: %s", self.store.url, error)
            return None

    def _loaded(self, pointer: Pointer, held: Snapshot | None) -> Snapshot:
        """The version behind a pointer, with those shards open that were open before."""
        snapshot = Snapshot(read_manifest(self.store, pointer.manifest_ref), pointer, self._opener)
        wanted = {entry.shard_id for entry in snapshot.manifest.shards if entry.path is not None}
        if held is not None:
            snapshot.adopt(held)
            if not self._eager:
                wanted &= held.open_ids()
        if self._eager or held is not None:
            with ThreadPoolExecutor(_WORKERS) as workers:
                list(workers.map(snapshot.opened, sorted(wanted - snapshot.open_ids())))
        return snapshot

    def _keep_fresh(self, seconds: float) -> None:
        while not self._closed.wait(seconds):
            try:
                self.refresh()
            except ReaderClosed:
                return
            except Exception as error:
                log.warning("the current version of %s cannot be taken up; version %s is served on: %s", self.store.url, self.version, error)

    def _tell_version(self) -> None:
        if self._metrics:
            self._metrics.gauge("version", self.version)
            self._metrics.gauge("rows", self.manifest.rows)

    def _count(self, name: str) -> None:
        if self._metrics:
            self._metrics.increment(name)


def _rows(snapshot: Snapshot, scans: list[Iterator[tuple[Key, bytes]]]) -> Iterator[tuple[Key, Any]]:
    """The rows of several scans in one order; holds the snapshot for as long as someone reads on."""
    decode = snapshot.decode
    for key, value in heapq.merge(*scans, key=itemgetter(0)):
        yield key, value if decode is None else decode(value)


class MeasuredReader(ShardReader):
    """A reader that tells its metrics of every get, too."""

    def get(self, key: Key, routing: Mapping[str, Any] | None = None) -> Any:
        began, metrics = time.perf_counter(), cast(MetricsHook, self._metrics)
        try:
            return super().get(key, routing)
        except Exception:
            metrics.increment("errors_total")
            raise
        finally:
            metrics.increment("gets_total")
            metrics.observe("get_seconds", time.perf_counter() - began)


class _Closed:
    """What a closed reader holds: its manifest, and an error for everything else."""

    def __init__(self, url: str, manifest: Manifest) -> None:
        self.manifest, self._url = manifest, url

    def __getattr__(self, name: str) -> NoReturn:
        raise ReaderClosed(f"The reader of {self._url} is closed.", url=self._url)
