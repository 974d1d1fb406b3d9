"""Stopping Spark jobs when their caller is interrupted: Spark would go on without it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS, STEP = 3.0, 0.2


@contextmanager
def cancellable(spark: SparkSession, tag: str) -> Iterator[None]:
    """Cancels the jobs of a block if it is left by an interrupt."""
    add, remove, cancel = _tagging(spark)
    add(tag)
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        with suppress(Exception):
            _repeat(cancel, tag)
        raise
    finally:
        with suppress(Exception):
            remove(tag)


def _repeat(cancel: Callable[[str], Any], tag: str) -> None:
    """For a while, since an interrupt in the midst of planning comes before the job it means to stop."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        cancel(tag)
        time.sleep(STEP)


def _tagging(spark: SparkSession) -> tuple[Callable[[str], Any], Callable[[str], Any], Callable[[str], Any]]:
    """Add, remove and cancel by tag. A classic session knows its tags by thread, and an interrupt costs PySpark the JVM's
    thread; so there the tags are those of the Spark context, which a Connect session does not have."""
    try:
        context = spark.sparkContext
    except Exception:
        return spark.addTag, spark.removeTag, spark.interruptTag
    return context.addJobTag, context.removeJobTag, context.cancelJobsWithTag
