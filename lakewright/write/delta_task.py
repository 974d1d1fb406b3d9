"""What one task does with its delta rows, which come sorted by file and position. No Spark here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from lakewright.format.local_io import open_io
from lakewright.plan.delta import COPY_ON_WRITE, NO_FILE, DeltaPlan
from lakewright.read.arrow_scan import DeletedRows
from lakewright.write.copy_on_write import copy_file, rewrite_file
from lakewright.write.delta_messages import DeltaMessage
from lakewright.write.delta_output import DeltaOutput
from lakewright.write.delta_rows import DeltaStream
from lakewright.write.merge_on_read import DeletedByDelta


def materialise_batches(plan: DeltaPlan, batches: Iterator[pa.RecordBatch], task: int, attempt: int, task_attempt_id: int) -> DeltaMessage:
    """Write what the delta rows say; if that fails, delete what was written and raise."""

    def work(output: DeltaOutput) -> None:
        stream = DeltaStream(plan, batches)
        if plan.mode == COPY_ON_WRITE:
            _copy_on_write(output, stream)
        else:
            _merge_on_read(output, stream)

    return _done(plan, task, attempt, task_attempt_id, work)


def copy_parts(plan: DeltaPlan, numbers: Iterable[int], task: int, attempt: int, task_attempt_id: int) -> DeltaMessage:
    """Write parts anew of which no row changes, since other parts of their files were."""

    def work(output: DeltaOutput) -> None:
        deletes = DeletedRows(output.io, plan.read)
        for number in numbers:
            copy_file(output, number, deletes)

    return _done(plan, task, attempt, task_attempt_id, work)


def _done(plan: DeltaPlan, task: int, attempt: int, task_attempt_id: int, work: Callable[[DeltaOutput], None]) -> DeltaMessage:
    output = DeltaOutput(plan, open_io(plan.write.io_properties, plan.write.data_prefix), task, attempt, task_attempt_id)
    try:
        work(output)
        return output.close()
    except BaseException:
        output.abandon()
        raise


def _copy_on_write(output: DeltaOutput, stream: DeltaStream) -> None:
    deletes = DeletedRows(output.io, output.plan.read)
    while (number := stream.next_file()) is not None:
        if number == NO_FILE:
            _insert(output, stream)
        else:
            output.meet(number)
            rewrite_file(output, number, stream, deletes)


def _merge_on_read(output: DeltaOutput, stream: DeltaStream) -> None:
    deleted = DeletedByDelta(output)
    while (number := stream.next_file()) is not None:
        if number == NO_FILE:
            _insert(output, stream)
        else:
            output.meet(number)
            deleted.take(number, stream)
    deleted.write()


def _insert(output: DeltaOutput, stream: DeltaStream) -> None:
    for rows in stream.inserts():
        output.insert(rows)
