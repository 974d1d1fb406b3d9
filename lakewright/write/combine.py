"""Combining data files: bins of them to tasks, each bin to new files. Compaction uses it, and writes that fold small files into their own."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

import pyarrow as pa

from lakewright.format.data_file import DataFile
from lakewright.plan.combine import Bin
from lakewright.plan.delta import DeltaPlan
from lakewright.session import cores_of
from lakewright.write.combine_task import CombineMessage, combine_bins
from lakewright.write.delta_write import BYTES_PER_TASK, TASKS_PER_CORE, balanced, float_fields, without_most_metrics
from lakewright.write.engine import writing
from lakewright.write.messages import winners

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBER, TASK = "_lw_bin", "_lw_task"
MESSAGE = "message binary"
HERE_BYTES, HERE_FILES = 16 * 1024 * 1024, 64  # what is done sooner than Spark would begin with it


@dataclass(frozen=True)
class Combined:
    """files: those each bin became, in the order of bins; copied: rows whose bytes were copied and not decoded."""

    files: tuple[tuple[DataFile, ...], ...]
    copied: int


def combine(spark: SparkSession, plan: DeltaPlan, bins: Sequence[Bin]) -> Combined:
    """Write the rows of each bin anew, without deleted ones. If that fails nothing is left, and a typed error says why.

    The files are in no snapshot yet. Whoever commits them removes those of `bin.scans` in the same commit, and must find that
    nobody deleted rows of these meanwhile; files that were not committed are simply not added, and can be deleted.
    """
    if not bins:
        return Combined((), 0)
    own = replace(plan, write=replace(plan.write, data_prefix=f"{plan.write.data_prefix}/combined-{secrets.token_hex(4)}"))
    floats = float_fields(own.write.schema)
    slim = [Bin(tuple(without_most_metrics(target, floats) for target in bin_.files)) for bin_ in bins]
    with writing(own.write, spark, {}):
        is_little = sum(bin_.size for bin_ in bins) <= HERE_BYTES and sum(len(bin_.files) for bin_ in bins) <= HERE_FILES
        messages = [combine_bins(own, slim, range(len(bins)), 0, 0, 0)] if is_little else _distributed(spark, own, slim)
    made = {number: files for message in messages for number, files in message.made.items()}
    return Combined(tuple(made[number] for number in range(len(bins))), sum(message.copied for message in messages))


def _distributed(spark: SparkSession, plan: DeltaPlan, bins: Sequence[Bin]) -> list[CombineMessage]:
    sizes = [float(bin_.size) for bin_ in bins]
    count = min(len(bins), max(cores_of(spark) * TASKS_PER_CORE, ceil(sum(sizes) / BYTES_PER_TASK)))
    tasks = balanced(sizes, count)
    rows = pa.table({NUMBER: pa.array(range(len(bins)), pa.int32()), TASK: pa.array(tasks, pa.int32())})

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        message = combine_bins(plan, bins, numbers, context.partitionId(), context.attemptNumber(), context.taskAttemptId())
        yield pa.RecordBatch.from_arrays([pa.array([message.to_bytes()], pa.binary())], names=["message"])

    placed = spark.createDataFrame(rows).repartitionById(count, TASK).select(NUMBER)
    return winners(CombineMessage.from_bytes(bytes(row.message)) for row in placed.mapInArrow(run, MESSAGE).collect())
