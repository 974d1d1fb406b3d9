"""Writes that are cut short at chosen steps. Run as its own process: `python -m tests.faults.killed <folder> <step>…`.

Each step is the function a write goes through there, replaced by one that kills the process. In the midst of a task all that it
started goes with it; where only the driver is at work, a fork of it is killed, so that one Spark session serves several steps.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from tests.faults.same_spark import session

TOKEN, ROWS, TABLE = "kill-test", 40, "db.t"
DRIVER_STEPS = ("after-planning", "after-tasks", "before-publish", "before-swap", "inside-swap", "after-publish")
TASK_STEPS = ("mid-task-native", "mid-task-arrow")
INTERRUPTS = ("interrupt-native", "interrupt-arrow")


def kill(*args: Any, **how: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_all() -> None:
    me = psutil.Process()
    for process in [*me.children(recursive=True), me]:
        process.send_signal(signal.SIGKILL)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def when_files_exist(folder: Path, before: set[Path], act: Callable[[], None]) -> None:
    """Act once a data file of this run is there, or half written."""

    def watch() -> None:
        while not {p for p in folder.rglob("*") if p.is_file() and ".parquet" in p.name} - before:
            time.sleep(0.01)
        act()

    threading.Thread(target=watch, daemon=True).start()


def slow_rows(spark: Any) -> Any:
    """Rows that take a while, so that a task has written some files and not all."""
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "2")
    pause = "reflect('java.lang.Thread', 'sleep', bigint(250))"
    return spark.range(0, ROWS, 1, 2).selectExpr("id", f"concat('r', id % 2, coalesce({pause}, '')) AS region")


def arm(step: str, table: Any) -> dict[str, Any]:
    """Prepare the kill; returns the options of the write."""
    from lakewright import transaction
    from lakewright.commit import runs, store, store_sql

    match step:
        case "after-planning":
            transaction.write_files = kill  # type: ignore[assignment]
        case "mid-task-native" | "mid-task-arrow" | "interrupt-native" | "interrupt-arrow":
            folder = Path(table.location.removeprefix("file://"), "data")
            before = set(folder.rglob("*"))
            when_files_exist(folder, before, interrupt if step.startswith("interrupt") else kill_all)
            return {"engine": step.rsplit("-", 1)[1], "target_file_size_bytes": 1, "row_group_limit": 1, "distribution_mode": "none"}
        case "after-tasks":
            transaction.publish = kill  # type: ignore[assignment]
        case "before-publish":
            store.write_metadata = kill  # type: ignore[assignment]
        case "before-swap":
            store_sql.SqlStore.swap = kill  # type: ignore[assignment]
        case "inside-swap":
            store_sql._commit = kill  # type: ignore[assignment]
        case "after-publish":
            runs.Run.finish = kill  # type: ignore[method-assign]
    return {}


def write(step: str, spark: Any, location: str) -> None:
    import lakewright as lw

    table = lw.connect(location, spark=spark, progress="off").table(TABLE)
    options = arm(step, table)
    rows = slow_rows(spark) if options else spark.range(ROWS).selectExpr("id", "concat('r', id % 2) AS region")
    table.append(rows, token=TOKEN, **options)


def in_a_fork(step: str, spark: Any, location: str) -> int:
    """The exit code of a process that shares our Spark session and dies in the write."""
    child = os.fork()
    if child == 0:
        write(step, spark, location)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(folder: str, *steps: str) -> None:
    spark = session()
    for step in steps:
        location = f"{folder}/{step}"
        if step in DRIVER_STEPS:
            print(step, in_a_fork(step, spark, location))
            continue
        try:
            write(step, spark, location)
        except KeyboardInterrupt:
            print(step, "interrupted, active jobs:", spark.sparkContext.statusTracker().getActiveJobsIds())


if __name__ == "__main__":
    main(*sys.argv[1:])
