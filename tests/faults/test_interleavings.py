"""Two writers stepped through every order of their phases, so that no interleaving is luck.

A writer plans on the version it reads, then loads the head to build on, then publishes; each of the three waits for its turn.
What becomes of each pair of operations is what the tables of docs/concurrency.md say.
"""

from __future__ import annotations

import itertools
import random
import re
import threading
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import BooleanExpression, EqualTo

from lakewright.commit.change import SnapshotChange
from lakewright.commit.metadata_changes import evolve_partitions, set_properties
from lakewright.commit.publish import publish
from lakewright.commit.runs import new_run_id
from lakewright.commit.store import Identifier, TableState
from lakewright.errors import CommitConflict
from lakewright.plan.delta import COPY_ON_WRITE, MERGE_ON_READ
from tests.commit.kit import Kit
from tests.commit.stores import Wrapped
from tests.faults.interleave import COMMITS, CONFLICT, FILES, KINDS, SCOPES, STOPS, Ground, Operation, Row, plan, run, serial, serial_results

DAY = date(2024, 5, 1)
PHASES = 3
ORDERS = sorted(set(itertools.permutations("A" * PHASES + "B" * PHASES)))
LEVELS = ("serializable", "snapshot")
LAYOUTS = tuple(itertools.product((COPY_ON_WRITE, MERGE_ON_READ), (2, 3)))
PAIRS = tuple(itertools.product(KINDS, KINDS, SCOPES, LEVELS))
ORDERS_OF_A_PAIR = 6
DICE = random.Random(3)
DRAWN = [(*pair, *DICE.choice(LAYOUTS), DICE.choice(STOPS)) for pair in PAIRS]
ALL = [(*pair, *layout, stop) for pair in PAIRS for layout in LAYOUTS for stop in STOPS]


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


# Every pair of operations


def stated() -> dict[tuple[str, str, str, str], str]:
    """The outcomes docs/concurrency.md states, by (first, second, scope, level)."""
    page = (Path(__file__).parents[2] / "docs" / "concurrency.md").read_text()
    found = {}
    for scopes, body in re.findall(r"^### (.*?)\n(.*?)(?=^#|\Z)", page, re.MULTILINE | re.DOTALL):
        lines = [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in body.splitlines() if line.startswith("|")]
        for first, *cells in lines[2:]:
            for second, cell in zip(lines[0][1:], cells, strict=True):
                outcomes = cell.split(" / ") if " / " in cell else [cell, cell]
                found.update({(first, second, scope.lower(), level): outcome for scope in scopes.split(", ") for level, outcome in zip(LEVELS, outcomes, strict=True)})
    return found


@pytest.fixture(scope="module")
def grounds(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Ground]:
    return {(mode, version): Ground(tmp_path_factory.mktemp("ground") / "lake", version, mode) for mode, version in LAYOUTS}


def check_pair(ground: Ground, a: Operation, b: Operation, stop: str) -> None:
    """With b in between two steps of a: the outcome is the stated one, and the table what some order would have made of it."""
    met: list[str] = []
    outcome = run(ground.reset(), a, stop, lambda: met.append(run(ground, b)))
    assert met == [COMMITS]
    assert outcome == stated()[a.kind, b.kind, b.scope, a.isolation]
    if outcome == COMMITS:
        assert ground.rows() in serial_results(ground.before, a, b)
        return
    assert ground.rows() == serial(ground.before, b)
    assert run(ground, a) == COMMITS and ground.rows() == serial(ground.before, b, a), "run again, it comes after the other"


def test_the_page_states_every_pair() -> None:
    assert set(stated()) == {(a, b, scope, level) for a, b, scope, level in PAIRS}
    assert set(stated().values()) == {COMMITS, CONFLICT}


@pytest.mark.feature("I13", "I17")
@pytest.mark.parametrize(("first", "second", "scope", "level", "mode", "version", "stop"), DRAWN)
def test_every_pair_ends_as_stated(grounds: dict[tuple[str, int], Ground], first: str, second: str, scope: str, level: str, mode: str, version: int, stop: str) -> None:
    check_pair(grounds[mode, version], Operation(first, isolation=level), Operation(second, scope, 2, level), stop)


