"""Materialising a delta that is at hand: by threads of this process where that is less than Spark needs to begin, by Spark's tasks otherwise."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakewright.format.storage import threads_for
from lakewright.plan.delta import ACTION, CLAUSE, COPY_ON_WRITE, FILE, POSITION, ROW_ID, DeltaPlan, value_column
from lakewright.plan.types import spark_type
from lakewright.write.delta_at_hand import DeltaAtHand
from lakewright.write.delta_messages import DeltaMessage, Materialised, joined
from lakewright.write.delta_task import materialise_batches
from lakewright.write.delta_write import materialise, tasks_of_files
from lakewright.write.engine import writing
from lakewright.write.fanout import partitions_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

MOST_REWRITTEN = 32 * 1024 * 1024
ROWS_PER_TASK = 10_000
BATCH_ROWS = 65_536

Tasks = np.ndarray[Any, np.dtype[np.int64]]


def materialise_here(spark: SparkSession, plan: DeltaPlan, delta: DeltaAtHand) -> Materialised:
    """Carry out a delta. If that fails nothing is left, and a typed error says why."""
    files: Tasks = delta.places.column(FILE).to_numpy()
    if _is_much(plan, files):
        with writing(plan.write, spark, {}):
            rows = spark.createDataFrame(delta.taken(np.arange(len(delta))), _spark_schema(plan))
        return materialise(plan, rows)
    began = time.time()
    with writing(plan.write, spark, {}):
        tasks = _tasks(plan, delta, files)
        with ThreadPoolExecutor(threads_for(plan.write.data_prefix)) as pool:
            messages = list(pool.map(lambda task: _done(plan, task, delta.taken(tasks[task])), range(len(tasks))))
    return replace(joined(messages), began=began)


def _done(plan: DeltaPlan, task: int, rows: pa.Table) -> DeltaMessage:
    return materialise_batches(plan, iter(rows.to_batches(max_chunksize=BATCH_ROWS)), task, 0, 0)


def _is_much(plan: DeltaPlan, files: Tasks) -> bool:
    """Whether files would be rewritten that are large, or of which parts are rewritten elsewhere."""
    if plan.mode != COPY_ON_WRITE:
        return False
    touched = [plan.files[number] for number in np.unique(files) if number >= 0]
    return any(target.row_groups for target in touched) or sum(target.file.scan.data_file.file_size_in_bytes for target in touched) > MOST_REWRITTEN


def _spark_schema(plan: DeltaPlan) -> StructType:
    """Said, since Spark would take times without a zone for times of its own."""
    from pyspark.sql.types import IntegerType, LongType, StructField, StructType

    kinds = {FILE: IntegerType(), POSITION: LongType(), ACTION: IntegerType(), CLAUSE: IntegerType(), ROW_ID: LongType()}
    values = {value_column(i): spark_type(plan.write.schema.find_field(i).field_type, nullable=True) for i in plan.values}
    return StructType([StructField(name, kind, True) for name, kind in {**kinds, **values}.items()])


def _tasks(plan: DeltaPlan, delta: DeltaAtHand, files: Tasks) -> list[Tasks]:
    """The rows of each task: those of a file in one, and rows to insert, which come first, where most of their partition is."""
    if len(delta) <= ROWS_PER_TASK:
        return [np.arange(len(delta))]
    inserts = int(np.searchsorted(files, 0))
    of_file = np.array(tasks_of_files(plan, os.cpu_count() or 1), dtype=np.int64)
    of_row = np.concatenate((_tasks_of_inserts(plan, delta.taken(np.arange(inserts)), of_file), of_file[files[inserts:]] if len(of_file) else files[:0]))
    return [np.flatnonzero(of_row == task) for task in np.unique(of_row)]


def _tasks_of_inserts(plan: DeltaPlan, inserts: pa.Table, of_file: Tasks) -> Tasks:
    """The task of a file of their partition; without one, a task of the partition's number."""
    if not len(inserts):
        return np.empty(0, np.int64)
    schema, spec = plan.write.schema, plan.write.spec
    rows = inserts.select([value_column(i) for i in plan.values]).rename_columns([schema.find_field(i).name for i in plan.values])
    of_spec = [(target.file.scan.data_file, task) for target, task in zip(plan.files, of_file, strict=True) if target.file.scan.data_file.spec_id == spec.spec_id]
    of_row, of_target = partitions_of(spec, schema, rows, [file for file, _ in of_spec])
    tasks: Tasks = np.arange(of_row.max() + 1) % (os.cpu_count() or 1)
    for partition, (_, task) in zip(of_target, of_spec, strict=True):
        if partition >= 0:
            tasks[partition] = task
    of_inserts: Tasks = tasks[of_row]
    return of_inserts
