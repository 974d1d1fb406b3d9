"""A contender without Spark: burns CPU in a child process that ends, and says what it is told to say."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from bench.job import Job, Params

BURN = "import time\nwhile time.process_time() < {}: pass"


class Burn(Job):
    def prepare(self, params: Params) -> None:
        self.params = params

    def run(self) -> dict[str, float]:
        print("a contender that prints does not disturb its answers")
        subprocess.run([sys.executable, "-c", BURN.format(self.params["seconds"])], check=True)
        return {"own_figure": 42.0}

    def outcome(self, full: bool) -> dict[str, Any]:
        return {"rows": self.params.get("rows", 10)}


class Fail(Burn):
    def run(self) -> dict[str, float]:
        raise RuntimeError("the disk is full")


JOBS: dict[str, type[Job]] = {"burn": Burn, "differ": type("Differ", (Burn,), {"outcome": lambda self, full: {"rows": 11}}), "fail": Fail}
