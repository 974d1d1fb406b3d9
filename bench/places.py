"""Where the benchmark keeps things: everything but the results lies under `.bench/`, which is not committed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".bench"
DATA = WORK / "data"
SCRATCH = WORK / "scratch"
LOADED = WORK / "loaded"
LOGS = WORK / "logs"
RESULTS = ROOT / "bench" / "results.json"

PEER_PYTHON = ROOT / ".venv-peer" / "bin" / "python"
KEYED_PYTHON = ROOT / ".venv-keyed" / "bin" / "python"
JARS = ROOT / ".jars"


@contextmanager
def made_whole(folder: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `folder` at the end: one that was begun and not finished is not taken for done."""
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    yield part
    part.rename(folder)
