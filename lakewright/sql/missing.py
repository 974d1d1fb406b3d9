"""A table that neither the lake nor Spark has: told with the names of the lake that are near."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lakewright.errors import InvalidFilter, SchemaError, SqlError
from lakewright.sql.cursor import Cursor
from lakewright.sql.frames import Frames
from lakewright.sql.lexer import Token
from lakewright.sql.names import not_found
from lakewright.sql.places import find


@contextmanager
def telling_missing(frames: Frames, tokens: Sequence[Token]) -> Iterator[None]:
    """Around a statement, parts of which Spark resolves."""
    from pyspark.errors import AnalysisException

    try:
        yield
    except (SqlError, SchemaError, InvalidFilter) as error:
        reason = error.__cause__
        if not isinstance(reason, AnalysisException) or "TABLE_OR_VIEW_NOT_FOUND" not in str(reason.getCondition()):
            raise
        places = find((reason.getMessageParameters() or {}).get("relationName", ""), tokens)
        if not places:
            raise
        name = Cursor(frames.sql, tokens[places[-1] :], tokens[-1].end).name()
        raise not_found(frames.lake, frames.sql, name) from error
