"""Upserts that the driver writes itself, and that fail or are killed between two files: the table is as before, nothing is left, and a second try counts once."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakewright as lw
from lakewright.errors import CorruptFile, LakewrightError, PermissionRefused, StorageFull, WriteFailed
from lakewright.write import delta_here
from tests.faults.same_spark import run_child

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakewright.table import Table

MODES = pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
SIGKILLED, LEASE = -9, 1
CHILD = """
import os, signal, sys
import lakewright as lw
from lakewright.write import delta_here
from tests.faults.same_spark import session

def killed(messages):
    os.kill(os.getpid(), signal.SIGKILL)

delta_here.joined = killed
lake = lw.connect(sys.argv[1], spark=session(), progress="off")
lake.table("killed.t").upsert(lake.spark.sql("select 1L as id, 'eu' as region, 7 as v union all select 9L, 'us', 9"), token="batch-7")
"""


def made(folder: Path, spark: SparkSession, mode: str) -> Table:
    lake = lw.connect(folder, spark=spark, progress="off")
    table = lake.create_table("killed.t", "id bigint, region string, v int", key=["id"], partition_by=["region"], properties={"write.merge.mode": mode, "lakewright.run-lease-seconds": str(LEASE)})
    table.upsert(spark.sql("select id, if(id % 2 = 0, 'us', 'eu') as region, 1 as v from range(6)"))
    return table


def data_files(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if path.suffix in (".parquet", ".puffin")}


def rows(table: Table) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, table.read().collect()))


@MODES
@pytest.mark.parametrize(
    ("met", "told"),
    [
        (lambda: OSError(28, "No space left on device"), StorageFull),
        (lambda: PermissionError(13, "Permission denied"), PermissionRefused),
        (lambda: CorruptFile("Data file x cannot be read"), CorruptFile),
        (lambda: ZeroDivisionError(), WriteFailed),
    ],
    ids=["full", "refused", "corrupt", "any other"],
)
def test_a_task_that_fails_leaves_nothing(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, mode: str, met: Callable[[], Exception], told: type[LakewrightError]) -> None:
    table = made(tmp_path, spark, mode)
    before, files, real = rows(table), data_files(tmp_path), delta_here._done

    def failing(plan: Any, task: int, delta: Any) -> Any:
        done = real(plan, task, delta)
        if task == 1:
            raise met()
        return done

    monkeypatch.setattr(delta_here, "ROWS_PER_TASK", 1)
    batch = spark.sql("select id, if(id % 2 = 0, 'us', 'eu') as region, 2 as v from range(3, 9)")
    with monkeypatch.context() as patched:
        patched.setattr(delta_here, "_done", failing)
        with pytest.raises(told):
            table.upsert(batch, token="second")
    assert rows(table.refresh()) == before and data_files(tmp_path) == files
    table.upsert(batch, token="second")
    table.upsert(batch, token="second")
    assert rows(table) == [(i, "us" if i % 2 == 0 else "eu", 2 if i >= 3 else 1) for i in range(9)]


@MODES
def test_a_driver_that_is_killed_before_its_commit_is_rolled_back_by_the_next_writer(tmp_path: Path, spark: SparkSession, mode: str) -> None:
    table = made(tmp_path, spark, mode)
    before, files = rows(table), data_files(tmp_path)
    ended = run_child("-c", CHILD, str(tmp_path), spark=spark)
    assert ended.returncode == SIGKILLED, ended.stderr
    strays = data_files(tmp_path) - files
    assert strays and rows(table.refresh()) == before
    batch = spark.sql("select 1L as id, 'eu' as region, 7 as v union all select 9L, 'us', 9")
    time.sleep(2 * LEASE)
    for _ in range(2):
        table.upsert(batch, token="batch-7")
    assert {i: v for i, _, v in rows(table)} == {**dict.fromkeys(range(6), 1), 1: 7, 9: 9}
    assert not strays & data_files(tmp_path)
