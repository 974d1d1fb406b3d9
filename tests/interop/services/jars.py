"""Jars that `make interop` downloaded (scripts/jars.txt), by set."""

from __future__ import annotations

from pathlib import Path

from tests.interop.services.process import ServiceFailed

ROOT = Path(__file__).resolve().parents[3]
PEER_PYTHON = ROOT / ".venv-peer" / "bin" / "python"


def jar_set(name: str) -> list[Path]:
    jars = sorted((ROOT / ".jars" / name).glob("*.jar"))
    if not jars:
        raise ServiceFailed(f".jars/{name} is empty; run the suite with `make interop`, which downloads it.")
    return jars


def hadoop_client() -> list[Path]:
    """Hadoop's file systems and log4j, which Iceberg's own modules leave to their host, from the peer's PySpark."""
    jars = next((ROOT / ".venv-peer" / "lib").glob("python3.*/site-packages/pyspark/jars"))
    wanted = ("hadoop-client-*.jar", "log4j-*.jar", "commons-logging-*.jar")
    return sorted(jar for pattern in wanted for jar in jars.glob(pattern))
