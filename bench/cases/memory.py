"""Peak memory of the driver: appends of few and of many rows, and many data files committed and planned."""

from __future__ import annotations

from bench.cases import Case, Entry, Scale
from bench.cases.facts import opened, written_rows
from bench.contenders import LAKEWRIGHT
from bench.data import lineitem

ROUNDS = 3
SMALL, LARGE = "rows-small", "rows-large"


def memory_rows(scale: Scale) -> Case:
    """On a local cluster, whose executor is a process of its own: the driver's JVM then holds what a driver holds, and no rows being written."""
    small, large = lineitem(scale.rows // 10), lineitem(scale.rows) * 2
    return Case(
        "memory-rows",
        f"peak memory, append {scale.rows // 10:,} and {scale.rows * 2:,} rows",
        (Entry(LAKEWRIGHT, "append", {"files": small}, label=SMALL), Entry(LAKEWRIGHT, "append", {"files": large}, label=LARGE)),
        written_rows,
        rounds=ROUNDS,
        fresh=True,
        environment={"BENCH_MASTER": "local-cluster[1,2,2048]", "BENCH_DRIVER_MEMORY": "1g"},
    )


def memory_files(scale: Scale) -> Case:
    params = {"count": scale.memory_files}
    return Case(
        "memory-files",
        f"peak memory, commit and plan {scale.memory_files:,} files",
        (Entry(LAKEWRIGHT, "commit-and-plan", params),),
        opened,
        rounds=ROUNDS,
        fresh=True,
        environment={"BENCH_DRIVER_MEMORY": "2g"},
    )
