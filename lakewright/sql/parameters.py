"""Values for `:name` and `?`: written into the text as literals of their own types, never as what they say."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from lakewright.errors import InvalidOption
from lakewright.sql.errors import sql_error
from lakewright.sql.lexer import SYMBOL, WORD, Token

_SAFE = re.compile(r"[^'\\$\x00-\x1f\x7f\ud800-\udfff]*")  # Spark puts settings in for ${…}, inside quotes as well
_MICROSECOND = timedelta(microseconds=1)


def literal(value: Any) -> str:
    """A value as SQL. Texts with anything that could end or escape a literal go as bytes."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case int():
            return _integer(value)
        case float():
            return f"double('{value}')" if math.isnan(value) or math.isinf(value) else f"{value!r}D"
        case Decimal():
            return _decimal(value)
        case str():
            return f"'{value}'" if _SAFE.fullmatch(value) else f"CAST(X'{_bytes(value).hex()}' AS STRING)"
        case bytes() | bytearray():
            return f"X'{bytes(value).hex()}'"
        case datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case timedelta():
            return f"make_dt_interval(0, 0, 0, {Decimal(value // _MICROSECOND).scaleb(-6)})"
        case list() | tuple():
            return f"array({', '.join(map(literal, value))})"
        case dict():
            return f"map({', '.join(literal(part) for pair in value.items() for part in pair)})"
    raise InvalidOption(f"A parameter is of type {type(value).__name__}; SQL takes numbers, texts, bytes, dates, times, booleans, None, and lists and dicts of them.")


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidOption(f"A parameter has the character U+{ord(text[error.start]):04X} in it, which is half of a pair, and no text.") from None


def _integer(value: int) -> str:
    if -(2**31) <= value < 2**31:
        return f"({value})" if value < 0 else str(value)
    if -(2**63) < value < 2**63:
        return f"({value}L)" if value < 0 else f"{value}L"
    raise InvalidOption(f"The parameter {value} does not fit 64 bits; give it as a Decimal.")


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise InvalidOption(f"The parameter {value!r} is no number a decimal column can hold.")
    text = format(value, "f")
    return f"({text}BD)" if value < 0 else f"{text}BD"


def check_args(given: object) -> None:
    if given is not None and (isinstance(given, str | bytes) or not isinstance(given, Mapping | Sequence)):
        raise InvalidOption(f"args is a {type(given).__name__}; it takes a dict for :name, or a list for ?.")


class Parameters:
    """What was given for one statement; positional ones count from its beginning."""

    def __init__(self, given: Mapping[str, Any] | Sequence[Any] | None, sql: str, tokens: Sequence[Token]) -> None:
        self._sql = sql
        self._named = dict(given) if isinstance(given, Mapping) else {}
        self._listed = list(given) if given is not None and not isinstance(given, Mapping) else []
        self._at: dict[int, tuple[int, str]] = {}
        count = 0
        for place, token in enumerate(tokens):
            if token.kind == SYMBOL and token.text == "?":
                self._at[token.start] = (token.end, self._positional(count, token))
                count += 1
            elif _is_named(tokens, place):
                self._at[token.start] = (tokens[place + 1].end, self._by_name(tokens[place + 1]))
        if isinstance(given, Sequence) and count != len(self._listed):
            raise InvalidOption(f"The statement has {count} ? and {len(self._listed)} values were given.")

    def within(self, start: int, end: int) -> list[tuple[int, int, str]]:
        """From, up to, and the literal for each parameter between two places."""
        return [(at, stop, text) for at, (stop, text) in self._at.items() if start <= at < end]

    def _positional(self, number: int, token: Token) -> str:
        if number >= len(self._listed):
            raise sql_error(f"There is no value for this ?; {len(self._listed)} were given.", self._sql, token.start)
        return literal(self._listed[number])

    def _by_name(self, token: Token) -> str:
        if token.name not in self._named:
            known = ", ".join(sorted(self._named)) or "none"
            raise sql_error(f"There is no value for :{token.name}; given were: {known}.", self._sql, token.start - 1)
        return literal(self._named[token.name])


def _is_named(tokens: Sequence[Token], place: int) -> bool:
    """A colon with a name right after it, where a value can begin: not the colon of a struct's field or a path into a variant."""
    token = tokens[place]
    if token.text != ":" or place + 1 >= len(tokens) or tokens[place + 1].kind != WORD or tokens[place + 1].start != token.end:
        return False
    before = tokens[place - 1] if place else None
    return before is None or before.kind == SYMBOL and before.text not in (")", "]", ":") or (before.kind == WORD and before.end < token.start and before.word in _BEFORE_VALUES)


_BEFORE_VALUES = frozenset(["WHERE", "AND", "OR", "NOT", "IN", "LIKE", "ILIKE", "RLIKE", "BETWEEN", "THEN", "WHEN", "ELSE", "CASE", "SELECT", "ON", "VALUES", "LIMIT", "OFFSET", "OF", "BY", "HAVING", "IS", "FROM", "AS", "SET", "INTERVAL", "DISTINCT"])
