"""The Spark session that every contender on Spark gets: same cores, memory, codec and timestamp type."""

from __future__ import annotations

import atexit
import os
import shutil
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession

# What `lw.connect` sets for a session of its own, beyond what all contenders get.
LAKEWRIGHT = {"spark.python.daemon.module": "lakewright.write.worker_daemon"}
MONTH = "(year(l_shipdate) - 1970) * 12 + month(l_shipdate) - 1"


def session(settings: dict[str, str] | None = None) -> SparkSession:
    builder = (
        SparkSession.builder.master(os.environ.get("BENCH_MASTER", "local[2]"))
        .config("spark.driver.memory", os.environ.get("BENCH_DRIVER_MEMORY", "4g"))
        .config("spark.executor.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.compression.codec", "zstd")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    )
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    # Where the executors of a local cluster log, whatever they are told.
    atexit.register(shutil.rmtree, Path(pyspark.__file__).parent / "work", ignore_errors=True)
    return spark


def source(spark: SparkSession, files: list[str]) -> DataFrame:
    return spark.read.parquet(*files)
