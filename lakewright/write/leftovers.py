"""Files of a run that failed: tasks that are being stopped may add some for a moment after the job is over."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from pyiceberg.io import FileIO

from lakewright.format.storage import delete_tree, list_files, prune_empty_folders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTLE_SECONDS, SETTLE_STEP = 30.0, 0.2


def delete_until_quiet(io: FileIO, prefix: str, spark: SparkSession | None = None) -> None:
    """Delete what is under the prefix, until tasks that were still being stopped are over and add nothing more."""
    deadline = time.monotonic() + SETTLE_SECONDS
    quiet = 0
    while quiet < 2 and time.monotonic() < deadline:
        with suppress(Exception):
            is_over = spark is None or not has_tasks(spark)
            quiet = quiet + 1 if is_over and not any(True for _ in list_files(io, prefix)) else 0
            delete_tree(io, prefix)
        if quiet < 2:
            time.sleep(SETTLE_STEP)
    prune_empty_folders(prefix)


def has_tasks(spark: SparkSession) -> bool:
    """Whether executors have tasks at hand, of whatever job; a Connect session does not say, and counts as having none.

    The scheduler is asked: Spark's public status lags behind by a tenth of a second, or until the next event.
    """
    try:
        counts = spark.sparkContext._jsc.sc().taskScheduler().runningTasksByExecutors().mkString("\n")
    except Exception:
        return False
    return any(int(line.rsplit(" -> ", 1)[1]) for line in counts.splitlines())
