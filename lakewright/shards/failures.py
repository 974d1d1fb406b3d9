"""Errors of tasks: told as one line of text, the only thing that comes through Spark, and made typed errors again on the driver."""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lakewright import errors
from lakewright.errors import LakewrightError, ShardError, ShardWriteError

_BEGIN, _END = "lakewright-shard-failure<<", ">>"
_TOLD = re.compile(re.escape(_BEGIN) + r"(\{.*?\})" + re.escape(_END))
MOST_TRACE = 12_000


class TaskFailed(Exception):
    """What a task raises."""


def told(error: BaseException, *, url: str, shard_id: int | None = None, attempt: int | None = None, rows_written: int = 0) -> TaskFailed:
    kind = type(error).__name__ if isinstance(error, LakewrightError) else None
    trace = "".join(traceback.format_exception(error))[-MOST_TRACE:]
    place = {"shard_id": shard_id, "attempt": attempt, "url": url, "rows_written": rows_written}
    text = json.dumps({"kind": kind, "message": str(error), "cause": type(error).__name__, "trace": trace, **place})
    return TaskFailed(_BEGIN + text.replace("<", "\\u003c").replace(">", "\\u003e") + _END)


@contextmanager
def telling(url: str) -> Iterator[None]:
    """A block of a task that does not write yet."""
    try:
        yield
    except Exception as error:
        raise told(error, url=url) from None


def typed(error: BaseException) -> LakewrightError | None:
    """The typed error behind a failed job, or None where the job failed for another reason than what a task told."""
    for text in _texts(error):
        found = _TOLD.search(text)
        if found:
            return _made(json.loads(found.group(1)))
    return None


def _made(told: dict[str, Any]) -> LakewrightError:
    write_error = ShardWriteError(
        _sentence(told),
        shard_id=-1 if told["shard_id"] is None else told["shard_id"],
        attempt=-1 if told["attempt"] is None else told["attempt"],
        url=told["url"],
        rows_written=told["rows_written"],
        trace=told["trace"],
    )
    kind: Any = getattr(errors, told["kind"], None) if told["kind"] else None
    if kind is None or kind is ShardWriteError:
        return write_error
    place = {"url": told["url"], "shard_id": told["shard_id"]} if issubclass(kind, ShardError) else {}
    error: LakewrightError = kind(told["message"], **place)
    if told["shard_id"] is not None:
        error.__cause__ = write_error
    return error


def _sentence(told: dict[str, Any]) -> str:
    if told["shard_id"] is None:
        return f"The rows for {told['url']} could not be routed: {told['cause']}: {told['message']}. Nothing was published."
    return (
        f"Shard {told['shard_id']} of {told['url']}, attempt {told['attempt']}, failed after {told['rows_written']:,} rows: "
        f"{told['cause']}: {told['message']}. Nothing was published."
    )


def _texts(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        yield str(error)
        error = error.__cause__
