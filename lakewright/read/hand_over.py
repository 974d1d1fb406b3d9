"""Rows that this process holds, given to Spark as Arrow's bytes."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakewright.read.spark_arrow import arrow_schema
from lakewright.session import settings_if_free

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

LEAST_PER_TASK = 10_000  # rows
# Rows that Spark holds as such go to its tasks one by one, which is slow for many; of more than a megabyte it is to send Arrow's bytes.
SETTINGS = {"spark.sql.execution.arrow.localRelationThreshold": "1MB"}
LONG_OFFSETS = "spark.sql.execution.arrow.useLargeVarTypes"


def to_spark(spark: SparkSession, batches: Iterator[pa.RecordBatch], schema: pa.Schema, columns: StructType, cores: int) -> DataFrame:
    """A DataFrame of one task for each core, but for few rows. Spark is asked for what is needed while the batches still come."""
    wanted = arrow_schema(columns)
    with settings_if_free(spark, SETTINGS):
        by_file = _takes_plain_files(spark)
        rows = pa.Table.from_batches(batches, schema).cast(wanted).combine_chunks()
        shares = rows.to_batches(max_chunksize=max(ceil(rows.num_rows / cores), LEAST_PER_TASK))
        return _by_file(spark, shares, columns) if shares and by_file else spark.createDataFrame(rows, columns)


def _takes_plain_files(spark: SparkSession) -> bool:
    """Not where Spark is told to encrypt what it writes, or takes texts with longer offsets than ours."""
    context: Any = spark._sc
    return not context._encryption_enabled and spark.conf.get(LONG_OFFSETS, "false") == "false"


def _by_file(spark: SparkSession, shares: list[pa.RecordBatch], columns: StructType) -> DataFrame:
    """What `createDataFrame` does with a table, without its forty calls to ask Spark for settings that do not matter here."""
    from pyspark.sql import DataFrame

    context: Any = spark._sc
    sparks_side = context._jvm.PythonSQLUtils
    with NamedTemporaryFile(dir=context._temp_dir) as file:
        with pa.ipc.new_stream(file, shares[0].schema) as stream:
            for share in shares:
                stream.write_batch(share)
        file.flush()
        held = sparks_side.readArrowStreamFromFile(file.name)
    frame = DataFrame(sparks_side.toDataFrame(held, columns.json(), spark._jsparkSession), spark)
    frame._schema = columns
    return frame
