"""A table whose every state is known beside it, so that what `changes` says of any two of them can be judged."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa

from lakewright.commit.change import MetadataChange
from lakewright.commit.result import Commit
from lakewright.commit.updates import set_ref
from lakewright.read import few_rows
from lakewright.source.changes import ChangesReader, changes_schema
from lakewright.source.options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField

    from lakewright.lake import Lake
    from lakewright.table import Table

# A few rows at a time: generating code for a plan costs more than running it.
SMALL = {"spark.sql.shuffle.partitions": "1", "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
COMMANDS = ("delete", "update", "merge")
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = "insert", "update_before", "update_after", "delete"
TAKES, GIVES = (DELETE, UPDATE_BEFORE), (INSERT, UPDATE_AFTER)
Values = dict[str, Any]
Bag = Counter[tuple[Any, ...]]
_names = itertools.count()


@dataclass(frozen=True)
class Layout:
    mode: str
    version: int
    keyed: bool

    def __str__(self) -> str:
        return f"{self.mode}-v{self.version}{'-keyed' * self.keyed}"


LAYOUTS = [Layout(mode, version, keyed) for mode in ("copy-on-write", "merge-on-read") for version in (2, 3) for keyed in (False, True)]


@dataclass(frozen=True)
class Held:
    """A row: its values by the name a column first had, and the commit that last changed it."""

    values: Values
    changed: int


@dataclass(frozen=True)
class State:
    rows: tuple[Held, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    line: tuple[int, ...] = ()
    sequence: int = 0

    def bag(self, columns: Sequence[tuple[str, str]], newer_than: int = -1) -> Bag:
        return Counter(tuple(held.values.get(first) for first, _ in columns) for held in self.rows if held.changed > newer_than)


@dataclass
class History:
    """`states` by snapshot; the head is the state of main."""

    lake: Lake
    layout: Layout
    table: Table = field(init=False)
    head: State = field(init=False)
    states: dict[int, State] = field(default_factory=dict)

    def __post_init__(self) -> None:
        modes = {f"write.{command}.mode": self.layout.mode for command in COMMANDS}
        schema = "k bigint not null, p string, v int"
        self.table = self.lake.create_table(f"changes.t{next(_names)}", schema, partition_by=["p"], format_version=self.layout.version, properties=modes)
        if self.layout.keyed:  # as other engines say it; a keyed table of ours would not take every statement drawn here
            self.table.evolve_schema(key=["k"])
        self.head = State(columns=(("k", "k"), ("p", "p"), ("v", "v")))

    # Commits

    def append(self, rows: Sequence[Values]) -> None:
        self._did(self.table.append(self.frame(rows), check_nullability=False), self.head.rows, rows)

    def delete(self, sql: str, test: Callable[[Values], bool]) -> None:
        self._did(self.table.delete(sql), [held for held in self.head.rows if not test(held.values)])

    def increase(self, sql: str, test: Callable[[Values], bool]) -> None:
        self._did(self.table.update({"v": "coalesce(v, 0) + 1"}, sql), self._assigned(test, lambda held: {"v": (held["v"] or 0) + 1}))

    def merge(self, rows: Sequence[Values]) -> None:
        given = {row["k"]: row for row in rows}
        there = {held.values["k"] for held in self.head.rows}
        commit = (
            self.table.merge(self.frame(rows), "t.k = s.k")
            .when_matched_delete(condition="s.v < 0")
            .when_matched_update(set={"v": "s.v", "p": "s.p"})
            .when_not_matched_insert_all(condition="s.v >= 0")
            .execute()
        )
        deleted = {k for k, row in given.items() if row["v"] < 0}
        assigned = self._assigned(lambda row: row["k"] in given, lambda row: {c: given[row["k"]][c] for c in ("v", "p")})
        self._did(commit, [held for held in assigned if held.values["k"] not in deleted], [row for k, row in given.items() if k not in there and row["v"] >= 0])

    def overwrite(self, rows: Sequence[Values], region: str | None = None) -> None:
        where = None if region is None else f"p = '{region}'"
        commit = self.table.overwrite(self.frame(rows), where, check_nullability=False)
        kept = [held for held in self.head.rows if region is not None and held.values["p"] != region]
        if self.layout.keyed and self.layout.version == 2:  # without lineage a key that comes back with the same values has not changed
            there = [held for held in self.head.rows if held not in kept and self._shown(held.values) in map(self._shown, rows)]
            same = [self._shown(held.values) for held in there]
            kept, rows = [*kept, *there], [row for row in rows if self._shown(row) not in same]
        self._did(commit, kept, rows)

    # Without a commit

    def add_column(self, name: str) -> None:
        self.table.evolve_schema(add={name: "string"})
        self.head = replace(self.head, columns=(*self.head.columns, (name, name)))

    def drop_column(self, first: str) -> None:
        name = dict(self.head.columns)[first]
        self.table.evolve_schema(drop=[name])
        self.head = replace(self.head, columns=tuple(pair for pair in self.head.columns if pair[0] != first))

    def rename_column(self, first: str, new: str) -> None:
        self.table.evolve_schema(rename={dict(self.head.columns)[first]: new})
        self.head = replace(self.head, columns=tuple((f, new if f == first else name) for f, name in self.head.columns))

    def roll_back(self, snapshot_id: int) -> None:
        rolled_back(self.table, snapshot_id)
        self.head = replace(self.states[snapshot_id], columns=self.head.columns)

    # Looks

    def frame(self, rows: Sequence[Values]) -> DataFrame:
        types = {"k": pa.int64(), "v": pa.int32()}
        arrow = pa.table({name: pa.array([row.get(first) for row in rows], types.get(first, pa.string())) for first, name in self.head.columns})
        return self.lake.spark.createDataFrame(arrow).coalesce(1)

    def check(self, since: int | None, until: int | None) -> Counter[str]:
        """The log leads from the one state to the other, and the rows without it are those last changed in between. Gives the number of changes of each kind."""
        old = self.states[since] if since is not None else State()
        new = self.states[until] if until is not None else self.head
        before, after = old.bag(new.columns), new.bag(new.columns)
        log = self.table.changes(since, until, log=True).collect()
        assert bag(by_source(self.table, since, until, log=True)) == bag(log)
        found = applied(log, before)
        assert found == after, f"too many {found - after}, missing {after - found}"
        if self.layout.keyed or self.layout.version == 2:
            assert not cancelling(log)
        begin = max((self.states[s].sequence for s in old.line if s in new.line), default=0)
        expected = new.bag(new.columns, begin)
        if self.layout.version == 2 and not self.layout.keyed:
            fork = next((self.states[s] for s in reversed(old.line) if s in new.line), State())
            expected = after - fork.bag(new.columns)
        latest = bag(both_ways(self.table, since, until))
        assert bag(by_source(self.table, since, until)) == latest
        assert latest == expected, f"too many {latest - expected}, missing {expected - latest}"
        return Counter(row["_change_type"] for row in log)

    def _shown(self, row: Values) -> Values:
        return {first: row.get(first) for first, _ in self.head.columns}

    def _assigned(self, test: Callable[[Values], bool], values: Callable[[Values], Values]) -> list[Held]:
        return [Held({**held.values, **values(held.values)}, -1) if test(held.values) else held for held in self.head.rows]

    def _did(self, commit: Commit, rows: Iterable[Held], new: Sequence[Values] = ()) -> None:
        """Rows changed by the commit come with -1."""
        if commit.nothing_written:
            return
        assert commit.snapshot_id is not None
        held = (*rows, *(Held(self._shown(row), -1) for row in new))
        dated = tuple(replace(row, changed=commit.sequence_number) if row.changed == -1 else row for row in held)
        self.head = State(dated, self.head.columns, (*self.head.line, commit.snapshot_id), commit.sequence_number)
        self.states[commit.snapshot_id] = self.head


@contextmanager
def left_to_spark() -> Iterator[None]:
    """Few rows are read by Spark, as many are."""
    with patch.object(few_rows, "MOST_FILES", -1):
        yield


def both_ways(table: Table, since: Any, until: Any = None, **how: Any) -> list[Any]:
    """Rows without a log, read here and by Spark."""
    here = table.changes(since, until, **how)
    with left_to_spark():
        there = table.changes(since, until, **how)
    found = here.collect()
    assert [_told(f) for f in here.schema] == [_told(f) for f in there.schema]
    assert sorted(map(repr, found)) == sorted(map(repr, there.collect()))
    return found


def _told(field: StructField) -> tuple[Any, ...]:
    """Without the ids by which Spark read it."""
    return field.name, field.dataType.simpleString(), field.nullable, field.metadata.get("comment")


def by_source(table: Table, since: Any, until: Any, **how: Any) -> list[tuple[Any, ...]]:
    """What the Data Source reads, its tasks run here one after the other, after a journey through pickle."""
    state = table.refresh()._state
    options = ReadOptions(incremental=True, begin=since, end=until, **how)
    reader = ChangesReader(state, options, changes_schema(state, options))
    parts = pickle.loads(pickle.dumps(list(reader.partitions())))
    there = pickle.loads(pickle.dumps(reader))
    return [tuple(row.values()) for part in parts for batch in there.read(part) for row in batch.to_pylist()]


def rolled_back(table: Table, snapshot_id: int) -> None:
    table._changed(MetadataChange("roll back", lambda metadata: [set_ref("main", snapshot_id)]))


def bag(rows: Iterable[Any]) -> Bag:
    return Counter(tuple(row) for row in rows)


def applied(log: Iterable[Any], state: Bag) -> Bag:
    """A state after the changes of a log; what a change takes away must be there."""
    state = Counter(state)
    steps: dict[int, list[Any]] = {}
    for row in log:
        steps.setdefault(row["_change_ordinal"], []).append(row)
    for ordinal in sorted(steps):
        kinds = Counter(row["_change_type"] for row in steps[ordinal])
        assert kinds[UPDATE_BEFORE] == kinds[UPDATE_AFTER] and kinds.keys() <= {*TAKES, *GIVES}
        for row in sorted(steps[ordinal], key=lambda row: row["_change_type"] in GIVES):
            image = image_of(row)
            assert row["_change_type"] in GIVES or state[image] > 0, f"{row} takes away what is not there"
            state[image] += 1 if row["_change_type"] in GIVES else -1
    return +state


def image_of(row: Any) -> tuple[Any, ...]:
    return tuple(row)[:-3]


def cancelling(log: Iterable[Any]) -> set[Any]:
    """Images that one commit both takes and gives."""
    taken: set[Any] = set()
    given: set[Any] = set()
    for row in log:
        (given if row["_change_type"] in GIVES else taken).add((row["_change_ordinal"], image_of(row)))
    return taken & given
