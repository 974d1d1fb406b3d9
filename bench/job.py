"""What a contender does in one case: prepare, run (the only timed step), say what came out, clean up."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Params = Mapping[str, Any]


class Job:
    """One contender in one case, for the life of its worker process. `scratch` is a folder of its own."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch

    def prepare(self, params: Params) -> None:
        """Everything a run needs that is not measured."""
        raise NotImplementedError

    def run(self) -> dict[str, float] | None:
        """The measured step; may return figures of its own beside wall time, CPU and memory."""
        raise NotImplementedError

    def outcome(self, full: bool) -> dict[str, Any]:
        """What the run left, for the check that all contenders did the same work; `full` asks for the costly facts too."""
        raise NotImplementedError

    def clean(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True, exist_ok=True)

    def close(self) -> None:
        """End what the job keeps running; the executors of a local cluster outlive a session that is not stopped."""
        if (spark := getattr(self, "spark", None)) is not None:
            spark.stop()
