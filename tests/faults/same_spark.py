"""Drivers that are killed, without a JVM of their own to start: other Python processes on the Spark that the tests have running.

Only for kills between Spark's jobs, where nothing but the Python process is at work. Who kills tasks, or interrupts jobs, must have
started the JVM, since the others' jobs would go with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


def run_child(*args: str, spark: SparkSession | None = None) -> subprocess.CompletedProcess[str]:
    """`python` with these arguments; `session()` there is one of the Spark given, or of a new one."""
    parameters: Any = None if spark is None else spark.sparkContext._gateway.gateway_parameters  # type: ignore[union-attr]
    shared = {} if parameters is None else {"PYSPARK_GATEWAY_PORT": str(parameters.port), "PYSPARK_GATEWAY_SECRET": parameters.auth_token}
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, timeout=400, cwd=ROOT, env={**os.environ, **shared})


def session() -> SparkSession:
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        from lakewright.session import local_session

        return local_session("killed")
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway: Any = launch_gateway()
    context = gateway.jvm.JavaSparkContext(gateway.jvm.org.apache.spark.SparkContext.getOrCreate())
    return SparkSession(SparkContext(gateway=gateway, jsc=context, conf=SparkConf(_jconf=context.getConf()))).newSession()
