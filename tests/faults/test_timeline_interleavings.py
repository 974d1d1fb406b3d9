"""A rollback, a restore or an expiry beside a writer, stepped through orders of their steps; `make soak` takes all of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from lakewright.commit.updates import now_ms
from lakewright.errors import CommitConflict
from lakewright.maintain.expiry import expire_snapshots
from lakewright.maintain.orphans import remove_orphans
from lakewright.maintain.rollback import restore, rollback
from lakewright.maintain.savepoints import save
from tests.commit.kit import Kit
from tests.faults.interleave import unsynced
from tests.faults.test_interleavings import Writer, append, overwrite

DAY = date(2024, 5, 1)
WRITER, OTHER = 3, 4  # steps: plan, load, publish; and the load that follows an expiry's publish
ALL = sorted(set(itertools.permutations("W" * WRITER + "O" * OTHER)))
ONE_WITHIN_THE_OTHER = [tuple(order) for order in ("WOOOOWW", "WWOOOOW", "OWWWOOO", "OOWWWOO", "OOOWWWO", "WOOOWOW", "OWOWOWO")]
ORDERS = [order if order in ONE_WITHIN_THE_OTHER else pytest.param(order, marks=pytest.mark.soak) for order in ALL]
pytestmark = pytest.mark.feature("H6", "H12")


class Verb(Writer):
    """Stops at each step as a writer does."""

    def __init__(self, kit: Kit, act: Callable[[Any], object]) -> None:
        self.act = act
        super().__init__(kit, list)

    def _run(self) -> None:
        self._pause()
        try:
            self.act(self)
        except CommitConflict:
            self.outcome = "refused"
        self._free = True
        self._there.release()


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    """Row 0; then rows 1 and 2, of which a savepoint was made, in place of it; then row 3 as well."""
    kit = Kit(tmp_path / "lake", partition_by=["region"])
    unsynced(kit)
    kit.append((0, "eu", DAY))
    kit.overwrite(kit.live(), kit.file([(1, "eu", DAY), (2, "eu", DAY)]))
    save(kit.store, kit.load(), "good", None)
    kit.append((3, "eu", DAY))
    return kit


def set_back(kit: Kit, store: Any) -> object:
    line = list(kit.metadata.ancestors(kit.metadata.refs["good"]["snapshot-id"]))
    return rollback(store, kit.store.load(kit.identifier), line[0].snapshot_id, "main")


def restored(kit: Kit, store: Any) -> object:
    return restore(store, kit.store.load(kit.identifier), "good", "main")


def expired(kit: Kit, store: Any) -> object:
    return expire_snapshots(store, kit.store.load(kit.identifier), kit.options(), older_than_ms=now_ms() + 1000, retain_last=1, dry_run=False)


def meet(kit: Kit, order: tuple[str, ...], plan: Callable[[], Any], other: Callable[[Kit, Any], object]) -> tuple[str, str]:
    writers = {"W": Writer(kit, plan), "O": Verb(kit, lambda store: other(kit, store))}
    for name in order:
        if not writers[name]._free:
            writers[name].step()
    outcome = writers["W"].finish(), writers["O"].finish()
    kit.load()
    return outcome


def check_files(kit: Kit) -> None:
    """Every file of every kept snapshot is there, and nothing is left that none has."""
    assert kit.ids("good") == [1, 2]
    assert remove_orphans(kit.store, kit.load(), older_than_hours=0, dry_run=True).files == ()


@pytest.mark.parametrize("other", [set_back, restored])
@pytest.mark.parametrize("order", ORDERS, ids="".join)
def test_an_append_and_a_way_back(kit: Kit, order: tuple[str, ...], other: Callable[[Kit, Any], object]) -> None:
    assert meet(kit, order, append(kit, 9), other) == ("committed", "committed")
    assert kit.ids() in ([1, 2], [1, 2, 9])
    check_files(kit)


@pytest.mark.parametrize("order", ORDERS, ids="".join)
def test_an_overwrite_and_a_rollback(kit: Kit, order: tuple[str, ...]) -> None:
    """Where the rollback came between its plan and its commit, the overwrite would bring row 3 back, and is refused."""
    first, second = meet(kit, order, overwrite(kit, 9), set_back)
    assert second == "committed" and kit.ids() in ([1, 2], [9]) and (first == "committed" or kit.ids() == [1, 2])


@pytest.mark.parametrize("order", ORDERS, ids="".join)
def test_an_append_and_an_expiry(kit: Kit, order: tuple[str, ...]) -> None:
    assert meet(kit, order, append(kit, 9), expired) == ("committed", "committed")
    assert kit.ids() == [1, 2, 3, 9]
    check_files(kit)


@pytest.mark.parametrize("order", ORDERS, ids="".join)
def test_an_overwrite_and_an_expiry(kit: Kit, order: tuple[str, ...]) -> None:
    outcome = meet(kit, order, overwrite(kit, 9), expired)
    assert outcome[1] == "committed" and kit.ids() == ([9] if outcome[0] == "committed" else [1, 2, 3])
    check_files(kit)
