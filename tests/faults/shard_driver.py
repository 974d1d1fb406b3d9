"""Builds on a cluster that things go wrong with. Run as its own process: `python -m tests.faults.shard_driver <master> <folder> <case>…`.

Values are made by functions that know who they run for: they note every attempt, and slow it, fail it or kill it as the case wants.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.faults.spark_cluster import HOST_VARIABLE, SLOW

SHARDS, ROWS = 4, 2000
OLD, NEW = "old", "new"
SPECULATION, SPECULATION_STORED, FAILURES, KILLED_TASKS, CLEANUP_FAILS, KILLED_DRIVER = "speculation", "speculation-stored", "failures", "killed-tasks", "clean-up-fails", "killed-driver"
CASES = (SPECULATION, SPECULATION_STORED, FAILURES, KILLED_TASKS, CLEANUP_FAILS, KILLED_DRIVER)
SETTINGS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.25",
    "spark.speculation.multiplier": "1.2",
    # Long enough for the slow host's attempt to have begun, also where starting its Python worker takes seconds.
    "spark.speculation.minTaskRuntime": "6s",
    "spark.task.maxFailures": "4",
    "spark.locality.wait": "0s",
    # Both hosts are there before the first task: else all may run on the one that was faster to come up.
    "spark.cores.max": "4",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
}
SLOW_SECONDS = 60


def main(master: str, folder: str, *cases: str) -> None:
    from pyspark.sql import SparkSession

    logging.basicConfig(level=logging.INFO, filename=f"{folder}/driver.log")
    builder = SparkSession.builder.master(master).appName("shards")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for case in cases:
        place = Path(folder, case)
        place.mkdir()
        build(spark, place, OLD, plain)
        (place / "begun").touch()
        build(spark, place, NEW, noted(place, BEHAVIOURS[case]), case)
        (place / "done").touch()
    spark.stop()


def build(spark: Any, place: Path, word: str, value: Callable[..., Any], case: str = "") -> None:
    from lakewright.shards.build import write
    from lakewright.shards.config import ShardConfig

    if case == CLEANUP_FAILS:
        refuse_deletes()
    if case == KILLED_DRIVER:
        kill_before_the_pointer()
    # Of one partition: a stage of one task is not speculated on, and leaves both hosts free for the tasks that write.
    rows = spark.range(0, ROWS, 1, 1).selectExpr("id", f"cast(concat('{word}-', id) as binary) as payload")
    config = ShardConfig(url=str(place / "users"), key="id", value=value, value_columns=["id", "payload"], num_shards=SHARDS, batch_rows=50, lease_seconds=2)
    result = write(rows, config, progress="log")
    (place / f"{word}.json").write_text(json.dumps({"run_id": result.run_id, "rows": result.rows}))


def plain(batch: pa.RecordBatch) -> pa.Array:
    return batch.column("payload")


Behaviour = Callable[[int, int, int], None]


def noted(place: Path, behave: Behaviour) -> Callable[[pa.RecordBatch], pa.Array]:
    """A function of values that notes each attempt once, and then behaves: it is told the shard, the attempt, and how often it was called."""
    calls: dict[int, int] = {}

    def value(batch: pa.RecordBatch) -> pa.Array:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        shard, attempt, task = context.partitionId(), context.attemptNumber(), context.taskAttemptId()
        calls[task] = calls.get(task, 0) + 1
        if calls[task] == 1:
            notes = place / "attempts"
            notes.mkdir(exist_ok=True)
            (notes / f"{task}.json").write_text(json.dumps({"shard": shard, "attempt": attempt, "task": task, "host": os.environ.get(HOST_VARIABLE)}))
        behave(shard, attempt, calls[task])
        return batch.column("payload")

    return value


def slow_on_one_host(shard: int, attempt: int, call: int) -> None:
    """In the midst of its rows."""
    if os.environ.get(HOST_VARIABLE) == SLOW and call == 3:
        time.sleep(SLOW_SECONDS)


def slow_once_stored(shard: int, attempt: int, call: int) -> None:
    """Its shard is in the store, whole, and the driver has not heard of it."""
    if os.environ.get(HOST_VARIABLE) != SLOW or call != 1:
        return
    from lakewright.shards import tasks

    upload = tasks.upload_shard

    def stored(*given: Any) -> Any:
        tasks.upload_shard = upload
        uploaded = upload(*given)
        time.sleep(SLOW_SECONDS)
        return uploaded

    tasks.upload_shard = stored


def fails_twice(shard: int, attempt: int, call: int) -> None:
    if attempt < 2 and shard % 2 and call == 4:
        raise OSError(f"injected, attempt {attempt}")


def dies_once(shard: int, attempt: int, call: int) -> None:
    if attempt == 0 and shard % 2 and call == 4:
        os.kill(os.getpid(), signal.SIGKILL)


def well(shard: int, attempt: int, call: int) -> None:
    """As it should be."""


BEHAVIOURS: dict[str, Behaviour] = {
    SPECULATION: slow_on_one_host,
    SPECULATION_STORED: slow_once_stored,
    FAILURES: fails_twice,
    KILLED_TASKS: dies_once,
    CLEANUP_FAILS: dies_once,
    KILLED_DRIVER: well,
}


def refuse_deletes() -> None:
    from lakewright.shards.store import LocalStore

    def refused(self: LocalStore, path: str) -> None:
        raise PermissionError(f"{path} may not be deleted")

    LocalStore.delete = refused  # type: ignore[method-assign]


def kill_before_the_pointer() -> None:
    from lakewright.shards import publish

    def killed(*given: Any, **how: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    publish.point_to = killed  # type: ignore[assignment]


if __name__ == "__main__":
    main(*sys.argv[1:])
