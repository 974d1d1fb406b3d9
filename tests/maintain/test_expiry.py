"""Expiry: which snapshots are kept, and that no file goes which a kept one refers to."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from lakewright.commit.change import MetadataChange
from lakewright.commit.refs import Retention, create
from lakewright.commit.runs import SUCCEEDED, list_runs, open_run
from lakewright.commit.updates import now_ms, set_statistics
from lakewright.errors import InvalidOption, UnsupportedOperation
from lakewright.format.metadata import Metadata
from lakewright.format.storage import local_path
from lakewright.maintain import expiry
from lakewright.maintain.expiry import Expired, Limits, expire_snapshots, retained_refs, retained_snapshots
from lakewright.maintain.orphans import remove_orphans
from lakewright.maintain.rollback import rollback
from lakewright.maintain.savepoints import save
from lakewright.read.timetravel import resolve
from tests.commit.kit import Kit
from tests.commit.stores import Rival

DAY = date(2024, 5, 1)
pytestmark = pytest.mark.feature("H6")


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path / "lake")


@pytest.fixture
def v3(tmp_path: Path) -> Kit:
    return Kit(tmp_path / "lake", format_version=3)


def expire(kit: Kit, *, store: Any = None, older_than_ms: int | None = None, **how: Any) -> Expired:
    """Of everything up to now, unless told."""
    before = now_ms() + 60_000 if older_than_ms is None else older_than_ms
    expired = expire_snapshots(store or kit.store, kit.load(), kit.options(), **{"retain_last": None, "dry_run": False, "older_than_ms": before, **how})
    kit.load()
    return expired


def replaced(kit: Kit, *ids: int) -> int:
    """A commit that has these rows and no others."""
    return kit.overwrite(kit.live(), kit.file([(n, "eu", DAY) for n in ids])).snapshot_id or 0


# Which are kept


def history(*lines: tuple[int, int | None, int], refs: dict[str, Any]) -> Metadata:
    """Snapshots of (id, parent, time), in the order of their numbers."""
    snapshots = [{"snapshot-id": i, "parent-snapshot-id": parent, "timestamp-ms": at, "sequence-number": n + 1} for n, (i, parent, at) in enumerate(lines)]
    return Metadata({"snapshots": snapshots, "refs": refs})


LINE = ((1, None, 100), (2, 1, 200), (3, 2, 300), (4, 3, 400), (9, 2, 250))


def kept(limits: Limits, **refs: Any) -> set[int]:
    return retained_snapshots(history(*LINE, refs={"main": {"snapshot-id": 4, "type": "branch"}, **refs}), limits)


@pytest.mark.parametrize(
    ("older_than", "retain_last", "expected"),
    [(300, 1, {3, 4}), (1000, 1, {4}), (1000, 3, {2, 3, 4}), (250, 1, {3, 4, 9}), (0, 1, {1, 2, 3, 4, 9}), (1000, 99, {1, 2, 3, 4})],
)
def test_the_newest_of_main_by_age_and_number(older_than: int, retain_last: int, expected: set[int]) -> None:
    assert kept(Limits(1000, older_than, retain_last, None)) == expected


def test_a_branch_has_limits_of_its_own() -> None:
    branch = {"snapshot-id": 9, "type": "branch"}
    strict = Limits(1000, 1000, 1, None)
    assert kept(strict, b=branch) == {4, 9}
    assert kept(strict, b={**branch, "min-snapshots-to-keep": 2}) == {2, 4, 9}
    assert kept(strict, b={**branch, "max-snapshot-age-ms": 800}) == {2, 4, 9}
    assert kept(Limits(1000, 0, 1, None), b={**branch, "max-snapshot-age-ms": 10}) == {1, 2, 3, 4, 9}


def test_a_tag_keeps_its_snapshot_until_it_is_too_old_itself() -> None:
    tag, strict = {"snapshot-id": 1, "type": "tag"}, Limits(1000, 1000, 1, None)
    assert kept(strict, v1=tag) == {1, 4}
    assert kept(strict, v1={**tag, "max-ref-age-ms": 899}) == {4}
    assert kept(strict, v1={**tag, "max-ref-age-ms": 900}) == {1, 4}
    metadata = history(*LINE, refs={"main": {"snapshot-id": 4, "type": "branch"}, "v1": tag, "v2": {**tag, "max-ref-age-ms": 2**63 - 1}, "b": {"snapshot-id": 3, "type": "branch"}})
    assert set(retained_refs(metadata, Limits(1000, 1000, 1, 100))) == {"main", "v2"}
    assert set(retained_refs(metadata, Limits(1000, 1000, 1, 100, live_branches=frozenset(["b"])))) == {"main", "v2", "b"}


def test_what_a_live_run_reads_is_kept_with_all_that_came_since() -> None:
    assert kept(Limits(1000, 1000, 1, None, keep_since_sequence=3)) == {3, 4, 9}


# What is deleted


def test_files_that_only_expired_snapshots_have_are_deleted(kit: Kit) -> None:
    first = kit.append((1, "eu", DAY))
    second = replaced(kit, 2, 3)
    kit.append((4, "eu", DAY))
    told = expire(kit, dry_run=True)
    assert len(kit.metadata.raw["snapshots"]) == 3 and all(Path(local_path(path) or "").exists() for path in told.files)
    expired = expire(kit)
    assert expired.snapshots == (first.snapshot_id, second) == told.snapshots and expired.counts["data"] == 1 and expired.bytes > 0
    assert expired.counts["manifest lists"] == 2 and expired.counts["manifests"] >= 1 and set(expired.files) == set(told.files)
    assert kit.ids() == [2, 3, 4] and kit.strays() == set()
    assert not any(Path(local_path(path) or "").exists() for path in expired.files)
    assert "expired 2 snapshots" in str(expired) and "would expire" in str(told)
    assert expire(kit).snapshots == () and len([r for r in list_runs(kit.state.io, kit.state.metadata.location) if r.operation == "expire"]) == 1


def test_branches_tags_and_savepoints_keep_their_files(kit: Kit) -> None:
    kit.append((1, "eu", DAY))
    kit.publish(create("db.t", "audit", None, "branch"), create("db.t", "short", None, "tag", Retention(max_ref_age_ms=1)))
    saved = replaced(kit, 2)
    save(kit.store, kit.load(), "good", None)
    gone = replaced(kit, 3)
    replaced(kit, 4)
    expired = expire(kit)
    assert expired.snapshots == (gone,) and expired.refs == ("short",)
    assert kit.ids() == [4] and kit.ids("audit") == [1] and kit.ids("good") == [2] and kit.strays() == set()
    assert kit.metadata.refs["good"]["snapshot-id"] == saved


def test_a_shared_puffin_file_stays_while_one_vector_of_it_is_used(v3: Kit) -> None:
    for n in (1, 11):
        v3.append((n, "eu", DAY), (n + 1, "eu", DAY))
    one, two = v3.live()
    shared = v3.vectors(one, two)
    v3.publish(v3.delta(*shared, touched=[one, two]))
    v3.publish(v3.delta(*v3.vectors(one, positions=[0, 1]), touched=[one], removed_vectors=frozenset([one.file_path])))
    assert expire(v3).counts["position deletes"] == 0 and v3.strays() == set()
    v3.publish(v3.delta(*v3.vectors(two, positions=[0, 1]), touched=[two], removed_vectors=frozenset([two.file_path])))
    assert expire(v3).counts["position deletes"] == 1 and v3.strays() == set()
    assert not Path(local_path(shared[0].file_path) or "").exists()


def test_statistics_go_with_their_snapshot(kit: Kit) -> None:
    paths = {}
    for n in (1, 2):
        snapshot = replaced(kit, n)
        paths[n] = f"{kit.state.metadata.location}/metadata/{n}.stats"
        Path(local_path(paths[n]) or "").write_bytes(b"sketch")
        statistics = {"snapshot-id": snapshot, "statistics-path": paths[n], "file-size-in-bytes": 6, "file-footer-size-in-bytes": 1, "blob-metadata": []}
        kit.publish(MetadataChange("statistics", lambda metadata, s=statistics: [set_statistics(s)]))  # type: ignore[misc]
    assert expire(kit).counts["statistics"] == 1 and kit.strays() == set()
    assert [s["statistics-path"] for s in kit.metadata.raw["statistics"]] == [paths[2]]


def test_rolled_back_snapshots_expire_once_they_are_old(kit: Kit) -> None:
    first = kit.append((1, "eu", DAY))
    undone = kit.append((2, "eu", DAY))
    rollback(kit.store, kit.load(), first, "main")
    assert expire(kit, older_than_ms=0).snapshots == ()
    assert expire(kit).snapshots == (undone.snapshot_id,)
    assert kit.ids() == [1] and kit.strays() == set()


def test_the_log_of_time_travel_has_no_gap(kit: Kit) -> None:
    """A time at which an expired snapshot was current is not answered with an earlier one that is still there."""
    first = replaced(kit, 1)
    kit.publish(create("db.t", "v1", first, "tag"))
    second = replaced(kit, 2)
    at = kit.metadata.snapshot(second).timestamp_ms
    third = replaced(kit, 3)
    expire(kit)
    assert [entry["snapshot-id"] for entry in kit.metadata.raw["snapshot-log"]] == [third]
    with pytest.raises(Exception, match="earliest usable state"):
        resolve(kit.metadata, as_of=at)


def test_old_metadata_files_are_left(kit: Kit) -> None:
    replaced(kit, 1)
    replaced(kit, 2)
    before = {path for path in kit.stored() if path.endswith(".metadata.json")}
    expire(kit)
    assert before < {path for path in kit.stored() if path.endswith(".metadata.json")}


# Beside others


def test_a_live_run_keeps_the_snapshot_it_read(kit: Kit) -> None:
    read = replaced(kit, 1)
    change = kit.replacement(kit.live(), kit.file([(5, "eu", DAY)]))
    with open_run(
        kit.state.io, table="db.t", table_location=kit.state.metadata.location, operation="update", branch="main", token=None, lease_seconds=60, read_snapshot_id=read
    ) as run:
        kit.append((2, "eu", DAY))
        assert expire(kit).snapshots == () and len(change.removed) == 1
        run.finish(SUCCEEDED)
    assert expire(kit).snapshots == (read,)


@pytest.mark.parametrize("times", [1, 3])
def test_an_append_that_comes_before_the_publish(kit: Kit, times: int) -> None:
    first = replaced(kit, 1)
    numbers = iter(range(10, 20))
    replaced(kit, 2)
    expired = expire(kit, store=Rival(kit.store, lambda: kit.append((next(numbers), "eu", DAY)), times), retain_last=1, older_than_ms=now_ms() + 1)
    assert first in expired.snapshots and kit.strays() == set()
    assert kit.ids() == [2, *range(10, 10 + times)]


def test_an_append_that_comes_between_the_publish_and_the_deletion(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its manifests merge those of the head into new ones; what is kept was looked up before, and covers it."""
    kit.state = kit.publish(MetadataChange("merge", lambda metadata: [{"action": "set-properties", "updates": {"commit.manifest.min-count-to-merge": "2"}}])).state
    kit.append((1, "eu", DAY))
    kit.append((2, "eu", DAY))
    replaced(kit, 3)
    kit.append((4, "eu", DAY))
    unused = expiry._unused

    def then_append(*args: Any) -> Any:
        found = unused(*args)
        for n in (5, 6, 7):
            kit.append((n, "eu", DAY))
        return found

    monkeypatch.setattr(expiry, "_unused", then_append)
    expired = expire(kit)
    assert len(expired.snapshots) == 3 and kit.ids() == [3, 4, 5, 6, 7]
    monkeypatch.undo()
    assert remove_orphans(kit.store, kit.load(), older_than_hours=0, dry_run=True).files == ()


