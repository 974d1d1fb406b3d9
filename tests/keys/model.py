"""What a keyed table should hold, said in plain Python: one row for each key, by the rules of each merge engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

Row = dict[str, Any]

ENGINES = ("latest", "first-row", "partial-update", "aggregate", "expression", "python")
INDEXES = ("auto", "range", "bucket", "record")
BUCKETS = ("none", "fixed", "dynamic", "postpone")
MODES = ("copy-on-write", "merge-on-read")
KEYS = ("inside", "outside")


@dataclass(frozen=True)
class Setup:
    """One way to set up a table. key: whether it has the partition's column."""

    engine: str
    index: str
    bucket: str
    mode: str
    key: str

    def __str__(self) -> str:
        return f"{self.engine}-{self.index}-{self.bucket}-{self.mode}-{self.key}"

    @property
    def is_possible(self) -> bool:
        return self.index != "bucket" or self.bucket == "fixed"

    @property
    def key_columns(self) -> tuple[str, ...]:
        return ("region", "id") if self.key == "inside" else ("id",)

    @property
    def properties(self) -> dict[str, str]:
        bucket = "key-dynamic" if self.bucket == "dynamic" and self.key == "outside" else self.bucket
        given = {"lakewright.index": self.index, "lakewright.bucket-mode": bucket, "write.merge.mode": self.mode, "write.delete.mode": self.mode, "lakewright.bucket.target-rows": "4"}
        if self.bucket in ("fixed", "postpone"):
            given["lakewright.bucket"] = "2"
        given["lakewright.merge-engine"] = "python:tests.keys.model:summed" if self.engine == "python" else self.engine
        if self.engine == "aggregate":
            given |= {"lakewright.merge.v": "sum", "lakewright.merge.w": "max"}
        if self.engine == "expression":
            given |= {"lakewright.merge.v": "(old.v * 3 + new.v) % 1000"}
        return given


ALL = [setup for setup in (Setup(*values) for values in product(ENGINES, INDEXES, BUCKETS, MODES, KEYS)) if setup.is_possible]


def every_pair(setups: Iterable[Setup]) -> list[Setup]:
    """As few as it takes for every two settings to meet that can."""
    wanted = {pair for setup in setups for pair in _pairs(setup)}
    chosen = []
    while wanted:
        best = max(ALL, key=lambda setup: len(wanted & _pairs(setup)))
        chosen.append(best)
        wanted -= _pairs(best)
    return chosen


def _pairs(setup: Setup) -> set[tuple[Any, ...]]:
    values = [("engine", setup.engine), ("index", setup.index), ("bucket", setup.bucket), ("mode", setup.mode), ("key", setup.key)]
    return set(combinations(values, 2))


def summed(old: Any, new: Any) -> dict[str, Any]:
    """The merge function of the setups that have one: the record's values, and the sum of v."""
    import pyarrow.compute as pc

    return {**{name: new.column(name) for name in new.schema.names}, "v": pc.add(old.column("v"), new.column("v"))}


@dataclass
class Model:
    """Rows by key; and records that wait, where the table keeps them back."""

    setup: Setup
    rows: dict[tuple[Any, ...], Row] = field(default_factory=dict)
    waiting: list[list[tuple[Row, bool]]] = field(default_factory=list)

    def key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[c] for c in self.setup.key_columns)

    def upsert(self, batch: list[tuple[Row, bool]]) -> None:
        """Records, each with whether it deletes, in the order they came."""
        if self.setup.bucket == "postpone":
            self.waiting.append(batch)
        else:
            self._apply(batch)

    def take_in(self) -> None:
        self._apply([record for batch in self.waiting for record in self._combined(batch)])
        self.waiting = []

    def _apply(self, batch: list[tuple[Row, bool]]) -> None:
        for key, (row, deleted, reset) in self._by_key(batch).items():
            old = self.rows.get(key)
            if old is None:
                if not deleted:
                    self.rows[key] = row
            elif deleted or reset:
                if row["at"] >= old["at"]:
                    self.rows.pop(key)
                    if not deleted:
                        self.rows[key] = row
            else:
                self.rows[key] = self._merged(old, row)

    def _combined(self, batch: list[tuple[Row, bool]]) -> list[tuple[Row, bool]]:
        """What a batch leaves to wait: deletions first."""
        found = self._by_key(batch).values()
        return [(row, True) for row, deleted, reset in found if deleted or reset] + [(row, False) for row, deleted, _ in found if not deleted]

    def _by_key(self, batch: list[tuple[Row, bool]]) -> dict[tuple[Any, ...], tuple[Row, bool, bool]]:
        found: dict[tuple[Any, ...], tuple[Row, bool, bool]] = {}
        for row, deleted in sorted(batch, key=lambda record: record[0]["at"]):
            key = self.key(row)
            before = found.get(key)
            if before is None:
                found[key] = (row, deleted, False)
            elif deleted or before[1]:
                found[key] = (row, deleted, True)
            else:
                found[key] = (self._merged(before[0], row), False, before[2])
        return found

    def _merged(self, old: Row, new: Row) -> Row:
        fresh = new["at"] >= old["at"]
        latest = new if fresh else old
        filled = {c: new[c] if (fresh and new[c] is not None) or old[c] is None else old[c] for c in new}
        match self.setup.engine:
            case "latest":
                return latest
            case "first-row":
                return old
            case "partial-update":
                return filled
            case "aggregate":
                return {**filled, "v": _sum(old["v"], new["v"]), "w": max((w for w in (old["w"], new["w"]) if w is not None), default=None)}
            case "expression":
                value = None if None in (old["v"], new["v"]) else (old["v"] * 3 + new["v"]) % 1000
                return {**latest, "v": value}
        return {**new, "v": None if None in (old["v"], new["v"]) else old["v"] + new["v"]}

    def insert(self, batch: list[Row]) -> bool:
        """Whether the keys are new; nothing changes if one is not."""
        found = self._by_key([(row, False) for row in batch])
        if any(key in self.rows for key in found):
            return False
        self.rows |= {key: row for key, (row, _, _) in found.items()}
        return True

    def delete(self, keys: Iterable[tuple[Any, ...]]) -> None:
        for key in keys:
            self.rows.pop(key, None)


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other
