"""What contenders that build shards have in common: how busy they kept the cores while they wrote."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Self

import psutil  # type: ignore[import-untyped]

from bench.process import cpu_seconds

STEP = 0.2


class Busy:
    """The share of all cores that this process and its children used, from the first file below a folder to the last look before the end."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._over = folder, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._looks: list[tuple[float, float]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def share(self) -> float:
        if len(self._looks) < 2:
            return 1.0
        (begin, cpu_before), (end, cpu_after) = self._looks[0], self._looks[-1]
        return (cpu_after - cpu_before) / (end - begin) / (os.cpu_count() or 1)

    def _look(self) -> None:
        me = psutil.Process()
        while not self._over.wait(STEP):
            if any(self._folder.rglob("*.sqlite")):
                self._looks.append((time.perf_counter(), cpu_seconds([me, *me.children(recursive=True)])))
