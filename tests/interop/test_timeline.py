"""Tables that were rolled back, restored and expired, in engines we did not write; and savepoints under the runtime's own expiry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakewright.commit.refs import Retention
from lakewright.commit.runs import RUNNING, Run, RunRecord, data_prefix, new_run_id, running_runs
from lakewright.commit.updates import now_ms
from tests.interop import readers
from tests.interop.peer import Peer
from tests.interop.places import Place
from tests.interop.statements import FLAT_ROWS

PLACES = ("local", "rest")


def made(place: Place, version: int) -> tuple[Any, list[Any]]:
    """Ten rows, ten more, then one of them deleted beside its file, and one updated by a new one."""
    name = f"timeline.{place.name}_{version}"
    table = place.lake.create_table(name, place.lake.spark.sql(FLAT_ROWS.format(start=0, end=1)).schema, format_version=version, properties={"write.delete.mode": "merge-on-read"})
    commits = [table.append(place.lake.spark.sql(FLAT_ROWS.format(start=start, end=start + 10)).coalesce(1)) for start in (0, 10)]
    return table, [*commits, table.delete("id IN (3, 13)"), table.update({"ratio": "7"}, where="id = 4")]


def check(peer: Peer, place: Place, table: Any, expected: set[int], snapshots: int) -> None:
    assert {row.id for row in table.read().select("id").collect()} == expected
    assert set(readers.spark_runtime(peer, place, table)["id"].to_pylist()) == expected
    assert len(peer.sql(f"SELECT snapshot_id FROM {place.name}.{table.name}.snapshots").to_pylist()) == snapshots
    if place.name == "lakewright":
        assert set(readers.duck(table, columns="id")["id"].to_pylist()) == expected


def left_over(table: Any) -> list[str]:
    """Files no version refers to; Hadoop's checksums of metadata files aside."""
    return [path for path in table.remove_orphans(older_than_hours=0, dry_run=True).files if not path.endswith(".crc")]


@pytest.mark.feature("H6", "H12")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("where", PLACES)
def test_back_and_forth_and_expired(where: str, version: int, place_of: Callable[[str], Place], peer: Peer) -> None:
    place = place_of(where)
    table, (first, second, deleted, updated) = made(place, version)
    live = set(range(20)) - {3, 13}
    table.savepoint("good", at=deleted)
    table.rollback(first)
    check(peer, place, table, set(range(10)), 4)
    table.restore("good")
    check(peer, place, table, live, 4)
    table.append(place.lake.spark.sql(FLAT_ROWS.format(start=20, end=21)).coalesce(1))
    check(peer, place, table, live | {20}, 5)
    expired = table.expire_snapshots(older_than=now_ms() + 1000)
    assert set(expired.snapshots) == {first.snapshot_id, second.snapshot_id, updated.snapshot_id}
    check(peer, place, table, live | {20}, 2)
    assert {row.id for row in table.read(ref="good").select("id").collect()} == live
    assert {r["id"] for r in peer.sql(f"SELECT id FROM {place.name}.{table.name} VERSION AS OF 'good'").to_pylist()} == live
    assert left_over(table) == []


@pytest.mark.feature("H12")
@pytest.mark.parametrize("version", [2, 3])
def test_a_savepoint_survives_the_expiry_of_the_runtime(version: int, place_of: Callable[[str], Place], peer: Peer) -> None:
    """Also where the table lets tags go by age; another tag goes then."""
    place = place_of("local")
    table = place.lake.create_table(f"timeline.saved_{version}", place.lake.spark.sql(FLAT_ROWS.format(start=0, end=1)).schema, format_version=version)
    for start in (0, 10):
        table.overwrite(place.lake.spark.sql(FLAT_ROWS.format(start=start, end=start + 10)).coalesce(1))
        table.create_tag(f"plain{start}")
        table.savepoint(f"good{start}")
    table.overwrite(place.lake.spark.sql(FLAT_ROWS.format(start=20, end=30)).coalesce(1))
    table.set_properties({"history.expire.max-ref-age-ms": "1"})
    peer.sql(f"CALL {place.name}.system.expire_snapshots(table => '{table.name}', older_than => TIMESTAMP '2099-01-01 00:00:00', retain_last => 1)")
    assert sorted(row.name for row in table.refs().collect()) == ["good0", "good10", "main"]
    assert [row.name for row in table.savepoints().collect()] == ["good0", "good10"]
    assert {row.id for row in table.read(ref="good0").collect()} == set(range(10))
    table.restore("good0")
    check(peer, place, table, set(range(10)), 3)


@pytest.mark.feature("H6")
def test_what_is_kept_is_what_the_runtime_keeps(place_of: Callable[[str], Place], peer: Peer) -> None:
    """The same history, branches, tags and limits, expired by us and by the runtime."""
    place, kept = place_of("local"), {}
    for author in ("ours", "theirs"):
        table = place.lake.create_table(f"timeline.kept_by_{author}", "id bigint", properties={"history.expire.min-snapshots-to-keep": "2"})
        commits = [table.append(place.lake.spark.sql(f"SELECT {n}L AS id")) for n in range(6)]
        table.create_branch("long", at=commits[3], retention=Retention(min_snapshots_to_keep=3))
        table.create_branch("old", at=commits[2], retention=Retention(max_snapshot_age_ms=3_600_000))
        table.create_branch("gone", at=commits[0], retention=Retention(max_ref_age_ms=1))
        table.create_tag("v1", at=commits[0], retention=Retention(max_ref_age_ms=3_600_000))
        table.rollback(commits[4])
        if author == "ours":
            table.expire_snapshots(older_than="2099-01-01")
        else:
            peer.sql(f"CALL {place.name}.system.expire_snapshots(table => '{table.name}', older_than => TIMESTAMP '2099-01-01 00:00:00')")
        number = {commit.snapshot_id: n for n, commit in enumerate(commits)}
        kept[author] = [number[row.snapshot_id] for row in table.history().collect()], sorted(row.name for row in table.refs().collect())
        assert left_over(table) == []
    assert kept["ours"] == kept["theirs"] and 5 not in kept["ours"][0]


@pytest.mark.feature("H6")
def test_on_an_object_store(place_of: Callable[[str], Place]) -> None:
    """A crashed run is rolled back by the next writer, and an expiry leaves no file, where there are no folders and no rename."""
    place = place_of("s3")
    table = place.lake.create_table("timeline.on_s3", "id bigint")

    def write(n: int) -> None:
        table.overwrite(place.lake.spark.sql(f"SELECT {n}L AS id"))

    write(1)
    io, run_id = table._state.io, new_run_id()
    dead = RunRecord(run_id, table.name, "append", RUNNING, data_prefix(table.location, run_id), "main", None, 0, 0, 1)
    Run(io, table.location, dead).begin()
    with io.new_output(f"{dead.prefix}/part.parquet").create() as stream:
        stream.write(b"rows")
    assert [i.state for i in table.timeline().collect()] == ["inflight", "completed"]
    write(2)
    assert [i.state for i in table.timeline().collect()] == ["rolled back", "completed", "completed"]
    assert not io.new_input(f"{dead.prefix}/part.parquet").exists() and running_runs(io, table.location) == []
    assert table.expire_snapshots(older_than=now_ms() + 1000).counts["data"] == 1
    assert left_over(table) == [] and [row.id for row in table.read().collect()] == [2]
