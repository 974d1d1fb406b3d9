"""Settings on a Spark Connect session, in a process of its own since one process holds classic sessions or Connect ones."""

from __future__ import annotations

import subprocess
import sys

STORY = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
from lakewright.errors import ConfigurationError
from lakewright.session import PARTITION_OVERWRITE_MODE, active_or_local, partition_overwrite_mode, session_options, settings

spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert active_or_local().session_id == spark.session_id
spark.conf.set("spark.lakewright.engine", "arrow")
with settings(spark, {PARTITION_OVERWRITE_MODE: "dynamic", "spark.lakewright.engine": "native"}):
    assert partition_overwrite_mode(spark) == "dynamic"
    assert session_options(spark) == {"spark.lakewright.engine": "native"}
assert session_options(spark) == {"spark.lakewright.engine": "arrow"}
assert PARTITION_OVERWRITE_MODE not in spark.conf.getAll
try:
    with settings(spark, {PARTITION_OVERWRITE_MODE: "dynamic", "spark.driver.memory": "1g"}):
        raise AssertionError("a static setting was taken")
except ConfigurationError:
    assert PARTITION_OVERWRITE_MODE not in spark.conf.getAll
spark.stop()
print("done")
"""


def test_settings_on_a_connect_session() -> None:
    ran = subprocess.run([sys.executable, "-c", STORY], check=False, capture_output=True, text=True, timeout=180)
    assert ran.stdout.strip().endswith("done"), ran.stderr[-3000:]
