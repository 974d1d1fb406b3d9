"""Errors that point at the place in the text."""

from __future__ import annotations

from lakewright.errors import SqlError, UnsupportedStatement

_WIDTH = 120


def sql_error(message: str, sql: str, at: int, kind: type[SqlError] = SqlError) -> SqlError:
    """The message, the line it is about, and a caret under the place."""
    at = min(at, len(sql))
    line = sql.count("\n", 0, at) + 1
    begin = sql.rfind("\n", 0, at) + 1
    column = at - begin
    text = sql[begin:].split("\n", 1)[0].rstrip("\r")
    cut = max(0, column - _WIDTH // 2) if len(text) > _WIDTH else 0
    shown = text[cut : cut + _WIDTH]
    return kind(f"{message} (line {line}, column {column + 1})\n{shown}\n{' ' * (column - cut)}^", line=line, position=column + 1)


def unsupported(message: str, sql: str, at: int) -> SqlError:
    return sql_error(message, sql, at, UnsupportedStatement)
