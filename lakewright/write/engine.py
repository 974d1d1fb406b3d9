"""The write step: which engine, the Spark job, and what happens to its files when it fails."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlparse

from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, IcebergType, ListType, MapType, StructType, TimeType, UUIDType

from lakewright.errors import CorruptFile, LakewrightError, PermissionRefused, StorageFull, UnsupportedOperation, WriteFailed
from lakewright.format.data_file import DataFile
from lakewright.format.local_io import open_io
from lakewright.options import COMPRESSION, ENGINE, Options
from lakewright.plan.distribution import distribution_settings
from lakewright.plan.schema import translate_task_error
from lakewright.plan.write_plan import WritePlan
from lakewright.session import settings
from lakewright.write.arrow import write_arrow
from lakewright.write.cancel import cancellable
from lakewright.write.leftovers import delete_until_quiet
from lakewright.write.native import native_settings, write_native

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NATIVE, ARROW = "native", "arrow"
CHEAP_RENAME = ("", "file", "hdfs", "viewfs")
FULL = ("No space left on device", "Disk quota exceeded", "QuotaExceeded")
REFUSED = (
    "Permission denied",
    "Read-only file system",
    "AccessDenied",
    "ACCESS_DENIED",
    "AccessControlException",
    "Mkdirs failed to create",
    "Operation not permitted",
)
UNREADABLE = re.compile(r"FAILED_READ_FILE\S* .*?reading file (\S+?)\.?(?:\s|$)")


def choose_engine(schema: Schema, options: Options, location: str, spark: SparkSession) -> str:
    """Spark's own writer where it can write the schema right and the store renames cheaply; Arrow otherwise, or what was asked for."""
    obstacle = native_obstacle(schema, options)
    asked = options[ENGINE]
    if asked == NATIVE and obstacle:
        raise UnsupportedOperation(f"The native engine cannot write this table: {obstacle}. Leave lakewright.engine at auto, or set it to arrow.")
    if asked != "auto":
        return str(asked)
    return NATIVE if obstacle is None and urlparse(location).scheme in CHEAP_RENAME else ARROW


def native_obstacle(schema: Schema, options: Options) -> str | None:
    """Why Spark's Parquet writer would not make right files; None if it would."""
    if options[COMPRESSION] == "brotli":
        return "Spark comes without the brotli codec"
    for field in schema.fields:
        reason = _obstacle(field.field_type)
        if reason:
            return f"column {field.name!r} {reason}"
    return None


def _obstacle(kind: IcebergType) -> str | None:
    match kind:
        case ListType() | MapType():
            return "holds a list or map, whose elements Spark's Parquet writer gives no field ids"
        case FixedType() | UUIDType() | TimeType():
            return f"holds {kind}, which Spark's Parquet writer has no type for"
        case StructType():
            return next((reason for field in kind.fields if (reason := _obstacle(field.field_type))), None)
    return None


def write_files(plan: WritePlan, df: DataFrame) -> list[DataFile]:
    """Write the rows as data files under the plan's prefix. If that fails nothing is left there, and a typed error says why."""
    wanted = distribution_settings(plan, df.sparkSession) | (native_settings(plan, df.sparkSession) if plan.engine == NATIVE else {})
    with writing(plan, df.sparkSession, wanted) as io:
        return write_native(plan, df, io) if plan.engine == NATIVE else write_arrow(plan, df)


@contextmanager
def writing(plan: WritePlan, spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[FileIO]:
    """A block whose jobs write below the plan's prefix, under these session settings; what write_files says of failures holds for it."""
    io = open_io(plan.io_properties, plan.data_prefix)
    try:
        with settings(spark, wanted), cancellable(spark, f"lakewright-{plan.run_id}"):
            yield io
    except Exception as error:
        delete_until_quiet(io, plan.data_prefix, spark)
        raise _typed(error, plan.table) from error
    except BaseException:
        delete_until_quiet(io, plan.data_prefix, spark)
        raise


@contextmanager
def running(spark: SparkSession, tag: str, table: str) -> Iterator[None]:
    """A block whose jobs read for a write: an interrupt stops them, and a failure is told as one of the write."""
    from pyspark.errors import PySparkException

    try:
        with cancellable(spark, tag):
            yield
    except PySparkException as error:
        raise _typed(error, table) from error


def _typed(error: Exception, table: str) -> LakewrightError:
    if isinstance(error, LakewrightError):
        return error
    told = translate_task_error(error, table)
    if told is not None:
        return told
    text = "\n".join(_texts(error))
    line = _telling_line(text) or type(error).__name__
    unreadable = UNREADABLE.search(text)
    if unreadable:
        return CorruptFile(f"Writing {table} had to read {unreadable.group(1)}, which is missing or damaged: {line}. The table is as before.", table=table)
    if any(sign in text for sign in FULL):
        return StorageFull(f"There is no space left to write {table}: {line}. The files written so far were deleted and the table is as before.", table=table)
    if any(sign in text for sign in REFUSED):
        return PermissionRefused(f"The place where {table} keeps its data refuses to be written: {line}. The table is as before.", table=table)
    return WriteFailed(f"Writing {table} failed: {line}. The files written so far were deleted and the table is as before.", table=table)


def _telling_line(text: str) -> str:
    """The first line of a message; of a Python worker's, which begins with its traceback, the line that ends it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    end = next((n for n, line in enumerate(lines) if line.startswith("SQLSTATE")), len(lines))
    return (lines[end - 1] if "Python worker" in lines[0] else lines[0]) if lines else ""


def _texts(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        yield str(error)
        error = error.__cause__
