"""The Spark session that every contender on Spark gets: same cores, memory, codec and timestamp type."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame, SparkSession

MONTH = "(year(l_shipdate) - 1970) * 12 + month(l_shipdate) - 1"


def session(settings: dict[str, str] | None = None) -> SparkSession:
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", os.environ.get("BENCH_DRIVER_MEMORY", "4g"))
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
    return spark


def source(spark: SparkSession, files: list[str]) -> DataFrame:
    return spark.read.parquet(*files)
