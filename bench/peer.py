"""The Iceberg Spark runtime: its jar and the environment with the PySpark release it was built for, set up when missing."""

from __future__ import annotations

import subprocess

from bench.places import JARS, PEER_PYTHON, ROOT

RUNTIME = "iceberg-spark-runtime-4.1_2.13-1.12.0"
RUNTIME_JAR = JARS / "peer" / f"{RUNTIME}.jar"


def ensure_peer() -> None:
    if not RUNTIME_JAR.exists() or not PEER_PYTHON.exists():
        subprocess.run([str(ROOT / "scripts" / "setup_peer.sh")], check=True, cwd=ROOT)


def peer_pyspark() -> str:
    """The release in the peer's environment; a run without that peer has none."""
    if not PEER_PYTHON.exists():
        return "none"
    told = subprocess.run([str(PEER_PYTHON), "-c", "import pyspark; print(pyspark.__version__)"], capture_output=True, text=True, check=True)
    return told.stdout.strip()
