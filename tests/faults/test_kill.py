"""kill -9 at each step of a write: the table is as before or as after, the same token commits once, and clean-up leaves nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakewright as lw
from tests.faults.killed import DRIVER_STEPS, INTERRUPTS, ROWS, TABLE, TASK_STEPS, TOKEN
from tests.faults.same_spark import run_child
from tests.faults.strays import strays

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakewright.table import Table

SIGKILLED = -9
CHILDREN = (DRIVER_STEPS, (*INTERRUPTS, TASK_STEPS[0]), TASK_STEPS[1:])
AT_ONCE = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("killed")


@pytest.fixture(scope="module")
def children(spark: SparkSession, folder: Path) -> Iterator[dict[str, Future[Any]]]:
    """All writes that are cut short, each on a table of its own with two rows in it."""
    first = spark.createDataFrame([(-1, "r0"), (-2, None)], "id bigint, region string").coalesce(1)
    for step in (step for steps in CHILDREN for step in steps):
        lake = lw.connect(folder / step, spark=spark)
        lake.write(first, TABLE, partition_by=["region"], properties={"lakewright.run-lease-seconds": "1"})
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {step: child for steps in CHILDREN for child in [pool.submit(run_child, "-m", "tests.faults.killed", str(folder), *steps, spark=spark if steps == DRIVER_STEPS else None)] for step in steps}


def ids(table: Table) -> list[int]:
    return sorted(row.id for row in table.read().collect())


@pytest.mark.feature("I22", "H6")
@pytest.mark.parametrize("step", [*TASK_STEPS, *DRIVER_STEPS])
def test_kill(children: dict[str, Future[Any]], folder: Path, spark: SparkSession, step: str) -> None:
    done = children[step].result()
    if step in TASK_STEPS:
        assert done.returncode == SIGKILLED, done.stderr[-3000:]
    else:
        assert f"{step} {SIGKILLED}\n" in done.stdout, done.stderr[-3000:]
    before, after = [-2, -1], [-2, -1, *range(ROWS)]
    table = lw.connect(folder / step, spark=spark).table(TABLE)

    assert ids(table) == (after if step == "after-publish" else before)
    assert bool(strays(table)) == (step not in ("after-planning", "after-publish"))

    time.sleep(1.1)
    table.append(spark.range(ROWS).selectExpr("id", "concat('r', id % 2) AS region"), token=TOKEN)
    assert ids(table) == after
    assert sum(row.summary.get("lakewright.token") == TOKEN for row in table.history().collect()) == 1
    assert strays(table) == []  # the next writer rolled it back

    table.remove_orphans()
    assert strays(table) == [] and ids(table) == after
    states = [row.state for row in table.runs().sort("started_at").collect()]
    assert states == (["succeeded", "succeeded"] if step == "after-publish" else ["succeeded", "rolled back", "succeeded"])
    assert sorted(table.iceberg.scan().to_arrow()["id"].to_pylist()) == after


@pytest.mark.feature("I22")
@pytest.mark.parametrize("step", INTERRUPTS)
def test_interrupt_cancels_the_job_and_leaves_nothing(children: dict[str, Future[Any]], folder: Path, spark: SparkSession, step: str) -> None:
    done = children[step].result()
    assert f"{step} interrupted, active jobs: []" in done.stdout, done.stderr[-3000:]
    table = lw.connect(folder / step, spark=spark).table(TABLE)
    assert ids(table) == [-2, -1] and strays(table) == []
    assert [row.state for row in table.runs().sort("started_at").collect()] == ["succeeded", "failed"]
