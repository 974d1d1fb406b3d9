"""A contender's process tree (Python driver, JVM, Python workers): talk to it, and read what it used."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from bench.places import LOGS, ROOT, SCRATCH


class ContenderFailed(Exception):
    pass


@dataclass(frozen=True)
class Peaks:
    """Peak resident bytes since they were last reset: the Python driver, its JVM, and everything that works for them."""

    driver: int
    jvm: int
    workers: int


class Worker:
    """One contender's worker process, started for one case and kept over its rounds."""

    def __init__(self, name: str, python: Path, module: str, job: str, environment: dict[str, str]) -> None:
        self.name = name
        scratch = SCRATCH / name
        scratch.mkdir(parents=True, exist_ok=True)
        LOGS.mkdir(parents=True, exist_ok=True)
        self.log = LOGS / f"{name}.log"
        self._process = subprocess.Popen(
            [str(python), "-m", "bench.worker", module, job, str(scratch)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log.open("w"), text=True, cwd=ROOT,
            env={**os.environ, "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(SCRATCH / "spark"), **environment},
        )

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": f"the process ended; see {self.log}"}
        if "error" in answer:
            raise ContenderFailed(f"{self.name} failed at {do}: {answer['error']}")
        return answer

    def tree(self) -> list[psutil.Process]:
        root = psutil.Process(self._process.pid)
        return [root, *root.children(recursive=True)]

    def cpu_seconds(self) -> float:
        """User and system time of every process of the tree, of those that have ended too."""
        return cpu_seconds(self.tree())

    def reset_peaks(self) -> None:
        for process in self.tree():
            try:
                Path(f"/proc/{process.pid}/clear_refs").write_text("5")
            except OSError:
                continue

    def peaks(self) -> Peaks:
        found = {"driver": 0, "jvm": 0, "workers": 0}
        for process in self.tree():
            try:
                found[self._kind(process)] += _high_water_mark(process.pid)
            except (OSError, psutil.NoSuchProcess):
                continue
        return Peaks(**found)

    def _kind(self, process: psutil.Process) -> str:
        """The driver's own JVM is its child; a JVM further down is an executor of a local cluster."""
        if process.pid == self._process.pid:
            return "driver"
        return "jvm" if process.name() == "java" and process.ppid() == self._process.pid else "workers"

    def quit(self) -> None:
        tree = self.tree() if self._process.poll() is None else []
        try:
            self.ask("quit")
            self._process.wait(60)
        except (ContenderFailed, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        _, alive = psutil.wait_procs(tree, timeout=15)
        for process in alive:
            process.kill()


def _high_water_mark(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def cpu_seconds(processes: Iterable[psutil.Process]) -> float:
    """Their user and system time, and that of their children that have ended."""
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
