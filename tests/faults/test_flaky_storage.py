"""A store that fails now and then, around ordinary commits. One seed decides all of it, so a failing seed replays."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io import FileIO, InputFile, OutputFile

from lakewright.commit.publish import publish
from lakewright.commit.runs import SUCCEEDED, open_run
from lakewright.commit.store import PointerStore, PublishUnclear
from lakewright.errors import CommitOutcomeUnknown, LakewrightError
from lakewright.maintain.orphans import remove_orphans
from tests.commit.kit import Kit

DAY = date(2024, 5, 1)
COMMITS = 40


class FlakyIO(FileIO):
    """Fails an operation with the given probability."""

    def __init__(self, inner: FileIO, dice: random.Random, probability: float) -> None:
        super().__init__(inner.properties)
        self.inner, self.dice, self.probability = inner, dice, probability

    def _maybe_fail(self, what: str, location: str) -> None:
        if self.dice.random() < self.probability:
            raise OSError(f"the store failed to {what} {location}")

    def new_input(self, location: str) -> InputFile:
        self._maybe_fail("read", location)
        return self.inner.new_input(location)

    def new_output(self, location: str) -> OutputFile:
        self._maybe_fail("write", location)
        return self.inner.new_output(location)

    def delete(self, location: Any) -> None:
        self._maybe_fail("delete", str(location))
        self.inner.delete(location)


class Faults:
    """The faults of one seed: storage that fails, and a catalog whose answers get lost."""

    def __init__(self, kit: Kit, seed: int) -> None:
        self.kit, self.dice = kit, random.Random(seed)
        self.probability, self.lost = 0.06, 0.15
        assert isinstance(kit.store, PointerStore)
        self._io, self._swap = kit.store._io, kit.store.swap
        kit.store._io = self.io  # type: ignore[method-assign]
        kit.store.swap = self.swap  # type: ignore[method-assign]

    def io(self, properties: dict[str, str], location: str) -> FileIO:
        return FlakyIO(self._io(properties, location), self.dice, self.probability)

    def swap(self, *args: Any) -> None:
        chance = self.dice.random()
        if chance < self.lost / 2:
            raise PublishUnclear("the request was lost")
        self._swap(*args)
        if chance < self.lost:
            raise PublishUnclear("the answer was lost")

    def stop(self) -> None:
        self.probability = self.lost = 0.0
        self.kit.store._io, self.kit.store.swap = self._io, self._swap  # type: ignore[method-assign]


def commit(kit: Kit, number: int) -> None:
    """One append with its run record. Returning means that it is committed, whatever becomes of the record."""
    state = kit.store.load(("db", "t"))
    with open_run(
        state.io, table="db.t", table_location=state.metadata.location, operation="append", branch="main", token=None, lease_seconds=1
    ) as run:
        change = kit.change(added=[kit.file([(number, "eu", DAY)], run_id=run.run_id)], token=str(number))
        options = kit.options(commit_retry_num_retries=4, manifest_min_count_to_merge=5)
        publish(kit.store, state, [change], run_id=run.run_id, options=options, check_run=run.require_alive)
        with suppress(OSError):
            run.finish(SUCCEEDED)


@pytest.mark.feature("I22")
@pytest.mark.parametrize("seed", range(6))
def test_what_was_acknowledged_is_there_once_and_nothing_else(tmp_path: Path, seed: int) -> None:
    kit = Kit(tmp_path / "lake")
    faults = Faults(kit, seed)
    outcomes: dict[str, set[int]] = {"committed": set(), "unknown": set(), "failed": set()}
    for number in range(COMMITS):
        try:
            commit(kit, number)
            outcomes["committed"].add(number)
        except CommitOutcomeUnknown:
            outcomes["unknown"].add(number)
        except (LakewrightError, OSError):
            outcomes["failed"].add(number)
    faults.stop()
    kit.state = kit.store.load(("db", "t"))

    ids = kit.ids()
    assert len(ids) == len(set(ids))
    assert outcomes["committed"] <= set(ids) <= outcomes["committed"] | outcomes["unknown"]
    assert len(outcomes["committed"]) > COMMITS / 4 and outcomes["failed"], "the dice did too much or nothing"
    line = kit.metadata.ancestors(kit.metadata.head().snapshot_id)
    assert sorted(int(s.summary["lakewright.token"]) for s in line) == ids

    time.sleep(1.1)
    remove_orphans(kit.store, kit.state, older_than_hours=0)
    assert kit.strays() == set() and kit.ids() == ids
