"""Where the benchmark keeps things: everything but the results lies under `.bench/`, which is not committed."""

from __future__ import annotations

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
