"""Changes of rows as snapshots: data, deletes and removed deletes in one commit."""

from __future__ import annotations

from datetime import date

import pytest

from lakewright.commit.change import operation_of
from lakewright.commit.metadata_changes import evolve_partitions, upgrade
from lakewright.errors import StalePlan
from lakewright.format.data_file import DATA, DELETED, DataFile
from tests.commit.kit import Kit
from tests.interop.readers import duck

DAY = date(2024, 5, 1)


@pytest.fixture
def two(v3: Kit) -> Kit:
    """A table of format 3 with two files of three rows each: 1 to 3 and 4 to 6."""
    v3.append((1, "eu", DAY), (2, "eu", DAY), (3, "eu", DAY))
    v3.append((4, "eu", DAY), (5, "eu", DAY), (6, "eu", DAY))
    return v3


def data_files(kit: Kit) -> list[DataFile]:
    return [f for f in kit.live() if f.content == DATA]


def vectors(kit: Kit) -> dict[str | None, DataFile]:
    return {f.referenced_data_file: f for f in kit.live() if f.is_vector}


def read(kit: Kit) -> list[int]:
    """What DuckDB and PyIceberg agree on."""
    found: list[int] = sorted(duck(kit)["id"].to_pylist())
    assert found == kit.ids()
    return found


@pytest.mark.parametrize(
    ("added", "removed", "deletes", "operation"),
    [("d", "", "", "append"), ("", "d", "", "delete"), ("", "", "v", "delete"), ("", "d", "v", "delete"), ("d", "d", "", "overwrite"), ("d", "", "v", "overwrite")],
)
def test_operations_are_named_by_what_they_do(added: str, removed: str, deletes: str, operation: str) -> None:
    assert operation_of(added, removed, deletes) == operation


@pytest.mark.feature("I16", "I17")
def test_a_vector_deletes_rows_of_its_file_only(two: Kit) -> None:
    first, _ = data_files(two)
    commit = two.publish(two.delta(*two.vectors(first, positions=[0, 2]), touched=[first])).commits[0]
    assert read(two) == [2, 4, 5, 6]
    assert commit.operation == "delete" and commit.deleted_rows == 2
    [entry] = [e for e in two.entries() if e.data_file.is_vector]
    assert (entry.sequence_number, entry.file_sequence_number) == (3, 3)


@pytest.mark.feature("I16")
def test_the_summary_counts_vectors(two: Kit) -> None:
    files = data_files(two)
    made = two.vectors(*files, positions=[0, 2])
    commit = two.publish(two.delta(*made, touched=files)).commits[0]
    assert {k: v for k, v in commit.summary.items() if "dvs" in k or "delete" in k} == {
        "added-delete-files": "2",
        "added-dvs": "2",
        "added-position-deletes": "4",
        "total-delete-files": "2",
        "total-position-deletes": "4",
        "total-equality-deletes": "0",
    }
    assert commit.summary["added-files-size"] == str(sum(f.content_size_in_bytes or 0 for f in made))
    assert commit.summary["total-records"] == "6"


@pytest.mark.feature("I16")
def test_one_vector_of_a_shared_puffin_file_is_replaced(two: Kit) -> None:
    first, second = data_files(two)
    two.publish(two.delta(*two.vectors(first, second), touched=[first, second]))
    [new] = two.vectors(first, positions=[0, 1])
    commit = two.publish(two.delta(new, touched=[first], removed_vectors=frozenset({first.file_path}))).commits[0]
    assert read(two) == [3, 5, 6]
    assert vectors(two)[first.file_path].file_path == new.file_path
    assert vectors(two)[second.file_path].file_path != new.file_path
    assert [e.data_file.referenced_data_file for e in two.entries() if e.status == DELETED] == [first.file_path]
    assert {k: commit.summary[k] for k in ("added-dvs", "removed-dvs", "removed-delete-files", "removed-position-deletes", "total-delete-files", "total-position-deletes")} == {
        "added-dvs": "1",
        "removed-dvs": "1",
        "removed-delete-files": "1",
        "removed-position-deletes": "1",
        "total-delete-files": "2",
        "total-position-deletes": "3",
    }
    assert commit.deleted_rows == 1


def test_a_second_vector_for_a_file_is_refused(two: Kit) -> None:
    first, _ = data_files(two)
    two.publish(two.delta(*two.vectors(first), touched=[first]))
    with pytest.raises(StalePlan, match="has one already"):
        two.publish(two.delta(*two.vectors(first, positions=[1]), touched=[first]))
    assert read(two) == [2, 3, 4, 5, 6]


def test_a_vector_that_is_gone_cannot_be_replaced(two: Kit) -> None:
    first, second = data_files(two)
    two.publish(two.delta(*two.vectors(first), touched=[first]))
    with pytest.raises(StalePlan, match="are gone"):
        two.publish(two.delta(*two.vectors(second), touched=[second], removed_vectors=frozenset({second.file_path})))


