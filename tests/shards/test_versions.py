"""History, rollback, verify and cleanup of what is published."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import lakewright as lw
from lakewright.commit.runs import FAILED, RUNNING, SUCCEEDED, RunRecord, mark_path, write_record
from lakewright.errors import CorruptSnapshot, ShardError, SnapshotNotFound
from lakewright.shards.manifest import Manifest, read_manifest, sealed, write_manifest
from lakewright.shards.publish import current, publish
from lakewright.shards.registry import run_io
from lakewright.shards.store import LocalStore, Store, open_store
from tests.shards.snapshots import published, written

pytestmark = pytest.mark.feature("S13")


def rows(number: int) -> dict[int, bytes]:
    return dict.fromkeys(range(30), b"%d" % number)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "users"))


def record(store: Store, run_id: str, state: str, *, beat_ago: float = 0.0, folder: str = "runs") -> None:
    now = time.time_ns() // 1_000_000 - int(beat_ago * 1000)
    write_record(run_io(store), store.url, RunRecord(run_id, store.url, "shards", state, store.full(f"shards/run_id={run_id}"), "", None, now, now, 60), folder)


def build(store: Store, number: int, state: str = SUCCEEDED, **settings: Any) -> Manifest:
    expected = current(store)
    manifest = written(store, rows(number), **settings)
    record(store, manifest.run_id, state)
    publish(store, manifest, expected=expected)
    return manifest


def paths(manifest: Manifest) -> set[str]:
    return {f"{entry.path}/{file.name}" for entry in manifest.shards for file in entry.files}


def stored(store: Store) -> set[str]:
    return {file.path for file in store.list("shards")}


def test_history_and_rollback(store: Store) -> None:
    for number in (1, 2, 3):
        published(store, rows(number))
    assert [(v.version, v.is_current) for v in lw.shards.history(store.url)] == [(1, False), (2, False), (3, True)]
    assert lw.shards.rollback(store.url).version == 2
    assert lw.shards.rollback(store.url).version == 1
    assert lw.shards.open(store.url).get(1) == b"1"
    with pytest.raises(SnapshotNotFound, match="no version before 1"):
        lw.shards.rollback(store.url)
    assert lw.shards.rollback(store.url, 3).version == 3
    assert published(store, rows(9)).version > 3, "numbers are not used twice after a rollback"
    with pytest.raises(SnapshotNotFound, match="no manifest of version 77"):
        lw.shards.rollback(store.url, 77)


def test_a_manifest_that_was_never_current_is_not_gone_back_to(store: Store) -> None:
    first = build(store, 1)
    for _ in range(5):  # losers of the second version; their names sort anywhere around the winner's
        lost = written(store, rows(66), version=2)
        write_manifest(store, lost)
        record(store, lost.run_id, FAILED)
    second = build(store, 2)
    build(store, 3)
    assert [v.version for v in lw.shards.history(store.url) if v.was_published] == [1, 2, 3]
    assert lw.shards.rollback(store.url).manifest_ref == second.ref
    assert lw.shards.rollback(store.url).manifest_ref == first.ref
    assert lw.shards.rollback(store.url, 2).manifest_ref == second.ref
    lw.shards.cleanup(store.url, keep=3, dry_run=False)
    assert [v.version for v in lw.shards.history(store.url)] == [1, 2, 3]


def test_rollback_looks_for_the_files_first(store: Store) -> None:
    first = build(store, 1)
    build(store, 2)
    store.delete(sorted(paths(first))[0])
    with pytest.raises(CorruptSnapshot, match="not whole any more"):
        lw.shards.rollback(store.url)
    assert lw.shards.open(store.url).get(1) == b"2"


def test_history_of_nothing_and_of_damaged_versions(store: Store) -> None:
    assert lw.shards.history(store.url) == []
    for act in (lw.shards.rollback, lw.shards.verify):
        with pytest.raises(SnapshotNotFound):
            act(store.url)
    first = build(store, 1)
    build(store, 2)
    Path(store.full(first.ref)).write_bytes(b"damaged")
    damaged, good = lw.shards.history(store.url)
    assert damaged.manifest is None and damaged.problem and good.manifest is not None
    with pytest.raises(CorruptSnapshot):
        lw.shards.rollback(store.url, 1)
    with pytest.raises(SnapshotNotFound):
        lw.shards.rollback(store.url)


@pytest.mark.parametrize("backend", ["sqlite", "slatedb"])
def test_verify_reads_a_version_whole(backend: str, store: Store) -> None:
    manifest = build(store, 1, backend=backend)
    checked = lw.shards.verify(store.url)
    assert checked.is_whole and (checked.version, checked.rows, checked.shards, checked.routing_checked) == (1, 30, 4, True)
    victim = max((Path(store.full(path)) for path in paths(manifest)), key=lambda path: path.stat().st_size)
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(bytes(data))
    assert "checksum does not match" in lw.shards.verify(store.url, 1).problems[0]
    victim.unlink()
    assert "is not there" in lw.shards.verify(store.url).problems[0]


def test_verify_finds_what_checksums_do_not(store: Store) -> None:
    """A manifest that is sealed, and wrong about its shards."""
    manifest = build(store, 1)
    first, second = manifest.shards[0], manifest.shards[1]
    swapped = (replace(second, shard_id=0), replace(first, shard_id=1, rows=first.rows + 1, min_key=-5), *manifest.shards[2:])
    publish(store, replace(manifest, version=2, run_id="wrong", shards=swapped), expected=current(store))
    problems = " ".join(lw.shards.verify(store.url).problems)
    assert "keys of other shards" in problems and "rows instead of" in problems and "instead of -5" in problems


@pytest.mark.feature("S7")
def test_cleanup_says_first_and_then_does(store: Store) -> None:
    old, middle, new = (build(store, number) for number in (1, 2, 3))
    before = stored(store)
    plan = lw.shards.cleanup(store.url, keep=2)
    assert plan.dry_run and plan.kept_versions == (2, 3) and set(plan.files) == paths(old) and plan.manifests == (old.ref,) and plan.bytes > 0
    assert stored(store) == before
    done = lw.shards.cleanup(store.url, keep=2, dry_run=False)
    assert not done.dry_run and done.files == plan.files and stored(store) == paths(middle) | paths(new)
    assert [v.version for v in lw.shards.history(store.url)] == [2, 3]
    assert lw.shards.cleanup(store.url, keep=2).files == () and lw.shards.verify(store.url).is_whole


def test_cleanup_keeps_what_was_carried_over_and_what_is_current(store: Store) -> None:
    old = build(store, 1)
    carried = build(store, 2, carried={entry.shard_id: entry for entry in old.shards[1:]})
    lw.shards.cleanup(store.url, keep=1, dry_run=False)
    assert stored(store) == paths(carried) and lw.shards.verify(store.url).is_whole
    build(store, 3)
    lw.shards.rollback(store.url, 2)
    done = lw.shards.cleanup(store.url, keep=1, dry_run=False)
    assert done.kept_versions == (2, 3) and lw.shards.verify(store.url).version == 2


def test_cleanup_keeps_the_young(store: Store) -> None:
    for number in (1, 2, 3):
        build(store, number)
    assert lw.shards.cleanup(store.url, keep=1, older_than=timedelta(hours=1)).manifests == ()
    assert len(lw.shards.cleanup(store.url, keep=1, older_than=timedelta(0)).manifests) == 2


@pytest.mark.feature("S16")
@pytest.mark.parametrize("folder", ["runs", "registry/of/runs"])
def test_cleanup_is_gated_by_run_records(folder: str, store: Store) -> None:
    build(store, 1)
    current_files = stored(store)
    files = {run_id: f"shards/run_id={run_id}/db=00000/attempt=00/shard.sqlite" for run_id in ("live", "dead", "failed", "nobody")}
    for path in files.values():
        store.put(path, b"x")
    record(store, "live", RUNNING, folder=folder)
    record(store, "dead", RUNNING, beat_ago=3600, folder=folder)
    record(store, "failed", FAILED, folder=folder)
    plan = lw.shards.cleanup(store.url, run_registry_prefix=folder)
    assert set(plan.files) == {files["dead"], files["failed"]} and plan.dead_runs == ("dead",) and "nobody" in plan.unknown_runs
    mark = Path(mark_path(store.url, "dead", folder))
    assert not mark.exists()
    lw.shards.cleanup(store.url, run_registry_prefix=folder, dry_run=False)
    assert stored(store) == current_files | {files["live"], files["nobody"]}
    assert mark.exists(), "a run taken for dead may not publish any more"


def test_cleanup_keeps_the_manifest_of_a_live_run(store: Store) -> None:
    build(store, 1)
    coming = written(store, rows(2), version=2)
    record(store, coming.run_id, RUNNING)
    write_manifest(store, coming)
    build(store, 3)
    plan = lw.shards.cleanup(store.url, keep=1, dry_run=False)
    assert coming.ref not in plan.manifests and paths(coming) <= stored(store)


def test_cleanup_stops_where_it_cannot_know(store: Store) -> None:
    build(store, 1)
    newer = build(store, 2)
    path = Path(store.full(newer.ref))
    body = json.loads(path.read_bytes())
    body.update(format_version=2)
    del body["checksum"]
    path.write_bytes(sealed(body))
    before = stored(store)
    with pytest.raises(ShardError, match="Nothing was removed"):
        lw.shards.cleanup(store.url, keep=1, dry_run=False)
    assert stored(store) == before
    with pytest.raises(ShardError, match="from 1"):
        lw.shards.cleanup(store.url, keep=0)


def test_a_rollback_during_cleanup_wins(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    old = build(store, 1)
    build(store, 2)
    delete = LocalStore.delete

    def rolled_back_first(self: LocalStore, path: str) -> None:
        monkeypatch.setattr(LocalStore, "delete", delete)
        lw.shards.rollback(store.url, 1)
        self.delete(path)

    monkeypatch.setattr(LocalStore, "delete", rolled_back_first)
    with pytest.raises(ShardError, match="rolled back to version 1 while"):
        lw.shards.cleanup(store.url, keep=1, dry_run=False)
    assert read_manifest(store, old.ref) == old and lw.shards.verify(store.url).is_whole


def test_what_cannot_be_removed_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    old = build(store, 1)
    build(store, 2)
    delete, stuck = LocalStore.delete, sorted(paths(old))[0]

    def sometimes(self: LocalStore, path: str) -> None:
        if path == stuck:
            raise ShardError("The store refuses.")
        delete(self, path)

    monkeypatch.setattr(LocalStore, "delete", sometimes)
    assert lw.shards.cleanup(store.url, keep=1, dry_run=False).failed == (stuck,)
    monkeypatch.undo()
    assert lw.shards.cleanup(store.url, keep=1, dry_run=False).files == (stuck,)
