"""Branches and tags."""

from __future__ import annotations

from datetime import date

import pytest

from lakewright.commit.refs import Retention, create, drop
from lakewright.errors import InvalidOption, NotABranch, RefExists, RefNotFound
from tests.commit.kit import Kit
from tests.commit.stores import Rival

DAY = date(2024, 5, 1)


@pytest.fixture
def branched(kit: Kit) -> Kit:
    """A table with a row, a branch `audit` and a tag `v1`."""
    kit.append((1, "eu", DAY))
    kit.publish(create("db.t", "audit", None, "branch"), create("db.t", "v1", None, "tag"))
    return kit


@pytest.mark.feature("I11", "D6")
def test_a_branch_is_written_to_without_main_seeing_it(branched: Kit) -> None:
    commit = branched.append((2, "eu", DAY), branch="audit")
    assert branched.ids() == [1] and branched.ids("audit") == [1, 2]
    assert branched.iceberg.refs()["audit"].snapshot_id == commit.snapshot_id
    assert branched.iceberg.current_snapshot().snapshot_id == commit.parent_id


@pytest.mark.feature("I11")
def test_a_branch_that_is_replaced_keeps_the_limits_not_given_anew(branched: Kit) -> None:
    branched.publish(create("db.t", "kept", None, "branch", Retention(max_ref_age_ms=5, min_snapshots_to_keep=2)))
    branched.append((2, "eu", DAY))
    branched.publish(create("db.t", "kept", None, "branch", Retention(min_snapshots_to_keep=3), replace=True))
    kept = branched.iceberg.refs()["kept"]
    assert (kept.max_ref_age_ms, kept.min_snapshots_to_keep, kept.max_snapshot_age_ms) == (5, 3, None)
    assert branched.ids("kept") == [1, 2]


@pytest.mark.feature("I11")
def test_commits_to_other_branches_do_not_fail_each_other(branched: Kit) -> None:
    change = branched.replacement([branched.entries()[0].data_file], branched.file([(9, "eu", DAY)]))
    rival = Rival(branched.store, lambda: branched.append((2, "eu", DAY), branch="audit"))
    branched.publish(change, store=rival)
    assert branched.ids() == [9] and branched.ids("audit") == [1, 2]


def test_sequence_numbers_are_of_the_table_not_of_the_branch(branched: Kit) -> None:
    branched.append((2, "eu", DAY), branch="audit")
    assert branched.append((3, "eu", DAY)).sequence_number == 3


@pytest.mark.feature("I2")
def test_a_tag_is_not_written_to(branched: Kit) -> None:
    with pytest.raises(NotABranch, match=r"'v1' is a tag of db\.t"):
        branched.append((2, "eu", DAY), branch="v1")


@pytest.mark.feature("I2")
def test_a_historical_snapshot_is_not_written_to(branched: Kit) -> None:
    old = branched.metadata.head().snapshot_id
    branched.append((2, "eu", DAY))
    with pytest.raises(NotABranch, match="create_branch"):
        branched.append((3, "eu", DAY), branch=str(old))
    assert branched.ids() == [1, 2]


def test_a_missing_branch_is_not_made_by_a_write(branched: Kit) -> None:
    with pytest.raises(RefNotFound, match="'adit'"):
        branched.append((2, "eu", DAY), branch="adit")


def test_a_branch_dropped_meanwhile_fails_the_write(branched: Kit) -> None:
    change = branched.change(added=[branched.file([(2, "eu", DAY)])], branch="audit")
    with pytest.raises(RefNotFound):
        branched.publish(change, store=Rival(branched.store, lambda: branched.publish(drop("db.t", "audit"))))


def test_refs_at_a_snapshot_another_ref_or_nothing(branched: Kit) -> None:
    first = branched.metadata.head().snapshot_id
    second = branched.append((2, "eu", DAY), branch="audit")
    branched.publish(create("db.t", "old", first, "tag"), create("db.t", "copy", "audit", "branch"), create("db.t", "same", second, "tag"))
    refs = branched.metadata.refs
    assert (refs["old"]["snapshot-id"], refs["copy"]["snapshot-id"], refs["same"]["snapshot-id"]) == (first, second.snapshot_id, second.snapshot_id)


@pytest.mark.parametrize("name", ["audit", "v1", "main"])
def test_a_name_is_taken_once(branched: Kit, name: str) -> None:
    with pytest.raises(RefExists, match=name):
        branched.publish(create("db.t", name, None, "branch"))


@pytest.mark.parametrize("name", ["", "a b", "123", "-x", "é?"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(InvalidOption, match="not a name"):
        create("db.t", name, None, "branch")


def test_refs_of_a_table_without_rows(kit: Kit) -> None:
    with pytest.raises(RefNotFound, match="no snapshot yet"):
        kit.publish(create("db.t", "audit", None, "branch"))


def test_refs_at_an_unknown_snapshot(branched: Kit) -> None:
    with pytest.raises(RefNotFound, match="42"):
        branched.publish(create("db.t", "x", 42, "tag"))


def test_drop(branched: Kit) -> None:
    branched.publish(drop("db.t", "v1"))
    assert set(branched.metadata.refs) == {"main", "audit"}
    with pytest.raises(RefNotFound, match="'v1'"):
        branched.publish(drop("db.t", "v1"))
    with pytest.raises(InvalidOption, match="main"):
        branched.publish(drop("db.t", "main"))
