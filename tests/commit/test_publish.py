"""Races, lost answers and retries: a commit happens once or not at all, and leaves nothing behind where it did not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pytest

from lakewright.commit.metadata_changes import evolve_partitions, evolve_schema
from lakewright.commit.store import PublishUnclear
from lakewright.errors import CatalogUnavailable, CommitConflict, CommitOutcomeUnknown, CommitRetriesExhausted
from tests.commit.kit import Kit
from tests.commit.stores import Rival, Swaps, Unreachable, always_raced

DAY = date(2024, 5, 1)
ROW = (1, "eu", DAY)


def metadata_files(kit: Kit) -> set[str]:
    return {path for path in kit.stored() if path.startswith("metadata/")}


def test_an_append_that_lost_a_race_is_rebuilt_on_the_new_head(kit: Kit) -> None:
    base, change = kit.state, kit.change(added=[kit.file([ROW])])
    rival = Rival(kit.store, lambda: kit.append((2, "us", DAY)), times=3)
    commit = kit.publish(change, store=rival, state=base).commits[0]
    assert rival.publishes == 4
    assert kit.ids() == [1, 2, 2, 2]
    assert commit.sequence_number == 4
    assert [s.parent_id for s in kit.metadata.snapshots()] == [None, *[s.snapshot_id for s in kit.metadata.snapshots()][:-1]]


def test_a_lost_compare_and_swap_leaves_nothing_behind(kit: Kit) -> None:
    change = kit.change(added=[kit.file([ROW])])
    kit.publish(change, store=Rival(kit.store, lambda: kit.append((2, "us", DAY)), times=2))
    assert kit.strays() == set()


def test_an_overwrite_that_lost_a_race_rewrites_manifests_anew(kit: Kit) -> None:
    kit.publish(kit.change(added=[kit.file([ROW]), kit.file([(2, "eu", DAY)])]))
    gone = kit.entries()[0].data_file
    change = kit.replacement([gone], isolation="snapshot")
    kit.publish(change, store=Rival(kit.store, lambda: kit.append((3, "us", DAY))))
    assert kit.ids() == [2, 3]
    assert {path for path in kit.strays() if path.startswith("metadata/")} == set()


def test_retries_run_out(kit: Kit) -> None:
    kit.append(ROW)
    before = metadata_files(kit)
    with Swaps(kit.store, always_raced) as swaps, pytest.raises(CommitRetriesExhausted, match=r"all 4 attempts to commit to db\.t"):
        kit.publish(kit.change(added=[kit.file([(2, "eu", DAY)])]), commit_retry_num_retries=3)
    assert swaps.calls == 4
    assert kit.ids() == [1] and metadata_files(kit) == before


def test_retries_stop_after_the_total_time(kit: Kit) -> None:
    with Swaps(kit.store, always_raced) as swaps, pytest.raises(CommitRetriesExhausted):
        kit.publish(kit.change(added=[kit.file([ROW])]), commit_retry_num_retries=10_000, commit_retry_total_timeout_ms=50)
    assert swaps.calls < 1000


def swap_then_lose_the_answer(swap: Callable[[], None], call: int) -> None:
    swap()
    if call == 1:
        raise PublishUnclear("connection reset")


def lose_the_request(swap: Callable[[], None], call: int) -> None:
    if call == 1:
        raise PublishUnclear("connection reset")
    swap()


def test_a_publish_that_happened_unheard_is_recognised(kit: Kit) -> None:
    with Swaps(kit.store, swap_then_lose_the_answer) as swaps:
        commit = kit.publish(kit.change(added=[kit.file([ROW])])).commits[0]
    assert swaps.calls == 1
    assert kit.ids() == [1] and commit.snapshot_id == kit.metadata.head().snapshot_id
    assert len(list(kit.metadata.snapshots())) == 1


def test_a_publish_that_did_not_happen_unheard_is_made_again(kit: Kit) -> None:
    with Swaps(kit.store, lose_the_request) as swaps:
        kit.publish(kit.change(added=[kit.file([ROW])]))
    assert swaps.calls == 2
    assert kit.ids() == [1] and len(list(kit.metadata.snapshots())) == 1


def test_a_publish_that_lands_late_is_not_damaged_by_the_next_attempt(kit: Kit) -> None:
    """The first request is only delayed: it lands while the second is on its way, so the second loses to it."""
    held: list[Callable[[], None]] = []

    def late(swap: Callable[[], None], call: int) -> None:
        if call == 1:
            held.append(swap)
            raise PublishUnclear("timed out")
        held[0]()
        swap()

    with Swaps(kit.store, late):
        kit.publish(kit.change(added=[kit.file([ROW])]))
    assert kit.ids() == [1] and len(list(kit.metadata.snapshots())) == 1


def test_an_unheard_publish_followed_by_another_commit_is_recognised(kit: Kit) -> None:
    def swap_and_be_overtaken(swap: Callable[[], None], call: int) -> None:
        swap()
        if call == 1:
            kit.append((2, "us", DAY))
            raise PublishUnclear("connection reset")

    change = kit.change(added=[kit.file([ROW])])
    with Swaps(kit.store, swap_and_be_overtaken):
        commit = kit.publish(change).commits[0]
    assert kit.ids() == [1, 2]
    assert commit.sequence_number == 1


@pytest.mark.parametrize("happened", [True, False])
def test_an_outcome_nobody_can_tell_deletes_nothing(kit: Kit, happened: bool) -> None:
    def lose(swap: Callable[[], None], call: int) -> None:
        if happened:
            swap()
        raise PublishUnclear("connection reset")

    change = kit.change(added=[kit.file([ROW])], token="t")
    with Swaps(kit.store, lose), pytest.raises(CommitOutcomeUnknown, match="same token"):
        kit.publish(change, store=Unreachable(kit.store), commit_retry_num_retries=2)
    kinds = sorted(path.rsplit(".", 2)[-2 if path.endswith("json") else -1] for path in metadata_files(kit))
    assert kinds == ["avro", "avro", "metadata", "metadata"]
    assert kit.ids() == ([1] if happened else [])
    kit.publish(kit.change(added=[kit.file([ROW])], token="t"))
    assert kit.ids() == [1]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, MemoryError])
def test_an_interruption_in_the_swap_leaves_the_outcome_open(kit: Kit, interruption: type[BaseException]) -> None:
    def interrupted(swap: Callable[[], None], call: int) -> None:
        swap()
        raise interruption

    with Swaps(kit.store, interrupted), pytest.raises(CommitOutcomeUnknown):
        kit.publish(kit.change(added=[kit.file([ROW])]))
    assert kit.ids() == [1]


def test_an_interruption_before_the_swap_changes_nothing(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    before = metadata_files(kit)

    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lakewright.commit.store.write_metadata", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kit.publish(kit.change(added=[kit.file([ROW])]))
    assert metadata_files(kit) == before


def test_an_unreachable_catalog_changes_nothing(kit: Kit) -> None:
    before = metadata_files(kit)

    def down(swap: Callable[[], None], call: int) -> None:
        raise CatalogUnavailable("the catalog is down")

    with Swaps(kit.store, down), pytest.raises(CatalogUnavailable):
        kit.publish(kit.change(added=[kit.file([ROW])]))
    assert metadata_files(kit) == before


def test_a_token_commits_once(kit: Kit) -> None:
    first = kit.append(ROW, token="job-7")
    kit.append((2, "eu", DAY))
    again = kit.publish(kit.change(added=[kit.file([ROW])], token="job-7")).commits[0]
    assert again == first
    assert kit.ids() == [1, 2]
    assert not {path for path in kit.strays() if path.startswith("metadata/")}


def test_a_token_committed_by_the_rival_is_seen_on_retry(kit: Kit) -> None:
    change = kit.change(added=[kit.file([ROW])], token="job-7")
    kit.publish(change, store=Rival(kit.store, lambda: kit.append(ROW, token="job-7")))
    assert kit.ids() == [1]


def test_tokens_are_per_branch(kit: Kit) -> None:
    from lakewright.commit.refs import create

    kit.append(ROW)
    kit.publish(create("db.t", "audit", None, "branch"))
    kit.append((2, "eu", DAY), token="x", branch="audit")
    kit.append((2, "eu", DAY), token="x")
    assert kit.ids() == kit.ids("audit") == [1, 2]


def test_several_steps_are_one_version(kit: Kit) -> None:
    versions = len(kit.metadata.raw["metadata-log"])
    change = kit.change(added=[kit.file([ROW])])
    more = kit.change(added=[kit.file([(2, "us", DAY)])])
    published = kit.publish(evolve_schema("db.t", add={"tip": "double"}), change, more)
    assert len(published.commits) == 2 and len(kit.metadata.raw["metadata-log"]) == versions + 1
    assert kit.ids() == [1, 2]
    assert kit.metadata.schema.find_field("tip").field_id == 4
    assert published.commits[1].parent_id == published.commits[0].snapshot_id


def test_a_failing_step_takes_all_others_with_it(kit: Kit) -> None:
    kit.append(ROW)
    before = metadata_files(kit)
    with pytest.raises(CommitConflict):
        kit.publish(evolve_schema("db.t", add={"tip": "double"}), kit.change("overwrite", removed=frozenset({"file:///gone.parquet"})))
    assert metadata_files(kit) == before and len(kit.metadata.schema.fields) == 3


def test_steps_are_retried_together(kit: Kit) -> None:
    change = kit.change(added=[kit.file([ROW])])
    rival = Rival(kit.store, lambda: kit.append((2, "us", DAY)), times=2)
    kit.publish(evolve_schema("db.t", add={"tip": "double"}), evolve_partitions("db.t", ["region"], []), change, store=rival)
    assert kit.ids() == [1, 2, 2]
    assert [f.name for f in kit.metadata.schema.fields][-1] == "tip" and len(kit.metadata.specs) == 2
    assert kit.strays() == set()


def test_steps_with_tokens_of_which_one_is_done_conflict(kit: Kit) -> None:
    steps = [kit.change(added=[kit.file([ROW])], token="a"), kit.change(added=[kit.file([(2, "eu", DAY)])], token="b")]
    with pytest.raises(CommitConflict, match="'a'"):
        kit.publish(*steps, store=Rival(kit.store, lambda: kit.append(ROW, token="a")))
    assert kit.ids() == [1]


def test_nothing_to_change_publishes_nothing(kit: Kit) -> None:
    before = kit.state.metadata_location
    published = kit.publish(evolve_partitions("db.t", [], []))
    assert published.commits == () and kit.load().metadata_location == before
