"""Two writers stepped through every order of their phases, so that no interleaving is luck.

A writer plans on the version it reads, then loads the head to build on, then publishes; each of the three waits for its turn.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import EqualTo

from lakewright.commit.change import SnapshotChange
from lakewright.commit.metadata_changes import evolve_partitions, set_properties
from lakewright.commit.publish import publish
from lakewright.commit.runs import new_run_id
from lakewright.commit.store import Identifier, TableState
from lakewright.errors import CommitConflict
from tests.commit.kit import Kit
from tests.commit.stores import Wrapped

DAY = date(2024, 5, 1)
PHASES = 3
ORDERS = sorted(set(itertools.permutations("A" * PHASES + "B" * PHASES)))


class Writer(Wrapped):
    """Runs one commit in a thread that stops at each phase."""

    def __init__(self, kit: Kit, plan: Callable[[], Sequence[Any]]) -> None:
        super().__init__(kit.store)
        self.kit, self.plan, self.outcome = kit, plan, "committed"
        self._free = False
        self._go, self._there = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._there.acquire()

    def step(self) -> None:
        self._go.release()
        self._there.acquire()

    def finish(self) -> str:
        self._free = True
        self._go.release()
        self._thread.join()
        return self.outcome

    def _pause(self) -> None:
        if not self._free:
            self._there.release()
            self._go.acquire()

    def _run(self) -> None:
        self._pause()
        state = self.inner.load(("db", "t"))
        try:
            publish(self, state, self.plan(), run_id=new_run_id(), options=self.kit.options())
        except CommitConflict:
            self.outcome = "refused"
        self._free = True
        self._there.release()

    def load(self, identifier: Identifier, known: TableState | None = None) -> TableState:
        self._pause()
        return super().load(identifier, known)

    def publish(self, *args: Any) -> TableState:
        self._pause()
        return super().publish(*args)


def interleave(kit: Kit, order: tuple[str, ...], a: Callable[[], Sequence[Any]], b: Callable[[], Sequence[Any]]) -> tuple[str, str]:
    writers = {"A": Writer(kit, a), "B": Writer(kit, b)}
    for name in order:
        if not writers[name]._free:
            writers[name].step()
    outcome = writers["A"].finish(), writers["B"].finish()
    kit.load()
    return outcome


def append(kit: Kit, number: int, region: str = "eu") -> Callable[[], list[SnapshotChange]]:
    file = kit.file([(number, region, DAY)])
    return lambda: [kit.change(added=[file])]


def overwrite(kit: Kit, number: int, isolation: str = "serializable") -> Callable[[], list[SnapshotChange]]:
    """Replaces what is in eu when it plans."""
    file = kit.file([(number, "eu", DAY)])

    def plan() -> list[SnapshotChange]:
        seen = [e.data_file for e in kit.entries() if e.status != 2 and e.data_file.partition == ("eu",)]
        return [kit.replacement(seen, file, filter=EqualTo("region", "eu"), isolation=isolation)]

    return plan


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    kit = Kit(tmp_path / "lake", partition_by=["region"])
    kit.append((0, "eu", DAY))
    return kit


@pytest.mark.feature("I13")
@pytest.mark.parametrize("order", ORDERS, ids="".join)
def test_appends_both_commit(kit: Kit, order: tuple[str, ...]) -> None:
    assert interleave(kit, order, append(kit, 1), append(kit, 2)) == ("committed", "committed")
    assert kit.ids() == [0, 1, 2] and kit.strays() == set()


@pytest.mark.feature("I13")
@pytest.mark.parametrize("order", ORDERS, ids="".join)
def test_a_serializable_overwrite_against_an_append_is_as_one_after_the_other(kit: Kit, order: tuple[str, ...]) -> None:
    outcome = interleave(kit, order, overwrite(kit, 1), append(kit, 2))
    if outcome == ("refused", "committed"):
        assert kit.ids() == [0, 2]
    else:
        assert outcome == ("committed", "committed") and kit.ids() in ([1], [1, 2])


@pytest.mark.feature("I13")
@pytest.mark.parametrize("order", ORDERS, ids="".join)
def test_overwrites_of_one_range_never_both_commit_on_the_same_base(kit: Kit, order: tuple[str, ...]) -> None:
    outcome = interleave(kit, order, overwrite(kit, 1, "snapshot"), overwrite(kit, 2, "snapshot"))
    expected = {("committed", "refused"): [[1]], ("refused", "committed"): [[2]], ("committed", "committed"): [[1], [2]]}
    assert kit.ids() in expected[outcome]


@pytest.mark.parametrize("order", ORDERS, ids="".join)
def test_a_change_of_spec_and_of_properties_go_with_anything(kit: Kit, order: tuple[str, ...]) -> None:
    metadata = lambda: [evolve_partitions("db.t", ["day(day)"], ["region"]), set_properties({"k": "v"})]  # noqa: E731
    assert interleave(kit, order, append(kit, 1), metadata) == ("committed", "committed")
    assert kit.ids() == [0, 1] and kit.metadata.properties["k"] == "v" and kit.metadata.default_spec_id == 1
    assert {e.data_file.partition for e in kit.entries()} == {("eu",)}
