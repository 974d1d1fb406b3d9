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
_LINE = re.compile(r"\(line (\d+), pos (\d+)\)|\(line (\d+), position (\d+)\)")  # from 0, and from 1
_STATE = re.compile(r" SQLSTATE: \w+(?:; line \d+ pos \d+)?;?(?: \(line \d+, pos \d+\))?")
_INTERNAL = re.compile(r"(?:, )?`(?:[^`]+`\.`)?_lw_\w+`")


@contextmanager
def told_of(text: Slice, ready: Ready) -> Iterator[None]:
    """Around handing text to Spark: an error of reading or resolving it points at the place in the statement."""
    from pyspark.errors import AnalysisException, ArithmeticException, DateTimeException, NumberFormatException, SparkRuntimeException

    try:
        yield
    except (AnalysisException, ArithmeticException, DateTimeException, NumberFormatException, SparkRuntimeException) as error:
        raise explained(error, text, ready) from error


def explained(error: Any, text: Slice, ready: Ready) -> SqlError:
    reason = tidied(str(error).strip().split("\n== SQL")[0].splitlines()[0]).rstrip(". ;")
    place = _place(error, ready)
    return sql_error(f"{reason}.", text.sql, text.start if place is None else ready.original(place))


def tidied(message: str) -> str:
    """Without what is about the text that Spark was given, and not about the one that was written."""
    return _INTERNAL.sub("", VIEW.sub("", _STATE.sub("", message)))


def _place(error: Any, ready: Ready) -> int | None:
    """Where in the text Spark says the mistake is."""
    line = _LINE.search(str(error))
    if line is not None:
        number, column = (int(line.group(1)), int(line.group(2))) if line.group(1) else (int(line.group(3)), int(line.group(4)) - 1)
        return sum(len(each) + 1 for each in ready.text.split("\n")[: number - 1]) + column
    contexts = error.getQueryContext() or []
    starts = [context.startIndex() for context in contexts if "SQL" in str(context.contextType())]
    return starts[0] if starts and starts[0] >= 0 else None
