"""Stopping Spark jobs when their caller is interrupted: Spark would go on without it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

SECONDS, STEP = 3.0, 0.2
KILL_TASKS = "spark.job.interruptOnCancel"


@contextmanager
def cancellable(spark: SparkSession, tag: str) -> Iterator[None]:
    """Cancels the jobs of a block, running tasks included, if it is left by an interrupt.

    A classic session knows its tags by thread, and an interrupt costs PySpark the JVM's thread; so there the tag is one of
    the Spark context, which a Connect session does not have.
    """
    context = _context(spark)
    with _tagged(spark, tag) if context is None else _tagged_context(context, tag):
        try:
            yield
        except BaseException as error:
            if not _is_interrupt(error):
                raise
            _repeat(spark.interruptTag if context is None else context.cancelJobsWithTag, tag)
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            raise KeyboardInterrupt from error


@contextmanager
def _tagged(spark: SparkSession, tag: str) -> Iterator[None]:
    spark.addTag(tag)
    try:
        yield
    finally:
        with suppress(Exception):
            spark.removeTag(tag)


@contextmanager
def _tagged_context(context: SparkContext, tag: str) -> Iterator[None]:
    """Tasks of a cancelled or failed job are stopped, but not cut off: Spark then counts them as running until their Python workers
    are gone, and the clean-up can wait for them. Cut off, they would be over for Spark while a worker may still write."""
    before = context.getLocalProperty(KILL_TASKS)
    context.addJobTag(tag)
    context.setLocalProperty(KILL_TASKS, "false")
    try:
        yield
    finally:
        with suppress(Exception):
            context.removeJobTag(tag)
            context.setLocalProperty(KILL_TASKS, before)  # type: ignore[arg-type]


def _is_interrupt(error: BaseException | None) -> bool:
    """PySpark's own clean-up can fail over the connection an interrupt broke, and hides it behind that error."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            return True
        error = error.__cause__ or error.__context__
    return False


def _repeat(cancel: Callable[[str], Any], tag: str) -> None:
    """For a while: an interrupt in the midst of planning comes before the job it means to stop, and the first call may meet
    the connection it broke."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        with suppress(Exception):
            cancel(tag)
        time.sleep(STEP)


def _context(spark: SparkSession) -> SparkContext | None:
    try:
        return spark.sparkContext
    except Exception:
        return None
