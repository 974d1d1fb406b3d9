"""Plan a table of many files and open it in Spark, up to the physical plan; and what SQL adds to that."""

from __future__ import annotations

from bench.cases import Case, Entry, Scale
from bench.cases.facts import opened
from bench.contenders import LAKEWRIGHT, LAKEWRIGHT_SQL, PYICEBERG
from bench.many_files import built_table


def plan_and_open(scale: Scale) -> Case:
    params = {"catalog": built_table(scale.files)}
    job = "plan-and-open"
    return Case(job, f"plan and open {scale.files:,} files", (Entry(LAKEWRIGHT, job, params), Entry(PYICEBERG, job, params)), opened)


def sql_routing(scale: Scale) -> Case:
    params = {"catalog": built_table(scale.files)}
    return Case("sql-routing", f"a point query of {scale.files:,} files by SQL and by hand", (Entry(LAKEWRIGHT_SQL, "sql-routing", params),), opened)
