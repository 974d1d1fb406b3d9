"""Row lineage of format 3: which rows get which ids, and that no two rows ever get the same."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import fastavro
import pytest
from pyiceberg.table import StaticTable

from lakewright.commit.metadata_changes import evolve_partitions, upgrade
from lakewright.commit.refs import create
from lakewright.format.data_file import DATA, DELETED, DataFile
from lakewright.format.manifests import read_manifest
from tests.commit.kit import Kit
from tests.commit.stores import Rival
from tests.interop.readers import duck

DAY = date(2024, 5, 1)


def rows(first: int, count: int, region: str = "eu") -> list[tuple[int, str | None, date | None]]:
    return [(first + n, region, DAY) for n in range(count)]


def least_id(file: DataFile) -> int:
    return int.from_bytes(file.lower_bounds[1], "little")


def first_row_ids(kit: Kit, branch: str = "main") -> dict[int, int | None]:
    """For each live file its least value of the column id, and the row id of its first row."""
    return {least_id(f): f.first_row_id for f in kit.live(branch) if f.content == DATA}


def stored_row_ids(kit: Kit, branch: str = "main") -> dict[int, int | None]:
    """The same as the manifests themselves have it, with nothing inherited."""
    bare = [replace(m, first_row_id=None) for m in kit.manifests(branch) if m.content == DATA]
    return {least_id(e.data_file): e.data_file.first_row_id for m in bare for e in read_manifest(kit.state.io, m, kit.metadata.specs)}


def duck_row_ids(kit: Kit) -> dict[int, int]:
    """What DuckDB makes of it, row by row."""
    found = duck(kit, columns="id, _row_id")
    return dict(zip(found["id"].to_pylist(), found["_row_id"].to_pylist(), strict=True))


def test_a_new_table_starts_at_zero(v3: Kit) -> None:
    assert v3.metadata.raw["format-version"] == 3 and v3.metadata.raw["next-row-id"] == 0
    assert v3.iceberg.metadata.format_version == 3


@pytest.mark.feature("I25")
def test_appends_take_ids_one_after_the_other(v3: Kit) -> None:
    v3.append(*rows(10, 3))
    v3.publish(v3.change(added=[v3.file(rows(20, 2)), v3.file(rows(30, 4))]))
    assert first_row_ids(v3) == {10: 0, 20: 3, 30: 5}
    assert [(s.first_row_id, s.added_rows) for s in v3.metadata.snapshots()] == [(0, 3), (3, 6)]
    assert v3.metadata.next_row_id == 9
    assert duck_row_ids(v3) == {10: 0, 11: 1, 12: 2, 20: 3, 21: 4, 30: 5, 31: 6, 32: 7, 33: 8}


def test_added_files_leave_their_ids_to_the_list(v3: Kit) -> None:
    v3.publish(v3.change(added=[replace(v3.file(rows(10, 3)), first_row_id=77)]))
    assert stored_row_ids(v3) == {10: None} and first_row_ids(v3) == {10: 0}
    v3.append(*rows(20, 1))
    assert stored_row_ids(v3) == {10: None, 20: None} and first_row_ids(v3) == {10: 0, 20: 3}


def test_the_list_says_where_its_snapshot_starts(v3: Kit) -> None:
    v3.append(*rows(10, 3))
    v3.append(*rows(20, 3))
    head = v3.metadata.head()
    assert head is not None
    with v3.state.io.new_input(head.manifest_list).open() as stream:
        header = fastavro.reader(stream).metadata
    assert header["first-row-id"] == "3" and header["format-version"] == "3"


def test_a_rewritten_manifest_keeps_the_ids_of_its_files(v3: Kit) -> None:
    v3.publish(v3.change(added=[v3.file(rows(10, 3)), v3.file(rows(20, 2)), v3.file(rows(30, 4))]))
    v3.overwrite([f for f in v3.live() if least_id(f) == 20], v3.file(rows(40, 1)))
    assert first_row_ids(v3) == {10: 0, 30: 5, 40: 9}
    assert stored_row_ids(v3) == {10: 0, 20: 3, 30: 5, 40: None}
    deleted = [e for e in v3.entries() if e.status == DELETED]
    assert [e.data_file.first_row_id for e in deleted] == [3]
    assert v3.metadata.next_row_id == 10
    assert all(m.first_row_id is not None for m in v3.manifests())
    assert duck_row_ids(v3) == {10: 0, 11: 1, 12: 2, 30: 5, 31: 6, 32: 7, 33: 8, 40: 9}


def test_merged_manifests_keep_the_ids_of_their_files(v3: Kit) -> None:
    for n in range(6):
        v3.publish(v3.change(added=[v3.file(rows(10 * n, n + 1))]), manifest_min_count_to_merge=3)
    assert len(v3.manifests()) < 4
    assert first_row_ids(v3) == {0: 0, 10: 1, 20: 3, 30: 6, 40: 10, 50: 15}
    assert v3.metadata.next_row_id == 21
    assert duck_row_ids(v3) == {10 * n + k: n * (n + 1) // 2 + k for n in range(6) for k in range(n + 1)}


def test_delete_manifests_have_no_first_row_id(v3: Kit) -> None:
    v3.append(*rows(10, 3))
    [file] = v3.live()
    commit = v3.publish(v3.delta(*v3.vectors(file), touched=[file])).commits[0]
    assert {m.content: m.first_row_id for m in v3.manifests()} == {0: 0, 1: None}
    assert (v3.metadata.snapshot(commit.snapshot_id or 0).first_row_id, v3.metadata.snapshot(commit.snapshot_id or 0).added_rows) == (3, 0)
    assert v3.metadata.next_row_id == 3


@pytest.mark.feature("I11")
def test_branches_share_one_run_of_ids(v3: Kit) -> None:
    v3.append(*rows(10, 3))
    v3.publish(create("db.t", "audit", None, "branch"))
    v3.append(*rows(20, 2), branch="audit")
    v3.append(*rows(30, 2))
    assert first_row_ids(v3, "audit") == {10: 0, 20: 3}
    assert first_row_ids(v3) == {10: 0, 30: 5}
    assert v3.metadata.next_row_id == 7


@pytest.mark.parametrize("branch", ["main", "audit"])
def test_a_commit_that_lost_a_race_takes_other_ids(v3: Kit, branch: str) -> None:
    v3.append(*rows(10, 3))
    v3.publish(create("db.t", "audit", None, "branch"))
    change = v3.change(added=[v3.file(rows(30, 2))])
    v3.publish(change, store=Rival(v3.store, lambda: v3.append(*rows(20, 4), branch=branch)))
    assert first_row_ids(v3, branch)[20] == 3 and first_row_ids(v3)[30] == 7
    assert [(s.first_row_id, s.added_rows) for s in v3.metadata.snapshots()] == [(0, 3), (3, 4), (7, 2)]
    assert v3.metadata.next_row_id == 9


def test_two_snapshots_of_one_commit_take_ids_in_order(v3: Kit) -> None:
    v3.publish(v3.change(added=[v3.file(rows(10, 3))]), v3.change(added=[v3.file(rows(20, 2))]))
    assert first_row_ids(v3) == {10: 0, 20: 3}
    assert v3.metadata.next_row_id == 5


def test_other_readers_take_the_table(v3: Kit) -> None:
    v3.append(*rows(10, 3))
    v3.append(*rows(20, 2))
    assert sorted(StaticTable.from_metadata(v3.state.metadata_location).scan().to_arrow()["id"].to_pylist()) == [10, 11, 12, 20, 21]
    assert v3.ids() == sorted(duck(v3)["id"].to_pylist()) == [10, 11, 12, 20, 21]


# Upgrades


def test_an_upgrade_changes_no_snapshot(kit: Kit) -> None:
    kit.append(*rows(10, 3))
    before = kit.metadata.raw["snapshots"]
    kit.publish(upgrade("db.t", 3))
    assert kit.metadata.raw["snapshots"] == before
    assert kit.metadata.format_version == 3 and kit.metadata.next_row_id == 0
    assert first_row_ids(kit) == {10: None}
    assert kit.ids() == [10, 11, 12]


def test_the_first_commit_after_an_upgrade_gives_ids_to_all_rows(kit: Kit) -> None:
    kit.append(*rows(10, 3))
    kit.append(*rows(20, 2))
    kit.publish(upgrade("db.t", 3))
    commit = kit.append(*rows(30, 4))
    assert first_row_ids(kit) == {30: 0, 20: 4, 10: 6}
    snapshot = kit.metadata.snapshot(commit.snapshot_id or 0)
    assert (snapshot.first_row_id, snapshot.added_rows, kit.metadata.next_row_id) == (0, 9, 9)
    again = kit.append(*rows(40, 1))
    assert first_row_ids(kit) == {30: 0, 20: 4, 10: 6, 40: 9}
    assert kit.metadata.snapshot(again.snapshot_id or 0).added_rows == 1
    assert kit.ids() == sorted(duck_row_ids(kit)) and sorted(duck_row_ids(kit).values()) == list(range(10))


def test_manifests_of_before_an_upgrade_can_be_rewritten_and_merged(kit: Kit) -> None:
    for n in range(4):
        kit.publish(kit.change(added=[kit.file(rows(100 * n, 2)), kit.file(rows(100 * n + 50, 1))]))
    kit.publish(upgrade("db.t", 3))
    gone = [f for f in kit.live() if least_id(f) == 50]
    kit.publish(kit.replacement(gone, kit.file(rows(900, 1))), manifest_min_count_to_merge=3)
    ids = first_row_ids(kit)
    counts = {least_id(f): f.record_count for f in kit.live()}
    taken = [n for key, first in ids.items() if first is not None for n in range(first, first + counts[key])]
    assert len(taken) == len(set(taken)) == 12 and max(taken) < kit.metadata.next_row_id
    assert kit.ids() == sorted(duck_row_ids(kit))
    before = dict(ids)
    kit.append(*rows(1000, 1))
    assert first_row_ids(kit) == {**before, 1000: kit.metadata.next_row_id - 1}


def test_files_of_other_specs_get_ids_too(kit: Kit) -> None:
    kit.append(*rows(10, 3))
    kit.publish(evolve_partitions("db.t", ["region"], []))
    kit.append(*rows(20, 2))
    kit.publish(upgrade("db.t", 3))
    kit.append(*rows(30, 1, "us"))
    assert sorted(duck_row_ids(kit).values()) == list(range(6))


def test_rows_written_while_the_table_was_upgraded_get_ids(kit: Kit) -> None:
    change = kit.change(added=[kit.file(rows(10, 3))])
    kit.publish(change, store=Rival(kit.store, lambda: kit.publish(upgrade("db.t", 3))))
    assert first_row_ids(kit) == {10: 0} and kit.metadata.next_row_id == 3
    assert duck_row_ids(kit) == {10: 0, 11: 1, 12: 2}


def test_branches_of_before_an_upgrade_get_ids_of_their_own(kit: Kit) -> None:
    kit.append(*rows(10, 3))
    kit.publish(create("db.t", "audit", None, "branch"), upgrade("db.t", 3))
    kit.append(*rows(20, 2))
    kit.append(*rows(30, 1), branch="audit")
    assert first_row_ids(kit) == {20: 0, 10: 2}
    assert first_row_ids(kit, "audit") == {30: 5, 10: 6}
    assert kit.metadata.next_row_id == 9
