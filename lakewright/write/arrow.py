"""The `arrow` engine: Spark hands rows to Python tasks, which write them with Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from lakewright.format.data_file import DataFile
from lakewright.plan.distribution import distribute, needs_clustering, with_partition_columns
from lakewright.plan.write_plan import WritePlan
from lakewright.write.messages import TaskMessage, winners
from lakewright.write.task import write_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MESSAGE = "task int, attempt int, task_attempt_id bigint, data_file binary"


def write_arrow(plan: WritePlan, df: DataFrame) -> list[DataFile]:
    clustered = needs_clustering(plan)
    partitions: list[str] = []
    if clustered or plan.distribution != "none":
        df, partitions = with_partition_columns(plan, df)
    df = distribute(plan, df, partitions, clustered=clustered).drop(*partitions)
    rows = df.mapInArrow(_task(plan, clustered), MESSAGE).collect()
    messages = (TaskMessage(row.task, row.attempt, row.task_attempt_id, (DataFile.from_bytes(bytes(row.data_file)),)) for row in rows)
    return [file for message in winners(_joined(messages)) for file in message.files]


def _task(plan: WritePlan, clustered: bool) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        message = write_batches(plan, batches, context.partitionId(), context.attemptNumber(), context.taskAttemptId(), clustered=clustered)
        for file in message.files:
            yield _message_row(message, file)

    return write


def _message_row(message: TaskMessage, file: DataFile) -> pa.RecordBatch:
    columns = [
        pa.array([message.task], pa.int32()),
        pa.array([message.attempt], pa.int32()),
        pa.array([message.task_attempt_id], pa.int64()),
        pa.array([file.to_bytes()], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["task", "attempt", "task_attempt_id", "data_file"])


def _joined(messages: Iterator[TaskMessage]) -> list[TaskMessage]:
    """One message per attempt, of the one per file that came through Spark."""
    files: dict[tuple[int, int, int], list[DataFile]] = {}
    for message in messages:
        files.setdefault((message.task, message.attempt, message.task_attempt_id), []).extend(message.files)
    return [TaskMessage(*who, tuple(made)) for who, made in files.items()]