@pytest.mark.soak
@pytest.mark.parametrize(("first", "second", "scope", "level", "mode", "version", "stop"), ALL)
def test_every_pair_at_every_step_of_every_layout(grounds: dict[tuple[str, int], Ground], first: str, second: str, scope: str, level: str, mode: str, version: int, stop: str) -> None:
    check_pair(grounds[mode, version], Operation(first, isolation=level), Operation(second, scope, 2, level), stop)


def check_order(ground: Ground, a: Operation, b: Operation, order: tuple[str, ...]) -> None:
    outcome = interleave(ground, order, lambda: plan(ground, a), lambda: plan(ground, b))
    alone = {("committed", "refused"): [serial(ground.before, a)], ("refused", "committed"): [serial(ground.before, b)]}
    assert ground.rows() in alone.get(outcome, serial_results(ground.before, a, b))
    assert outcome != ("refused", "refused"), "one of them was first"


@pytest.mark.feature("I17")
@pytest.mark.parametrize(("first", "second"), list(itertools.combinations_with_replacement(KINDS, 2)))
def test_orders_of_two_operations_on_one_row(grounds: dict[tuple[str, int], Ground], first: str, second: str) -> None:
    """At snapshot isolation, which validates least."""
    dice = random.Random(f"{first} {second}")
    for order in dice.sample(ORDERS[1:-1], ORDERS_OF_A_PAIR):
        a, b = Operation(first, isolation="snapshot"), Operation(second, writer=2, isolation="snapshot")
        check_order(grounds[dice.choice(LAYOUTS)].reset(), a, b, order)


@pytest.mark.feature("I17")
@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize(("mode", "version"), LAYOUTS)
def test_a_row_deleted_and_updated_at_once_does_not_live(grounds: dict[tuple[str, int], Ground], mode: str, version: int, stop: str) -> None:
    """Neither with its update nor without it, whichever was first; not even at snapshot isolation."""
    ground, delete, update = grounds[mode, version], Operation("delete", isolation="snapshot"), Operation("update", isolation="snapshot")
    for first, second in ((delete, update), (update, delete)):
        ground.reset()
        assert run(ground, first, stop, lambda second=second: run(ground, second)) == CONFLICT  # type: ignore[misc]
        assert ground.rows() == serial(ground.before, second)
        assert run(ground, first) == COMMITS and delete.key not in {row[0] for row in ground.rows()}


# What snapshot isolation lets through


class NewKey(Operation):
    """A merge whose only source row has a key the table does not have."""

    keys = (11,)


class Moving(Operation):
    """An update of all rows of a region, which moves them to the other."""

    @property
    def keys(self) -> tuple[int, ...]:
        return tuple(key for ids, region in FILES.items() if region == self.region for key in ids)

    @property
    def filter(self) -> BooleanExpression:
        return EqualTo("region", self.region)

    def updated(self, row: Row) -> Row:
        return row[0], "eu" if self.region == "us" else "us", row[2]


@pytest.mark.feature("I13")
@pytest.mark.parametrize("level", LEVELS)
def test_two_merges_that_insert_one_key(grounds: dict[tuple[str, int], Ground], level: str) -> None:
    ground = grounds[COPY_ON_WRITE, 2].reset()
    a, b = NewKey("merge", isolation=level), NewKey("merge", writer=2, isolation=level)
    outcome = run(ground, a, "write", lambda: run(ground, b))
    assert outcome == (CONFLICT if level == "serializable" else COMMITS)
    assert sum(row[0] in NewKey.keys for row in ground.rows().elements()) == (1 if level == "serializable" else 2)


@pytest.mark.feature("I13")
@pytest.mark.parametrize("level", LEVELS)
def test_two_updates_that_move_rows_to_where_the_other_looks(grounds: dict[tuple[str, int], Ground], level: str) -> None:
    ground = grounds[MERGE_ON_READ, 3].reset()
    outcome = run(ground, Moving("update", isolation=level), "write", lambda: run(ground, Moving("update", "disjoint", 2, level)))
    assert outcome == (CONFLICT if level == "serializable" else COMMITS)
    regions = {row[0]: row[1] for row in ground.rows()}
    assert (regions[10], regions[90]) == (("eu", "eu") if level == "serializable" else ("us", "eu"))
