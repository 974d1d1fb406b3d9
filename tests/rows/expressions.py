"""Expressions that are both Spark SQL text and a Python function of a row, with SQL's three-valued logic and Spark's order of values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
Rows = Mapping[str, Row | None]  # by alias; "" where a statement has none. None: no such row


class Expression:
    def sql(self) -> str:
        raise NotImplementedError

    def value(self, rows: Rows) -> Any:
        """What it is for these rows; None stands for null."""
        raise NotImplementedError


@dataclass(frozen=True)
class Literal(Expression):
    text: str
    constant: Any

    def sql(self) -> str:
        return self.text

    def value(self, rows: Rows) -> Any:
        return self.constant


@dataclass(frozen=True)
class Col(Expression):
    """A column, or a field of a struct. written: how the text spells it, where that differs by case."""

    path: tuple[str, ...]
    alias: str = ""
    written: str | None = None

    def sql(self) -> str:
        text = self.written or ".".join(f"`{name}`" for name in self.path)
        return f"{self.alias}.{text}" if self.alias else text

    def value(self, rows: Rows) -> Any:
        found: Any = rows[self.alias]
        for name in self.path:
            found = None if found is None else found[name]
        return found


@dataclass(frozen=True)
class Compare(Expression):
    left: Expression
    operator: str
    right: Expression

    def sql(self) -> str:
        return f"{self.left.sql()} {self.operator} {self.right.sql()}"

    def value(self, rows: Rows) -> bool | None:
        one, other = self.left.value(rows), self.right.value(rows)
        if self.operator == "<=>":
            return one is None and other is None if one is None or other is None else ordered(one) == ordered(other)
        if one is None or other is None:
            return None
        a, b = ordered(one), ordered(other)
        return {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[self.operator]


@dataclass(frozen=True)
class Is(Expression):
    """IS [NOT] NULL."""

    inner: Expression
    null: bool

    def sql(self) -> str:
        return f"{self.inner.sql()} is {'' if self.null else 'not '}null"

    def value(self, rows: Rows) -> bool:
        return (self.inner.value(rows) is None) is self.null


@dataclass(frozen=True)
class Among(Expression):
    """IN and NOT IN a list, which may hold a null."""

    inner: Expression
    choices: tuple[Expression, ...]
    negated: bool = False

    def sql(self) -> str:
        return f"{self.inner.sql()} {'not ' if self.negated else ''}in ({', '.join(c.sql() for c in self.choices)})"

    def value(self, rows: Rows) -> bool | None:
        found = disjunction(*(Compare(self.inner, "=", choice).value(rows) for choice in self.choices))
        return negation(found) if self.negated else found


@dataclass(frozen=True)
class Not(Expression):
    inner: Expression

    def sql(self) -> str:
        return f"not ({self.inner.sql()})"

    def value(self, rows: Rows) -> bool | None:
        return negation(self.inner.value(rows))


@dataclass(frozen=True)
class Both(Expression):
    left: Expression
    right: Expression

    def sql(self) -> str:
        return f"({self.left.sql()}) and ({self.right.sql()})"

    def value(self, rows: Rows) -> bool | None:
        return negation(disjunction(negation(self.left.value(rows)), negation(self.right.value(rows))))


@dataclass(frozen=True)
class Either(Expression):
    left: Expression
    right: Expression

    def sql(self) -> str:
        return f"({self.left.sql()}) or ({self.right.sql()})"

    def value(self, rows: Rows) -> bool | None:
        return disjunction(self.left.value(rows), self.right.value(rows))


@dataclass(frozen=True)
class Plus(Expression):
    """A sum, or text put after text: null if either part is."""

    left: Expression
    right: Expression
    operator: str = "+"

    def sql(self) -> str:
        return f"({self.left.sql()} {self.operator} {self.right.sql()})"

    def value(self, rows: Rows) -> Any:
        one, other = self.left.value(rows), self.right.value(rows)
        return None if one is None or other is None else one + other


@dataclass(frozen=True)
class Case(Expression):
    condition: Expression
    then: Expression
    otherwise: Expression

    def sql(self) -> str:
        return f"case when {self.condition.sql()} then {self.then.sql()} else {self.otherwise.sql()} end"

    def value(self, rows: Rows) -> Any:
        return (self.then if self.condition.value(rows) is True else self.otherwise).value(rows)


def negation(value: bool | None) -> bool | None:
    return None if value is None else not value


def disjunction(*values: bool | None) -> bool | None:
    return True if True in values else None if None in values else False


def ordered(value: Any) -> Any:
    """Spark's order: NaN equals itself and is above everything, -0.0 equals 0.0."""
    if isinstance(value, int | float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value
