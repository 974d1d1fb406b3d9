"""Readers while snapshots are published under them: each answer is of one version, and no get fails."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import lakewright as lw
from lakewright.shards.publish import Pointer
from lakewright.shards.routing import HashRouting
from lakewright.shards.store import Store, open_store
from tests.shards.snapshots import published

KEYS = list(range(200))
THREADS, PUBLISHES, PAUSE = 100, 20, 0.01  # a pause that leaves the publisher some of the interpreter
pytestmark = pytest.mark.feature("S13")


def publish_version(store: Store, number: int, backend: str = "sqlite") -> Pointer:
    """Every value of a version is its number."""
    return published(store, dict.fromkeys(KEYS, b"%d" % number), routing=HashRouting(4 + number % 3), backend=backend)


@pytest.mark.parametrize(("backend", "eager"), [("sqlite", True), ("sqlite", False), ("slatedb", False)])
def test_a_hundred_threads_through_twenty_publishes(backend: str, eager: bool, tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    publish_version(store, 1, backend)
    failures: list[Any] = []
    done = threading.Event()
    asked = [0] * THREADS

    def ask(reader: Any, who: int) -> None:
        last, turn = 0, 0
        try:
            while not done.is_set():
                turn += 1
                number = int(reader.get(KEYS[(who + turn) % len(KEYS)]))
                assert number >= last, "a reader went back"
                last = number
                if turn % 7 == 0:
                    assert len(set(reader.multi_get(KEYS[::9]).values())) == 1, "a mixed answer"
                if turn % 50 == 0:
                    assert len({value for _, value in reader.scan(start=10, end=60)}) == 1, "a mixed scan"
                assert reader.get(-1) is None
                asked[who] += 1
                time.sleep(PAUSE)
        except Exception as error:
            failures.append(error)

    with lw.shards.open(store.url, eager=eager) as reader:
        threads = [threading.Thread(target=ask, args=(reader, who)) for who in range(THREADS)]
        for thread in threads:
            thread.start()
        for number in range(2, PUBLISHES + 2):
            publish_version(store, number, backend)
            assert reader.refresh()
            time.sleep(0.02)
        done.set()
        for thread in threads:
            thread.join()
        assert failures == [] and min(asked) > 0
        assert reader.version == PUBLISHES + 1 and int(reader.get(0)) == PUBLISHES + 1


def test_background_refresh_and_clean_up_under_readers(tmp_path: Path) -> None:
    """Versions are removed right behind the readers: what was open stays readable, what was not is found in the newer one."""
    store = open_store(str(tmp_path))
    publish_version(store, 1)
    failures: list[Any] = []
    done = threading.Event()

    def ask(reader: Any, who: int) -> None:
        try:
            turn = 0
            while not done.is_set():
                turn += 1
                assert len(set(reader.multi_get(KEYS[who::20]).values())) == 1
                time.sleep(PAUSE)
        except Exception as error:
            failures.append(error)

    with lw.shards.open(store.url, refresh_every=0.01) as reader:
        threads = [threading.Thread(target=ask, args=(reader, who)) for who in range(20)]
        for thread in threads:
            thread.start()
        for number in range(2, 15):
            pointer = publish_version(store, number)
            for found in list(store.list("shards")):
                if f"run_id={pointer.manifest_ref.rsplit('-', 1)[-1].removesuffix('.json')}" not in found.path:
                    store.delete(found.path)
            time.sleep(0.03)
        deadline = time.monotonic() + 10
        while reader.version != 14 and time.monotonic() < deadline:
            time.sleep(0.01)
        done.set()
        for thread in threads:
            thread.join()
        assert failures == [] and reader.version == 14


def test_an_async_reader_through_publishes(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    publish_version(store, 1)

    async def run() -> int:
        async with await lw.shards.open_async(store.url) as reader:
            done = asyncio.Event()

            async def ask(who: int) -> int:
                asked = 0
                while not done.is_set():
                    assert await reader.get(KEYS[(who + asked) % len(KEYS)]) is not None
                    assert len(set((await reader.multi_get(KEYS[::11])).values())) == 1
                    asked += 1
                    await asyncio.sleep(0)
                return asked

            tasks = [asyncio.create_task(ask(who)) for who in range(20)]
            for number in range(2, 12):
                await asyncio.to_thread(publish_version, store, number)
                assert await reader.refresh()
                await asyncio.sleep(0.01)
            done.set()
            asked = await asyncio.gather(*tasks)
            assert min(asked) > 0
            return reader.version

    assert asyncio.run(run()) == 11


def test_files_are_let_go_of(tmp_path: Path) -> None:
    """Old versions hold no file open once no one reads them."""
    store = open_store(str(tmp_path))
    publish_version(store, 1)

    def open_files() -> int:
        links = (link for link in Path("/proc/self/fd").iterdir() if link.is_symlink())
        return sum(str(tmp_path) in str(_target(link)) for link in links)

    with lw.shards.open(store.url, eager=True) as reader:
        counts = []
        for number in range(2, 8):
            publish_version(store, number)
            reader.refresh()
            reader.multi_get(KEYS)
            counts.append(open_files())
        assert max(counts) <= 12, counts  # of six shards at most, each read by SQL and by its pages
    assert open_files() == 0


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""
