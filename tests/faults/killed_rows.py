"""MERGEs that are cut short at chosen steps, and MERGEs of one key at once. Run as its own process: `python -m tests.faults.killed_rows <folder> <layout> <part>`.

Two of these run side by side, one for each layout: as drivers they first race on tables they share, then each is killed on tables of its own.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from tests.faults import killed
from tests.faults.killed import DRIVER_STEPS, kill, kill_all, when_files_exist
from tests.faults.same_spark import session

TOKEN, TABLE = "merge-kill-test", "db.t"
LAYOUTS = {"copied": ("copy-on-write", 2), "merged": ("merge-on-read", 3)}
MID_TASK = "mid-task"
STEPS = (*DRIVER_STEPS, MID_TASK)
DRIVERS = "drivers"  # the steps of one, on the Spark of the tests
RACES, RACED_KEYS = 2, (10, 11)
SCHEMA = "id bigint, region string, day date"
NEXT_DAY = {"day": "date_add(t.day, 1)"}


def merge(table: Any) -> Any:
    """Deletes 30, updates the first row of every other file, and inserts 11 and 91."""
    spark = table._lake.spark
    source = spark.range(10, 130, 10).selectExpr("id").union(spark.createDataFrame([(11,), (91,)], "id bigint"))
    started = table.merge(source.selectExpr("id", "if(id < 90, 'eu', 'us') AS region", "date'1970-01-01' AS day"), on="t.id = s.id", token=TOKEN)
    return started.when_matched_delete("t.id = 30").when_matched_update(NEXT_DAY, "t.id % 20 = 10").when_not_matched_insert_all().execute()


def race(folder: str, layout: str, spark: Any) -> None:
    """Add a day to a row that is there and to one that the first to come inserts, while the other process does the same."""
    import lakewright as lw

    source = spark.createDataFrame([(key, "eu") for key in RACED_KEYS], "id bigint, region string").selectExpr("*", "date'1970-01-02' AS day")
    for number, shared in enumerate(LAYOUTS):
        table = lw.connect(f"{folder}/race-{shared}", spark=spark, progress="off").table(TABLE)
        started = table.merge(source, on="t.id = s.id", row_level_replans=50).when_matched_update(NEXT_DAY).when_not_matched_insert_all()
        wait_for_the_other(folder, layout, number)
        for _ in range(RACES):
            started.execute()


def wait_for_the_other(folder: str, layout: str, number: int) -> None:
    Path(folder, f"ready-{number}-{layout}").touch()
    give_up = time.monotonic() + 120
    while not all(Path(folder, f"ready-{number}-{other}").exists() for other in LAYOUTS):
        assert time.monotonic() < give_up, "the other process does not come"
        time.sleep(0.01)


def arm(step: str, table: Any) -> None:
    from lakewright.rows import execute

    if step == "after-planning":
        execute.materialise = kill  # type: ignore[assignment]
    elif step == MID_TASK:
        data = Path(table.location.removeprefix("file://"), "data")
        when_files_exist(data, set(data.rglob("*")), kill_all)
    else:
        killed.arm(step, table)


def merge_and_die(step: str, spark: Any, location: str) -> None:
    import lakewright as lw

    table = lw.connect(location, spark=spark, progress="off").table(TABLE)
    arm(step, table)
    merge(table)


def main(folder: str, layout: str, part: str) -> None:
    spark = session()
    if part == MID_TASK:
        merge_and_die(MID_TASK, spark, f"{folder}/{layout}-{MID_TASK}")
    race(folder, layout, spark)
    print("raced", flush=True)
    for step in DRIVER_STEPS:
        child = os.fork()
        if child == 0:
            merge_and_die(step, spark, f"{folder}/{layout}-{step}")
            os._exit(0)
        print(step, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
