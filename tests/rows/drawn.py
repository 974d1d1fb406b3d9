"""Rows and statements drawn by chance: from few values, so that conditions are met and keys meet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from tests.rows.expressions import Among, Both, Case, Col, Compare, Either, Expression, Is, Literal, Not, Plus, Row
from tests.rows.kit import Trial
from tests.rows.model import BY_SOURCE, MATCHED, NOT_MATCHED, SOURCE, TARGET, Assignments, Clause

NULL = Literal("null", None)
LITERALS: dict[str, list[Literal]] = {
    "long": [Literal(str(n), n) for n in range(7)],
    "int": [Literal(str(n), n) for n in (-1, 0, 1, 2, 3)],
    "double": [
        *(Literal(f"{x!r}D", x) for x in (0.0, -0.0, 1.5, -2.0)),
        Literal("double('NaN')", float("nan")),
        Literal("double('Infinity')", float("inf")),
    ],
    "string": [Literal(f"'{t}'", t) for t in ("a", "b", "ab", "", "ü z")],
    "struct": [Literal("named_struct('a', 1, 'b', 'q')", {"a": 1, "b": "q"}), Literal("named_struct('b', null, 'a', 2)", {"a": 2, "b": None})],
    "list": [Literal("array(1, null)", [1, None]), Literal("cast(array() as array<int>)", []), Literal("array(3)", [3])],
}
REGIONS = ["eu", "us", "a b", "x%2F/ü=", "", None]
ORDERED = ("=", "<>", "<", "<=", ">", ">=", "<=>")
COMPARABLE = {"long": "number", "int": "number", "double": "number", "string": "text"}


class Drawn:
    """One statement, or the rows for one, about the table as it is now."""

    def __init__(self, chance: Random, trial: Trial) -> None:
        self.chance, self.trial = chance, trial

    # Values

    def rows(self, count: int) -> list[Row]:
        return [{name: self._value(name, kind) for name, kind in self.trial.columns.items()} for _ in range(count)]

    def _value(self, name: str, kind: str) -> Any:
        if name == "p":
            return self.chance.choice(REGIONS)
        return None if self.chance.random() < 0.2 else self.chance.choice(LITERALS[kind]).constant

    def _literal(self, kind: str) -> Literal:
        return NULL if self.chance.random() < 0.15 else self.chance.choice(LITERALS[kind])

    # Conditions

    def condition(self, aliases: Sequence[str] = ("",), depth: int = 2) -> Expression:
        chance = self.chance
        if depth and chance.random() < 0.4:
            left = self.condition(aliases, depth - 1)
            kind = chance.choice([Not, Both, Both, Either])
            return Not(left) if kind is Not else kind(left, self.condition(aliases, depth - 1))
        return self._test(aliases)

    def _test(self, aliases: Sequence[str]) -> Expression:
        chance = self.chance
        column, kind = self._leaf(aliases)
        choice = chance.random()
        if choice < 0.15:
            return Is(column, chance.random() < 0.5)
        if choice < 0.3:
            return Among(column, tuple(self._literal(kind) for _ in range(chance.choice([1, 2, 3]))), chance.random() < 0.4)
        if choice < 0.5:
            alike = [leaf for leaf, other in self._leaves(aliases) if COMPARABLE[other] == COMPARABLE[kind]]
            return Compare(column, chance.choice(ORDERED), chance.choice(alike))
        one, other = column, self._literal(kind)
        return Compare(other, chance.choice(ORDERED), one) if chance.random() < 0.2 else Compare(one, chance.choice(ORDERED), other)

    def _leaf(self, aliases: Sequence[str]) -> tuple[Col, str]:
        return self.chance.choice(self._leaves(aliases))

    def _leaves(self, aliases: Sequence[str]) -> list[tuple[Col, str]]:
        paths = [((name,), kind) for name, kind in self.trial.columns.items() if kind in COMPARABLE]
        paths += [((name, inside), kind) for name, of in self.trial.columns.items() if of == "struct" for inside, kind in (("a", "int"), ("b", "string"))]
        return [(self._spelled(path, alias), kind) for alias in aliases for path, kind in paths]

    def _spelled(self, path: tuple[str, ...], alias: str) -> Col:
        return Col(path, alias, ".".join(path).upper() if self.chance.random() < 0.3 else None)

    # Assignments

    def assignments(self, aliases: Sequence[str] = ("",), *, whole: bool = False) -> dict[tuple[str, ...], Expression]:
        """whole: no field inside a struct."""
        names = self.chance.sample(list(self.trial.columns), self.chance.choice([1, 1, 2, 3]))
        values: dict[tuple[str, ...], Expression] = {}
        for name in names:
            kind = self.trial.columns[name]
            if kind == "struct" and not whole and self.chance.random() < 0.5:
                values[(name, "a")] = self._assigned("int", aliases)
            else:
                values[(name,)] = self._assigned(kind, aliases)
        return values

    def _assigned(self, kind: str, aliases: Sequence[str], depth: int = 1) -> Expression:
        chance = self.chance
        alike = [leaf for leaf, other in self._leaves(aliases) if other == kind or {other, kind} == {"long", "int"}]
        ways: list[Callable[[], Expression]] = [lambda: self._literal(kind)]
        if alike:
            ways.append(lambda: chance.choice(alike))
        if kind in ("long", "int", "double"):
            ways.append(lambda: Plus(chance.choice(alike), Literal("0.5D", 0.5) if kind == "double" else Literal("1", 1)))
        if kind == "string":
            ways.append(lambda: Plus(chance.choice(alike), Literal("'z'", "z"), "||"))
        if depth and kind in COMPARABLE:
            ways.append(lambda: Case(self.condition(aliases, 0), self._assigned(kind, aliases, 0), self._assigned(kind, aliases, 0)))
        return chance.choice(ways)()

    # Statements

    def run(self) -> None:
        """One statement, perhaps after a change of the table's columns or more rows."""
        chance = self.chance
        if chance.random() < 0.25:
            self.evolve()
        if chance.random() < 0.2:
            self.append()
        command = chance.choice(["delete", "update", "update", "merge", "merge"])
        as_column = chance.random() < 0.2
        if command == "delete":
            self.trial.delete(self.condition(), as_column=as_column)
        elif command == "update":
            self.trial.update(self.assignments(), self.condition() if chance.random() < 0.85 else None, as_column=as_column)
        else:
            self.trial.merge(self.source(), self.on(), *self.clauses(), as_column=as_column)

    def append(self, count: int | None = None) -> None:
        engine = "arrow" if "list" in self.trial.columns.values() else self.chance.choice(["native", "arrow"])
        self.trial.append(self.rows(count or self.chance.choice([1, 4, 10])), engine=engine)

    def evolve(self) -> None:
        trial, columns = self.trial, self.trial.columns
        free = [name for name in columns if name not in ("id", "p", "n")]
        ways: list[Callable[[], None]] = [lambda: trial.add_column(f"added{len(columns)}_{self.chance.randrange(1000)}", self.chance.choice(["int", "double", "string"]))]
        if trial.version == 2:
            ways.append(trial.upgrade)
        if columns["n"] == "int":
            ways.append(lambda: trial.promote("n"))
        if free:
            name = self.chance.choice(free)
            ways.append(lambda: trial.rename_column(name, f"{name}_{self.chance.randrange(1000)}"))
        plain = [name for name in free if columns[name] not in ("struct", "list")]
        if plain:
            ways.append(lambda: trial.drop_column(plain[0]))
        self.chance.choice(ways)()

    def source(self) -> list[Row]:
        """With keys of the table and others, mostly each once."""
        rows, keys = self.rows(self.chance.choice([0, 2, 4, 6])), list({held.values["id"]: None for held in self.trial.model.rows})
        ids = self.chance.sample([*keys, *range(10, 14), None], min(len(rows), len(keys) + 5))
        return [{**row, "id": i} for row, i in zip(rows, ids, strict=False)] if self.chance.random() < 0.85 else rows

    def on(self) -> Expression:
        def same(name: str, operator: str = "=") -> Expression:
            return Compare(self._spelled((name,), TARGET), operator, self._spelled((name,), SOURCE))

        texts = [name for name, kind in self.trial.columns.items() if kind == "string"]
        doubles = [name for name, kind in self.trial.columns.items() if kind == "double"]
        ways = [
            *[same("id")] * 6,
            Both(same("id"), same("p")),
            Both(same("id"), self.condition([TARGET], 0)),
            Both(same("id"), self.condition([SOURCE, TARGET], 1)),
            same(self.chance.choice(doubles or ["id"])),
            same(self.chance.choice(texts), "<=>"),
            Compare(Col(("n",), SOURCE), "=", Col(("id",), TARGET)),
            Compare(Col(("id",), TARGET), "=", Plus(Col(("id",), SOURCE), Literal("1", 1))),
        ]
        return self.chance.choice(ways)

    def clauses(self) -> list[Clause]:
        """In any order; of each kind, all but the last have a condition."""
        chance = self.chance
        found: list[Clause] = []
        while not found:
            for when, most in ((MATCHED, [0, 1, 1, 2]), (NOT_MATCHED, [0, 1, 1, 2]), (BY_SOURCE, [0, 0, 0, 1, 2])):
                count = chance.choice(most)
                found += [self._clause(when, is_last=n == count - 1) for n in range(count)]
        order = chance.sample([c.when for c in found], len(found))
        queues = {when: iter([c for c in found if c.when == when]) for when in set(order)}
        return [next(queues[when]) for when in order]

    def _clause(self, when: str, *, is_last: bool) -> Clause:
        chance = self.chance
        aliases = {MATCHED: (TARGET, SOURCE), NOT_MATCHED: (SOURCE,), BY_SOURCE: (TARGET,)}[when]
        condition = self.condition(aliases, 1) if not is_last or chance.random() < 0.5 else None
        if when == NOT_MATCHED:
            return Clause(when, "insert", condition, self._star(aliases, whole=True, from_source=True))
        if chance.random() < 0.35:
            return Clause(when, "delete", condition)
        return Clause(when, "update", condition, self._star(aliases, whole=False, from_source=when == MATCHED))

    def _star(self, aliases: Sequence[str], *, whole: bool, from_source: bool) -> Assignments | None:
        return None if from_source and self.chance.random() < 0.3 else self.assignments(aliases, whole=whole)