def test_two_expiries_at_once(kit: Kit) -> None:
    for n in range(6):
        replaced(kit, n)
    others = [Kit.__new__(Kit) for _ in range(2)]
    for other in others:
        other.__dict__.update(kit.__dict__)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(expire, others))
    assert kit.ids() == [5] and kit.strays() == set() and len(kit.metadata.raw["snapshots"]) == 1


def test_killed_between_the_publish_and_the_deletion(kit: Kit) -> None:
    replaced(kit, 1)
    kept_id = replaced(kit, 2)
    child = os.fork()
    if child == 0:
        expiry._unused = lambda *args: os.kill(os.getpid(), 9)  # type: ignore[assignment,return-value]
        expire_snapshots(kit.store, kit.load(), kit.options(**{"run-lease-seconds": 1}), older_than_ms=now_ms() + 60_000, retain_last=1, dry_run=False)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -9
    assert [s.snapshot_id for s in kit.metadata.snapshots()] == [kept_id] and kit.ids() == [2]
    left = kit.strays()
    assert any(path.endswith(".parquet") for path in left)
    time.sleep(1.1)
    expire(kit, older_than_ms=0)
    remove_orphans(kit.store, kit.load(), older_than_hours=0)
    assert kit.strays() == set() and kit.ids() == [2]
    (run,) = [r for r in list_runs(kit.state.io, kit.state.metadata.location) if r.operation == "expire"]
    assert run.state == SUCCEEDED


