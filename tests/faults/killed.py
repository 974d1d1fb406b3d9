"""A write that is cut short at a chosen step. Run as its own process: `python -m tests.faults.killed <step> <lake>`.

Each step is the function a write goes through there, replaced by one that kills the process and everything it started.
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

TOKEN, ROWS, TABLE = "kill-test", 40, "db.t"


def kill_all(*args: Any, **how: Any) -> None:
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
            transaction.write_files = kill_all  # type: ignore[assignment]
        case "mid-task-native" | "mid-task-arrow" | "interrupt-native" | "interrupt-arrow":
            folder = Path(table.location.removeprefix("file://"), "data")
            before = set(folder.rglob("*"))
            when_files_exist(folder, before, interrupt if step.startswith("interrupt") else kill_all)
            return {"engine": step.rsplit("-", 1)[1], "target_file_size_bytes": 1, "row_group_limit": 1, "distribution_mode": "none"}
        case "after-tasks":
            transaction.publish = kill_all  # type: ignore[assignment]
        case "before-publish":
            store.write_metadata = kill_all  # type: ignore[assignment]
        case "before-swap":
            store_sql.SqlStore.swap = kill_all  # type: ignore[assignment]
        case "inside-swap":
            store_sql._commit = kill_all  # type: ignore[assignment]
        case "after-publish":
            runs.Run.finish = kill_all  # type: ignore[method-assign]
    return {}


def main(step: str, location: str) -> None:
    import lakewright as lw

    lake = lw.connect(location, progress="off")
    table, spark = lake.table(TABLE), lake.spark
    options = arm(step, table)
    rows = slow_rows(spark) if options else spark.range(ROWS).selectExpr("id", "concat('r', id % 2) AS region")
    try:
        table.append(rows, token=TOKEN, **options)
    except KeyboardInterrupt:
        print("interrupted, active jobs:", spark.sparkContext.statusTracker().getActiveJobsIds())
        sys.exit(130)


if __name__ == "__main__":
    main(*sys.argv[1:])
