"""Materialising a delta: its rows go to the tasks that have their files, and each task writes what they say."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from math import ceil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType

from lakewright.options import DELETE_GRANULARITY
from lakewright.plan.delta import COPY_ON_WRITE, DELTA_COLUMNS, FILE, MERGE_ON_READ, POSITION, DeltaPlan, TargetFile, value_column
from lakewright.plan.distribution import partition_fields, with_partition_columns
from lakewright.read.prune import partition_key
from lakewright.read.scan import without_metrics
from lakewright.session import cores_of
from lakewright.write.delta_messages import DeltaMessage, Materialised, joined
from lakewright.write.delta_task import copy_parts, materialise_batches
from lakewright.write.engine import writing
from lakewright.write.messages import winners

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["Materialised", "materialise"]

TASK = "_lw_task"
MESSAGE = "message binary"
BYTES_PER_TASK = 128 * 1024 * 1024
# A task that only marks rows has little to do for each file, and leaves one file of new rows: few tasks, few files.
BYTES_PER_MARKING_TASK = 512 * 1024 * 1024
TASKS_PER_CORE = 4
SETTINGS = {"spark.sql.execution.arrow.maxRecordsPerBatch": "65536"}

Task = Callable[[Iterator[pa.RecordBatch], int, int, int], DeltaMessage]


def materialise(plan: DeltaPlan, delta: DataFrame) -> Materialised:
    """Run the delta, whose value columns are of the table's Spark types. If that fails nothing is left, and a typed error says why."""
    spark = delta.sparkSession
    floats = float_fields(plan.write.schema)
    slim = replace(plan, files=tuple(without_most_metrics(target, floats) for target in plan.files))
    with writing(plan.write, spark, SETTINGS):
        messages = _run(_distributed(plan, delta), lambda batches, *who: materialise_batches(slim, batches, *who))
        parts = _parts_left(plan, messages)
        if parts:
            messages += _run(_placed(spark, parts), lambda batches, *who: copy_parts(slim, _numbers(batches), *who))
    return joined(messages)


def _run(rows: DataFrame, task: Task) -> list[DeltaMessage]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        began = time.time()
        context = TaskContext.get()
        assert context is not None
        message = replace(task(batches, context.partitionId(), context.attemptNumber(), context.taskAttemptId()), began=began)
        yield pa.RecordBatch.from_arrays([pa.array([message.to_bytes()], pa.binary())], names=["message"])

    return winners(DeltaMessage.from_bytes(bytes(row.message)) for row in rows.mapInArrow(run, MESSAGE).collect())


def _distributed(plan: DeltaPlan, delta: DataFrame) -> DataFrame:
    """Rows of a file in the task that has it, sorted; the partition number is explicit, so that adaptive execution does not join tasks."""
    from pyspark.sql import functions as F

    if plan.in_one_task:
        return delta.coalesce(1).sortWithinPartitions(FILE, POSITION)
    columns = [*DELTA_COLUMNS, *(value_column(i) for i in plan.values)]
    cores = cores_of(delta.sparkSession)
    tasks = tasks_of_files(plan, cores)
    count = max(tasks, default=-1) + 1
    # An array in SQL text is one call for the driver where literals would be one each.
    task = F.expr(f"get(array({', '.join(map(str, tasks))}), {FILE})") if tasks else F.lit(0)
    if _has_whole_rows(plan):
        delta, spread = _spread(plan, delta)
        task = F.when(F.col(FILE) < 0, F.pmod(spread, F.lit(cores)).cast("int") + F.lit(count)).otherwise(task)
        count += cores
    return delta.withColumn(TASK, task).repartitionById(max(count, 1), TASK).select(*columns).sortWithinPartitions(FILE, POSITION)


def tasks_of_files(plan: DeltaPlan, cores: int) -> list[int]:
    """The task of each file: largest first to the lightest task. Files that share what is written for them stay together."""
    units: dict[Any, list[int]] = defaultdict(list)
    sizes = _sizes(plan)
    for number, scope in enumerate(_scopes(plan, sizes)):
        units[scope].append(number)
    least, share = (cores * TASKS_PER_CORE, BYTES_PER_TASK) if plan.mode == COPY_ON_WRITE else (cores, BYTES_PER_MARKING_TASK)
    count = min(len(units), max(least, ceil(sum(sizes) / share)))
    tasks = [0] * len(sizes)
    for numbers, task in zip(units.values(), balanced([sum(sizes[n] for n in numbers) for numbers in units.values()], count), strict=True):
        for number in numbers:
            tasks[number] = task
    return tasks


