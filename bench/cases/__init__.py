"""The cases: who runs in each, with what, and what must come out the same for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.contenders import Contender

Outcome = dict[str, Any]


@dataclass(frozen=True)
class Scale:
    """How big a run is: rows of the lineitem table, files of the many-files table, single-file commits, files for the memory case."""

    rows: int = 10_000_000
    files: int = 5_000
    commits: int = 505
    memory_files: int = 50_000


@dataclass(frozen=True)
class Entry:
    """One contender in a case, under a label of its own when it comes in more than once. It joins every `every`-th round."""

    contender: Contender
    job: str
    params: dict[str, Any]
    warm_up: dict[str, Any] | None = None
    label: str = ""
    every: int = 1

    @property
    def name(self) -> str:
        return self.label or self.contender.name


@dataclass(frozen=True)
class Case:
    """`facts` turns what a job says of its outcome into the facts that must agree between contenders; `report` is kept beside them.

    With `fresh`, every run gets a new process: for peak memory, which only grows.
    """

    name: str
    title: str
    entries: tuple[Entry, ...]
    facts: Callable[[Outcome, bool], dict[str, Any]]
    rounds: int | None = None
    fresh: bool = False
    environment: dict[str, str] = field(default_factory=dict)
