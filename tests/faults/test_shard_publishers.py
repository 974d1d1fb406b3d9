"""Publishing under faults: readers see the old snapshot or the new one, and a publisher knows which."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import lakewright as lw
from lakewright.errors import CurrentMoved, PublishCurrentError, PublishManifestError
from lakewright.shards.manifest import read_manifest
from lakewright.shards.publish import CURRENT, Pointer, current, next_version, publish
from lakewright.shards.removal import clean_losers
from lakewright.shards.store import open_store
from tests.faults.shard_stores import FailingStore
from tests.shards.snapshots import published, written

OLD, NEW = dict.fromkeys(range(20), b"old"), dict.fromkeys(range(20), b"new")
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.feature("S6")


def served(store: FailingStore) -> set[bytes]:
    with lw.shards.open(store.url) as reader:
        return set(reader.multi_get(list(OLD)).values())


def attempt(store: FailingStore) -> tuple[Pointer, list[float]]:
    waits: list[float] = []
    expected = current(store)
    return publish(store, written(store, NEW), expected=expected, sleep=waits.append), waits


@pytest.mark.parametrize("what", ["manifest", CURRENT])
@pytest.mark.parametrize("fault", ["lost", "unanswered"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_store_that_fails_and_recovers(what: str, fault: str, times: int, tmp_path: Path) -> None:
    published(open_store(str(tmp_path)), OLD)
    store = FailingStore(tmp_path, **{fault: {what: times}})
    pointer, waits = attempt(store)
    assert waits == [1.0, 2.0, 4.0][: 1 if fault == "unanswered" else times]
    assert served(store) == {b"new"} and current(store) == pointer and pointer.sequence == 2


def test_a_manifest_that_cannot_be_stored(tmp_path: Path) -> None:
    published(open_store(str(tmp_path)), OLD)
    store = FailingStore(tmp_path, lost={"manifest": 4})
    with pytest.raises(PublishManifestError, match="Readers see what they saw before") as caught:
        attempt(store)
    assert not isinstance(caught.value, PublishCurrentError) and served(store) == {b"old"}


def test_a_pointer_that_cannot_be_moved_leaves_the_manifest_safe(tmp_path: Path) -> None:
    before = published(open_store(str(tmp_path)), OLD)
    store = FailingStore(tmp_path, lost={CURRENT: 4})
    with pytest.raises(PublishCurrentError, match="manifest is safe") as caught:
        attempt(store)
    assert served(store) == {b"old"} and current(store) == before
    assert read_manifest(store, caught.value.manifest_ref).version == 2
    lw.shards.rollback(str(tmp_path), version=2)
    assert served(store) == {b"new"}


def test_a_store_that_never_answers_again(tmp_path: Path) -> None:
    published(open_store(str(tmp_path)), OLD)
    store = FailingStore(tmp_path, unanswered={CURRENT: 1})
    expected, manifest = current(store), written(store, NEW)
    store.before_put = lambda: setattr(store, "deaf", True)
    with pytest.raises(PublishCurrentError, match="unless the last attempt was carried out"):
        publish(store, manifest, expected=expected, sleep=lambda _: None)
    store.deaf = False
    assert served(store) == {b"new"}


def test_the_last_answer_is_looked_for(tmp_path: Path) -> None:
    published(open_store(str(tmp_path)), OLD)
    store = FailingStore(tmp_path, lost={CURRENT: 3}, unanswered={CURRENT: 1})
    pointer, waits = attempt(store)
    assert waits == [1.0, 2.0, 4.0] and current(store) == pointer


@pytest.mark.parametrize("first", [True, False], ids=["nothing before", "a snapshot before"])
def test_two_publishers_at_once(first: bool, tmp_path: Path) -> None:
    if not first:
        published(open_store(str(tmp_path)), OLD)
    ours, theirs = FailingStore(tmp_path), open_store(str(tmp_path))
    expected = current(ours)
    ours.before_put = lambda: published(theirs, {1: b"theirs"})
    waits: list[float] = []
    with pytest.raises(CurrentMoved, match="Another publisher") as caught:
        publish(ours, written(ours, NEW), expected=expected, sleep=waits.append)
    assert waits == [] and lw.shards.open(str(tmp_path)).get(1) == b"theirs"
    assert read_manifest(ours, str(caught.value.manifest_ref)).run_id  # the loser's own is still there to be looked at


def test_a_publisher_that_lost_meanwhile_does_not_retry_over_the_winner(tmp_path: Path) -> None:
    published(open_store(str(tmp_path)), OLD)
    store, theirs = FailingStore(tmp_path, lost={CURRENT: 1}), open_store(str(tmp_path))
    expected, manifest = current(store), written(store, NEW)
    with pytest.raises(CurrentMoved):
        publish(store, manifest, expected=expected, sleep=lambda _: published(theirs, {1: b"theirs"}))
    assert lw.shards.open(str(tmp_path)).get(1) == b"theirs"


def test_many_publishers_lose_no_snapshot_unseen(tmp_path: Path) -> None:
    """Every publish either becomes a version that the next one saw, or is told that it lost."""
    published(open_store(str(tmp_path)), {0: b"0"})
    won: list[Pointer] = []
    lost: list[int] = []

    def compete(who: int) -> None:
        store = open_store(str(tmp_path))
        for _ in range(6):
            expected = current(store)
            try:
                won.append(publish(store, written(store, {0: b"%d" % who}, version=next_version(expected)), expected=expected))
            except CurrentMoved:
                lost.append(who)

    threads = [threading.Thread(target=compete, args=(who,)) for who in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) + len(lost) == 36
    assert sorted(pointer.sequence for pointer in won) == list(range(2, len(won) + 2))


KILLED = """
import os, sys
from lakewright.shards import publish as module
from lakewright.shards.store import open_store
from tests.shards.snapshots import written
store = open_store(sys.argv[1])
def die(*args, **kwargs):
    os._exit(9)
