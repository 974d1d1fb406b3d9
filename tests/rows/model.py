"""A table in plain Python: a bag of rows, and what DELETE, UPDATE and MERGE do to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.rows.expressions import Col, Expression, Row, Rows

Assignments = Mapping[tuple[str, ...], Expression]
MATCHED, NOT_MATCHED, BY_SOURCE = "matched", "not matched", "not matched by source"
TARGET, SOURCE = "t", "s"


class SeveralMatches(Exception):
    """A row of the table is matched by several of the source, and that matters."""


@dataclass
class Held:
    """A row of the table. row_id and sequence are None until they have been read."""

    values: Row
    row_id: int | None = None
    sequence: int | None = None


@dataclass(frozen=True)
class Clause:
    """values None stands for all columns, from the source's."""

    when: str
    then: Literal["delete", "update", "insert"]
    condition: Expression | None = None
    values: Assignments | None = None


@dataclass(frozen=True)
class Changed:
    """Rows by what happened to them, and by the number of the clause that did it."""

    deleted: int = 0
    updated: int = 0
    inserted: int = 0
    clauses: Counter[int] = field(default_factory=Counter)

    @property
    def rows(self) -> int:
        return self.deleted + self.updated + self.inserted


@dataclass
class Model:
    columns: list[str]
    rows: list[Held] = field(default_factory=list)

    def append(self, rows: Sequence[Row]) -> None:
        self.rows += [Held({name: deepcopy(row.get(name)) for name in self.columns}) for row in rows]

    def delete(self, where: Expression | None) -> Changed:
        kept = [row for row in self.rows if not holds(where, {"": row.values})]
        gone, self.rows = len(self.rows) - len(kept), kept
        return Changed(deleted=gone)

    def update(self, values: Assignments, where: Expression | None) -> Changed:
        chosen = [row for row in self.rows if holds(where, {"": row.values})]
        for row in chosen:
            self._assign(row, values, {"": row.values})
        return Changed(updated=len(chosen))

    def merge(self, source: Sequence[Row], on: Expression, clauses: Sequence[Clause]) -> Changed:
        """Nothing is changed where several matches are an error."""
        matches = [[n for n, row in enumerate(source) if holds(on, {TARGET: held.values, SOURCE: row})] for held in self.rows]
        matched = [c for c in clauses if c.when == MATCHED]
        only_deletes = len(matched) == 1 and matched[0].then == "delete" and matched[0].condition is None
        if matched and not only_deletes and any(len(found) > 1 for found in matches):
            raise SeveralMatches
        counts: Counter[str] = Counter()
        applied: Counter[int] = Counter()
        kept = []
        for held, found in zip(self.rows, matches, strict=True):
            rows = {TARGET: held.values, SOURCE: source[found[0]] if found else None}
            clause = self._applying(clauses, MATCHED if found else BY_SOURCE, rows, applied)
            if clause is not None:
                counts[clause.then] += 1
                if clause.then == "update":
                    self._assign(held, self._assignments(clause), rows)
            if clause is None or clause.then == "update":
                kept.append(held)
        self.rows = kept
        everywhere = {n for found in matches for n in found}
        for n, row in enumerate(source):
            rows = {TARGET: None, SOURCE: row}
            clause = None if n in everywhere else self._applying(clauses, NOT_MATCHED, rows, applied)
            if clause is not None:
                counts["insert"] += 1
                fresh = Held(dict.fromkeys(self.columns))
                self._assign(fresh, self._assignments(clause), rows)
                self.rows.append(fresh)
        return Changed(counts["delete"], counts["update"], counts["insert"], applied)

    def _applying(self, clauses: Sequence[Clause], when: str, rows: Rows, applied: Counter[int]) -> Clause | None:
        for n, clause in enumerate(clauses):
            if clause.when == when and holds(clause.condition, rows):
                applied[n] += 1
                return clause
        return None

    def _assignments(self, clause: Clause) -> Assignments:
        return {(name,): Col((name,), SOURCE) for name in self.columns} if clause.values is None else clause.values

    def _assign(self, held: Held, values: Assignments, rows: Rows) -> None:
        """All values are of the row as it was. A field set in a null struct makes a struct of nulls around it."""
        new = {path: deepcopy(value.value(rows)) for path, value in values.items()}
        held.values = deepcopy(held.values)
        held.sequence = None
        for (name, *inside), value in new.items():
            if inside:
                held.values[name] = {**(held.values[name] or EMPTY_STRUCT), inside[0]: value}
            else:
                held.values[name] = value


EMPTY_STRUCT: dict[str, Any] = {"a": None, "b": None}


def holds(condition: Expression | None, rows: Rows) -> bool:
    """A condition that is null is not met."""
    return condition is None or condition.value(rows) is True
