"""One partition's rows into Parquet files of about the target size."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from lakewright.format.data_file import DataFile
from lakewright.format.graft_layout import CAN_BLOOM
from lakewright.format.metrics import MetricsConfig, data_file_from_footer
from lakewright.options import COMPRESSION, COMPRESSION_LEVEL, DICT_ENABLED, DICT_SIZE, PAGE_SIZE, ROW_GROUP_LIMIT, ROW_GROUP_SIZE, TARGET_FILE_SIZE
from lakewright.plan.write_plan import WritePlan, most_rows
from lakewright.write.arrow_rows import nan_counts
from lakewright.write.dictionaries import SAMPLE, dictionary_columns

MOST_BUFFERED = 128 * 1024 * 1024
FULL_ENOUGH = 0.9


@dataclass
class TaskFiles:
    """What the files of one task share: how to make them, what was made, and how well rows have compressed so far."""

    plan: WritePlan
    io: FileIO
    schema: pa.Schema
    metrics: MetricsConfig
    next_location: Callable[[tuple[Any, ...]], str]
    locations: list[str] = field(default_factory=list)
    written: list[DataFile] = field(default_factory=list)
    ratio: float | None = None
    dictionaries: list[str] | None = None

    def learn(self, raw: int, encoded: int) -> None:
        latest = encoded / max(raw, 1)
        self.ratio = latest if self.ratio is None else (self.ratio + latest) / 2

    def settings(self, sample: pa.RecordBatch) -> dict[str, Any]:
        """How Parquet is written; dictionaries as the first rows of the task suggest."""
        options, codec = self.plan.options, self.plan.options[COMPRESSION]
        if self.dictionaries is None:
            self.dictionaries = dictionary_columns(sample) if options[DICT_ENABLED] else []
        return {
            "compression": "none" if codec == "uncompressed" else codec,
            "compression_level": options[COMPRESSION_LEVEL] if codec in ("zstd", "gzip", "brotli") else None,
            "use_dictionary": self.dictionaries,
            "data_page_size": options[PAGE_SIZE],
            "dictionary_pagesize_limit": options[DICT_SIZE],
            "write_statistics": True,
            "store_schema": False,
            "store_decimal_as_integer": True,
            **self._blooms(),
        }

    def _blooms(self) -> dict[str, Any]:
        """Filters are made for as many values as a row group may have, and folded to what it has. Older Arrow cannot write them."""
        if not self.plan.blooms or not CAN_BLOOM:
            return {}
        return {"bloom_filter_options": {column: {"ndv": bloom.ndv or self.plan.options[ROW_GROUP_LIMIT], "fpp": bloom.fpp} for column, bloom in self.plan.blooms.items()}}


class RollingWriter:
    """Buffers rows of one partition and writes them as row groups, beginning a new file past the target size."""

    def __init__(self, files: TaskFiles, partition: tuple[Any, ...]) -> None:
        self.buffered_bytes = 0
        self._files = files
        self._partition = partition
        self._buffer: list[pa.RecordBatch] = []
        self._rows = 0
        self._file_rows = 0
        self._most_rows = most_rows(files.plan.options) or sys.maxsize
        self._open: _OpenFile | None = None

    @property
    def size(self) -> int:
        """Bytes of the current file, written and waiting."""
        return self.buffered_bytes + (self._open.size if self._open else 0)

    def write(self, batch: pa.RecordBatch, bytes_per_row: float) -> None:
        """Take rows of about this size in memory: the caller knows it of the whole batch, and asking each part costs more than it tells."""
        options = self._files.plan.options
        while batch.num_rows:
            room = (self._wanted_bytes() - self.buffered_bytes) / bytes_per_row
            rows = max(1, min(round(room), options[ROW_GROUP_LIMIT] - self._rows, self._most_rows - self._file_rows, batch.num_rows))
            self._buffer.append(batch.slice(0, rows))
            self.buffered_bytes += round(rows * bytes_per_row)
            self._rows += rows
            self._file_rows += rows
            batch = batch.slice(rows)
            if self._rows >= options[ROW_GROUP_LIMIT] or self.buffered_bytes >= self._wanted_bytes():
                self.flush()
                if self._open and self._open.size >= FULL_ENOUGH * options[TARGET_FILE_SIZE]:
                    self.close()
            if self._file_rows >= self._most_rows:
                self.close()

    def flush(self) -> None:
        """Write the buffered rows as one row group."""
        if not self._rows:
            return
        rows = pa.Table.from_batches(self._buffer)  # not one batch of them, which would be all of it a second time
        if self._open is None:
            self._open = _OpenFile(self._files, self._partition, rows)
        before = self._open.size
        self._open.write(rows)
        self._files.learn(self.buffered_bytes, self._open.size - before)
        self._buffer, self.buffered_bytes, self._rows = [], 0, 0

    def close(self) -> None:
        self.flush()
        if self._open:
            self._files.written.append(self._open.close())
            self._open = None
        self._file_rows = 0

    def abandon(self) -> None:
        if self._open:
            self._open.abandon()

    def _wanted_bytes(self) -> float:
        """Bytes in memory for the next row group; the first one of a task is a try, after which the ratio is known."""
        options = self._files.plan.options
        left = options[TARGET_FILE_SIZE] - (self._open.size if self._open else 0)
        return min(min(options[ROW_GROUP_SIZE], left) / (self._files.ratio or 1.0), MOST_BUFFERED)


class _OpenFile:
    def __init__(self, files: TaskFiles, partition: tuple[Any, ...], rows: pa.Table) -> None:
        self._files = files
        self._partition = partition
        self._nans: Counter[int] = Counter()
        self._location = files.next_location(partition)
        self._footers: list[pq.FileMetaData] = []
        files.locations.append(self._location)
        self._stream = files.io.new_output(self._location).create(overwrite=True)
        self._writer = pq.ParquetWriter(self._stream, files.schema, metadata_collector=self._footers, **files.settings(_first(rows)))

    @property
    def size(self) -> int:
        return int(self._stream.tell())

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows, row_group_size=rows.num_rows)
        for batch in rows.to_batches():
            self._nans.update(nan_counts(batch, self._files.plan.schema))

    def close(self) -> DataFile:
        self._writer.close()
        size = self.size
        self._stream.close()
        return data_file_from_footer(
            path=self._location,
            size=size,
            footer=self._footers[0],
            spec_id=self._files.plan.spec.spec_id,
            partition=self._partition,
            config=self._files.metrics,
            sort_order_id=self._files.plan.sort_order.order_id,
            nan_counts=self._nans,
        )

    def abandon(self) -> None:
        self._writer.close()
        self._stream.close()


def _first(rows: pa.Table) -> pa.RecordBatch:
    """Enough rows to judge encodings by."""
    return rows.slice(0, SAMPLE).combine_chunks().to_batches()[0]
