"""What one task does with its rows. No Spark here: the Arrow engine and the Data Source entry both call it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import pyarrow as pa

from lakewright.format.local_io import open_io
from lakewright.format.metrics import MetricsConfig
from lakewright.format.storage import delete_file
from lakewright.options import MAX_OPEN_FILES
from lakewright.plan.write_plan import WritePlan
from lakewright.write.arrow_rows import file_schema, to_file_schema
from lakewright.write.fanout import FanoutWriter
from lakewright.write.locations import file_location
from lakewright.write.messages import TaskMessage
from lakewright.write.rolling import TaskFiles


def write_batches(plan: WritePlan, batches: Iterator[pa.RecordBatch], task: int, attempt: int, task_attempt_id: int, *, clustered: bool = False) -> TaskMessage:
    """Write batches of the table's columns, in its order, as data files; if that fails, delete them and raise.

    Rows may come in any order; `clustered` says that rows of one partition follow one another, so that one open file will do.
    """
    numbers = count()

    def next_location(partition: tuple[Any, ...]) -> str:
        return file_location(plan, partition, f"{task:05d}-{attempt}-{task_attempt_id}-{next(numbers):05d}.parquet")

    io = open_io(plan.io_properties, plan.data_prefix)
    schema = file_schema(plan.schema)
    metrics = MetricsConfig.from_options(plan.options, plan.schema, plan.sort_order)
    files = TaskFiles(plan, io, schema, metrics, next_location)
    writer = FanoutWriter(files, most_open=1 if clustered else plan.options[MAX_OPEN_FILES])
    try:
        for batch in batches:
            writer.write(to_file_schema(batch, schema, plan.schema, plan.table))
        writer.close()
    except BaseException:
        with suppress(Exception):
            writer.abandon()
        for location in files.locations:
            with suppress(Exception):
                delete_file(io, location)
        raise
    return TaskMessage(task, attempt, task_attempt_id, tuple(files.written))