def test_records_of_runs_go_with_their_snapshots(kit: Kit) -> None:
    def written(n: int) -> str:
        with open_run(kit.state.io, table="db.t", table_location=kit.state.metadata.location, operation="append", branch="main", token=None, lease_seconds=60) as run:
            commit = kit.publish(kit.change(added=[kit.file([(n, "eu", DAY)], run_id=run.run_id)]), run_id=run.run_id).commits[0]
            run.finish(SUCCEEDED, snapshot_id=commit.snapshot_id)
        return run.run_id

    first, last = written(1), written(2)
    expire(kit)
    records = {r.run_id: r.operation for r in list_runs(kit.state.io, kit.state.metadata.location)}
    assert first not in records and records[last] == "append" and "expire" in records.values()
    written(3)
    expire_snapshots(kit.store, kit.load(), kit.options(**{"max-snapshot-age-ms": 1}), older_than_ms=None, retain_last=1, dry_run=False)
    operations = [r.operation for r in list_runs(kit.state.io, kit.state.metadata.location)]
    assert operations == ["append", "expire"]


# Bad input


def test_what_is_refused(kit: Kit) -> None:
    kit.append((1, "eu", DAY))
    with pytest.raises(InvalidOption, match=r"retain_last is 0.*db\.t"):
        expire(kit, retain_last=0)
    kit.publish(MetadataChange("gc", lambda metadata: [{"action": "set-properties", "updates": {"gc.enabled": "false"}}]))
    with pytest.raises(UnsupportedOperation, match=r"gc\.enabled"):
        expire(kit)


def test_a_table_without_snapshots(kit: Kit) -> None:
    assert expire(kit).snapshots == ()
