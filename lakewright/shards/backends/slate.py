"""A shard as a SlateDB database, written to local files without its log, compaction or clean-up: nothing changes after it is finished."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast

import pyarrow as pa

from lakewright.errors import CorruptSnapshot, DuplicateShardKey, ShardError
from lakewright.shards.backends.protocol import Keys, LocalFile, after_prefix, check_sizes, listed
from lakewright.shards.keys import Key, KeyType, from_ordered, key_array, ordered

T = TypeVar("T")
FOLDER = "db"
_FIRST = b"k"  # in front of every key: SlateDB has no empty ones
_BATCH = 10_000
_SETTINGS = {
    "wal_enabled": "false",
    "compactor_options": "null",
    "garbage_collector_options": "null",
    "flush_interval": "null",
    "l0_sst_size_bytes": str(64 << 20),
    "max_unflushed_bytes": str(256 << 20),
    "l0_max_ssts": "1000000",  # no one compacts them: a full set would stop the writer
    "l0_max_ssts_per_key": "1000000",
}


@dataclass(frozen=True)
class SlateBackend:
    max_value_bytes: int = 256 << 20

    @property
    def name(self) -> str:
        return "slatedb"

    def writer(self, scratch: str, key_type: KeyType) -> SlateWriter:
        return SlateWriter(scratch, key_type, self.max_value_bytes)

    def open(self, folder: str, key_type: KeyType) -> SlateShard:
        return SlateShard(folder, key_type)


class SlateWriter:
    def __init__(self, scratch: str, key_type: KeyType, max_value_bytes: int) -> None:
        from slatedb.uniffi import DbBuilder, Settings

        self.rows = 0
        self._scratch, self._key_type, self._limit = scratch, key_type, max_value_bytes
        settings = Settings.default()
        for name, value in _SETTINGS.items():
            settings.set(name, value)
        builder = DbBuilder(_place(scratch), _files())
        builder.with_settings(settings)
        self._seen: set[bytes] = set()
        self._last: bytes | None = None
        self._db: Any = _waited(builder.build())

    def write(self, keys: pa.Array, values: pa.Array) -> None:
        from slatedb.uniffi import WriteBatch

        check_sizes(values, self._limit, "SlateDB")
        stored, given = _stored_keys(keys), values.to_pylist()
        self._check_twice(stored, keys)
        for start in range(0, len(stored), _BATCH):
            batch = WriteBatch()
            for key, value in zip(stored[start : start + _BATCH], given[start : start + _BATCH], strict=True):
                batch.put(key, value)
            _waited(self._db.write(batch))
        self.rows += len(stored)

    def finish(self) -> list[LocalFile]:
        from slatedb.uniffi import FlushOptions, FlushType

        async def ended() -> None:
            await self._db.flush_with_options(FlushOptions(flush_type=FlushType.MEM_TABLE))
            await self._db.shutdown()

        _waited(ended())
        paths = (os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(self._scratch, FOLDER)) for name in names)
        return [LocalFile(os.path.relpath(path, self._scratch), path) for path in sorted(paths)]

    def abort(self) -> None:
        try:
            _waited(self._db.shutdown())
        except Exception:  # what it could not flush is thrown away
            pass

    def _check_twice(self, stored: list[bytes], keys: pa.Array) -> None:
        """SlateDB would keep the last in silence. While keys come in their order, the one before is all there is to look at."""
        for place, key in enumerate(stored):
            if not self._seen and (self._last is None or key > self._last):
                self._last = key
                continue
            if not self._seen:
                self._seen = self._all_so_far(stored[:place])
            if key in self._seen:
                raise DuplicateShardKey(f"The key {keys[place].as_py()!r} comes twice. Say by which column the last of a key's rows is known, or keep one row for each key.")
            self._seen.add(key)

    def _all_so_far(self, begun: list[bytes]) -> set[bytes]:
        from slatedb.uniffi import KeyRange

        whole = KeyRange(start=None, start_inclusive=True, end=None, end_inclusive=False)
        return {key for key, _ in _rows(_waited(self._db.scan(whole)))} | set(begun)


class SlateShard:
    gains_by_threads: ClassVar[bool] = True

    def __init__(self, folder: str, key_type: KeyType) -> None:
        self._folder, self._key_type = folder, key_type
        self._reader: Any = self._run(_opened(folder))

    def get(self, key: Key) -> bytes | None:
        return cast("bytes | None", self._run(self._reader.get(self._stored(key))))

    async def get_async(self, key: Key) -> bytes | None:
        try:
            return cast("bytes | None", await asyncio.wrap_future(_begun(self._reader.get(self._stored(key)))))
        except _errors() as error:
            raise self._damaged(error) from error

    def multi_get(self, keys: Keys, found: dict[Key, bytes | None]) -> None:
        keys, get = listed(keys), self._reader.get
        stored = [self._stored(key) for key in keys]

        async def gathered() -> list[bytes | None]:
            return list(await asyncio.gather(*(get(key) for key in stored)))

        found.update((key, value) for key, value in zip(keys, self._run(gathered()), strict=True) if value is not None)

    def scan(self, start: Key | None = None, end: Key | None = None, prefix: str | bytes | None = None) -> Iterator[tuple[Key, bytes]]:
        from slatedb.uniffi import KeyRange

        stem = _FIRST if prefix is None else self._stored(prefix)
        first = stem if start is None else max(stem, self._stored(start))
        last = cast(bytes, after_prefix(stem))  # there is one: no stem is all 0xff
        if end is not None:
            last = min(last, self._stored(end))
        if first >= last:
            return
        rows = self._run(self._reader.scan(KeyRange(start=first, start_inclusive=True, end=last, end_inclusive=False)))
        try:
            for key, value in _rows(rows):
                yield from_ordered(key[len(_FIRST) :], self._key_type), value
        except _errors() as error:
            raise self._damaged(error) from error

    def close(self) -> None:
        # Dropped, not shut down: nothing was written that would have to be flushed, and SlateDB 0.17 at times crashes in a reader's shutdown.
        self._reader = None

    def _stored(self, key: Key) -> bytes:
        return _FIRST + ordered(key, self._key_type)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return _waited(work)
        except _errors() as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> ShardError:
        return CorruptSnapshot(f"The shard {self._folder} cannot be read: {error}. Roll back to another version, or build it again.", url=self._folder)


def _stored_keys(keys: pa.Array) -> list[bytes]:
    plain = key_array(keys)
    if plain.type == pa.int64():
        flipped = (plain.to_numpy(zero_copy_only=False).view("u8") ^ (1 << 63)).astype(">u8").tobytes()
        return [_FIRST + flipped[at : at + 8] for at in range(0, len(flipped), 8)]
    return [_FIRST + key for key in plain.to_pylist()]


async def _opened(folder: str) -> Any:
    from slatedb.uniffi import DbReaderBuilder, ReaderMode, ReaderOptions

    builder = DbReaderBuilder(_place(folder), _files())
    builder.with_reader_mode(ReaderMode.FOLLOW_LATEST())  # the one mode that writes nothing
    builder.with_options(ReaderOptions(manifest_poll_interval_ms=86_400_000, checkpoint_lifetime_ms=604_800_000, max_memtable_bytes=64 << 20, skip_wal_replay=True))
    return await builder.build()


def _rows(iterator: Any) -> Iterator[tuple[bytes, bytes]]:
    while batch := _waited(iterator.next_batch(1000)):
        for row in batch:
            yield row.key, row.value


def _files() -> Any:
    from slatedb.uniffi import ObjectStore

    return ObjectStore.resolve("file:///")


def _place(folder: str) -> str:
    return os.path.join(os.path.abspath(folder), FOLDER).lstrip("/")


def _errors() -> Any:
    from slatedb.uniffi import Error

    return Error


class _Loop:
    """One event loop of this process, for callers that have none. A forked child starts its own."""

    lock = threading.Lock()
    loop: asyncio.AbstractEventLoop | None = None
    pid = 0

    @classmethod
    def get(cls) -> asyncio.AbstractEventLoop:
        if cls.loop is None or cls.pid != os.getpid():
            with cls.lock:
                if cls.loop is None or cls.pid != os.getpid():
                    loop = asyncio.new_event_loop()
                    threading.Thread(target=loop.run_forever, name="lakewright-slatedb", daemon=True).start()
                    cls.loop, cls.pid = loop, os.getpid()
        return cls.loop


def _begun(work: Coroutine[Any, Any, T]) -> Future[T]:
    return asyncio.run_coroutine_threadsafe(work, _Loop.get())


def _waited(work: Coroutine[Any, Any, T]) -> T:
    return _begun(work).result()
