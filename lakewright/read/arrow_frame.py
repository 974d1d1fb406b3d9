"""A scan by Arrow as a DataFrame: each Python task opens its share of the files through PyIceberg's FileIO."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from math import ceil
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from lakewright.format.local_io import open_io
from lakewright.format.metadata import Metadata
from lakewright.plan.types import spark_struct
from lakewright.read.arrow_scan import ArrowFile, ArrowRead, DeletedRows, arrow_file, arrow_read, read_batches
from lakewright.read.layout import FILE, POSITION
from lakewright.read.scan import FileScan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BYTES_PER_TASK = 64 * 1024 * 1024
LEAST_TASKS = 8
ID, TASK = "id", "task"


def scan_arrow(spark: SparkSession, io: FileIO, metadata: Metadata, files: Sequence[FileScan], schema: Schema, *, with_position: bool = False) -> DataFrame:
    """The live rows of the files in the columns of the schema; with_position adds FILE (the manifest's name) and POSITION."""
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    read = arrow_read(metadata, files, schema, with_position=with_position)
    tasks_of_files = [[arrow_file(metadata, file, schema) for file in share] for share in shares(files)]
    blobs = [pickle.dumps((dict(io.properties), read, share)) for share in tasks_of_files]
    tasks = spark.createDataFrame(pa.table({ID: pa.array(range(len(blobs)), pa.int32()), TASK: pa.array(blobs, pa.binary())}))
    struct = spark_struct(schema.as_struct(), nullable=True)
    if with_position:
        struct = StructType([*struct.fields, StructField(FILE, StringType()), StructField(POSITION, LongType())])
    return tasks.repartitionById(len(blobs), ID).select(TASK).mapInArrow(_read_tasks, struct)


def _read_tasks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for blob in batch.column(0).to_pylist():
            properties, read, files = pickle.loads(blob)
            yield from read_share(properties, read, files)


def read_share(properties: dict[str, str], read: ArrowRead, files: list[ArrowFile]) -> Iterator[pa.RecordBatch]:
    io = open_io(properties, files[0].scan.data_file.file_path)
    deletes = DeletedRows(io, read)
    for file in files:
        yield from read_batches(io, read, file, deletes)


def shares(files: Sequence[FileScan]) -> list[list[FileScan]]:
    """Files in shares of like size, largest first to the lightest share."""
    total = sum(file.data_file.file_size_in_bytes for file in files)
    count = min(len(files), max(LEAST_TASKS, ceil(total / BYTES_PER_TASK)))
    filled: list[list[FileScan]] = [[] for _ in range(count)]
    weights = [(0, at) for at in range(count)]
    for file in sorted(files, key=lambda f: -f.data_file.file_size_in_bytes):
        weight, at = heappop(weights)
        filled[at].append(file)
        heappush(weights, (weight + file.data_file.file_size_in_bytes + 1, at))
    return filled
