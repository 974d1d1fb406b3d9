"""Errors about columns, conditions and names that come from below, told with the place in the statement that they are about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

from lakewright.errors import (
    InvalidFilter,
    InvalidOption,
    InvalidTransform,
    LakewrightError,
    NamespaceExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    NotABranch,
    RefExists,
    RefNotFound,
    SchemaError,
    SqlError,
    TableExists,
    TableNotFound,
    UnsupportedOperation,
)
from lakewright.sql.cursor import Name, unescaped
from lakewright.sql.errors import point, sql_error
from lakewright.sql.lexer import STRING, Token, tokens_of
from lakewright.sql.spark_errors import tidied
from lakewright.sql.statements import Explain, Statement

ABOUT_THE_TEXT = (
    SchemaError, InvalidFilter, InvalidTransform, InvalidOption, UnsupportedOperation,
    NamespaceNotFound, NamespaceExists, NamespaceNotEmpty, TableExists, TableNotFound, RefNotFound, RefExists, NotABranch,
)  # fmt: skip
_IN_QUOTES = re.compile(r"'([^']+)'|\"([^\"]+)\"")


@contextmanager
def placing(sql: str, statement: Statement, tokens: Sequence[Token]) -> Iterator[None]:
    """Around carrying out a statement: at what the error names, else at the table the statement is about."""
    try:
        yield
    except ABOUT_THE_TEXT as error:
        if not error.line:
            at = _place(error, statement, tokens)
            error.args = (tidied(str(error)),)
            point(error, sql, at)
        raise
    except RecursionError:
        raise sql_error("This statement has more conditions in conditions than can be read; say them with IN, or join a table of values.", sql, statement.start) from None


@contextmanager
def pointing(sql: str, at: int) -> Iterator[None]:
    """Around something that is known to stand at one place."""
    try:
        yield
    except ABOUT_THE_TEXT as error:
        if not error.line:
            point(error, sql, at)
        raise


def _place(error: LakewrightError, statement: Statement, tokens: Sequence[Token]) -> int:
    """Of several places the first, but the last of what Spark could not resolve: what it could stands before."""
    unresolved = (found[-1] for piece in _unresolved(error) if (found := find(piece, tokens)))
    named = (found[0] for piece in [error.column or "", *map("".join, _IN_QUOTES.findall(str(error)))] if (found := find(piece, tokens)))
    at = next(chain(unresolved, named), None)
    return _subject(statement) if at is None else tokens[at].start


def _unresolved(error: LakewrightError) -> Iterator[str]:
    cause: Any = error.__cause__
    if hasattr(cause, "getQueryContext"):
        yield from (context.fragment() for context in cause.getQueryContext() or [] if "SQL" in str(context.contextType()))
        yield str((cause.getMessageParameters() or {}).get("objectName", ""))


def find(piece: str, tokens: Sequence[Token]) -> list[int]:
    """At which tokens a piece of SQL, or a name that is one token, begins; after a dot, where it is a part of a longer name, only if it is nowhere else."""
    names = [_value(token).lower() for token in tokens]
    for wanted in ([piece.lower()], _names(piece)):
        places = [at for at in range(len(names) if any(wanted) else 0) if names[at : at + len(wanted)] == wanted]
        if places:
            return [at for at in places if not at or names[at - 1] != "."] or places
    return []


def _names(piece: str) -> list[str]:
    try:
        return [_value(token).lower() for token in tokens_of(piece)]
    except SqlError:
        return []


def _value(token: Token) -> str:
    return unescaped(token.text) if token.kind == STRING else token.name


def _subject(statement: Statement) -> int:
    if isinstance(statement, Explain):
        return _subject(statement.explained)
    names = (getattr(statement, part, None) for part in ("table", "name"))
    return next((name.start for name in names if isinstance(name, Name)), statement.start)
