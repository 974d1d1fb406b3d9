"""Random histories of keyed tables against the model, for every pair of settings; `make soak` runs all of them."""

from __future__ import annotations

import copy
import os
from collections import Counter
from typing import Any
from zlib import crc32

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

import lakewright as lw
from lakewright.commit.result import Commit
from lakewright.commit.updates import now_ms
from lakewright.errors import DuplicateKey
from lakewright.lake import Lake
from tests.keys.kit import keyed
from tests.keys.model import ALL, Model, Setup, every_pair

SCHEMA = "id bigint, region string, v int, w string, at int"
STEPS = int(os.environ.get("LAKEWRIGHT_MODEL_STEPS", "4"))

record = st.fixed_dictionaries(
    {"id": st.integers(0, 6), "region": st.sampled_from(["eu", "us"]), "v": st.none() | st.integers(0, 9), "w": st.none() | st.sampled_from("abc"), "at": st.integers(0, 9)}
)
by_tasks = st.sampled_from([{}, {"driver_batch_size_bytes": 0}])  # or at hand, where the engine allows it
batch = st.lists(st.tuples(record, st.sampled_from([False, False, False, True])), min_size=1, max_size=8)


class KeyedTable(RuleBasedStateMachine):
    lake: Lake
    setup: Setup

    @initialize(first=batch)
    def made(self, first: list[tuple[dict[str, Any], bool]]) -> None:
        self.table = keyed(self.lake, SCHEMA, key=list(self.setup.key_columns), partition_by=["region"], properties=self.setup.properties)
        self.model = Model(self.setup)
        self.columns: list[str] = ["id", "region", "v", "w", "at"]
        self.past: list[tuple[Commit, Model]] = []
        self.upserted(first, {})

    @rule(records=batch, how=by_tasks)
    def upserted(self, records: list[tuple[dict[str, Any], bool]], how: dict[str, int]) -> None:
        rows = [(*(row[c] for c in ("id", "region", "v", "w", "at")), deleted) for row, deleted in records]
        frame = self.lake.spark.createDataFrame(rows, SCHEMA + ", gone boolean").coalesce(1)
        commit = self.table.upsert(frame, delete_when="gone", **how)
        self.model.upsert(records)
        self.checked(None if self.setup.bucket == "postpone" else commit)

    @rule(records=batch, how=by_tasks)
    def upserted_again(self, records: list[tuple[dict[str, Any], bool]], how: dict[str, int]) -> None:
        """Upserts are most of what is done to a keyed table: three of the eight to eleven rules that can be drawn."""
        self.upserted(records, how)

    @rule(records=batch, how=by_tasks)
    def upserted_once_more(self, records: list[tuple[dict[str, Any], bool]], how: dict[str, int]) -> None:
        self.upserted(records, how)

    @rule(records=st.lists(record, min_size=1, max_size=3), how=by_tasks)
    def inserted(self, records: list[dict[str, Any]], how: dict[str, int]) -> None:
        frame = self.lake.spark.createDataFrame([tuple(row[c] for c in ("id", "region", "v", "w", "at")) for row in records], SCHEMA).coalesce(1)
        if self.model.insert(records):
            self.checked(self.table.insert(frame, **how))
        else:
            with pytest.raises(DuplicateKey):
                self.table.insert(frame, **how)

    @rule(ids=st.lists(st.integers(0, 6), min_size=1, max_size=3), how=by_tasks)
    def deleted(self, ids: list[int], how: dict[str, int]) -> None:
        keys = [("eu", i) for i in ids] if self.setup.key == "inside" else [(i,) for i in ids]
        schema = "region string, id bigint" if self.setup.key == "inside" else "id bigint"
        commit = self.table.delete_keys(self.lake.spark.createDataFrame(keys, schema), **how)
        self.model.delete(keys)
        self.checked(commit)

    @rule()
    def compacted(self) -> None:
        self.table.compact()
        if self.setup.bucket == "postpone":
            self.model.take_in()
        self.checked(None)

    @rule()
    def expired(self) -> None:
        """All but the newest snapshot of main, and what waits."""
        self.table.expire_snapshots(older_than=now_ms() + 1000, retain_last=1)
        self.past = []
        self.checked(None)

    @precondition(lambda self: len(getattr(self, "past", [])) > 1)
    @rule()
    def rolled_back(self) -> None:
        commit, model = self.past[-2]
        self.table.rollback(commit)
        waiting = self.model.waiting
        self.model = copy.deepcopy(model)
        self.model.waiting = waiting
        self.past = self.past[:-1]
        self.checked(None)

    @precondition(lambda self: "note" not in getattr(self, "columns", ["note"]))
    @rule()
    def grown(self) -> None:
        self.table.evolve_schema(add={"note": "string"})
        self.columns = [*self.columns, "note"]

    @precondition(lambda self: self.setup.bucket == "fixed")
    @rule(number=st.sampled_from([2, 3]))
    def rescaled(self, number: int) -> None:
        self.table.set_properties({"lakewright.bucket": number})
        self.checked(None)

    @rule()
    def restarted(self) -> None:
        self.table = lw.connect(self.lake.location, spark=self.lake.spark, progress="off").table(self.table.name)

    def checked(self, commit: Commit | None) -> None:
        """The table has the model's rows, each key once."""
        found = [row.asDict() for row in self.table.read().collect()]
        assert Counter(map(self._shown, found)) == Counter(map(self._shown, self.model.rows.values()))
        if commit is not None and commit.snapshot_id is not None:
            self.past.append((commit, copy.deepcopy(self.model)))

    def _shown(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row.get(c) for c in self.columns)

    def teardown(self) -> None:
        """The log of changes takes the first state to the last."""
        if len(getattr(self, "past", [])) < 2:
            return
        (first, model), (last, end) = self.past[0], self.past[-1]
        if not self.table.iceberg.metadata.snapshot_by_id(first.snapshot_id or 0):
            return
        rows = Counter(map(self._shown, model.rows.values()))
        log = self.table.changes(since=first, until=last, log=True).orderBy("_change_ordinal").collect()
        for change in sorted(log, key=lambda row: row["_change_ordinal"]):
            rows[self._shown(change.asDict())] += 1 if change["_change_type"] in ("insert", "update_after") else -1
        assert +rows == Counter(map(self._shown, end.rows.values())) and not -rows


def run(lake: Lake, setup: Setup, examples: int, steps: int) -> None:
    """The first example is always the simplest there is, nothing but compactions; the others are each setup's own, and the same each time."""

    class Drawn(KeyedTable):
        _hypothesis_internal_use_seed = crc32(str(setup).encode())

    Drawn.lake, Drawn.setup = lake, setup
    given = settings(max_examples=examples, stateful_step_count=steps, deadline=None, phases=[Phase.generate], derandomize=False, database=None)
    run_state_machine_as_test(Drawn, settings=given)


@pytest.mark.parametrize("setup", every_pair(ALL), ids=str)
def test_every_pair_of_settings(lake: Lake, setup: Setup) -> None:
    run(lake, setup, examples=2, steps=STEPS)


@pytest.mark.soak
@pytest.mark.parametrize("setup", ALL, ids=str)
def test_all_settings(lake: Lake, setup: Setup) -> None:
    run(lake, setup, examples=2, steps=8)
