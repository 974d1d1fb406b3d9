"""Incremental queries through the Data Source, where no session is there to plan them: each task works out changes with Arrow.

Rows that tell by their lineage when they were changed are read file by file. A log is one task per commit; where the latest rows
must be found by comparing commits, that is one task for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from lakewright.commit.store import TableState
from lakewright.errors import ColumnNotFound
from lakewright.format.local_io import open_io
from lakewright.plan.types import spark_struct
from lakewright.read.arrow_frame import shares
from lakewright.read.arrow_scan import ArrowFile, ArrowRead, DeletedRows, arrow_file, arrow_read
from lakewright.read.change_arrow import ArrowChanges, ArrowStep, Changed, arrow_changes, changed, latest_by_key
from lakewright.read.change_files import ChangedFiles, in_glob
from lakewright.read.change_range import Range, Step, resolve_range
from lakewright.read.change_rows import CHANGE_ORDINAL, CHANGE_TYPE, COMMIT_SNAPSHOT_ID, INSERT
from lakewright.read.changes import check_no_clash, has_lineage, newest_known
from lakewright.read.newer_rows import newer_part, newer_rows, with_sequence
from lakewright.read.prune import Pruner
from lakewright.read.scan import plan_scan
from lakewright.read.spark_arrow import arrow_schema
from lakewright.source.options import ReadOptions

LOG_FIELDS = [StructField(CHANGE_TYPE, StringType()), StructField(CHANGE_ORDINAL, IntegerType()), StructField(COMMIT_SNAPSHOT_ID, LongType())]


@dataclass
class NewerRows(InputPartition):
    """Files, of whose rows those count that were changed after a sequence number."""

    read: ArrowRead
    files: list[ArrowFile]
    sequence_number: int


@dataclass
class Commits(InputPartition):
    """Steps to compare, with the commits they stand for; kinds: which changes are shown, None for the latest row of each key."""

    changes: ArrowChanges
    steps: list[ArrowStep]
    snapshot_ids: dict[int, int]
    kinds: tuple[str, ...] | None


def changes_schema(state: TableState, options: ReadOptions) -> StructType:
    found = _range(state, options)
    shown = spark_struct(found.schema.as_struct(), nullable=True).fields
    return StructType([*shown, *(LOG_FIELDS if options.log else ())])


def _range(state: TableState, options: ReadOptions) -> Range:
    """Times without a zone are UTC, since no session is there to ask."""
    found = resolve_range(state.metadata, state.name, options.begin, options.end, ref=options.ref, time_zone="UTC")
    if options.log:
        check_no_clash(found.schema, state.name)
    return found


class ChangesReader(DataSourceReader):
    def __init__(self, state: TableState, options: ReadOptions, schema: StructType) -> None:
        self.state, self.options = state, options
        self.properties, self.log = dict(state.io.properties), options.log
        self.range = _range(state, options)
        self.output = arrow_schema(schema)
        known = changes_schema(state, options).fieldNames()
        missing = next((name for name in schema.fieldNames() if name not in known), None)
        if missing is not None:
            raise ColumnNotFound(f"The changes of table {state.name} have no column {missing!r}; load them again.", table=state.name, column=missing)

    def partitions(self) -> Sequence[InputPartition]:
        found, metadata = self.range, self.state.metadata
        if self.options.log:
            return self._compared((*found.undone, *found.done), (), together=False)
        if has_lineage(metadata, found.begin):
            return self._newer()
        if found.schema.identifier_field_ids:
            return self._compared(found.done, None, together=True)
        net = [Step(found.until.snapshot_id, found.begin, found.until)] if found.until is not None and found.done else []
        return self._compared(net, (INSERT,), together=True)

    def _newer(self) -> list[InputPartition]:
        state, begin, schema = self.state, self.range.begin, self.range.schema
        matches = in_glob(self.options.path_glob, state.metadata.location)
        newer_than = newest_known(begin)
        files = [file for file in plan_scan(state.io, state.metadata, self.range.until, newer_than=newer_than).files if matches(file)]
        wide = with_sequence(schema)
        read = arrow_read(state.metadata, files, wide)
        return [NewerRows(read, [arrow_file(state.metadata, file, wide) for file in share], newer_than) for share in shares(files)]

    def _compared(self, steps: Sequence[Step], kinds: tuple[str, ...] | None, *, together: bool) -> list[InputPartition]:
        state, schema = self.state, self.range.schema
        everything = Pruner(AlwaysTrue(), schema, state.metadata.schemas, state.metadata.specs)
        files = ChangedFiles(state.io, state.metadata, in_glob(self.options.path_glob, state.metadata.location), everything)
        changes, own = arrow_changes(state.metadata, files.images(steps), schema)
        commits = {number: step.snapshot_id for number, step in enumerate(steps)}
        groups = [own] if together and own else [[step] for step in own]
        return [Commits(changes, group, {step.number: commits[step.number] for step in group}, kinds) for group in groups]

    def __getstate__(self) -> dict[str, object]:
        """What `read` needs: tasks are not sent the table's history."""
        return {"properties": self.properties, "output": self.output, "log": self.log}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        rows: Iterator[pa.Table] = iter(())  # Spark asks for a partition also where there is none
        if isinstance(partition, NewerRows):
            rows = _newer_rows(self.properties, partition)
        elif isinstance(partition, Commits):
            rows = _commit_rows(self.properties, partition, self.log)
        for table in rows:
            yield from table.select(self.output.names).cast(self.output).to_batches()


def _newer_rows(properties: dict[str, str], partition: NewerRows) -> Iterator[pa.Table]:
    io = open_io(properties, partition.files[0].scan.data_file.file_path)
    deletes = DeletedRows(io, partition.read)
    for file in partition.files:
        part = newer_part(io, file.scan.data_file.file_path, partition.sequence_number)
        for batch in newer_rows(io, partition.read, file, partition.sequence_number, deletes, part):
            yield pa.Table.from_batches([batch])


def _commit_rows(properties: dict[str, str], partition: Commits, log: bool) -> Iterator[pa.Table]:
    io = open_io(properties, partition.steps[0].images[0].file.scan.data_file.file_path)
    parts = (part for step in partition.steps for part in changed(io, partition.changes, step))
    if log:
        return (_logged(part, partition.snapshot_ids[part.number]) for part in parts)
    if partition.kinds is None:
        return latest_by_key(partition.changes, parts)
    return (part.rows for part in parts if part.kind in partition.kinds)


def _logged(part: Changed, snapshot_id: int) -> pa.Table:
    columns = {CHANGE_TYPE: pa.scalar(part.kind), CHANGE_ORDINAL: pa.scalar(part.number, pa.int32()), COMMIT_SNAPSHOT_ID: pa.scalar(snapshot_id, pa.int64())}
    rows = part.rows
    for name, value in columns.items():
        rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
    return rows
