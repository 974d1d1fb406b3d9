"""What `lake.sql` adds to a query: the same query by hand, with the same read, right beside it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from bench.contenders.lakewright import PlanAndOpen
from bench.job import Job, Params
from bench.many_files import TABLE

CONDITION = "id = 42"
PAIRS = 21


class SqlRouting(PlanAndOpen):
    def prepare(self, params: Params) -> None:
        super().prepare(params)
        self.lake = self.table._lake
        for _ in range(3):
            self.by_sql(), self.by_hand()

    def by_sql(self) -> Any:
        return self.lake.sql(f"SELECT n0, count(*) AS n FROM {TABLE} WHERE {CONDITION} GROUP BY n0")

    def by_hand(self) -> Any:
        self.lake.table(TABLE).read(CONDITION).createOrReplaceTempView("by_hand")
        return self.spark.sql(f"SELECT n0, count(*) AS n FROM by_hand WHERE {CONDITION} GROUP BY n0")

    def run(self) -> dict[str, float]:
        """Medians of pairs: for a query of a lake table, and for one that is Spark's alone."""
        self.rows = self.by_sql()
        lake = _added(self.by_sql, self.by_hand)
        other = _added(lambda: self.lake.sql("SELECT id FROM range(10) WHERE id > 3"), lambda: self.spark.sql("SELECT id FROM range(10) WHERE id > 3"))
        return {"routing_ms": lake, "routing_other_ms": other}

    def outcome(self, full: bool) -> dict[str, Any]:
        return {"files_opened": len(self.rows.inputFiles())}


def _added(one: Callable[[], Any], other: Callable[[], Any]) -> float:
    return 1000 * statistics.median(_seconds(one) - _seconds(other) for _ in range(PAIRS))


def _seconds(run: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


JOBS: dict[str, type[Job]] = {"sql-routing": SqlRouting}
