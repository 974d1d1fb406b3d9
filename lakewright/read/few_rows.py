"""Few rows of many files, read by this process with Arrow and handed to Spark as they are.

Spark takes longer to plan a scan of twenty files and to begin its tasks than it takes Arrow to read a hundred thousand rows of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from lakewright.format.metadata import Metadata
from lakewright.format.storage import readers_for
from lakewright.plan.types import spark_struct
from lakewright.read.arrow_scan import DeletedRows, RowGroups, arrow_file, arrow_read, read_batches
from lakewright.read.native_deletes import equality_ids
from lakewright.read.newer_rows import newer_part, newer_rows, with_sequence
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
MOST_HELD = 256 * 1024 * 1024  # bytes of memory, which a text that a file has once may take for each of its rows


class _TooMuch(Exception):
    pass


@dataclass(frozen=True)
class _Part:
    """What is read of a file: all of it, or of some row groups the rows that are new enough."""

    file: FileScan
    groups: RowGroups | None
    size: _Size


def few_rows(spark: SparkSession, io: FileIO, metadata: Metadata, whole: Sequence[FileScan], mixed: Sequence[FileScan], schema: Schema, newer_than: int) -> DataFrame | None:
    """Live rows: of `whole` all, of `mixed` those changed after a sequence number. None where Spark had better read them: they are many,
    or deletes compare their values, or the session is elsewhere."""
    cores = cores_at_hand(spark)
    parts = [_Part(file, None, _Size(file.data_file.record_count, file.data_file.file_size_in_bytes)) for file in whole]
    if cores is None or len(whole) + len(mixed) > MOST_FILES or equality_ids((*whole, *mixed)) or not _are_few(parts):
        return None
    pool = readers_for(metadata.location)
    parts += pool.map(lambda file: _newer_part(io, file, newer_than), mixed)
    if not _are_few(parts):
        return None
    try:
        table = _read(pool, io, metadata, parts, schema, newer_than)
    except _TooMuch:
        return None
    return _to_spark(spark, table, schema, cores)


def _are_few(parts: Iterable[_Part]) -> bool:
    return sum((part.size for part in parts), _Size(0, 0)) <= MOST


def _newer_part(io: FileIO, file: FileScan, newer_than: int) -> _Part:
    groups = newer_part(io, file.data_file.file_path, newer_than)
    told = [groups.footer.row_group(group) for group in groups.numbers]
    size = sum(group.column(at).total_compressed_size for group in told for at in range(group.num_columns))
    return _Part(file, groups, _Size(sum(group.num_rows for group in told), size))


def _read(pool: Executor, io: FileIO, metadata: Metadata, parts: Sequence[_Part], schema: Schema, newer_than: int) -> pa.Table:
    files = [part.file for part in parts]
    read, asked = (arrow_read(metadata, files, columns, use_threads=len(files) == 1) for columns in (schema, with_sequence(schema)))
    deletes = DeletedRows(io, read)
    deletes.load(files)
    held: list[int] = []

    def read_part(part: _Part) -> list[pa.RecordBatch]:
        batches = []
        file = arrow_file(metadata, part.file, schema)
        for batch in read_batches(io, read, file, deletes) if part.groups is None else newer_rows(io, asked, file, newer_than, deletes, part.groups):
            held.append(batch.nbytes)
            if sum(held) > MOST_HELD:
                raise _TooMuch
            batches.append(batch if part.groups is None else batch.select(range(len(schema.fields))))
        return batches

    return pa.Table.from_batches([batch for batches in pool.map(read_part, parts) for batch in batches], read.output)


def _to_spark(spark: SparkSession, table: pa.Table, schema: Schema, cores: int) -> DataFrame:
    """One task for each core, but for few rows."""
    share = max(ceil(table.num_rows / cores), LEAST_PER_TASK)
    shares = pa.Table.from_batches(table.combine_chunks().to_batches(max_chunksize=share), table.schema)
    with settings_if_free(spark, SETTINGS):
        return spark.createDataFrame(shares, spark_struct(schema.as_struct(), nullable=True))
