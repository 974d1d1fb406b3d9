"""The reader: refresh, damage, what is opened when, and what it tells."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lakewright as lw
from lakewright.errors import CorruptSnapshot, ReaderClosed, SnapshotNotFound, UnsupportedSnapshot
from lakewright.shards.manifest import Manifest, read_manifest, sealed, write_manifest
from lakewright.shards.metrics import PrometheusMetrics
from lakewright.shards.publish import CURRENT, current, point_to
from lakewright.shards.routing import HashRouting
from lakewright.shards.store import LocalStore, Store, open_store
from tests.shards.readers import READERS
from tests.shards.snapshots import published, written

ROOT = Path(__file__).parents[2]
ROWS = {key: b"%d" % key for key in range(100)}
CHANGED = {key: b"new %d" % key for key in range(100)}
pytestmark = pytest.mark.feature("S13")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = open_store(str(tmp_path / "users"))
    published(store, ROWS)
    return store


@pytest.fixture(params=READERS)
def opened(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return READERS[request.param]


def files(store: Store, manifest: Manifest) -> list[Path]:
    return [Path(store.full(f"{entry.path}/{file.name}")) for entry in manifest.shards for file in entry.files]


def newest(store: Store) -> Manifest:
    pointer = current(store)
    assert pointer is not None
    return read_manifest(store, pointer.manifest_ref)


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    replaced(path, bytes(data))


def replaced(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


def test_refresh_takes_up_the_current_version(store: Store, opened: Callable[..., Any]) -> None:
    with opened(store.url) as reader:
        assert reader.get(7) == b"7" and not reader.refresh()
        published(store, CHANGED)
        assert reader.get(7) == b"7" and reader.version == 1
        assert reader.refresh() and reader.get(7) == b"new 7" and reader.version == 2
        lw.shards.rollback(store.url)
        assert reader.refresh() and reader.get(7) == b"7" and reader.version == 1


def test_a_new_version_may_route_and_keep_its_values_otherwise(store: Store, opened: Callable[..., Any]) -> None:
    with opened(store.url) as reader:
        published(store, {"a": b"1"}, key_type="str", routing=HashRouting(9), backend="slatedb")
        assert reader.get(1) == b"1" and reader.refresh() and reader.get("a") == b"1"


def test_nothing_is_published(tmp_path: Path) -> None:
    with pytest.raises(SnapshotNotFound, match="No snapshot is published"):
        lw.shards.open(str(tmp_path / "nowhere"))


DAMAGES: dict[str, Callable[[Path], None]] = {
    "a flipped byte": flipped,
    "cut": lambda path: replaced(path, path.read_bytes()[:-100]),
    "empty": lambda path: replaced(path, b""),
    "gone": lambda path: path.unlink(),
    "another file": lambda path: replaced(path, b"x" * path.stat().st_size),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("backend", ["sqlite", "slatedb"])
@pytest.mark.parametrize("eager", [True, False])
def test_a_damaged_shard_leaves_the_last_good_version_served(damage: str, backend: str, eager: bool, store: Store, opened: Callable[..., Any]) -> None:
    with opened(store.url, eager=eager) as reader:
        if not eager:
            assert reader.get(0) == b"0"  # one shard is open, the others are not
        published(store, CHANGED, backend=backend)
        manifest = newest(store)
        hit = 0 if eager else next(e.shard_id for e in manifest.shards if e.shard_id != reader.shard_of(0))
        victim = max((Path(store.full(f"{manifest.shards[hit].path}/{f.name}")) for f in manifest.shards[hit].files), key=lambda path: path.stat().st_size)
        DAMAGES[damage](victim)
        if eager:
            with pytest.raises(CorruptSnapshot):
                reader.refresh()
        else:
            assert reader.refresh() and reader.get(0) == b"new 0"
        assert reader.multi_get(list(ROWS)) == ROWS and {key: reader.get(key) for key in ROWS} == ROWS
        assert reader.version == 1
        with pytest.raises(CorruptSnapshot):
            reader.refresh()
        published(store, CHANGED)
        assert reader.refresh() and reader.multi_get(list(ROWS)) == CHANGED


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_shard_with_nothing_to_go_back_to(damage: str, store: Store, opened: Callable[..., Any]) -> None:
    DAMAGES[damage](files(store, newest(store))[0])
    with pytest.raises(CorruptSnapshot), opened(store.url, eager=True):
        pass
    with opened(store.url) as reader:
        with pytest.raises(CorruptSnapshot):
            reader.multi_get(list(ROWS))
        whole = next(key for key in ROWS if reader.shard_of(key) != 0)
        assert reader.get(whole) == ROWS[whole]


def test_a_damaged_shard_is_found_by_a_scan(store: Store, opened: Callable[..., Any]) -> None:
    with opened(store.url) as reader:
        assert reader.get(0) == b"0"
        published(store, CHANGED)
        flipped(files(store, newest(store))[1 if reader.shard_of(0) == 0 else 0])
        reader.refresh()
        assert dict(reader.scan()) == ROWS and reader.version == 1


def test_damage_below_an_open_shard_is_a_typed_error(store: Store) -> None:
    with lw.shards.open(store.url, eager=True, verify=False) as reader:
        for path in files(store, newest(store)):
            path.write_bytes(b"\0" * path.stat().st_size)
        with pytest.raises(CorruptSnapshot):
            list(reader.scan())


def damaged_manifest(store: Store, change: Callable[[dict[str, Any]], None], seal: bool) -> None:
    pointer = published(store, CHANGED)
    path = Path(store.full(pointer.manifest_ref))
    body = json.loads(path.read_bytes())
    change(body)
    if seal:
        del body["checksum"]
    path.write_bytes(sealed(body) if seal else json.dumps(body).encode())


@pytest.mark.parametrize(
    ("change", "seal", "error"),
    [
        (lambda body: body.update(rows=1), False, CorruptSnapshot),
        (lambda body: body["shards"][0].update(rows=1), False, CorruptSnapshot),
        (lambda body: body.pop("checksum"), False, CorruptSnapshot),
        (lambda body: body.pop("shards"), True, CorruptSnapshot),
        (lambda body: body["shards"].pop(), True, CorruptSnapshot),
        (lambda body: body["shards"].reverse(), True, CorruptSnapshot),
        (lambda body: body.update(format_version=2), True, UnsupportedSnapshot),
        (lambda body: body.update(key_type="uuid"), True, UnsupportedSnapshot),
        (lambda body: body.update(backend="rocksdb"), True, UnsupportedSnapshot),
        (lambda body: body["routing"].update(kind="range"), True, UnsupportedSnapshot),
        (lambda body: body["value"].update(name="protobuf"), True, UnsupportedSnapshot),
    ],
)
def test_a_damaged_or_unknown_manifest_leaves_the_last_good_version_served(change: Any, seal: bool, error: type[Exception], store: Store, opened: Callable[..., Any]) -> None:
    with opened(store.url) as reader:
        assert reader.get(5) == b"5"
        damaged_manifest(store, change, seal)
        with pytest.raises(error):
            reader.refresh()
        assert reader.multi_get(list(ROWS)) == ROWS and reader.version == 1
        published(store, CHANGED)
        assert reader.refresh() and reader.get(5) == b"new 5"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a": 1}', b"\xff\xfe"])
@pytest.mark.parametrize("what", ["pointer", "manifest"])
def test_files_that_are_no_pointer_and_no_manifest(content: bytes, what: str, store: Store) -> None:
    with lw.shards.open(store.url) as reader:
        pointer = published(store, CHANGED)
        Path(store.full(CURRENT if what == "pointer" else pointer.manifest_ref)).write_bytes(content)
        with pytest.raises(CorruptSnapshot):
            reader.refresh()
        with pytest.raises(CorruptSnapshot):
            lw.shards.open(store.url)
        assert reader.get(5) == b"5"


def test_a_manifest_that_is_gone(store: Store) -> None:
    with lw.shards.open(store.url) as reader:
        store.delete(published(store, CHANGED).manifest_ref)
        with pytest.raises(CorruptSnapshot, match="not there"):
            reader.refresh()
        assert reader.get(5) == b"5"


def test_a_pointer_that_is_gone(store: Store) -> None:
    with lw.shards.open(store.url) as reader:
        store.delete(CURRENT)
        with pytest.raises(SnapshotNotFound):
            reader.refresh()
        assert reader.get(5) == b"5"


def test_shards_are_opened_at_their_first_get(store: Store) -> None:
    with lw.shards.open(store.url) as reader:
        assert reader.info()["open_shards"] == 0
        reader.get(0)
        assert reader.info()["open_shards"] == 1
        reader.multi_get(list(ROWS))
        assert reader.info()["open_shards"] == 4
    with lw.shards.open(store.url, eager=True) as reader:
        assert reader.info()["open_shards"] == 4


def test_one_opening_for_many_threads(store: Store) -> None:
    metrics = PrometheusMetrics()
    with lw.shards.open(store.url, metrics=metrics) as reader:
        barrier = threading.Barrier(20)
        found: list[Any] = []

        def ask() -> None:
            barrier.wait()
            found.append(reader.get(3))

        threads = [threading.Thread(target=ask) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [b"3"] * 20 and metrics.counter("shard_opens_total") == 1


def test_shards_that_were_carried_over_stay_open(store: Store) -> None:
    metrics = PrometheusMetrics()
    with lw.shards.open(store.url, metrics=metrics, eager=True) as reader:
        carried = {entry.shard_id: entry for entry in reader.manifest.shards if entry.shard_id != 2}
        published(store, CHANGED, carried=carried)
        assert reader.refresh() and metrics.counter("shard_opens_total") == 5
        assert {key: reader.get(key) for key in ROWS} == {key: (CHANGED if reader.shard_of(key) == 2 else ROWS)[key] for key in ROWS}


def test_background_refresh(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    with lw.shards.open(store.url, refresh_every=0.02) as reader:
        published(store, CHANGED)
        assert waited(lambda: reader.version == 2) and reader.get(5) == b"new 5"
        damaged = write_manifest(store, written(store, ROWS))
        Path(store.full(damaged)).write_bytes(b"damaged")
        point_to(store, damaged, 3, expected=current(store))
        assert waited(lambda: "version 2 is served on" in caplog.text) and reader.get(5) == b"new 5"
        published(store, ROWS)
        assert waited(lambda: reader.version == 4) and reader.get(5) == b"5"


def waited(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def test_a_closed_reader_says_so(store: Store) -> None:
    reader = lw.shards.open(store.url)
    assert reader.get(1) == b"1"
    reader.close()
    reader.close()
    for use in (lambda: reader.get(1), lambda: reader.multi_get([1]), lambda: reader.scan(), lambda: reader.refresh(), lambda: reader.shard_of(1)):
        with pytest.raises(ReaderClosed):
            use()


def test_a_scan_goes_on_through_a_refresh(store: Store) -> None:
    with lw.shards.open(store.url) as reader:
        rows = reader.scan()
        begun = [next(rows) for _ in range(3)]
        published(store, CHANGED)
        reader.refresh()
        assert [*begun, *rows] == sorted(ROWS.items())


def test_metrics(store: Store) -> None:
    metrics = PrometheusMetrics()
    with lw.shards.open(store.url, metrics=metrics) as reader:
        reader.get(1)
        reader.get(-1)
        with pytest.raises(lw.errors.InvalidShardKey):
            reader.get("1")
        reader.multi_get([1, 2, 3])
        list(reader.scan())
        published(store, CHANGED)
        reader.refresh()
    text = metrics.text()
    for line in ("gets_total 3", "errors_total 1", "multi_gets_total 1", "multi_get_keys_total 3", "scans_total 1", "refreshes_total 1", "version 2", "rows 100", "get_seconds_count 3", 'get_seconds_bucket{le="+Inf"} 3'):
        assert f"lakewright_shards_{line}\n" in text
    assert "# TYPE lakewright_shards_get_seconds histogram" in text and "# TYPE lakewright_shards_version gauge" in text


def test_metrics_of_ones_own(store: Store) -> None:
    told: list[str] = []

    class Own:
        def increment(self, name: str, by: int = 1) -> None:
            told.append(name)

        def observe(self, name: str, seconds: float) -> None:
            told.append(name)

        def gauge(self, name: str, value: float) -> None:
            told.append(name)

    with lw.shards.open(store.url, metrics=Own()) as reader:
        reader.get(1)
    assert {"version", "gets_total", "get_seconds", "shard_opens_total"} <= set(told)


def test_info(store: Store) -> None:
    with lw.shards.open(store.url) as reader:
        info = reader.info()
    assert (info["version"], info["rows"], info["shards"], info["backend"], info["key_type"], info["routing"]["kind"]) == (1, 100, 4, "sqlite", "int", "hash")
    assert json.loads(json.dumps(info)) == info


def test_a_store_that_fails_at_refresh_changes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with lw.shards.open(store.url) as reader:
        published(store, CHANGED)

        def refuse(self: Store, path: str) -> Any:
            raise lw.errors.ShardStoreError("The store does not answer.")

        with monkeypatch.context() as patched:
            patched.setattr(LocalStore, "get", refuse)
            with pytest.raises(lw.errors.ShardStoreError):
                reader.refresh()
            assert reader.get(5) == b"5"
        assert reader.refresh()


def test_manifests_of_one_version_are_not_overwritten(store: Store) -> None:
    manifest = written(store, CHANGED, version=9)
    from lakewright.shards.manifest import write_manifest

    assert write_manifest(store, manifest) == write_manifest(store, manifest)
    assert read_manifest(store, manifest.ref) == manifest


IMPORTS = """
import sys
import lakewright as lw
with lw.shards.open(sys.argv[1]) as reader:
    assert reader.get(5) == b"5" and reader.multi_get([1, 2]) == {1: b"1", 2: b"2"}
import lakewright.shards.async_reader, lakewright.shards.serve
heavy = [name for name in ("pyspark", "py4j", "pyiceberg", "pandas", "polars", "jpype") if name in sys.modules]
print(heavy)
"""


def test_reading_imports_neither_spark_nor_iceberg(store: Store) -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS, store.url], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr
