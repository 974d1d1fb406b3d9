"""Which statement it is: the heads are read here, and what follows by the module for that kind."""

from __future__ import annotations

from collections.abc import Callable

from lakewright.sql.cursor import Cursor
from lakewright.sql.lexer import statements
from lakewright.sql.parse_looks import analyze, call, describe, show
from lakewright.sql.parse_rows import delete, insert, merge, truncate, update
from lakewright.sql.parse_tables import alter, create, drop
from lakewright.sql.statements import Explain, Query, Statement

_STYLES = ("EXTENDED", "CODEGEN", "COST", "FORMATTED")
_BY_WORD: dict[str, Callable[[Cursor], Statement | None]] = {
    "INSERT": insert,
    "UPSERT": insert,
    "DELETE": delete,
    "UPDATE": update,
    "MERGE": merge,
    "TRUNCATE": truncate,
    "CREATE": create,
    "REPLACE": create,
    "DROP": drop,
    "ALTER": alter,
    "SHOW": show,
    "DESCRIBE": describe,
    "DESC": describe,
    "ANALYZE": analyze,
    "CALL": call,
}


def parse(sql: str) -> list[Statement]:
    """The statements of a script. One that begins like ours and goes on otherwise is left to Spark, as any other is."""
    return [parsed(Cursor(sql, tokens, end)) for _, end, tokens in statements(sql)]


def parsed(cursor: Cursor) -> Statement:
    start = cursor.peek().start
    if cursor.accept("EXPLAIN"):
        style = cursor.accept_any(*_STYLES) or ""
        if cursor.at("EXPLAIN"):
            raise cursor.unsupported("EXPLAIN does not explain itself; leave out one of the two.")
        return Explain(start, style, parsed(cursor))
    mark = cursor.mark()
    read = _BY_WORD.get(cursor.peek().word)
    found = read(cursor) if read else None
    if found is None:
        cursor.back_to(mark)
        return Query(start, cursor.rest("a statement"))
    cursor.finish()
    return found