module.point_to = die
module.publish(store, written(store, {key: b"new" for key in range(20)}), expected=module.current(store))
"""


def test_a_publisher_killed_between_manifest_and_pointer(tmp_path: Path) -> None:
    published(open_store(str(tmp_path)), OLD)
    died = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, timeout=60)
    assert died.returncode == 9
    assert [(v.version, v.is_current) for v in lw.shards.history(str(tmp_path))] == [(1, True), (2, False)]
    with lw.shards.open(str(tmp_path)) as reader:
        assert set(reader.multi_get(list(OLD)).values()) == {b"old"}
        published(open_store(str(tmp_path)), NEW)
        assert reader.refresh() and set(reader.multi_get(list(OLD)).values()) == {b"new"}


@pytest.mark.feature("S7")
def test_losers_are_gone_and_a_clean_up_that_fails_fails_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = FailingStore(tmp_path)
    pointer = published(store, NEW)
    manifest = read_manifest(store, pointer.manifest_ref)
    losers = [f"shards/run_id={manifest.run_id}/db=00001/attempt=0{n}/shard.sqlite" for n in (1, 2)]
    others = "shards/run_id=other/db=00001/attempt=00/shard.sqlite"
    for path in (*losers, others):
        store.put(path, b"loser")
    store.lost["delete"] = 1
    with caplog.at_level(logging.WARNING, "lakewright"):
        clean_losers(store, manifest, manifest.run_id)
    assert "refuses to delete" in caplog.text
    assert [store.exists(path) for path in losers] == [True, False]
    assert clean_losers(store, manifest, manifest.run_id) == (losers[0],)
    assert store.exists(others) and served(store) == {b"new"} and lw.shards.verify(str(tmp_path)).is_whole


@pytest.mark.feature("S7")
def test_a_clean_up_that_cannot_even_list_fails_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    store = FailingStore(tmp_path)
    manifest = read_manifest(store, published(store, NEW).manifest_ref)

    def refuse(prefix: str) -> None:
        raise OSError("no listing")

    monkeypatch.setattr(store, "list", refuse)
    with caplog.at_level(logging.WARNING, "lakewright"):
        assert clean_losers(store, manifest, manifest.run_id) == ()
    assert "no listing" in caplog.text
