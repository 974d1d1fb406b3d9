"""What one task of a compaction does: its bins one after the other, each into new files. No Spark here."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakewright.format.data_file import DataFile
from lakewright.format.local_io import open_io
from lakewright.format.parquet_footer import Footer, NotGraftable, read_footer
from lakewright.format.storage import delete_file
from lakewright.options import COMPACT_MAX_FILE, TARGET_FILE_SIZE
from lakewright.plan.combine import Bin
from lakewright.plan.delta import DeltaPlan, TargetFile
from lakewright.plan.write_plan import most_rows
from lakewright.read.arrow_scan import DeletedRows
from lakewright.write.changed_group import ChangedGroup
from lakewright.write.combined_file import NO_COLUMNS, CombinedFile, is_copied
from lakewright.write.delta_output import DeltaOutput
from lakewright.write.graft_nans import GraftNans
from lakewright.write.group_rows import group_rows
from lakewright.write.messages import TaskMessage
from lakewright.write.rolling import FULL_ENOUGH
from lakewright.write.sorted_rows import sorted_rows
from lakewright.write.source_file import NONE_DELETED, SourceFile

TOO_LARGE = 1.8


@dataclass(frozen=True, slots=True)
class CombineMessage(TaskMessage):
    """`made`: the files each bin became, by its number; none where all its rows were deleted. copied: rows whose bytes were copied."""

    made: Mapping[int, tuple[DataFile, ...]] = field(default_factory=dict)
    copied: int = 0

    def to_bytes(self) -> bytes:
        return pickle.dumps(self, protocol=5)

    @staticmethod
    def from_bytes(data: bytes) -> CombineMessage:
        restored = pickle.loads(data)
        assert isinstance(restored, CombineMessage)
        return restored


def combine_bins(plan: DeltaPlan, bins: Sequence[Bin], numbers: Iterable[int], task: int, attempt: int, task_attempt_id: int) -> CombineMessage:
    """Write the files of these bins; if that fails, delete what was written and raise."""
    output = DeltaOutput(plan, open_io(plan.write.io_properties, plan.write.data_prefix), task, attempt, task_attempt_id)
    made: dict[int, tuple[DataFile, ...]] = {}
    try:
        for number in numbers:
            before = len(output.written)
            _combine(output, bins[number])
            made[number] = tuple(output.written[before:])
        message = output.close()
        return CombineMessage(task, attempt, task_attempt_id, message.files, made, message.copied)
    except BaseException:
        output.abandon()
        raise


def _combine(output: DeltaOutput, bin_: Bin) -> None:
    write, files = output.plan.write, [target.file.scan.data_file for target in bin_.files]
    deletes = DeletedRows(output.io, output.plan.read)
    stays_sorted = write.sort_order.is_unsorted or (len(files) == 1 and files[0].sort_order_id == write.sort_order.order_id)
    has_too_many = sum(file.record_count for file in files) > (most_rows(write.options) or sys.maxsize)
    if not stays_sorted or has_too_many or any(file.spec_id != write.spec.spec_id or _largest_group(file) > _too_large(output) for file in files):
        _stream(output, bin_, deletes, is_sorted=stays_sorted)
        return
    largest = max(bin_.files, key=lambda target: target.file.scan.data_file.file_size_in_bytes)
    like = _form(output, largest, deletes)
    written, copied = len(output.written), output.copied
    try:
        _join(output, bin_, deletes, like)
    except NotGraftable:  # rows do not fit the form of the largest file; they fit Arrow's
        for file in output.written[written:]:
            delete_file(output.io, file.file_path)
        del output.written[written:]
        output.copied = copied
        _join(output, bin_, deletes, None)


def _join(output: DeltaOutput, bin_: Bin, deletes: DeletedRows, like: Footer | None) -> None:
    """All files are of the current spec and of one partition."""
    first = bin_.files[0].file.scan.data_file
    keeps_order = len(bin_.files) == 1
    share, largest = _share(output, bin_), _too_large(output)
    open_file: CombinedFile | None = None
    try:
        for target in bin_.files:
            with SourceFile(output.io, output.plan, target, deletes) as source:
                member, nans = None, GraftNans(source)
                for index, start in source.groups():
                    if open_file is not None and open_file.size + source.size_of(index) / 2 > share:
                        open_file.settle(nans)
                        open_file.close()
                        open_file, member, nans = None, None, GraftNans(source)
                    if open_file is None:
                        order = first.sort_order_id if keeps_order else output.plan.write.sort_order.order_id
                        settings = output.settings(source)
                        open_file = CombinedFile(output, first.partition, settings, like, largest=largest, keeps_order=keeps_order, sort_order_id=order)
                    member = member or open_file.member(source)
                    open_file.take(source, member, nans, index, start)
                if open_file is not None:
                    open_file.settle(nans)
        if open_file is not None:
            open_file.close()
    except NotGraftable:
        if open_file is not None:
            open_file.discard()
        raise


def _stream(output: DeltaOutput, bin_: Bin, deletes: DeletedRows, *, is_sorted: bool) -> None:
    """Through Arrow: rows that go to other partitions than their file was of, or into another order."""
    write = output.plan.write
    rows = _rows(output, bin_, deletes)
    if not is_sorted:
        rows = sorted_rows(rows, write.schema, write.sort_order)
    fanout = output.fanout(lineage=output.has_lineage, sort_order=write.sort_order, target_size=int(_share(output, bin_) / FULL_ENOUGH))
    for batch in rows:
        fanout.write(batch)
    output.closed(fanout)


def _rows(output: DeltaOutput, bin_: Bin, deletes: DeletedRows) -> Iterator[pa.RecordBatch]:
    for target in bin_.files:
        with SourceFile(output.io, output.plan, target, deletes) as source:
            for index, start in source.groups():
                group = ChangedGroup(index, start, source.rows_in(index), source.deleted_in(index, start), NONE_DELETED, None)
                if group.kept:
                    yield from (rows for rows in group_rows(output, source, group, NO_COLUMNS) if rows.num_rows)


def _form(output: DeltaOutput, target: TargetFile, deletes: DeletedRows) -> Footer | None:
    """The file as the one whose form the new file takes, if it is one to copy from."""
    with SourceFile(output.io, output.plan, target, deletes) as source:
        if not source.names or not any(is_copied(output, source, index, _too_large(output)) for index in source.row_groups):
            return None
        try:
            return read_footer(source.stream, source.path)
        except NotGraftable:
            return None


def _largest_group(file: DataFile) -> int:
    """Bytes of the largest row group, as far as the manifest tells."""
    ends = [*file.split_offsets[1:], file.file_size_in_bytes]
    return max(end - start for start, end in zip(file.split_offsets or (0,), ends, strict=True))


def _too_large(output: DeltaOutput) -> float:
    """Bytes above which a row group is decoded, since bytes of it cannot be shared out among files."""
    return float(output.plan.write.options[COMPACT_MAX_FILE] or TOO_LARGE * output.plan.write.options[TARGET_FILE_SIZE])


def _share(output: DeltaOutput, bin_: Bin) -> float:
    """Bytes of each file that the bin becomes, so that none is left over for a small one."""
    target = output.plan.write.options[TARGET_FILE_SIZE]
    is_one = bin_.size <= _too_large(output)
    return max(bin_.size * 1.25, target) if is_one else bin_.size / round(bin_.size / target)
