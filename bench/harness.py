"""Runs a case: every contender in a process tree of its own, one after another within each round, in an order shuffled by round."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.cases import Case, Entry
from bench.places import SCRATCH
from bench.process import Worker

GIB = 1024**3
WARM_UP = -1
Say = Callable[[str], None]


class ResultsDiffer(Exception):
    pass


@dataclass
class CaseResult:
    """Figures by contender and round, and what the last run of each left behind."""

    name: str
    title: str
    figures: dict[str, dict[int, dict[str, float]]] = field(default_factory=dict)
    outcomes: dict[str, dict[str, Any]] = field(default_factory=dict)
    checked: dict[str, dict[str, Any]] = field(default_factory=dict)


def run_case(case: Case, rounds: int, say: Say) -> CaseResult:
    """Warm up once, then measure; raises ResultsDiffer when contenders given the same input did not do the same work."""
    result = CaseResult(case.name, case.title, {entry.name: {} for entry in case.entries})
    shutil.rmtree(SCRATCH, ignore_errors=True)
    rounds = min(rounds, case.rounds or rounds)
    with contextlib.ExitStack() as stack:
        workers = {} if case.fresh else {entry.name: _start(entry, case, stack) for entry in case.entries}
        if not case.fresh:
            _run_round(case, WARM_UP, True, workers, result, say)
        for number in range(rounds):
            _run_round(case, number, number == rounds - 1, workers, result, say)
    return result


def _run_round(case: Case, number: int, full: bool, workers: dict[str, Worker], result: CaseResult, say: Say) -> None:
    entries = [entry for entry in case.entries if number == WARM_UP or number % entry.every == 0]
    random.Random(number).shuffle(entries)
    agreed: dict[str, tuple[str, dict[str, Any]]] = {}
    for entry in entries:
        with contextlib.ExitStack() as stack:
            worker = workers.get(entry.name) or _start(entry, case, stack)
            params = (entry.warm_up or entry.params) if number == WARM_UP else entry.params
            figures, outcome = _run_once(worker, params, full)
            facts = case.facts(outcome, full)
            worker.ask("clean")
        first, expected = agreed.setdefault(repr(params), (entry.name, facts))
        if facts != expected:
            raise ResultsDiffer(f"Case {case.name}, round {number}: {entry.name} gave {facts}, {first} gave {expected}.")
        if number != WARM_UP:
            result.figures[entry.name][number] = figures
            result.outcomes[entry.name] = {key: value for key, value in outcome.items() if isinstance(value, int)}
            result.checked[entry.name] = facts
        say(f"  {'warm-up' if number == WARM_UP else f'round {number + 1}':8} {entry.name:22} {figures['wall']:8.2f} s wall {figures['cpu']:8.2f} s CPU")


def _start(entry: Entry, case: Case, stack: contextlib.ExitStack) -> Worker:
    worker = Worker(entry.name, entry.contender.python, entry.contender.module, entry.job, case.environment)
    stack.callback(worker.quit)
    return worker


def _run_once(worker: Worker, params: dict[str, Any], full: bool) -> tuple[dict[str, float], dict[str, Any]]:
    worker.ask("prepare", params=params)
    # What an earlier run left in the page cache is written back now, not during this run.
    os.sync()
    worker.reset_peaks()
    before, cpu = worker.peaks(), worker.cpu_seconds()
    figures = worker.ask("run")
    figures["cpu"] = worker.cpu_seconds() - cpu
    after = worker.peaks()
    figures |= {"driver_peak": after.driver, "jvm_peak": after.jvm, "workers_peak": after.workers}
    figures |= {"driver_and_jvm_peak": after.driver + after.jvm, "driver_and_jvm_growth_gib": (after.driver + after.jvm - before.driver - before.jvm) / GIB}
    return figures, worker.ask("outcome", full=full)
