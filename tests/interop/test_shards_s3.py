"""Sharded snapshots on S3, by moto's server: conditional puts, publishing, reading through the cache, and damage."""

from __future__ import annotations

import pickle
import shutil
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest

import lakewright as lw
from lakewright.errors import CorruptSnapshot, CurrentMoved, ObjectMissing, ShardStoreError, SnapshotNotFound, StoreConflict
from lakewright.shards.manifest import read_manifest
from lakewright.shards.metrics import PrometheusMetrics
from lakewright.shards.publish import CURRENT, Pointer, current, next_version, publish
from lakewright.shards.removal import clean_losers
from lakewright.shards.routing import HashRouting
from lakewright.shards.store import Store, open_store
from tests.interop.services.s3 import ACCESS_KEY, REGION, S3, SECRET_KEY
from tests.shards.readers import READERS
from tests.shards.snapshots import published, written

ROWS = {key: b"%d" % key for key in range(200)}
CHANGED = {key: b"new %d" % key for key in range(200)}


@pytest.fixture
def storage(s3: S3) -> dict[str, str]:
    return s3.client_properties


@pytest.fixture
def store(s3: S3, storage: dict[str, str]) -> Store:
    return open_store(f"s3://{s3.bucket}/shards/{uuid.uuid4().hex}", storage)


@pytest.fixture(params=READERS)
def opened(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return READERS[request.param]


def test_objects_and_conditional_puts(store: Store, tmp_path: Path) -> None:
    first = store.put_if("p", b"1", None)
    with pytest.raises(StoreConflict):
        store.put_if("p", b"2", None)
    second = store.put_if("p", b"2", first)
    for stale in (first, None):
        with pytest.raises(StoreConflict):
            store.put_if("p", b"3", stale)
    assert store.get("p").data == b"2" and store.get("p").version == second
    (tmp_path / "large").write_bytes(b"x" * (12 << 20))  # in parts
    store.put_file("a/large", str(tmp_path / "large"))
    store.get_to_file("a/large", str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "large").read_bytes()
    assert [(found.path, found.size) for found in store.list("a")] == [("a/large", 12 << 20)]
    store.delete("p")
    store.delete("p")
    assert not store.exists("p") and store.exists("a/large")
    with pytest.raises(ObjectMissing):
        store.get("p")
    assert pickle.loads(pickle.dumps(store)).get("a/large").data[:1] == b"x"


@pytest.mark.feature("S6")
@pytest.mark.parametrize("backend", ["sqlite", "slatedb"])
def test_the_loop(store: Store, storage: dict[str, str], backend: str, opened: Callable[..., Any]) -> None:
    with pytest.raises(SnapshotNotFound):
        lw.shards.open(store.url, storage=storage)
    published(store, ROWS, backend=backend, routing=HashRouting(3))
    with opened(store.url, storage=storage) as reader:
        assert {key: reader.get(key) for key in (0, 7, 199, 200)} == {0: b"0", 7: b"7", 199: b"199", 200: None}
        assert reader.multi_get(list(ROWS)) == ROWS and list(reader.scan(start=5, end=8)) == [(5, b"5"), (6, b"6"), (7, b"7")]
        published(store, CHANGED, backend=backend)
        assert reader.get(7) == b"7" and reader.refresh() and reader.multi_get(list(ROWS)) == CHANGED
        lw.shards.rollback(store.url, storage=storage)
        assert reader.refresh() and reader.get(7) == b"7"
    assert lw.shards.verify(store.url, storage=storage).is_whole
    assert [v.is_current for v in lw.shards.history(store.url, storage=storage)] == [True, False]


@pytest.mark.feature("S6")
def test_two_publishers_at_once(store: Store) -> None:
    published(store, ROWS)
    expected = current(store)
    published(store, CHANGED)
    with pytest.raises(CurrentMoved):
        publish(store, written(store, ROWS), expected=expected)
    assert current(store).version == 2  # type: ignore[union-attr]


@pytest.mark.feature("S6")
def test_many_publishers_lose_no_snapshot_unseen(store: Store) -> None:
    won: list[Pointer] = []
    lost: list[int] = []

    def compete(who: int) -> None:
        for _ in range(3):
            expected = current(store)
            try:
                won.append(publish(store, written(store, {0: b"%d" % who}, version=next_version(expected)), expected=expected))
            except CurrentMoved:
                lost.append(who)

    threads = [threading.Thread(target=compete, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) + len(lost) == 12 and sorted(p.sequence for p in won) == list(range(1, len(won) + 1))


def test_readers_through_publishes(store: Store, storage: dict[str, str]) -> None:
    keys = list(range(60))
    published(store, dict.fromkeys(keys, b"1"))
    failures: list[Any] = []
    done = threading.Event()

    with lw.shards.open(store.url, storage=storage) as reader:

        def ask() -> None:
            try:
                while not done.is_set():
                    assert len(set(reader.multi_get(keys).values())) == 1
                    assert reader.get(5) is not None
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=ask) for _ in range(20)]
        for thread in threads:
            thread.start()
        for number in range(2, 8):
            published(store, dict.fromkeys(keys, b"%d" % number))
            assert reader.refresh()
        done.set()
        for thread in threads:
            thread.join()
        assert failures == [] and reader.get(5) == b"7"


def test_a_cache_that_is_kept(store: Store, storage: dict[str, str], tmp_path: Path) -> None:
    published(store, ROWS)
    cache = tmp_path / "cache"
    with lw.shards.open(store.url, storage=storage, cache_dir=str(cache), eager=True):
        copies = sorted(path for path in cache.rglob("*.sqlite"))
        assert len(copies) == 4
    times = [path.stat().st_mtime_ns for path in copies]
    copies[0].write_bytes(b"damaged")
    with lw.shards.open(store.url, storage=storage, cache_dir=str(cache)) as reader:
        assert reader.multi_get(list(ROWS)) == ROWS
    assert [path.stat().st_mtime_ns == time for path, time in zip(copies, times, strict=True)] == [False, True, True, True]


