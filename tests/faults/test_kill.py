"""kill -9 at each step of a write: the table is as before or as after, the same token commits once, and clean-up leaves nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakewright as lw
from lakewright.format.storage import list_files
from lakewright.maintain.orphans import _name, reachable
from tests.faults.killed import ROWS, TABLE, TOKEN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakewright.table import Table

KILLS = ("after-planning", "mid-task-native", "mid-task-arrow", "after-tasks", "before-publish", "before-swap", "inside-swap", "after-publish")
INTERRUPTS = ("interrupt-native", "interrupt-arrow")
SIGKILLED, INTERRUPTED = -9, 130
AT_ONCE = 2


def run_child(step: str, lake: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.faults.killed", step, str(lake)]
    return subprocess.run(command, capture_output=True, text=True, timeout=400, cwd=Path(__file__).parents[2])


@pytest.fixture(scope="module")
def children(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Path, Future[Any]]]]:
    """All writes that are cut short, two at a time, each on a table of its own with two rows in it."""
    places = {step: tmp_path_factory.mktemp(step) / "lake" for step in (*KILLS, *INTERRUPTS)}
    for place in places.values():
        lake = lw.connect(place, spark=spark)
        lake.create_table(TABLE, "id bigint, region string", partition_by=["region"], properties={"lakewright.run-lease-seconds": "1"})
        lake.table(TABLE).append(spark.createDataFrame([(-1, "r0"), (-2, None)], "id bigint, region string").coalesce(1))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {step: (place, pool.submit(run_child, step, place)) for step, place in places.items()}


def ids(table: Table) -> list[int]:
    return sorted(row.id for row in table.read().collect())


def strays(table: Table) -> list[str]:
    state = table.refresh()._state
    used = {_name(path) for path in reachable(state)}
    return [f.path for folder in ("data", "metadata") for f in list_files(state.io, f"{table.location}/{folder}") if _name(f.path) not in used]


@pytest.mark.feature("I22")
@pytest.mark.parametrize("step", KILLS)
def test_kill(children: dict[str, tuple[Path, Future[Any]]], spark: SparkSession, step: str) -> None:
    place, child = children[step]
    done = child.result()
    assert done.returncode == SIGKILLED, done.stderr[-3000:]
    before, after = [-2, -1], [-2, -1, *range(ROWS)]
    table = lw.connect(place, spark=spark).table(TABLE)

    assert ids(table) == (after if step == "after-publish" else before)
    if step != "after-planning":
        assert step == "after-publish" or strays(table)

    time.sleep(1.1)
    table.append(spark.range(ROWS).selectExpr("id", "concat('r', id % 2) AS region"), token=TOKEN)
    assert ids(table) == after
    assert sum(row.summary.get("lakewright.token") == TOKEN for row in table.history().collect()) == 1

    table.remove_orphans()
    assert strays(table) == [] and ids(table) == after
    states = [row.state for row in table.runs().sort("started_at").collect()]
    assert states == (["succeeded", "succeeded"] if step == "after-publish" else ["succeeded", "rolled back", "succeeded"])
    assert sorted(table.iceberg.scan().to_arrow()["id"].to_pylist()) == after


@pytest.mark.feature("I22")
@pytest.mark.parametrize("step", INTERRUPTS)
def test_interrupt_cancels_the_job_and_leaves_nothing(children: dict[str, tuple[Path, Future[Any]]], spark: SparkSession, step: str) -> None:
    place, child = children[step]
    done = child.result()
    assert done.returncode == INTERRUPTED, done.stderr[-3000:]
    assert "active jobs: []" in done.stdout
    table = lw.connect(place, spark=spark).table(TABLE)
    assert ids(table) == [-2, -1] and strays(table) == []
    assert [row.state for row in table.runs().sort("started_at").collect()] == ["succeeded", "failed"]
