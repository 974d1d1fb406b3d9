"""Changes of rows that meet other commits: each rule of commit/validate.py for them, with and without a conflict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo, GreaterThan

from lakewright.commit.change import REPLACE, SnapshotChange
from lakewright.commit.metadata_changes import evolve_partitions, upgrade
from lakewright.commit.runs import new_run_id
from lakewright.errors import CommitConflict, CommitRetriesExhausted, StalePlan
from lakewright.format.data_file import DATA, EQUALITY_DELETES, DataFile
from lakewright.format.storage import local_path
from tests.commit.kit import Kit

DAY = date(2024, 5, 1)
BOTH = pytest.mark.parametrize("isolation", ["serializable", "snapshot"])


@pytest.fixture(params=[2, 3], ids=["v2", "v3"])
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Kit:
    """Partitioned by region: two files in eu, of 1 and 2 and of 3 and 4, one in us, of 5 and 6."""
    kit = Kit(tmp_path / "lake", partition_by=["region"], format_version=request.param)
    for first, region in ((1, "eu"), (3, "eu"), (5, "us")):
        kit.append((first, region, DAY), (first + 1, region, DAY))
    return kit


def files(kit: Kit) -> list[DataFile]:
    return [f for f in kit.live() if f.content == DATA]


def deletes(kit: Kit, *targets: DataFile, positions: tuple[int, ...] = (0,)) -> list[DataFile]:
    """What merge-on-read writes to delete rows, one for each file: vectors in format 3."""
    if kit.metadata.format_version >= 3:
        return kit.vectors(*targets, positions=positions)
    return [kit.position_deletes(target, positions=positions) for target in targets]


def equality_delete(kit: Kit, spec_id: int, partition: tuple[object, ...], value: int) -> DataFile:
    path = f"{kit.metadata.location}/data/{new_run_id()}-equality.parquet"
    local = Path(local_path(path) or "")
    field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table([pa.array([value], pa.int64())], schema=pa.schema([field])), local)
    return DataFile(path, 1, local.stat().st_size, spec_id, partition, content=EQUALITY_DELETES, equality_ids=(1,))


def against(kit: Kit, change: SnapshotChange, act: Callable[[], object]) -> None:
    """Publish a change after another commit."""
    state = kit.state
    act()
    kit.publish(change, state=state)


def refused(kit: Kit, change: SnapshotChange, act: Callable[[], object], reason: str) -> None:
    state = kit.state
    act()
    after = kit.load().metadata_location
    with pytest.raises(StalePlan, match=reason):
        kit.publish(change, state=state)
    assert kit.load().metadata_location == after


def test_a_conflict_names_both_operations(filled: Kit) -> None:
    first = files(filled)[0]
    change = filled.delta(*deletes(filled, first), touched=[first], command="merge")
    state = filled.state
    other = filled.publish(filled.delta(*deletes(filled, first, positions=(1,)), touched=[first], command="update")).commits[0]
    with pytest.raises(CommitConflict, match=rf"This merge of db\.t read snapshot \d+, and since then the update {other.snapshot_id} deleted rows.*run the operation again"):
        filled.publish(change, state=state)


def test_a_plan_made_again_cannot_help_where_retries_ran_out() -> None:
    assert issubclass(CommitRetriesExhausted, CommitConflict) and not issubclass(CommitRetriesExhausted, StalePlan)


# The files a change rests on are still there


@pytest.mark.feature("I17")
@BOTH
def test_rows_of_a_file_replaced_meanwhile_are_not_deleted(filled: Kit, isolation: str) -> None:
    first = files(filled)[0]
    change = filled.delta(*deletes(filled, first), touched=[first], isolation=isolation, filter=EqualTo("id", 1))
    refused(filled, change, lambda: filled.overwrite([first], filled.file([(9, "eu", DAY)])), "replaced or removed a file it changes")


@pytest.mark.feature("I17")
@BOTH
def test_a_compacted_file_is_gone_too(filled: Kit, isolation: str) -> None:
    first, second, _ = files(filled)
    change = filled.delta(filled.file([(9, "eu", DAY)]), touched=[first], removed=frozenset({first.file_path}), isolation=isolation)
    compacted = replace(filled.replacement([first, second], filled.file([(1, "eu", DAY), (2, "eu", DAY), (3, "eu", DAY), (4, "eu", DAY)])), operation=REPLACE)
    refused(filled, change, lambda: filled.publish(compacted), "the replace .* replaced or removed a file it changes")


@pytest.mark.feature("I17")
def test_another_file_replaced_meanwhile_does_not_matter(filled: Kit) -> None:
    first, second, _ = files(filled)
    change = filled.delta(*deletes(filled, first), touched=[first], filter=EqualTo("id", 1))
    against(filled, change, lambda: filled.overwrite([second], filled.file([(9, "eu", DAY)])))
    assert filled.ids() == [2, 5, 6, 9]


def test_a_delete_file_merged_into_a_new_one_must_still_be_there(by_region: Kit) -> None:
    by_region.append((1, "eu", DAY), (2, "eu", DAY), (3, "eu", DAY))
    [file] = files(by_region)
    old = by_region.position_deletes(file)
    by_region.publish(by_region.delta(old, touched=[file]))
    change = by_region.delta(by_region.position_deletes(file, positions=[0, 1]), touched=[file], removed=frozenset({old.file_path}))
    refused(by_region, change, lambda: by_region.overwrite([old]), "replaced or removed a file it changes")


def test_a_vector_merged_into_a_new_one_must_still_be_there(v3: Kit) -> None:
    v3.append((1, "eu", DAY), (2, "eu", DAY))
    v3.append((3, "eu", DAY), (4, "eu", DAY))
    first, second = files(v3)
    v3.publish(v3.delta(*v3.vectors(first, second), touched=[first, second]))
    change = v3.delta(*v3.vectors(first, positions=[0, 1]), touched=[first], removed_vectors=frozenset({first.file_path}))
    undo = replace(v3.delta(), operation=REPLACE, removed_vectors=frozenset({first.file_path}))
    refused(v3, change, lambda: v3.publish(undo), "the replace .* replaced or removed a file it changes")
    other = v3.delta(*v3.vectors(second, positions=[0, 1]), touched=[second], removed_vectors=frozenset({second.file_path}))
    against(v3, other, lambda: v3.publish(v3.delta(*v3.vectors(first), touched=[first])))
    assert v3.ids() == [2]


# No further deletes


@pytest.mark.feature("I17")
@BOTH
@pytest.mark.parametrize("position", [0, 1])
def test_two_deletes_of_one_file_conflict(filled: Kit, isolation: str, position: int) -> None:
    first = files(filled)[0]
    change = filled.delta(*deletes(filled, first), touched=[first], isolation=isolation, filter=EqualTo("id", 1))
    act = lambda: filled.publish(filled.delta(*deletes(filled, first, positions=(position,)), touched=[first]))  # noqa: E731
    refused(filled, change, act, "deleted rows of a file it changes")


@pytest.mark.feature("I17")
@BOTH
def test_deletes_of_two_files_do_not_conflict(filled: Kit, isolation: str) -> None:
    first, second, third = files(filled)
    change = filled.delta(*deletes(filled, first), touched=[first], isolation=isolation)
    against(filled, change, lambda: filled.publish(filled.delta(*deletes(filled, second, third), touched=[second, third])))
    assert filled.ids() == [2, 4, 6]


@pytest.mark.feature("I17")
@BOTH
def test_a_replaced_file_brings_no_deleted_row_back(filled: Kit, isolation: str) -> None:
    first, second, _ = files(filled)
    change = filled.delta(filled.file([(10, "eu", DAY), (2, "eu", DAY)]), touched=[first], removed=frozenset({first.file_path}), isolation=isolation)
    refused(filled, change, lambda: filled.publish(filled.delta(*deletes(filled, first), touched=[first])), "deleted rows of a file it changes")
    change = filled.delta(filled.file([(30, "eu", DAY)]), touched=[second], removed=frozenset({second.file_path}), isolation=isolation)
    against(filled, change, lambda: filled.publish(filled.delta(touched=[first])))
    assert filled.ids() == [2, 5, 6, 30]


@pytest.mark.feature("I17")
def test_position_deletes_of_a_partition_concern_the_files_within_their_bounds(by_region: Kit) -> None:
    for first, region in ((1, "eu"), (3, "eu"), (5, "eu"), (7, "eu"), (9, "us")):
        by_region.append((first, region, DAY), (first + 1, region, DAY))
    ordered = sorted((f for f in files(by_region) if f.partition == ("eu",)), key=lambda f: f.file_path)
    several = by_region.position_deletes(*ordered[1:3])
    assert several.referenced_data_file is None
    for target, conflicts in zip((*ordered, files(by_region)[-1]), (False, True, True, False, False), strict=True):
        change = by_region.delta(by_region.position_deletes(target, positions=[1]), touched=[target])
        state = by_region.load()
        by_region.publish(by_region.delta(several, touched=ordered[1:3]))
        if conflicts:
            with pytest.raises(StalePlan, match="deleted rows of a file it changes"):
                by_region.publish(change, state=state)
        else:
            by_region.publish(change, state=state)
        by_region.overwrite([several])


@pytest.mark.feature("I17")
@BOTH
def test_equality_deletes_concern_the_files_of_their_partition(filled: Kit, isolation: str) -> None:
    first, _, third = files(filled)
    change = filled.delta(*deletes(filled, first), touched=[first], isolation=isolation)
    act = lambda: filled.publish(filled.delta(equality_delete(filled, 0, ("eu",), 77)))  # noqa: E731
    refused(filled, change, act, "deleted rows of a file it changes")
    change = filled.delta(*deletes(filled, third), touched=[third], isolation=isolation)
    against(filled, change, act)
    assert sum(f.content != DATA for f in filled.live()) == 3


@pytest.mark.feature("I17")
def test_equality_deletes_without_a_partition_concern_all_files(filled: Kit) -> None:
    filled.publish(evolve_partitions("db.t", [], ["region"]))
    third = files(filled)[2]
    change = filled.delta(*deletes(filled, third), touched=[third])
    spec = filled.metadata.default_spec_id
    refused(filled, change, lambda: filled.publish(filled.delta(equality_delete(filled, spec, (None,) * len(filled.metadata.spec.fields), 77))), "deleted rows of a file it changes")


# No rows added to what was read


@pytest.mark.feature("I17")
def test_serializable_refuses_rows_added_to_what_was_read(filled: Kit) -> None:
    first = files(filled)[0]
    change = filled.delta(*deletes(filled, first), touched=[first], filter=GreaterThan("id", 0))
    refused(filled, change, lambda: filled.append((9, "us", DAY)), "added rows to what it read.*isolation_level='snapshot'")


@pytest.mark.feature("I17")
@pytest.mark.parametrize("how", [{"isolation": "snapshot"}, {"filter": EqualTo("region", "eu")}, {"filter": EqualTo("id", 1)}])
def test_rows_added_elsewhere_or_under_snapshot_isolation_may_stay(filled: Kit, how: dict[str, object]) -> None:
    first = files(filled)[0]
    change = filled.delta(*deletes(filled, first), touched=[first], **how)
    against(filled, change, lambda: filled.append((9, "us", DAY)))
    assert filled.ids() == [2, 3, 4, 5, 6, 9]


@pytest.mark.feature("I17")
def test_a_merge_that_only_inserts_rests_on_what_it_read_too(filled: Kit) -> None:
    change = filled.delta(filled.file([(9, "eu", DAY)]), filter=EqualTo("id", 9))
    assert change.operation == "append"
    refused(filled, change, lambda: filled.append((9, "eu", DAY)), "added rows to what it read")
    change = filled.delta(filled.file([(10, "eu", DAY)]), filter=EqualTo("id", 10))
    against(filled, change, lambda: filled.append((11, "eu", DAY)))


@pytest.mark.feature("I17")
def test_rows_that_were_only_rewritten_are_not_new(filled: Kit) -> None:
    first, second, _ = files(filled)
    change = filled.delta(*deletes(filled, first), touched=[first])
    against(filled, change, lambda: filled.publish(replace(filled.replacement([second], filled.file([(3, "eu", DAY), (4, "eu", DAY)])), operation=REPLACE)))
    assert filled.ids() == [2, 3, 4, 5, 6]


# Rewrites


@pytest.mark.feature("I17")
def test_a_rewrite_conflicts_with_deletes_of_its_files_only(filled: Kit) -> None:
    first, second, _ = files(filled)
    rewritten = replace(filled.replacement([first], filled.file([(1, "eu", DAY), (2, "eu", DAY)])), operation=REPLACE)
    against(filled, rewritten, lambda: (filled.append((9, "eu", DAY)), filled.publish(filled.delta(*deletes(filled, second), touched=[second]))))
    assert filled.ids() == [1, 2, 4, 5, 6, 9]
    again = files(filled)[-1]
    rewritten = replace(filled.replacement([again], filled.file([(9, "eu", DAY)])), operation=REPLACE)
    refused(filled, rewritten, lambda: filled.publish(filled.delta(*deletes(filled, again), touched=[again])), "deleted rows of a file it changes")


# The format


def test_position_delete_files_do_not_go_into_a_table_upgraded_meanwhile(by_region: Kit) -> None:
    by_region.append((1, "eu", DAY), (2, "eu", DAY))
    [file] = files(by_region)
    change = by_region.delta(by_region.position_deletes(file), touched=[file])
    refused(by_region, change, lambda: by_region.publish(upgrade("db.t", 3)), "does not take a position delete file")


def test_vectors_do_not_go_into_format_2(by_region: Kit) -> None:
    by_region.append((1, "eu", DAY), (2, "eu", DAY))
    [file] = files(by_region)
    with pytest.raises(StalePlan, match="does not take a deletion vector"):
        by_region.publish(by_region.delta(*by_region.vectors(file), touched=[file]))
