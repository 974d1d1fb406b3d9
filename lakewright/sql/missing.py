"""A table that neither the lake nor Spark has: told with the names of the lake that are near."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakewright.errors import SqlError
from lakewright.sql.cursor import Slice
from lakewright.sql.frames import Frames
from lakewright.sql.names import not_found
from lakewright.sql.references import references


@contextmanager
def telling_missing(frames: Frames, text: Slice) -> Iterator[None]:
    """Around a query that Spark resolves."""
    from pyspark.errors import AnalysisException

    try:
        yield
    except (AnalysisException, SqlError) as error:
        reason = error if isinstance(error, AnalysisException) else error.__cause__
        if not isinstance(reason, AnalysisException) or "TABLE_OR_VIEW_NOT_FOUND" not in str(reason.getCondition()):
            raise
        for reference in references(frames.sql, text.start, text.end):
            if ".".join(f"`{part}`" for part in reference.name.parts) in str(reason):
                raise not_found(frames.lake, frames.sql, reference.name) from error
        raise
