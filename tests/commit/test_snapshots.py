"""What a commit leaves in manifests, lists and summaries, seen by readers nobody here wrote."""

from __future__ import annotations

from datetime import date

import pytest

from lakewright.commit.metadata_changes import evolve_partitions, evolve_schema
from lakewright.errors import CommitConflict
from lakewright.format.data_file import ADDED, DELETED, EXISTING
from tests.commit.kit import Kit
from tests.interop.readers import duck

DAY = date(2024, 5, 1)


def duck_ids(kit: Kit) -> list[int]:
    return sorted(duck(kit)["id"].to_pylist())


@pytest.mark.feature("D6")
def test_append_is_read_by_other_engines(kit: Kit) -> None:
    commit = kit.append((1, "eu", DAY), (2, None, DAY))
    kit.append((3, "us", None))
    assert kit.ids() == duck_ids(kit) == [1, 2, 3]
    assert (commit.operation, commit.added_files, commit.added_rows, commit.parent_id, commit.sequence_number) == ("append", 1, 2, None, 1)


@pytest.mark.feature("D8")
def test_append_references_no_other_data_file(kit: Kit) -> None:
    kit.append((1, "eu", DAY))
    before = kit.manifests()
    kit.append((2, "eu", DAY))
    new, *inherited = kit.manifests()
    assert inherited == before
    assert (new.added_files_count, new.existing_files_count, new.deleted_files_count) == (1, 0, 0)


def test_summary_counts_and_totals(kit: Kit) -> None:
    first = kit.append((1, "eu", DAY), (2, "eu", DAY))
    [entry] = kit.entries()
    added = kit.file([(3, "us", DAY)])
    second = kit.overwrite([entry.data_file], added)
    assert first.summary["total-records"] == "2" and first.summary["total-data-files"] == "1"
    assert {k: second.summary[k] for k in ("added-data-files", "deleted-data-files", "added-records", "deleted-records")} == {
        "added-data-files": "1",
        "deleted-data-files": "1",
        "added-records": "1",
        "deleted-records": "2",
    }
    assert second.summary["total-records"] == "1" and second.summary["total-data-files"] == "1"
    assert second.summary["total-files-size"] == str(added.file_size_in_bytes)
    assert second.summary["removed-files-size"] == str(entry.data_file.file_size_in_bytes)


def test_overwrite_rewrites_only_the_manifest_that_held_the_file(kit: Kit) -> None:
    kit.publish(kit.change(added=[kit.file([(1, "eu", DAY)]), kit.file([(2, "eu", DAY)])]))
    kit.append((3, "eu", DAY))
    untouched = kit.manifests()[0]
    gone = next(e for e in kit.entries() if e.data_file.lower_bounds[1] == (1).to_bytes(8, "little"))
    commit = kit.overwrite([gone.data_file], kit.file([(9, "eu", DAY)]))
    assert untouched in kit.manifests()
    by_path = {e.data_file.file_path: e for e in kit.entries()}
    assert by_path[gone.data_file.file_path].status == DELETED
    assert by_path[gone.data_file.file_path].snapshot_id == commit.snapshot_id
    assert (by_path[gone.data_file.file_path].sequence_number, by_path[gone.data_file.file_path].file_sequence_number) == (1, 1)
    kept = next(e for e in by_path.values() if e.status == EXISTING)
    assert (kept.snapshot_id, kept.sequence_number, kept.file_sequence_number) == (gone.snapshot_id, 1, 1)
    assert kit.ids() == duck_ids(kit) == [2, 3, 9]


def test_entries_deleted_earlier_are_not_carried_on(kit: Kit) -> None:
    first = kit.append((1, "eu", DAY))
    [old] = kit.entries()
    kit.overwrite([old.data_file], kit.file([(2, "eu", DAY)]))
    kit.append((3, "eu", DAY))
    assert old.data_file.file_path not in {e.data_file.file_path for e in kit.entries()}
    assert first.snapshot_id in {s.snapshot_id for s in kit.metadata.snapshots()}
    assert kit.ids() == [2, 3]


def test_removing_a_file_that_is_gone_is_a_conflict(kit: Kit) -> None:
    kit.append((1, "eu", DAY))
    with pytest.raises(CommitConflict, match=r"nowhere\.parquet"):
        kit.overwrite(["file:///nowhere.parquet"])
    assert kit.ids() == [1]
    assert not {path for path in kit.strays() if path.startswith("metadata")}


def test_merging_keeps_all_entries_and_their_sequence_numbers(kit: Kit) -> None:
    commits = [kit.publish(kit.change(added=[kit.file([(n, "eu", DAY)])]), manifest_min_count_to_merge=5).commits[0] for n in range(12)]
    assert len(kit.manifests()) < 8
    live = [e for e in kit.entries() if e.status != DELETED]
    assert sorted((e.snapshot_id, e.sequence_number, e.file_sequence_number) for e in live) == sorted((c.snapshot_id, c.sequence_number, c.sequence_number) for c in commits)
    assert kit.ids() == duck_ids(kit) == list(range(12))


