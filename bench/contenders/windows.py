"""What one commit costs early and late in a table's history."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import TypeVar

T = TypeVar("T")
WINDOW = 5


def per_commit(commit: Callable[[T], object], files: Sequence[T], early: int = 20, late: int = 500) -> dict[str, float]:
    """Wall and CPU seconds of the `early`-th and `late`-th commit, each the median of the commits within WINDOW of it."""
    wall, cpu = [], []
    for file in files:
        begin, begin_cpu = time.perf_counter(), time.process_time()
        commit(file)
        wall.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - begin_cpu)
    late = min(late, len(files) - WINDOW)
    return {
        f"{name}_{kind}": median(figures[nth - WINDOW - 1 : nth + WINDOW])
        for kind, figures in (("wall", wall), ("cpu", cpu))
        for name, nth in (("early", early), ("late", late))
    }
