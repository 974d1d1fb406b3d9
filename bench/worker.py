"""The process of one contender: takes commands as JSON lines on standard input and answers on what was standard output.

Prints of the contender and its children go to standard error, so nothing but answers reaches the harness.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from bench.job import Job


def serve(module: str, job_name: str, scratch: str) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    jobs: dict[str, type[Job]] = importlib.import_module(module).JOBS
    job: Job | None = None
    for line in sys.stdin:
        command = json.loads(line)
        try:
            if job is None:
                job = jobs[job_name](Path(scratch))
            answer = obey(job, command)
        except Exception:
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        if command["do"] == "quit":
            return


def obey(job: Job, command: dict[str, Any]) -> dict[str, Any]:
    match command["do"]:
        case "prepare":
            job.prepare(command["params"])
            gc.collect()
            return {}
        case "run":
            begin = time.perf_counter()
            figures = job.run()
            return {"wall": time.perf_counter() - begin, **(figures or {})}
        case "outcome":
            return job.outcome(command["full"])
        case "clean":
            job.clean()
            return {}
        case "quit":
            job.close()
            return {}
    raise ValueError(f"Unknown command {command['do']!r}")


if __name__ == "__main__":
    serve(*sys.argv[1:])
