"""Setting a branch back: rollback, savepoints and restore, also against writers that planned before."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from lakewright.commit.refs import create, drop
from lakewright.commit.result import Commit
from lakewright.commit.runs import SUCCEEDED, list_runs
from lakewright.errors import InvalidOption, NotABranch, NotAnAncestor, RefExists, RefNotFound, SavepointNotFound, StalePlan
from lakewright.maintain.rollback import restore, rollback
from lakewright.maintain.savepoints import drop as drop_savepoint
from lakewright.maintain.savepoints import save, savepoints
from lakewright.read.timeline import instants
from tests.commit.kit import Kit
from tests.commit.stores import Rival

DAY = date(2024, 5, 1)


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path / "lake")


def operations(kit: Kit) -> list[tuple[str, str, int | None]]:
    return [(r.operation, r.state, r.snapshot_id) for r in list_runs(kit.state.io, kit.state.metadata.location)]


def states(kit: Kit) -> dict[int, str]:
    found = instants(kit.metadata, list_runs(kit.state.io, kit.state.metadata.location), lambda run: False)
    return {snapshot: state for _, action, state, snapshot, *_ in found if action == "append"}  # type: ignore[misc]


def back(kit: Kit, to: int | Commit, branch: str = "main") -> Commit:
    _, commit = rollback(kit.store, kit.load(), to, branch)
    kit.load()
    return commit


@pytest.mark.feature("H6")
def test_a_rollback_sets_the_branch_back_to_the_commit(kit: Kit) -> None:
    first, second, third = (kit.append((n, "eu", DAY)) for n in (1, 2, 3))
    assert back(kit, first).snapshot_id == first.snapshot_id
    assert kit.ids() == [1] and kit.metadata.head().snapshot_id == first.snapshot_id  # type: ignore[union-attr]
    assert states(kit) == {first.snapshot_id: "completed", second.snapshot_id: "rolled back", third.snapshot_id: "rolled back"}
    assert operations(kit) == [("rollback", SUCCEEDED, first.snapshot_id)]
    fourth = kit.append((4, "eu", DAY))
    assert (fourth.parent_id, fourth.sequence_number) == (first.snapshot_id, 4) and kit.ids() == [1, 4]


@pytest.mark.feature("H6")
def test_a_rollback_to_the_head_changes_nothing(kit: Kit) -> None:
    kit.append((1, "eu", DAY))
    second = kit.append((2, "eu", DAY))
    before = kit.load().metadata_location
    assert back(kit, second.snapshot_id or 0) == second
    assert kit.state.metadata_location == before and operations(kit) == []


@pytest.mark.feature("H6")
def test_a_branch_is_rolled_back_alone_and_keeps_its_limits(kit: Kit) -> None:
    first = kit.append((1, "eu", DAY))
    kit.publish(create("db.t", "audit", None, "branch"))
    kit.metadata.refs["audit"]["min-snapshots-to-keep"] = 3
    kit.append((2, "eu", DAY), branch="audit")
    kit.append((3, "eu", DAY))
    back(kit, first, "audit")
    assert kit.ids("audit") == [1] and kit.ids() == [1, 3]
    assert kit.metadata.refs["audit"] == {"snapshot-id": first.snapshot_id, "type": "branch", "min-snapshots-to-keep": 3}


def test_only_ancestors_can_be_rolled_back_to(kit: Kit) -> None:
    with pytest.raises(RefNotFound, match=r"db\.t has no snapshot yet"):
        back(kit, 1)
    commits = [kit.append((n, "eu", DAY)) for n in range(8)]
    back(kit, commits[5])
    with pytest.raises(NotAnAncestor, match=rf"Snapshot {commits[7].snapshot_id} is not in the line of main of db\.t.*{commits[5].snapshot_id} \(append\).*earlier ones"):
        back(kit, commits[7])
    kit.publish(create("db.t", "v1", None, "tag"))
    with pytest.raises(NotABranch):
        back(kit, commits[0], "v1")
    with pytest.raises(RefNotFound, match="no branch 'nope'"):
        back(kit, commits[0], "nope")


# Against writers


def rolled_back_before_each_publish(kit: Kit, to: Commit) -> Rival:
    return Rival(kit.store, lambda: rollback(kit.store, kit.store.load(kit.identifier), to, "main"))


@pytest.mark.feature("H6")
def test_an_append_that_loses_to_a_rollback_lands_on_the_new_head(kit: Kit) -> None:
    first = kit.append((1, "eu", DAY))
    kit.append((2, "eu", DAY))
    change = kit.change(added=[kit.file([(3, "eu", DAY)])])
    kit.publish(change, store=rolled_back_before_each_publish(kit, first))
    assert kit.ids() == [1, 3] and kit.metadata.head().parent_id == first.snapshot_id  # type: ignore[union-attr]


@pytest.mark.feature("H6")
def test_a_plan_on_a_commit_that_was_rolled_back_is_refused(kit: Kit) -> None:
    first = kit.append((1, "eu", DAY))
    kit.append((2, "eu", DAY))
    replacement = kit.replacement(kit.live(), kit.file([(9, "eu", DAY)]))
    with pytest.raises(StalePlan, match="rolled back"):
        kit.publish(replacement, store=rolled_back_before_each_publish(kit, first))
    assert kit.ids() == [1]


@pytest.mark.feature("H6")
def test_of_two_rollbacks_the_later_may_only_go_further_back(kit: Kit) -> None:
    first, second, _ = (kit.append((n, "eu", DAY)) for n in range(3))
    save(kit.store, kit.load(), "all", None)
    rollback(rolled_back_before_each_publish(kit, second), kit.load(), first, "main")
    assert kit.ids() == [0]
    restore(kit.store, kit.load(), "all", "main")
    with pytest.raises(NotAnAncestor):
        rollback(rolled_back_before_each_publish(kit, first), kit.load(), second, "main")
    assert kit.ids() == [0]


@pytest.mark.feature("H6")
def test_a_token_of_a_rolled_back_commit_can_be_committed_again(kit: Kit) -> None:
    first = kit.append((1, "eu", DAY))
    kit.append((2, "eu", DAY), token="t")
    back(kit, first)
    again = kit.append((2, "eu", DAY), token="t")
    assert again.parent_id == first.snapshot_id and kit.ids() == [1, 2]


# Savepoints


@pytest.mark.feature("H12")
def test_a_savepoint_is_a_tag_for_ever_and_can_be_restored(kit: Kit) -> None:
    first = kit.append((1, "eu", DAY))
    state, saved = save(kit.store, kit.load(), "good", None)
    assert saved == first and state.metadata.refs["good"] == {"snapshot-id": first.snapshot_id, "type": "tag", "max-ref-age-ms": 2**63 - 1}
    kit.append((2, "eu", DAY))
    save(kit.store, kit.load(), "later", None)
    assert list(savepoints(kit.metadata)) == ["good", "later"]
    assert restore(kit.store, kit.load(), "good", "main")[1] == first and kit.ids() == [1]
    assert restore(kit.store, kit.load(), "later", "main")[1].sequence_number == 2 and kit.ids() == [1, 2]
    assert [o for o, _, _ in operations(kit)] == ["savepoint", "savepoint", "restore", "restore"]


@pytest.mark.feature("H12")
def test_saving_again_or_restoring_the_head_changes_nothing(kit: Kit) -> None:
    first = kit.append((1, "eu", DAY))
    save(kit.store, kit.load(), "good", first)
    before = kit.load().metadata_location
    save(kit.store, kit.load(), "good", "main")
    restore(kit.store, kit.load(), "good", "main")
    assert kit.load().metadata_location == before


@pytest.mark.feature("H12")
def test_a_savepoint_is_not_moved_or_dropped_as_a_tag(kit: Kit) -> None:
    first = kit.append((1, "eu", DAY))
    save(kit.store, kit.load(), "good", None)
    kit.append((2, "eu", DAY))
    for change in (drop("db.t", "good"), create("db.t", "good", None, "tag", replace=True)):
        with pytest.raises(RefExists, match=r"'good' is a savepoint of db\.t.*drop_savepoint"):
            kit.publish(change)
    with pytest.raises(RefExists, match=f"savepoint 'good', at snapshot {first.snapshot_id}"):
        save(kit.store, kit.load(), "good", None)
    drop_savepoint(kit.store, kit.load(), "good")
    assert savepoints(kit.metadata) == {} and "good" not in kit.metadata.refs and not [p for p in kit.metadata.properties if "savepoint" in p]
    with pytest.raises(SavepointNotFound, match="it has none"):
        drop_savepoint(kit.store, kit.load(), "good")


@pytest.mark.feature("H12")
def test_only_savepoints_are_restored_to(kit: Kit) -> None:
    with pytest.raises(RefNotFound, match="no snapshot yet"):
        save(kit.store, kit.load(), "good", None)
    kit.append((1, "eu", DAY))
    kit.publish(create("db.t", "v1", None, "tag"))
    save(kit.store, kit.load(), "good", None)
    with pytest.raises(SavepointNotFound, match=r"db\.t has no savepoint 'v1'; it has good"):
        restore(kit.store, kit.load(), "v1", "main")
    with pytest.raises(RefExists, match="already has a tag 'v1'"):
        save(kit.store, kit.load(), "v1", None)
    with pytest.raises(InvalidOption, match="not a name"):
        save(kit.store, kit.load(), "a b", None)


@pytest.mark.feature("H12")
def test_a_savepoint_whose_tag_another_engine_took_away(kit: Kit) -> None:
    from lakewright.commit.change import MetadataChange
    from lakewright.commit.updates import remove_ref

    first = kit.append((1, "eu", DAY))
    save(kit.store, kit.load(), "good", None)
    kit.publish(MetadataChange("drop", lambda metadata: [remove_ref("good")]))
    assert savepoints(kit.metadata) == {}
    kit.publish(create("db.t", "good", first, "tag"))
    assert savepoints(kit.metadata) == {} and not [p for p in kit.metadata.properties if "savepoint" in p]
    kit.publish(drop("db.t", "good"))