def test_merging_can_be_turned_off(kit: Kit) -> None:
    for n in range(7):
        kit.publish(kit.change(added=[kit.file([(n, "eu", DAY)])]), manifest_min_count_to_merge=2, manifest_merge_enabled=False)
    assert len(kit.manifests()) == 7


def test_merging_stops_at_the_target_size(kit: Kit) -> None:
    for n in range(6):
        kit.publish(kit.change(added=[kit.file([(n, "eu", DAY)])]), manifest_merge_enabled=False)
    size = kit.manifests()[0].manifest_length
    kit.publish(kit.change(added=[kit.file([(6, "eu", DAY)])]), manifest_min_count_to_merge=2, manifest_target_size_bytes=size * 2 + 10)
    assert sorted(m.existing_files_count for m in kit.manifests()) == [0, 2, 2, 2]


@pytest.mark.feature("D1")
def test_files_of_several_specs_go_under_their_own(kit: Kit) -> None:
    unpartitioned = kit.metadata.spec
    kit.publish(evolve_partitions("db.t", ["region"], []))
    kit.publish(evolve_partitions("db.t", ["day(day)"], ["region"]))
    specs = kit.metadata.specs
    files = [kit.file([(1, "eu", DAY)], unpartitioned), kit.file([(2, "us", DAY)], specs[1]), kit.file([(3, "us", DAY)], specs[2]), kit.file([(4, None, DAY)], specs[1])]
    commit = kit.publish(kit.change(added=files)).commits[0]
    assert {m.partition_spec_id: m.added_files_count for m in kit.manifests()} == {0: 1, 1: 2, 2: 1}
    assert {e.data_file.file_path: e.data_file.partition for e in kit.entries()} == {f.file_path: f.partition for f in files}
    assert commit.summary["changed-partition-count"] == "4"
    assert kit.ids() == duck_ids(kit) == [1, 2, 3, 4]


def test_manifests_of_different_specs_are_not_merged_into_one(kit: Kit) -> None:
    for n in range(3):
        kit.append((n, "eu", DAY))
    kit.publish(evolve_partitions("db.t", ["region"], []))
    for n in range(3, 7):
        kit.publish(kit.change(added=[kit.file([(n, "eu", DAY)])]), manifest_min_count_to_merge=3)
    assert {m.partition_spec_id for m in kit.manifests()} == {0, 1}
    assert kit.ids() == duck_ids(kit) == list(range(7))


def test_a_manifest_whose_column_was_dropped_can_still_be_rewritten(by_region: Kit) -> None:
    by_region.publish(by_region.change(added=[by_region.file([(1, "eu", DAY)]), by_region.file([(2, "us", DAY)])]))
    by_region.publish(evolve_partitions("db.t", [], ["region"]))
    by_region.publish(evolve_schema("db.t", drop=("region",)))
    gone = by_region.entries()[0].data_file
    by_region.overwrite([gone])
    assert [e.data_file.partition for e in by_region.entries() if e.status == EXISTING] == [("us",)]
    assert by_region.ids() == [2]


def test_added_files_are_split_over_manifests(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakewright.commit.snapshot.ENTRIES_PER_MANIFEST", 3)
    kit.publish(kit.change(added=[kit.file([(n, "eu", DAY)]) for n in range(8)]))
    assert sorted(m.added_files_count for m in kit.manifests()) == [2, 3, 3]
    assert all(e.status == ADDED for e in kit.entries())
    assert kit.ids() == list(range(8))


@pytest.mark.feature("I12")
def test_snapshot_properties_are_in_the_summary(kit: Kit) -> None:
    commit = kit.append((1, "eu", DAY), properties={"source": "nightly", "owner": "Zoë"}, token="t-1")
    summary = kit.iceberg.current_snapshot().summary
    assert summary["source"] == "nightly" and summary["owner"] == "Zoë"
    assert summary["lakewright.token"] == "t-1" and summary["lakewright.run-id"] == commit.run_id


def test_time_goes_forward_even_if_the_clock_does_not(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    kit.append((1, "eu", DAY))
    monkeypatch.setattr("lakewright.commit.snapshot.now_ms", lambda: 1000)
    monkeypatch.setattr("lakewright.commit.updates.now_ms", lambda: 1000)
    kit.append((2, "eu", DAY))
    times = [s.timestamp_ms for s in kit.metadata.snapshots()]
    assert times == sorted(times) and times[0] < times[1]
    assert [entry.timestamp_ms for entry in kit.iceberg.history()] == times
