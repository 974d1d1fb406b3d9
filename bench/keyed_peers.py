"""Hudi and Paimon: their Spark bundles and the environment with the PySpark release that both were built for, set up when missing."""

from __future__ import annotations

import subprocess

from bench.places import JARS, KEYED_PYTHON, ROOT

HUDI, PAIMON = "hudi-spark3.5-bundle_2.12-1.2.0", "paimon-spark-3.5-0.9.0"
HUDI_JAR, PAIMON_JAR = JARS / "keyed" / f"{HUDI}.jar", JARS / "keyed" / f"{PAIMON}.jar"


def ensure_keyed_peers() -> None:
    if not all(path.exists() for path in (HUDI_JAR, PAIMON_JAR, KEYED_PYTHON)):
        subprocess.run([str(ROOT / "scripts" / "setup_keyed_peers.sh")], check=True, cwd=ROOT)
