"""Commands of Spark that lake tables have no use for, or another way to."""

from __future__ import annotations

from collections.abc import Sequence

from lakewright.sql.cursor import Cursor, Name
from lakewright.sql.errors import unsupported
from lakewright.sql.frames import Frames
from lakewright.sql.lexer import QUOTED, WORD, Token
from lakewright.sql.names import find

_INSERT = "An INSERT into a lake table begins with INSERT: write the table, then WITH or the query."
INSTEAD = {
    "WITH": _INSERT,
    "FROM": _INSERT,
    "LOAD": "LOAD moves files, which a lake table has its own of; use INSERT INTO … SELECT.",
    "MSCK": "A lake table knows its partitions; leave this out.",
    "REPAIR": "A lake table knows its partitions; leave this out.",
    "REFRESH": "A lake table is read as of its newest commit always; leave this out.",
    "CACHE": "What stands for a lake table changes with its commits; cache the rows of a query, lake.sql(…).cache().",
    "UNCACHE": "A lake table is not cached; unpersist the rows that are.",
    "COMMENT": "Use ALTER TABLE … SET TBLPROPERTIES ('comment' = …).",
}
_BEFORE_NAME = ("TABLE", "INTO", "OVERWRITE", "REFRESH")


def check_command(frames: Frames, tokens: Sequence[Token]) -> None:
    """Refuse a command over a table of the lake, which Spark would look for in vain."""
    instead = INSTEAD.get(tokens[0].word)
    name = None if instead is None else _target(frames, tokens)
    if instead is not None and name is not None:
        raise unsupported(instead, frames.sql, name.start)


def _target(frames: Frames, tokens: Sequence[Token]) -> Name | None:
    """The table of the lake that is named where a command names the one it is for."""
    is_insert = any(token.word == "INSERT" for token in tokens)
    for place, token in enumerate(tokens[:-1]):
        follows = tokens[place + 1]
        if token.word not in _BEFORE_NAME or follows.kind not in (WORD, QUOTED) or (tokens[0].word in ("WITH", "FROM") and not is_insert):
            continue
        name = Cursor(frames.sql, tokens[place + 1 :], tokens[-1].end).name()
        if find(frames.lake, name.parts) is not None:
            return name
    return None
