"""Errors that point at the place in the text."""

from __future__ import annotations

from typing import TypeVar

from lakewright.errors import LakewrightError, SqlError, UnsupportedStatement

_WIDTH = 120
_Error = TypeVar("_Error", bound=LakewrightError)


def pointed(message: str, sql: str, at: int) -> str:
    """The message, the line it is about, and a caret under the place."""
    line, column, text = _place(sql, at)
    cut = max(0, column - _WIDTH // 2) if len(text) > _WIDTH else 0
    return f"{message} (line {line}, column {column + 1})\n{text[cut : cut + _WIDTH]}\n{' ' * (column - cut)}^"


def point(error: _Error, sql: str, at: int) -> _Error:
    """The same error, which now tells the place."""
    line, column, _ = _place(sql, at)
    error.args = (pointed(str(error), sql, at),)
    error.line, error.position = line, column + 1
    return error


def sql_error(message: str, sql: str, at: int, kind: type[SqlError] = SqlError) -> SqlError:
    return point(kind(message), sql, at)


def unsupported(message: str, sql: str, at: int) -> SqlError:
    return sql_error(message, sql, at, UnsupportedStatement)


def _place(sql: str, at: int) -> tuple[int, int, str]:
    """The number of the line from 1, the column from 0, and the line's text."""
    at = min(at, len(sql))
    begin = sql.rfind("\n", 0, at) + 1
    return sql.count("\n", 0, at) + 1, at - begin, sql[begin:].split("\n", 1)[0].rstrip("\r")
