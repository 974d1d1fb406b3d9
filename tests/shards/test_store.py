"""Stores: whole objects, and a put that is conditional on what is there."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lakewright.errors import ObjectMissing, ShardStoreError, StoreConflict
from lakewright.shards.store import LocalStore, Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "users"))


def test_objects_are_put_got_listed_and_deleted(store: Store, tmp_path: Path) -> None:
    store.put("a/b", b"1")
    store.put("a/c", b"22")
    assert store.get("a/b").data == b"1" and store.exists("a/c") and not store.exists("a")
    assert [(found.path, found.size) for found in store.list("a")] == [("a/b", 1), ("a/c", 2)]
    assert list(store.list("nowhere")) == []
    store.get_to_file("a/c", str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == b"22"
    store.delete("a/b")
    store.delete("a/b")
    with pytest.raises(ObjectMissing):
        store.get("a/b")
    with pytest.raises(ObjectMissing):
        store.get_to_file("a/b", str(tmp_path / "copy"))


@pytest.mark.parametrize("move", [True, False])
def test_files_are_put(store: Store, tmp_path: Path, move: bool) -> None:
    (tmp_path / "source").write_bytes(b"shard")
    store.put_file("x/y", str(tmp_path / "source"), move=move)
    assert store.get("x/y").data == b"shard" and (tmp_path / "source").exists() is not move


def test_a_conditional_put_sees_every_change(store: Store) -> None:
    first = store.put_if("p", b"1", None)
    assert store.get("p").version == first
    with pytest.raises(StoreConflict):
        store.put_if("p", b"2", None)
    second = store.put_if("p", b"2", first)
    for stale in (first, None, "never"):
        with pytest.raises(StoreConflict):
            store.put_if("p", b"3", stale)
    store.delete("p")
    with pytest.raises(StoreConflict, match="not there any more"):
        store.put_if("p", b"3", second)
    assert not store.exists("p")


def test_one_of_many_threads_wins_each_round(store: Store) -> None:
    won: list[tuple[int, int]] = []
    barrier = threading.Barrier(8)

    def compete(who: int) -> None:
        for turn in range(20):
            barrier.wait()
            expected = store.get("p").version if turn else None
            barrier.wait()
            try:
                store.put_if("p", f"{turn} {who}".encode(), expected)
                won.append((turn, who))
            except StoreConflict:
                pass

    threads = [threading.Thread(target=compete, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(turn for turn, _ in won) == list(range(20))


def test_a_writer_that_died_holding_the_lock_stops_no_one(store: Store) -> None:
    version = store.put_if("p", b"1", None)
    lock = Path(store.full(".p.lock"))
    holder = subprocess.Popen([sys.executable, "-c", f"import fcntl,time; f=open({str(lock)!r},'ab'); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); time.sleep(600)"], stdout=subprocess.PIPE)
    assert holder.stdout and holder.stdout.readline() == b"held\n"
    holder.kill()
    holder.wait()
    assert store.put_if("p", b"2", version)


def test_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert {open_store(url).url for url in (str(tmp_path / "a"), f"file://{tmp_path}/a", "a", "a/")} == {str(tmp_path / "a")}
    store = pickle.loads(pickle.dumps(open_store("a")))
    assert isinstance(store, LocalStore) and store.local_path("x") == str(tmp_path / "a" / "x")
    for unknown in ("ftp://host/a", "nosuch://x"):
        with pytest.raises(ShardStoreError):
            open_store(unknown)
    with pytest.raises(ShardStoreError, match="s3.endpont is not known"):
        open_store("s3://bucket/a", {"s3.endpont": "http://127.0.0.1:1"})


def test_what_is_not_whole_is_not_listed(store: Store) -> None:
    store.put("a/b", b"1")
    Path(store.full("a/.b.1-2.tmp")).write_bytes(b"par")
    store.put_if("a/p", b"1", None)
    assert sorted(found.path for found in store.list("a")) == ["a/b", "a/p"]


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = open_store(str(tmp_path / "file"))
    with pytest.raises(ShardStoreError):
        store.put("a", b"1")
    with pytest.raises(ShardStoreError):
        store.put_if("a", b"1", None)
