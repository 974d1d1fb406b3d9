"""Every case by name, in the order they run."""

from __future__ import annotations

from collections.abc import Callable

from bench.cases import Case, Scale
from bench.cases.append import append, append_by_month
from bench.cases.commit import commit_files, commit_history
from bench.cases.memory import memory_files, memory_rows
from bench.cases.plan import plan_and_open

CASES: dict[str, Callable[[Scale], Case]] = {
    "append": append,
    "append-by-month": append_by_month,
    "commit-files": commit_files,
    "commit-history": commit_history,
    "plan-and-open": plan_and_open,
    "memory-rows": memory_rows,
    "memory-files": memory_files,
}
