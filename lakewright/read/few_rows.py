"""Few rows of many files, read by this process with Arrow and handed to Spark as they are.

Spark takes longer to plan a scan of twenty files and to begin its tasks than it takes Arrow to read a hundred thousand rows of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from lakewright.format.lineage import ROW_SEQUENCE
from lakewright.format.metadata import Metadata
from lakewright.format.storage import readers_for
from lakewright.plan.types import spark_struct
from lakewright.read.arrow_scan import DeletedRows, RowGroups, arrow_file, arrow_read, read_batches
from lakewright.read.hand_over import to_spark
from lakewright.read.native_deletes import equality_ids
from lakewright.read.newer_rows import newer_part, newer_rows, with_sequence
from lakewright.read.scan import FileScan
from lakewright.session import cores_at_hand

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_FILES = 1_000


@dataclass(frozen=True)
class _Size:
    """Of what is read: its rows, and its bytes as they are in files."""

    rows: int
    bytes: int

    def __add__(self, other: _Size) -> _Size:
        return _Size(self.rows + other.rows, self.bytes + other.bytes)

    def __le__(self, other: _Size) -> bool:
        return self.rows <= other.rows and self.bytes <= other.bytes


MOST = _Size(1_000_000, 16 * 1024 * 1024)
MOST_HELD = 256 * 1024 * 1024  # bytes of memory, which a text that a file has once may take for each of its rows


class _TooMuch(Exception):
    pass


def few_rows(spark: SparkSession, io: FileIO, metadata: Metadata, whole: Sequence[FileScan], mixed: Sequence[FileScan], schema: Schema, newer_than: int) -> DataFrame | None:
    """Live rows: of `whole` all, of `mixed` those changed after a sequence number. None where Spark had better read them: they are many,
    or deletes compare their values, or the session is elsewhere."""
    cores = cores_at_hand(spark)
    files = (*whole, *mixed)
    if cores is None or len(files) > MOST_FILES or equality_ids(files) or not _may_be_few(whole, mixed):
        return None
    reading = _FewRows(io, metadata, schema, newer_than, files)
    try:
        return to_spark(spark, reading.begin(whole, mixed), reading.columns.output, spark_struct(schema.as_struct(), nullable=True), cores)
    except _TooMuch:
        return None


def _may_be_few(whole: Sequence[FileScan], mixed: Sequence[FileScan]) -> bool:
    """As far as is known before a file is opened: of the mixed, what their newest rows would take."""
    return sum((_size(file, 1) for file in whole), _Size(0, 0)) + sum((_size(file, _newest_share(file)) for file in mixed), _Size(0, 0)) <= MOST


def _size(file: FileScan, share: float) -> _Size:
    return _Size(int(share * file.data_file.record_count), int(share * file.data_file.file_size_in_bytes))


def _newest_share(file: FileScan) -> float:
    """Of a file's rows, those that do not say when they were last changed, which are as new as the file."""
    return file.data_file.null_value_counts.get(ROW_SEQUENCE, 0) / max(file.data_file.record_count, 1)


class _FewRows:
    """Reads files, several at once, until it is more than was thought."""

    def __init__(self, io: FileIO, metadata: Metadata, schema: Schema, newer_than: int, files: Sequence[FileScan]) -> None:
        self.io, self.metadata, self.schema, self.newer_than = io, metadata, schema, newer_than
        self.columns, self.columns_and_sequence = (arrow_read(metadata, files, wanted, use_threads=len(files) == 1) for wanted in (schema, with_sequence(schema)))
        self.deletes = DeletedRows(io, self.columns)
        self.deletes.load(files)
        self._held: list[int] = []

    def begin(self, whole: Sequence[FileScan], mixed: Sequence[FileScan]) -> Iterator[pa.RecordBatch]:
        """Batches as they come; reading goes on while they are not asked for."""
        self._sizes = [_size(file, 1) for file in whole]
        tasks = [*((self._all_of, file) for file in whole), *((self._newer_of, file) for file in mixed)]
        batches = readers_for(self.metadata.location).map(lambda task: list(map(self._kept, task[0](task[1]))), tasks)
        return (batch for own in batches for batch in own)

    def _all_of(self, file: FileScan) -> Iterator[pa.RecordBatch]:
        return read_batches(self.io, self.columns, arrow_file(self.metadata, file, self.schema), self.deletes)

    def _newer_of(self, file: FileScan) -> Iterator[pa.RecordBatch]:
        part = newer_part(self.io, file.data_file.file_path, self.newer_than)
        self._check(part)
        for batch in newer_rows(self.io, self.columns_and_sequence, arrow_file(self.metadata, file, self.schema), self.newer_than, self.deletes, part):
            yield batch.select(range(len(self.schema.fields)))

    def _check(self, part: RowGroups) -> None:
        told = [part.footer.row_group(group) for group in part.numbers]
        compressed = sum(group.column(at).total_compressed_size for group in told for at in range(group.num_columns))
        self._sizes.append(_Size(sum(group.num_rows for group in told), compressed))
        if not sum(self._sizes, _Size(0, 0)) <= MOST:
            raise _TooMuch

    def _kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self._held.append(batch.nbytes)
        if sum(self._held) > MOST_HELD:
            raise _TooMuch
        return batch