@pytest.mark.feature("I16")
def test_an_update_is_vectors_and_new_rows_in_one_snapshot(two: Kit) -> None:
    first, second = data_files(two)
    new = two.file([(10, "eu", DAY), (40, "eu", DAY)])
    commit = two.publish(two.delta(new, *two.vectors(first, second), touched=[first, second], command="update")).commits[0]
    assert read(two) == [2, 3, 5, 6, 10, 40]
    assert (commit.operation, commit.added_rows, commit.deleted_rows) == ("overwrite", 2, 2)
    assert commit.summary["lakewright.command"] == "update"
    assert {m.content: m.added_files_count for m in two.manifests() if m.added_snapshot_id == commit.snapshot_id} == {0: 1, 1: 2}


@pytest.mark.feature("I15")
def test_the_vector_of_a_replaced_file_goes_with_it(two: Kit) -> None:
    first, second = data_files(two)
    two.publish(two.delta(*two.vectors(first, second), touched=[first, second]))
    paths = frozenset({first.file_path})
    commit = two.publish(two.delta(two.file([(2, "eu", DAY)]), touched=[first], removed=paths, removed_vectors=paths)).commits[0]
    assert read(two) == [2, 5, 6]
    assert set(vectors(two)) == {second.file_path}
    assert commit.deleted_rows == 2


def test_a_vector_nobody_named_goes_with_its_file_too(two: Kit) -> None:
    first, second = data_files(two)
    two.publish(two.delta(*two.vectors(first, second), touched=[first, second]))
    two.overwrite([first])
    assert set(vectors(two)) == {second.file_path}
    assert read(two) == [5, 6]


def test_the_path_of_a_puffin_file_takes_no_vector_of_a_file_that_stays(two: Kit) -> None:
    first, second = data_files(two)
    [one, _] = two.vectors(first, second)
    two.publish(two.delta(one, _, touched=[first, second]))
    two.overwrite([first, one])
    assert set(vectors(two)) == {second.file_path}


@pytest.mark.feature("I16")
def test_position_delete_files_of_format_2(kit: Kit) -> None:
    kit.append((1, "eu", DAY), (2, "eu", DAY))
    kit.append((3, "eu", DAY), (4, "eu", DAY))
    first, second = data_files(kit)
    one, both = kit.position_deletes(first), kit.position_deletes(first, second, positions=[1])
    commit = kit.publish(kit.delta(one, both, kit.file([(10, "eu", DAY)]), touched=[first, second])).commits[0]
    assert read(kit) == [3, 10]
    assert {k: v for k, v in commit.summary.items() if "delete" in k or "dv" in k} == {
        "added-delete-files": "2",
        "added-position-delete-files": "2",
        "added-position-deletes": "3",
        "total-delete-files": "2",
        "total-position-deletes": "3",
        "total-equality-deletes": "0",
    }
    kit.overwrite([first])
    assert [f.file_path for f in kit.live() if f.content != DATA] == [both.file_path]
    assert read(kit) == [3, 10]


@pytest.mark.feature("I16")
def test_position_deletes_of_before_an_upgrade_become_a_vector(kit: Kit) -> None:
    kit.append((1, "eu", DAY), (2, "eu", DAY), (3, "eu", DAY))
    [file] = data_files(kit)
    old = kit.position_deletes(file)
    kit.publish(kit.delta(old, touched=[file]))
    kit.publish(upgrade("db.t", 3))
    commit = kit.publish(kit.delta(*kit.vectors(file, positions=[0, 1]), touched=[file], removed=frozenset({old.file_path}))).commits[0]
    assert read(kit) == [3]
    assert (commit.summary["removed-position-delete-files"], commit.summary["added-dvs"], commit.deleted_rows) == ("1", "1", 1)


def test_vectors_go_under_the_spec_of_their_file(two: Kit) -> None:
    two.publish(evolve_partitions("db.t", ["region"], []))
    two.append((7, "us", DAY), (8, "us", DAY))
    files = data_files(two)
    two.publish(two.delta(*two.vectors(files[0], files[-1]), touched=[files[0], files[-1]]))
    assert {(m.partition_spec_id, m.content) for m in two.manifests()} == {(0, 0), (1, 0), (0, 1), (1, 1)}
    assert read(two) == [2, 3, 4, 5, 6, 8]


def test_delete_manifests_are_merged_like_others(two: Kit) -> None:
    first, second = data_files(two)
    two.publish(two.delta(*two.vectors(first), touched=[first]))
    two.publish(two.delta(*two.vectors(second), touched=[second]))
    two.publish(two.change(added=[two.file([(7, "eu", DAY)])]), manifest_min_count_to_merge=2)
    assert sorted((m.content, m.existing_files_count, m.added_files_count) for m in two.manifests()) == [(0, 0, 1), (0, 2, 0), (1, 2, 0)]
    assert read(two) == [2, 3, 5, 6, 7]
