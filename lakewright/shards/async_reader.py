"""The same reader for programs with an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import islice
from types import TracebackType
from typing import Any

from lakewright.errors import CorruptSnapshot
from lakewright.shards.keys import Key, checked
from lakewright.shards.manifest import Manifest
from lakewright.shards.reader import ShardReader, open_reader
from lakewright.shards.snapshot import Snapshot, Unopened

_SCANNED_AT_ONCE = 1000


async def open_async(url: str, **settings: Any) -> AsyncShardReader:
    """Open the snapshot published at a place; takes what `open` takes."""
    return AsyncShardReader(await asyncio.to_thread(open_reader, url, **settings))


class AsyncShardReader:
    """What takes long (opening a shard, gets of many, refreshing) is done beside the loop; a get from an open SQLite shard takes microseconds, and is done in it."""

    def __init__(self, reader: ShardReader) -> None:
        self._reader = reader

    @property
    def manifest(self) -> Manifest:
        return self._reader.manifest

    @property
    def version(self) -> int:
        return self._reader.version

    async def get(self, key: Key, routing: Mapping[str, Any] | None = None) -> Any:
        """The value of a key, or None."""
        snapshot = self._reader._snapshot
        try:
            return await _get(snapshot, key, routing)
        except CorruptSnapshot as error:
            return await asyncio.to_thread(self._reader._again, snapshot, error, lambda other: other.get(key, routing))

    async def multi_get(self, keys: Sequence[Key], routing: Mapping[str, Any] | None = None) -> dict[Key, Any]:
        """The values of many keys of one version; None for those that are not there."""
        return await asyncio.to_thread(self._reader.multi_get, keys, routing)

    async def scan(self, prefix: str | bytes | None = None, *, start: Key | None = None, end: Key | None = None) -> AsyncIterator[tuple[Key, Any]]:
        """Keys and values in the order of the keys."""
        rows = await asyncio.to_thread(self._reader.scan, prefix, start=start, end=end)
        while some := await asyncio.to_thread(lambda: list(islice(rows, _SCANNED_AT_ONCE))):
            for row in some:
                yield row

    def shard_of(self, key: Key, routing: Mapping[str, Any] | None = None) -> int:
        return self._reader.shard_of(key, routing)

    def info(self) -> dict[str, Any]:
        return self._reader.info()

    async def refresh(self) -> bool:
        """Take up the current version; whether it is another one."""
        return await asyncio.to_thread(self._reader.refresh)

    async def close(self) -> None:
        await asyncio.to_thread(self._reader.close)

    async def __aenter__(self) -> AsyncShardReader:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()


async def _get(snapshot: Snapshot, key: Key, routing: Mapping[str, Any] | None) -> Any:
    plain = checked(key, snapshot.manifest.key_type)
    shard = snapshot.shards[snapshot.route(plain, routing)]
    if isinstance(shard, Unopened):
        shard = await asyncio.to_thread(shard.open)
    value = await shard.get_async(plain)
    return value if value is None or snapshot.decode is None else snapshot.decode(value)
