"""One way to ask a reader, whether it is the plain or the async one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import lakewright as lw
from lakewright.shards.async_reader import AsyncShardReader
from lakewright.shards.keys import Key

T = TypeVar("T")


class Awaited:
    """An async reader asked from a test that has no loop."""

    def __init__(self, reader: AsyncShardReader, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self.reader, self._run = reader, run

    def get(self, key: Any, routing: Any = None) -> Any:
        return self._run(self.reader.get(key, routing))

    def multi_get(self, keys: Sequence[Key], routing: Any = None) -> dict[Key, Any]:
        return self._run(self.reader.multi_get(keys, routing))

    def scan(self, prefix: Any = None, **bounds: Any) -> list[tuple[Key, Any]]:
        async def rows() -> list[tuple[Key, Any]]:
            return [row async for row in self.reader.scan(prefix, **bounds)]

        return self._run(rows())

    def refresh(self) -> bool:
        return self._run(self.reader.refresh())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.reader, name)


@contextmanager
def plain(url: str, **settings: Any) -> Iterator[Any]:
    with lw.shards.open(url, **settings) as reader:
        yield reader


@contextmanager
def asynchronous(url: str, **settings: Any) -> Iterator[Any]:
    with asyncio.Runner() as runner:
        reader = runner.run(lw.shards.open_async(url, **settings))
        yield Awaited(reader, runner.run)
        runner.run(reader.close())


READERS = {"plain": plain, "async": asynchronous}