def balanced(sizes: Sequence[float], count: int) -> list[int]:
    """The task of each piece of work, of so many: largest first to the lightest task."""
    weights = [(0.0, task) for task in range(count)]
    heapify(weights)
    tasks = [0] * len(sizes)
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        weight, task = heappop(weights)
        tasks[number] = task
        heappush(weights, (weight + sizes[number] + 1, task))
    return tasks


def _sizes(plan: DeltaPlan) -> list[float]:
    """Bytes of each target; parts of a file are taken to be of one size."""
    parts: dict[str, int] = defaultdict(int)
    for target in plan.files:
        parts[_path(target)] += 1
    return [target.file.scan.data_file.file_size_in_bytes / parts[_path(target)] for target in plan.files]


def _scopes(plan: DeltaPlan, sizes: list[float]) -> list[Any]:
    """What a target shares a task with: nothing if it is copied; the parts of its file, which has one vector, if not; with
    delete files for partitions also the rest of its partition, unless that is too much for one task."""
    if plan.mode == COPY_ON_WRITE:
        return list(range(len(plan.files)))
    by_partition = plan.format_version < 3 and plan.write.options[DELETE_GRANULARITY] == "partition"
    if not by_partition:
        return [_path(target) for target in plan.files]
    partitions = [(target.file.scan.data_file.spec_id, partition_key(target.file.scan.data_file.partition)) for target in plan.files]
    totals: dict[Any, float] = defaultdict(float)
    for partition, size in zip(partitions, sizes, strict=True):
        totals[partition] += size
    return [partition if totals[partition] <= BYTES_PER_TASK else _path(target) for partition, target in zip(partitions, plan.files, strict=True)]


def _has_whole_rows(plan: DeltaPlan) -> bool:
    """Whether the delta may have rows to insert: only one with all columns does."""
    return plan.inserts and {f.field_id for f in plan.write.schema.fields} <= set(plan.values)


def _spread(plan: DeltaPlan, delta: DataFrame) -> tuple[DataFrame, Column]:
    """A number by which inserts are spread over tasks: those of a partition meet in one."""
    from pyspark.sql import functions as F

    schema = plan.write.schema
    if partition_fields(plan.write.spec):
        named = delta.withColumns({schema.find_field(i).name: F.col(value_column(i)) for i in plan.values})
        delta, codes = with_partition_columns(plan.write, named)
        return delta, F.xxhash64(*codes)
    plain = [value_column(f.field_id) for f in schema.fields if f.field_type.is_primitive]
    return delta, F.xxhash64(*plain) if plain else F.spark_partition_id()


def _parts_left(plan: DeltaPlan, messages: Iterable[DeltaMessage]) -> list[int]:
    """Parts without a change of files that were rewritten elsewhere."""
    if plan.mode == MERGE_ON_READ:
        return []
    rewritten = {number for message in messages for number in message.rewritten}
    replaced = {_path(plan.files[number]) for number in rewritten}
    return [number for number, target in enumerate(plan.files) if number not in rewritten and _path(target) in replaced]


def _placed(spark: SparkSession, numbers: list[int]) -> DataFrame:
    """One task for each number."""
    rows = pa.table({FILE: pa.array(numbers, pa.int32()), TASK: pa.array(range(len(numbers)), pa.int32())})
    return spark.createDataFrame(rows).repartitionById(len(numbers), TASK).select(FILE)


def _numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def float_fields(schema: Schema) -> frozenset[int]:
    return frozenset(i for i, f in schema._lazy_id_to_field.items() if isinstance(f.field_type, FloatType | DoubleType))


def without_most_metrics(target: TargetFile, floats: frozenset[int]) -> TargetFile:
    """Every task gets every file: of its metrics only those that a rewrite cannot take from the footer."""
    file = target.file.scan.data_file
    slim = replace(
        without_metrics(file),
        nan_value_counts=file.nan_value_counts,
        lower_bounds={i: value for i, value in file.lower_bounds.items() if i in floats},
        upper_bounds={i: value for i, value in file.upper_bounds.items() if i in floats},
    )
    return replace(target, file=replace(target.file, scan=replace(target.file.scan, data_file=slim)))


def _path(target: TargetFile) -> str:
    return target.file.scan.data_file.file_path
