"""What Spark says of text that was made ready for it, told of the text as it was written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lakewright.errors import SqlError
from lakewright.sql.cursor import Slice
from lakewright.sql.errors import sql_error
from lakewright.sql.ready import Ready

VIEW = re.compile(r"`?_(?:pyspark|lw_view)_[0-9a-f]{32}`?\.?")
_LINE = re.compile(r"\(line (\d+), pos(?:ition)? (\d+)\)")


@contextmanager
def told_of(text: Slice, ready: Ready) -> Iterator[None]:
    """Around handing text to Spark: an error of reading or resolving it points at the place in the statement."""
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as error:
        raise explained(error, text, ready) from error


def explained(error: Any, text: Slice, ready: Ready) -> SqlError:
    reason = VIEW.sub("", str(error).strip().split("\n== SQL")[0].split(" SQLSTATE:")[0].splitlines()[0]).rstrip(". ;")
    place = _place(error, ready)
    return sql_error(f"{reason}.", text.sql, text.start if place is None else ready.original(place))


def _place(error: Any, ready: Ready) -> int | None:
    """Where in the text Spark says the mistake is."""
    line = _LINE.search(str(error))
    if line is not None:
        lines = ready.text.split("\n")[: int(line.group(1)) - 1]
        return sum(len(each) + 1 for each in lines) + int(line.group(2))
    contexts = error.getQueryContext() or []
    starts = [context.startIndex() for context in contexts if "SQL" in str(context.contextType())]
    return starts[0] if starts and starts[0] >= 0 else None