def test_a_temporary_cache_is_removed(store: Store, storage: dict[str, str]) -> None:
    published(store, ROWS)
    with lw.shards.open(store.url, storage=storage, eager=True) as reader:
        folder = Path(reader._cache.folder)
        assert len(list(folder.rglob("*.sqlite"))) == 4
    assert not folder.exists()


def test_a_cache_keeps_to_its_size(store: Store, storage: dict[str, str], tmp_path: Path) -> None:
    values = dict.fromkeys(range(400), b"x" * 1000)
    published(store, values, routing=HashRouting(8))
    size = max(entry.bytes for entry in lw.shards.open(store.url, storage=storage).manifest.shards)
    metrics = PrometheusMetrics()
    with lw.shards.open(store.url, storage=storage, cache_dir=str(tmp_path), cache_bytes=3 * size, metrics=metrics) as reader:
        for key in values:
            assert reader.get(key) == values[key]
            assert sum(path.stat().st_size for path in tmp_path.rglob("*.sqlite")) <= 3 * size
        assert reader.multi_get(list(values)) == values
        assert metrics.counter("shard_opens_total") > 8, "shards had to make room for each other"
    with lw.shards.open(store.url, storage=storage, cache_dir=str(tmp_path), cache_bytes=1) as reader:
        assert reader.get(5) == values[5], "one shard is kept even where it is above the size"


def test_two_readers_share_a_cache(store: Store, storage: dict[str, str], tmp_path: Path) -> None:
    published(store, ROWS)
    settings: dict[str, Any] = {"storage": storage, "cache_dir": str(tmp_path)}
    with lw.shards.open(store.url, **settings, eager=True) as one, lw.shards.open(store.url, **settings, eager=True, cache_bytes=1) as other:
        assert one.multi_get(list(ROWS)) == other.multi_get(list(ROWS)) == ROWS
        published(store, CHANGED)
        assert other.refresh() and other.multi_get(list(ROWS)) == CHANGED
        assert one.multi_get(list(ROWS)) == ROWS, "what another reader uses is not removed"


def test_a_damaged_shard_leaves_the_last_good_version_served(store: Store, storage: dict[str, str], opened: Callable[..., Any]) -> None:
    published(store, ROWS)
    with opened(store.url, storage=storage) as reader:
        assert reader.get(0) == b"0"
        pointer = published(store, CHANGED)
        entries = read_manifest(store, pointer.manifest_ref).shards
        victim = next(entry for entry in entries if entry.shard_id != reader.shard_of(0))
        path = f"{victim.path}/{victim.files[0].name}"
        data = bytearray(store.get(path).data)
        data[-1] ^= 1
        store.put(path, bytes(data))
        assert reader.refresh() and reader.get(0) == b"new 0"
        assert reader.multi_get(list(ROWS)) == ROWS and reader.version == 1
        with pytest.raises(CorruptSnapshot):
            reader.refresh()
        assert "checksum does not match" in lw.shards.verify(store.url, storage=storage).problems[0]
        store.delete(path)
        published(store, CHANGED)
        assert reader.refresh() and reader.multi_get(list(ROWS)) == CHANGED


def test_losers_and_cleanup(store: Store, storage: dict[str, str]) -> None:
    pointer = published(store, ROWS)
    manifest = read_manifest(store, pointer.manifest_ref)
    loser = f"shards/run_id={manifest.run_id}/db=00000/attempt=01/shard.sqlite"
    store.put(loser, b"loser")
    assert clean_losers(store, manifest, manifest.run_id) == (loser,)
    published(store, CHANGED)
    plan = lw.shards.cleanup(store.url, storage=storage, keep=1)
    assert plan.manifests == (manifest.ref,) and plan.unknown_runs  # their runs were never recorded: their files stay
    lw.shards.cleanup(store.url, storage=storage, keep=1, dry_run=False)
    assert not store.exists(manifest.ref) and lw.shards.verify(store.url, storage=storage).is_whole


def test_a_store_that_is_not_there(s3: S3, storage: dict[str, str]) -> None:
    with pytest.raises(ShardStoreError):
        open_store("s3://no-such-bucket/x", storage).put("a", b"1")
    gone = {**storage, "s3.endpoint": "http://127.0.0.1:9"}
    with pytest.raises(ShardStoreError, match="does not answer"):
        lw.shards.open(f"s3://{s3.bucket}/x", storage=gone)


def test_settings_from_the_environment(s3: S3, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    published(store, ROWS)
    for name, value in {"AWS_ENDPOINT_URL": s3.endpoint, "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": REGION, "AWS_ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(name, value)
    with lw.shards.open(store.url) as reader:
        assert reader.get(5) == b"5"


def test_what_is_stored_is_what_a_client_sees(s3: S3, store: Store, tmp_path: Path) -> None:
    published(store, ROWS)
    client = boto3.client("s3", endpoint_url=s3.endpoint, aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY, region_name=REGION)
    prefix = store.url.removeprefix(f"s3://{s3.bucket}/")
    names = [found["Key"].removeprefix(f"{prefix}/") for found in client.list_objects_v2(Bucket=s3.bucket, Prefix=prefix)["Contents"]]
    assert CURRENT in names and len(names) == 6
    for name in names:  # the same snapshot, downloaded to a folder
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        client.download_file(s3.bucket, f"{prefix}/{name}", str(tmp_path / name))
    with lw.shards.open(str(tmp_path)) as reader:
        assert reader.multi_get(list(ROWS)) == ROWS
    shutil.rmtree(tmp_path)
