"""Which commits of others an operation can live with. Each rule of commit/validate.py, with and without a conflict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo, GreaterThan

from lakewright.commit.change import DELETE, REPLACE, PartitionScope, SnapshotChange
from lakewright.commit.create import replace_table
from lakewright.commit.metadata_changes import evolve_partitions, evolve_schema, merge_schema
from lakewright.commit.result import Commit
from lakewright.commit.store import TableState
from lakewright.commit.updates import now_ms
from lakewright.errors import CommitConflict
from lakewright.format.data_file import POSITION_DELETES, DataFile
from lakewright.format.storage import local_path
from lakewright.maintain.expiry import expire_snapshots
from lakewright.plan.partitioning import build_sort_order, build_spec
from tests.commit.kit import SCHEMA, Kit
from tests.commit.stores import Rival

DAY = date(2024, 5, 1)
EU, US = (1, "eu", DAY), (2, "us", DAY)


@pytest.fixture
def filled(by_region: Kit) -> Kit:
    """One file in eu, one in us."""
    by_region.publish(by_region.change(added=[by_region.file([EU]), by_region.file([US])]))
    return by_region


def file_of(kit: Kit, region: str) -> DataFile:
    return next(e.data_file for e in kit.entries() if e.data_file.partition == (region,))


def delete_row(kit: Kit, target: DataFile) -> Commit:
    """Publish a position delete of the first row of a file."""
    path = target.file_path.replace(".parquet", "-deletes.parquet")
    local = Path(local_path(path) or "")
    pq.write_table(pa.table({"file_path": [target.file_path], "pos": pa.array([0], pa.int64())}), local)
    made = DataFile(path, 1, local.stat().st_size, target.spec_id, target.partition, content=POSITION_DELETES)
    return kit.publish(replace(kit.replacement([], made), operation=DELETE)).commits[0]


def against(kit: Kit, change: SnapshotChange, act: Callable[[], object]) -> None:
    """Publish a change after another commit."""
    state: TableState = kit.state
    act()
    kit.publish(change, state=state)


@pytest.mark.feature("I13")
def test_serializable_overwrite_refuses_rows_added_to_its_range(filled: Kit) -> None:
    change = filled.replacement([file_of(filled, "eu")], filled.file([(9, "eu", DAY)]), filter=EqualTo("region", "eu"))
    with pytest.raises(CommitConflict, match="added rows to what it replaces"):
        against(filled, change, lambda: filled.append((3, "eu", DAY)))
    assert filled.ids() == [1, 2, 3]


@pytest.mark.feature("I13")
def test_snapshot_overwrite_lives_with_added_rows(filled: Kit) -> None:
    change = filled.replacement([file_of(filled, "eu")], filled.file([(9, "eu", DAY)]), filter=EqualTo("region", "eu"), isolation="snapshot")
    against(filled, change, lambda: filled.append((3, "eu", DAY)))
    assert filled.ids() == [2, 3, 9]


@pytest.mark.feature("I13")
def test_rows_added_outside_the_filter_do_not_conflict(filled: Kit) -> None:
    change = filled.replacement([file_of(filled, "eu")], filter=EqualTo("region", "eu"))
    against(filled, change, lambda: filled.append((3, "us", DAY)))
    assert filled.ids() == [2, 3]


@pytest.mark.feature("I13")
def test_the_filter_is_judged_by_column_metrics_too(filled: Kit) -> None:
    change = filled.replacement([file_of(filled, "us")], filter=GreaterThan("id", 1))
    against(filled, change, lambda: filled.append((0, "us", DAY)))
    assert filled.ids() == [0, 1]
    change = filled.replacement([], filled.file([(50, "us", DAY)]), filter=GreaterThan("id", 1))
    with pytest.raises(CommitConflict):
        against(filled, change, lambda: filled.append((7, "us", DAY)))


@pytest.mark.feature("I13")
def test_rows_added_before_the_plan_read_do_not_conflict(filled: Kit) -> None:
    filled.append((3, "eu", DAY))
    filled.overwrite([file_of(filled, "eu")], filter=EqualTo("region", "eu"))
    assert filled.ids() == [1, 2]


@pytest.mark.feature("I13")
@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
def test_deletes_of_a_replaced_file_always_conflict(filled: Kit, isolation: str) -> None:
    target = file_of(filled, "eu")
    change = filled.replacement([target], filled.file([(9, "eu", DAY)]), filter=EqualTo("region", "eu"), isolation=isolation)
    with pytest.raises(CommitConflict, match="deleted rows of a file it changes"):
        against(filled, change, lambda: delete_row(filled, target))
    assert filled.ids() == [2]


@pytest.mark.feature("I13")
def test_deletes_of_other_files_do_not_conflict(filled: Kit) -> None:
    change = filled.replacement([file_of(filled, "eu")], filter=EqualTo("region", "eu"))
    against(filled, change, lambda: delete_row(filled, file_of(filled, "us")))
    assert filled.ids() == []


def test_delete_files_get_a_manifest_of_their_own(filled: Kit) -> None:
    commit = delete_row(filled, file_of(filled, "us"))
    assert sorted(m.content for m in filled.manifests()) == [0, 1]
    assert commit.summary["added-delete-files"] == "1" and commit.summary["total-position-deletes"] == "1"
    assert filled.ids() == [1]


@pytest.mark.feature("I13")
@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
def test_a_file_replaced_by_another_conflicts(filled: Kit, isolation: str) -> None:
    target = file_of(filled, "eu")
    change = filled.replacement([target], filled.file([(9, "eu", DAY)]), filter=EqualTo("region", "eu"), isolation=isolation)
    with pytest.raises(CommitConflict):
        against(filled, change, lambda: filled.overwrite([target], filled.file([(8, "eu", DAY)])))
    assert filled.ids() == [2, 8]


@pytest.mark.feature("I13")
def test_a_rewrite_by_another_is_no_new_data_but_its_files_are_gone(filled: Kit) -> None:
    target, other = file_of(filled, "eu"), file_of(filled, "us")
    change = filled.replacement([target], filter=EqualTo("region", "eu"))
    rewritten = replace(filled.replacement([other], filled.file([US])), operation="replace")
    against(filled, change, lambda: filled.publish(rewritten))
    assert filled.ids() == [2]


@pytest.mark.feature("I13")
def test_replaced_partitions_conflict_with_rows_added_to_them_only(filled: Kit) -> None:
    scope = PartitionScope(0, frozenset({("eu",)}))
    fine = filled.replacement([file_of(filled, "eu")], filled.file([(9, "eu", DAY)]), partitions=scope)
    against(filled, fine, lambda: filled.append((3, "us", DAY)))
    assert filled.ids() == [2, 3, 9]
    refused = filled.replacement([file_of(filled, "eu")], filled.file([(10, "eu", DAY)]), partitions=scope)
    with pytest.raises(CommitConflict):
        against(filled, refused, lambda: filled.append((4, "eu", DAY)))


@pytest.mark.feature("I13")
def test_replaced_partitions_conflict_with_files_of_any_other_spec(filled: Kit) -> None:
    change = filled.replacement([file_of(filled, "eu")], partitions=PartitionScope(0, frozenset({("eu",)})))

    def other_spec() -> None:
        filled.publish(evolve_partitions("db.t", ["day(day)"], ["region"]))
        filled.append((3, "us", DAY))

    with pytest.raises(CommitConflict):
        against(filled, change, other_spec)


@pytest.mark.feature("I13")
def test_an_overwrite_of_an_empty_table_conflicts_with_its_first_rows(kit: Kit) -> None:
    change = kit.replacement([], kit.file([EU]))
    with pytest.raises(CommitConflict):
        against(kit, change, lambda: kit.append(US))


def test_first_rows_that_expired_meanwhile_are_not_taken_for_none(kit: Kit) -> None:
    """What came since the plan cannot be looked through any more, and only the first of it added rows."""
    change = kit.change(added=[kit.file([EU])], rows_read=True)

    def rows_come_and_their_snapshot_expires() -> None:
        kit.append(US)
        kit.publish(kit.change(REPLACE, added=[kit.file([US])], removed=frozenset(f.file_path for f in kit.live())))
        expire_snapshots(kit.store, kit.load(), kit.options(), older_than_ms=now_ms() + 1000, retain_last=1, dry_run=False)

    with pytest.raises(CommitConflict, match="expired"):
        against(kit, change, rows_come_and_their_snapshot_expires)


def test_appends_never_conflict(filled: Kit) -> None:
    change = filled.change(added=[filled.file([(5, "eu", DAY)])])
    against(filled, change, lambda: filled.overwrite([file_of(filled, "eu")], filled.file([(8, "eu", DAY)])))
    assert filled.ids() == [2, 5, 8]


def test_a_branch_replaced_meanwhile_conflicts(filled: Kit) -> None:
    change = filled.replacement([file_of(filled, "eu")])
    schema = SCHEMA.model_copy(update={"schema_id": 0})
    start_anew = replace_table(schema, 3, build_spec(schema, ["region"]), build_sort_order(schema, []), {})
    with pytest.raises(CommitConflict, match="no longer in the line of main"):
        against(filled, change, lambda: filled.publish(start_anew))


# Schema and spec


def test_a_spec_changed_meanwhile_files_the_rows_under_their_own(filled: Kit) -> None:
    change = filled.change(added=[filled.file([(5, "eu", DAY)])])
    against(filled, change, lambda: filled.publish(evolve_partitions("db.t", ["day(day)"], ["region"])))
    [entry] = [e for e in filled.entries() if e.sequence_number == 2]
    assert (entry.data_file.spec_id, entry.data_file.partition) == (0, ("eu",))
    assert filled.manifests()[0].partition_spec_id == 0
    assert filled.ids() == [1, 2, 5]


def test_a_spec_that_means_something_else_now_conflicts(filled: Kit) -> None:
    file = replace(filled.file([(5, "eu", DAY)]), spec_id=1)
    planned = build_spec(SCHEMA, ["truncate(2, region)"], spec_id=1)
    change = replace(filled.change(added=[file]), specs={1: planned})
    with pytest.raises(CommitConflict, match="Partition spec 1"):
        against(filled, change, lambda: filled.publish(evolve_partitions("db.t", ["day(day)"], [])))


@pytest.mark.parametrize("how", [{"add": {"tip": "double"}}, {"rename": {"region": "area"}}, {"drop": ("day",)}])
def test_schema_changes_that_files_live_with(kit: Kit, how: dict[str, object]) -> None:
    change = kit.change(added=[kit.file([EU])])
    against(kit, change, lambda: kit.publish(evolve_schema("db.t", **how)))
    assert kit.ids() == [1]


def test_two_writers_that_add_a_column_conflict(kit: Kit) -> None:
    before, last = kit.metadata.schema, kit.metadata.last_column_id
    merged = evolve_schema("db.t", add={"tip": "double"}).updates(kit.metadata)[0]["schema"]
    after = type(before).model_validate(merged)
    step = merge_schema("db.t", before, after, last + 1)
    change = replace(kit.change(added=[kit.file([EU])]), schema=after)
    state = kit.state
    kit.publish(evolve_schema("db.t", add={"note": "string"}))
    with pytest.raises(CommitConflict, match=r"schema of db\.t changed"):
        kit.publish(step, change, state=state)
    with pytest.raises(CommitConflict, match="tip"):
        kit.publish(change, state=state)
    assert [f.name for f in kit.metadata.schema.fields] == ["id", "region", "day", "note"]


def test_two_writers_that_add_the_same_column_both_commit(kit: Kit) -> None:
    before, last = kit.metadata.schema, kit.metadata.last_column_id
    after = type(before).model_validate(evolve_schema("db.t", add={"tip": "double"}).updates(kit.metadata)[0]["schema"])
    step = merge_schema("db.t", before, after, last + 1)
    changes = [replace(kit.change(added=[kit.file([row])]), schema=after) for row in (EU, US)]
    rival = Rival(kit.store, lambda: kit.publish(step, changes[1]))
    kit.publish(step, changes[0], store=rival)
    assert kit.ids() == [1, 2]
    assert len(kit.metadata.schemas) == 2
