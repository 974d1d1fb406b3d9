"""Few rows of many files, read by this process with Arrow and handed to Spark as they are.

Spark takes longer to plan a scan of twenty files and to begin its tasks than it takes Arrow to read a hundred thousand rows of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from lakewright.format.metadata import Metadata
from lakewright.format.storage import threads_for
from lakewright.plan.types import spark_struct
from lakewright.read.arrow_scan import DeletedRows, arrow_file, arrow_read
from lakewright.read.native_deletes import equality_ids
from lakewright.read.newer_rows import newer_groups, newer_rows, with_sequence
from lakewright.read.parquet import opened
from lakewright.read.scan import FileScan
from lakewright.session import cores_at_hand, settings_if_free

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_FILES = 1_000
LEAST_PER_TASK = 10_000  # rows
# Rows that Spark holds as such go to its tasks one by one, which is slow for many; of more than a megabyte it is to send Arrow's bytes, a batch to each task.
SETTINGS = {"spark.sql.execution.arrow.localRelationThreshold": "1MB", "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000"}


@dataclass(frozen=True)
class _Size:
    """Of what is read: its rows, and its bytes as they are in files."""

    rows: int
    bytes: int

    def __add__(self, other: _Size) -> _Size:
        return _Size(self.rows + other.rows, self.bytes + other.bytes)

    def __le__(self, other: _Size) -> bool:
        return self.rows <= other.rows and self.bytes <= other.bytes


MOST = _Size(1_000_000, 16 * 1024 * 1024)


def few_rows(spark: SparkSession, io: FileIO, metadata: Metadata, whole: Sequence[FileScan], mixed: Sequence[FileScan], schema: Schema, newer_than: int) -> DataFrame | None:
    """Live rows: of `whole` all, of `mixed` those changed after a sequence number. None where Spark had better read them: they are many,
    or deletes compare their values, or the session is elsewhere."""
    files, cores = [*whole, *mixed], cores_at_hand(spark)
    if cores is None or len(files) > MOST_FILES or equality_ids(files) or not _all(map(_size_of, whole)) <= MOST:
        return None
    with ThreadPoolExecutor(threads_for(metadata.location)) as pool:
        if not _all((*map(_size_of, whole), *pool.map(lambda file: _newer_size(io, file, newer_than), mixed))) <= MOST:
            return None
        read = arrow_read(metadata, files, with_sequence(schema))
        deletes = DeletedRows(io, read)
        deletes.load(files)
        found = pool.map(lambda file: list(newer_rows(io, read, arrow_file(metadata, file, read.schema), newer_than, deletes)), files)
        table = pa.Table.from_batches([batch for batches in found for batch in batches], read.output)
    return _to_spark(spark, table.select(range(len(schema.fields))), schema, cores)


def _all(sizes: Iterable[_Size]) -> _Size:
    return sum(sizes, _Size(0, 0))


def _size_of(file: FileScan) -> _Size:
    return _Size(file.data_file.record_count, file.data_file.file_size_in_bytes)


def _newer_size(io: FileIO, file: FileScan, newer_than: int) -> _Size:
    with opened(io, file.data_file.file_path) as parquet:
        groups = [parquet.metadata.row_group(group) for group in newer_groups(parquet, newer_than)]
    return _all(_Size(group.num_rows, sum(group.column(at).total_compressed_size for at in range(group.num_columns))) for group in groups)


def _to_spark(spark: SparkSession, table: pa.Table, schema: Schema, cores: int) -> DataFrame:
    """One task for each core, but for few rows."""
    share = max(ceil(table.num_rows / cores), LEAST_PER_TASK)
    shares = pa.Table.from_batches(table.combine_chunks().to_batches(max_chunksize=share), table.schema)
    with settings_if_free(spark, SETTINGS):
        return spark.createDataFrame(shares, spark_struct(schema.as_struct(), nullable=True))
