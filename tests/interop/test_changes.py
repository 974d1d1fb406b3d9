"""Incremental queries beside those of the Iceberg Spark runtime, and on tables it wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.peer import Peer
from tests.interop.places import Place
from tests.read.changes_kit import applied, bag

COLUMNS = "id bigint not null, region string, fare double"
VALUES = "SELECT id, if(id % 2 = 0, 'eu', 'us') AS region, cast(id AS double) AS fare FROM range({}, {})"
MERGE_ON_READ = {f"write.{command}.mode": "merge-on-read" for command in ("delete", "update", "merge")}


def table_of(place: Place, name: str, **how: Any) -> tuple[Any, str]:
    return place.lake.create_table(f"changes.{name}", COLUMNS, partition_by=["region"], **how), f"{place.name}.changes.{name}"


def snapshots(table: Any) -> list[int]:
    return [row.snapshot_id for row in table.history().collect()]


def logged(rows: Any) -> list[tuple[Any, ...]]:
    """Both write a change in their own letters."""
    names = ("id", "region", "fare", "_change_type", "_change_ordinal", "_commit_snapshot_id")
    return sorted(tuple(row[name].lower() if name == "_change_type" else row[name] for name in names) for row in rows)


@pytest.mark.feature("H7")
@pytest.mark.parametrize("keyed", [True, False])
def test_the_log_is_that_of_the_changelog_view(keyed: bool, place_of: Callable[[str], Place], peer: Peer) -> None:
    """Copy-on-write: the view refuses tables with delete files."""
    place = place_of("local")
    table, name = table_of(place, f"viewed_{keyed}", format_version=2, key=["id"] if keyed else [])
    spark = place.lake.spark
    table.append(spark.sql(VALUES.format(0, 10)).coalesce(1))
    peer.sql(f"UPDATE {name} SET fare = fare + 1 WHERE id < 4")
    table.update({"region": "'us'"}, "id = 2")
    peer.sql(f"DELETE FROM {name} WHERE id IN (5, 6)")
    peer.sql(f"INSERT INTO {name} {VALUES.format(20, 23)}")
    table.delete("id = 21")
    peer.sql(f"CALL {place.name}.system.rewrite_data_files(table => 'changes.viewed_{keyed}', options => map('rewrite-all', 'true'))")
    table.refresh().append(spark.sql(VALUES.format(30, 31)).coalesce(1))
    commits = snapshots(table)
    assert [row.operation for row in table.history().collect()].count("replace") == 1
    for since, until in ((commits[0], commits[-1]), (commits[1], commits[4])):
        updates = "compute_updates => true, identifier_columns => array('id')" if keyed else "compute_updates => false"
        peer.sql(f"CALL {place.name}.system.create_changelog_view(table => 'changes.viewed_{keyed}', changelog_view => 'seen', options => map('start-snapshot-id', '{since}', 'end-snapshot-id', '{until}'), {updates})")
        assert logged(table.changes(since, until, log=True).toArrow().to_pylist()) == logged(peer.sql("SELECT * FROM seen").to_pylist())


@pytest.mark.feature("H7")
@pytest.mark.parametrize("version", [2, 3])
def test_changes_that_others_made(version: int, place_of: Callable[[str], Place], peer: Peer) -> None:
    """Appends, vectors or position deletes, values deleted, and a rewrite of files."""
    place = place_of("local")
    table, name = table_of(place, f"theirs_{version}", format_version=version, properties=MERGE_ON_READ)
    peer.sql(f"INSERT INTO {name} {VALUES.format(0, 8)}")
    peer.sql(f"INSERT INTO {name} {VALUES.format(8, 10)}")
    peer.sql(f"UPDATE {name} SET fare = fare + 100 WHERE id IN (1, 2)")
    peer.sql(f"DELETE FROM {name} WHERE id = 3")
    if version == 2:
        peer.equality_delete(name, ["fare"], [[4.0]], {"region": "eu"})
    table.refresh().update({"fare": "fare + 1000"}, "id IN (2, 5)")
    peer.sql(f"CALL {place.name}.system.rewrite_data_files(table => 'changes.theirs_{version}', options => map('rewrite-all', 'true'))")
    peer.sql(f"DELETE FROM {name} WHERE id = 9")
    commits = snapshots(table.refresh())
    now = bag(table.read().collect())
    for since in commits:
        assert applied(table.changes(since, log=True).collect(), bag(table.read(snapshot_id=since).collect())) == now
    changed = {row.id for row in table.changes(commits[1]).collect()}
    assert changed == {1, 2, 5}
    replaced = next(row for row in table.history().collect() if row.operation == "replace")
    assert table.changes(replaced.parent_id, replaced.snapshot_id, log=True).isEmpty() and table.changes(replaced.parent_id, replaced.snapshot_id).isEmpty()
    if version == 3:
        kinds = {(row.id, row["_change_type"]) for row in table.changes(commits[1], commits[2], log=True).collect()}
        assert kinds == {(i, kind) for i in (1, 2) for kind in ("update_before", "update_after")}


@pytest.mark.feature("H7")
def test_appended_rows_are_those_of_the_incremental_scan(place_of: Callable[[str], Place], peer: Peer) -> None:
    place = place_of("local")
    table, name = table_of(place, "appended", format_version=3)
    for start in (0, 10, 20):
        table.append(place.lake.spark.sql(VALUES.format(start, start + 5)).coalesce(1))
    first, second, third = snapshots(table)
    for since, until in ((first, third), (second, third)):
        theirs = peer.read(name, start_snapshot_id=str(since), end_snapshot_id=str(until)).to_pylist()
        assert bag(row.values() for row in theirs) == bag(table.changes(since, until).collect())
