"""The `native` engine: Spark's own Parquet writer makes the files; what it made is found by listing the folder it had to itself."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyiceberg.io import FileIO
from pyiceberg.transforms import Transform
from pyiceberg.types import DecimalType, IcebergType

from lakewright.format.data_file import DataFile
from lakewright.format.storage import delete_tree, list_files, local_path
from lakewright.format.transforms import check_digits
from lakewright.options import COMPRESSION, COMPRESSION_LEVEL, DICT_ENABLED, DICT_SIZE, FANOUT, MAX_OPEN_FILES, PAGE_SIZE, ROW_GROUP_SIZE, TARGET_FILE_SIZE
from lakewright.plan.distribution import PARTITION_PREFIX, distribute, needs_clustering, partition_fields, with_partition_columns
from lakewright.plan.partition_codes import decode, is_digest
from lakewright.plan.types import FIELD_ID, spark_type
from lakewright.plan.write_plan import WritePlan, most_rows
from lakewright.read.paths import spark_path
from lakewright.write.footers import Made, data_files
from lakewright.write.locations import file_location
from lakewright.write.row_size import estimated_row_size

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ARROW_ZSTD_LEVEL = 1  # parquet-java's own default is 3; so both engines write alike
OPEN_FILES, FEW = "spark.sql.maxConcurrentOutputFileWriters", 4
CALENDAR, PROLEPTIC_GREGORIAN = "spark.sql.parquet.datetimeRebaseModeInWrite", "CORRECTED"


def write_native(plan: WritePlan, df: DataFrame, io: FileIO) -> list[DataFile]:
    staging = f"{plan.data_prefix}/{uuid4().hex[:8]}"
    df, partitions = with_partition_columns(plan, with_field_ids(plan, df))
    df = distribute(plan, df, partitions, clustered=needs_clustering(plan) and not _few_per_task(plan))
    df.write.mode("append").options(**writer_options(plan)).partitionBy(*partitions).parquet(spark_path(df.sparkSession, staging))
    made = list(_made(plan, io, staging))
    files = data_files(plan, df.sparkSession, made)
    return _moved(plan, io, staging, files)


def native_settings(plan: WritePlan, spark: SparkSession) -> dict[str, str]:
    """Session settings the writer has no option for, where the session's own would not do."""
    wanted = {}
    if spark.conf.get(CALENDAR) != PROLEPTIC_GREGORIAN:
        wanted[CALENDAR] = PROLEPTIC_GREGORIAN
    if plan.options[FANOUT] and partition_fields(plan.spec):
        wanted[OPEN_FILES] = str(plan.options[MAX_OPEN_FILES])
    elif _few_per_task(plan):
        wanted[OPEN_FILES] = str(min(FEW, plan.options[MAX_OPEN_FILES]))
    return wanted


def _few_per_task(plan: WritePlan) -> bool:
    """Whether most tasks get rows of a handful of partitions, which cost less to keep open than to sort; Spark sorts what is left of a task with more."""
    return plan.distribution == "hash" and plan.sort_order.is_unsorted


def with_field_ids(plan: WritePlan, df: DataFrame) -> DataFrame:
    """The columns with the metadata from which Spark's Parquet writer takes field ids."""
    from pyspark.sql import functions as F

    columns = []
    for field in plan.schema.fields:
        column = F.col(f"`{field.name.replace('`', '``')}`")
        if not field.field_type.is_primitive:
            column = column.cast(spark_type(field.field_type, field_ids=True, nullable=True))
        columns.append(column.alias(field.name, metadata={FIELD_ID: field.field_id}))
    return df.select(*columns)


def _rows_per_file(plan: WritePlan) -> int:
    by_size = max(1, int(plan.options[TARGET_FILE_SIZE] / (plan.bytes_per_row or estimated_row_size(plan.schema))))
    return min(by_size, most_rows(plan.options) or by_size)


def writer_options(plan: WritePlan) -> dict[str, str]:
    """Options of this one write, so that the session's own settings stay as they are."""
    options, codec = plan.options, plan.options[COMPRESSION]
    chosen = {
        "compression": "lz4_raw" if codec == "lz4" else codec,
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.fieldId.write.enabled": "true",
        "spark.sql.parquet.writeLegacyFormat": "false",
        "mapreduce.fileoutputcommitter.algorithm.version": "1",
        "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "parquet.block.size": str(options[ROW_GROUP_SIZE]),
        "parquet.page.size": str(options[PAGE_SIZE]),
        "parquet.enable.dictionary": str(options[DICT_ENABLED]).lower(),
        "parquet.dictionary.page.size": str(options[DICT_SIZE]),
        "maxRecordsPerFile": str(_rows_per_file(plan)),
    }
    chosen |= bloom_options(plan)
    level = options[COMPRESSION_LEVEL]
    if codec == "zstd":
        chosen["parquet.compression.codec.zstd.level"] = str(ARROW_ZSTD_LEVEL if level is None else level)
    elif level is not None:
        chosen["zlib.compress.level"] = str(level)
    return chosen


def bloom_options(plan: WritePlan) -> dict[str, str]:
    """Filters of the size their values turn out to need, unless it was said how many there are: a file may have ten rows or a million."""
    chosen: dict[str, str] = {}
    for column, bloom in plan.blooms.items():
        chosen |= {"parquet.bloom.filter.max.bytes": str(bloom.max_bytes), f"parquet.bloom.filter.enabled#{column}": "true", f"parquet.bloom.filter.fpp#{column}": str(bloom.fpp)}
        chosen |= {f"parquet.bloom.filter.adaptive.enabled#{column}": "true"} if bloom.ndv is None else {f"parquet.bloom.filter.expected.ndv#{column}": str(bloom.ndv)}
    return chosen


def _made(plan: WritePlan, io: FileIO, staging: str) -> Iterator[Made]:
    """The files Spark left, with the partition values their folders stand for; a digest stands for a value still to be looked up."""
    kinds = {f"{PARTITION_PREFIX}{index}": (index, field) for index, field in partition_fields(plan.spec)}
    for file in list_files(io, staging):
        folder, name = posixpath.split(file.path[len(staging) :].lstrip("/"))
        if not name.startswith("part-"):
            continue
        partition: list[Any] = [None] * len(plan.spec.fields)
        unknown = []
        for segment in filter(None, folder.split("/")):
            column, _, code = segment.partition("=")
            index, field = kinds[column]
            if is_digest(code):
                unknown.append(index)
            else:
                partition[index] = _value(field.transform, plan.schema.find_type(field.source_id), code)
        yield Made(file.path, file.size, tuple(partition), tuple(unknown))


def _value(transform: Transform[Any, Any], source: IcebergType, code: str) -> Any:
    value = decode(transform.result_type(source), code)
    if isinstance(source, DecimalType) and isinstance(value, Decimal):
        check_digits(value, source.precision, transform)
    return value


def _moved(plan: WritePlan, io: FileIO, staging: str, files: list[DataFile]) -> list[DataFile]:
    """On local disk files go to the folders of their partitions by a rename; elsewhere, where that is a copy, they stay."""
    if local_path(staging) is None:
        return files
    moved = [_renamed(plan, file) for file in files]
    delete_tree(io, staging)
    return moved


def _renamed(plan: WritePlan, file: DataFile) -> DataFile:
    target = file_location(plan, file.partition, posixpath.basename(file.file_path))
    source_path, target_path = local_path(file.file_path), local_path(target)
    assert source_path is not None and target_path is not None
    os.makedirs(os.path.dirname(target_path), exist_ok=True)
    os.rename(source_path, target_path)
    return replace(file, file_path=target)
