"""A data file that is being rewritten: its row groups, decoded as far as they are needed, and what is deleted in it already."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from lakewright.errors import CorruptFile
from lakewright.format.lineage import LINEAGE_FIELDS
from lakewright.plan.delta import DeltaPlan, TargetFile
from lakewright.read.arrow_scan import DeletedRows, kept
from lakewright.read.footers import layout_in, missing
from lakewright.read.layout import Layout, field_id_of
from lakewright.read.projection import project
from lakewright.write.arrow_rows import file_schema, to_file_schema
from lakewright.write.delta_rows import Positions

BATCH_BYTES = 8 * 1024 * 1024
LEAST_ROWS, MOST_ROWS = 1024, 65_536
BUFFERED_FROM = 96 * 1024 * 1024
BUFFER = 1024 * 1024
NONE_DELETED: Positions = np.empty(0, np.int64)


class SourceFile:
    """Opened for reading; `row_groups` are those of the target, which may be a part of the file."""

    def __init__(self, io: FileIO, plan: DeltaPlan, target: TargetFile, deletes: DeletedRows) -> None:
        self.plan, self.target, self.scan = plan, target, target.file.scan
        self.data_file = target.file.scan.data_file
        self.path = self.data_file.file_path
        self._deletes = deletes
        with reading(self.path):
            self.stream = io.new_input(self.path).open()
            try:
                self.footer = pq.read_metadata(self.stream)
                self._parquet = self._opened()
            except BaseException:
                self.stream.close()
                raise
        self.physical: pa.Schema = self._parquet.schema_arrow
        self.names = {i: f.name for f in self.physical if (i := field_id_of(f)) is not None}
        self.row_groups = range(*target.row_groups) if target.row_groups else range(self.footer.num_row_groups)

    def __enter__(self) -> SourceFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    @cached_property
    def largest_rows(self) -> int:
        """Rows of the largest row group."""
        return max((self.rows_in(group) for group in range(self.footer.num_row_groups)), default=0)

    @cached_property
    def largest_size(self) -> int:
        """Bytes of the largest row group."""
        return max((self.size_of(group) for group in range(self.footer.num_row_groups)), default=0)

    def rows_in(self, group: int) -> int:
        return int(self.footer.row_group(group).num_rows)

    def size_of(self, group: int) -> int:
        """Bytes of a row group."""
        columns = self.footer.row_group(group)
        return sum(columns.column(at).total_compressed_size for at in range(columns.num_columns))

    @cached_property
    def layout(self) -> Layout:
        return self._layout(self.plan.write.schema)

    def batches(self, group: int, names: Collection[str], parquet: pq.ParquetFile | None = None, rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """Columns of a row group as the file has them, in batches of some megabytes, or of this many rows."""
        made = (parquet or self._parquet).iter_batches(batch_size=rows or self._batch_rows(group), row_groups=[group], columns=list(names), use_threads=False)
        while (batch := self._next(made)) is not None:
            yield batch

    def column(self, group: int, name: str) -> pa.ChunkedArray:
        with reading(self.path):
            return self._parquet.read_row_group(group, columns=[name], use_threads=False).column(name)

    def columns_of(self, schema: Schema) -> list[str]:
        """Names, in the file, of the columns of the schema that it has."""
        return [self.layout.names[f.field_id] for f in schema.fields if f.field_id not in self.layout.absent]

    def projected(self, batch: pa.RecordBatch, schema: Schema, target: pa.Schema) -> pa.RecordBatch:
        """A batch of the file in columns of the table, as they go into new files."""
        return to_file_schema(project(batch, schema, self.layout, self.target.file.constants), target, schema, self.plan.write.table)

    def pieces(self, group: int, schema: Schema, target: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
        """Columns of the table, for all rows of a row group, in batches of this many."""
        names = self.columns_of(schema)
        for batch in self.batches(group, names, rows=rows) if names else [pa.RecordBatch.from_arrays([pa.nulls(self.rows_in(group))], names=[""])]:
            yield self.projected(batch, schema, target)

    def whole_columns(self, group: int, schema: Schema, target: pa.Schema) -> pa.RecordBatch:
        """Columns of the table, for all rows of a row group."""
        names = self.columns_of(schema)
        if not names:
            empty = pa.RecordBatch.from_arrays([pa.nulls(self.rows_in(group))], names=[""])
            return self.projected(empty, schema, target)
        with reading(self.path):
            table = self._parquet.read_row_group(group, columns=names, use_threads=False)
        return pa.concat_batches([self.projected(batch, schema, target) for batch in table.combine_chunks().to_batches()])

    def rows_at(self, group: int, places: Positions, schema: Schema, target: pa.Schema) -> pa.RecordBatch:
        """Columns of the table, for some rows of a row group, counted from its first and in order."""
        names = self.columns_of(schema)
        if not names:
            return self.projected(pa.RecordBatch.from_arrays([pa.nulls(len(places))], names=[""]), schema, target)
        found, at = [], 0
        for batch in self.batches(group, names, self._parquet_by_code):
            first, last = np.searchsorted(places, (at, at + batch.num_rows))
            if first < last:
                found.append(self.projected(_plain(batch.take(pa.array(places[first:last] - at))), schema, target))
            at += batch.num_rows
        return pa.concat_batches(found)

    @cached_property
    def _parquet_by_code(self) -> pq.ParquetFile:
        """The same file; texts that are all in dictionaries come as codes, which is cheaper where few of them are used."""
        chunks = [self.footer.row_group(group).column(at) for group in self.row_groups for at in range(self.footer.num_columns)]
        texts = {chunk.path_in_schema for chunk in chunks if chunk.physical_type == "BYTE_ARRAY"}
        others = {chunk.path_in_schema for chunk in chunks if "PLAIN_DICTIONARY" not in chunk.encodings or "PLAIN" in chunk.encodings}
        return self._opened(read_dictionary=sorted(texts - others))

    def _opened(self, **how: Any) -> pq.ParquetFile:
        return pq.ParquetFile(self.stream, metadata=self.footer, pre_buffer=False, buffer_size=BUFFER if self._is_bulky() else 0, **how)

    def groups(self) -> Iterator[tuple[int, int]]:
        """Each row group of the target with the position of its first row."""
        start = self.target.first_position
        for index in self.row_groups:
            yield index, start
            start += self.rows_in(index)

    def first_rows(self, rows: int) -> pa.RecordBatch:
        """Some rows to judge encodings by, without reading all of a row group."""
        schema = self.plan.write.schema
        with reading(self.path):
            parquet = pq.ParquetFile(self.stream, metadata=self.footer, pre_buffer=False, buffer_size=64 * 1024)
            batches = parquet.iter_batches(batch_size=rows, row_groups=list(self.row_groups), columns=self.columns_of(schema), use_threads=False)
            batch = next(batches, pa.RecordBatch.from_pylist([], schema=self.physical))
        return self.projected(batch, schema, file_schema(schema))

    @cached_property
    def lineage_names(self) -> dict[str, str]:
        """Where the file itself keeps row lineage: names in the file by the column's own."""
        return {f.name: self.names[f.field_id] for f in LINEAGE_FIELDS if f.field_id in self.names}

    def has_whole_lineage(self, group: int) -> bool:
        """Whether the row group says the lineage of each row, so that nothing is inherited."""
        if len(self.lineage_names) < len(LINEAGE_FIELDS):
            return False
        wanted = set(self.lineage_names.values())
        chunks = [chunk for at in range(self.footer.num_columns) if (chunk := self.footer.row_group(group).column(at)).path_in_schema in wanted]
        return all(chunk.statistics is not None and chunk.statistics.has_null_count and chunk.statistics.null_count == 0 for chunk in chunks)

    def own_lineage(self, batch: pa.RecordBatch | pa.Table, name: str) -> Any:
        """The file's own values of a lineage column; None where it has none."""
        return batch.column(self.lineage_names[name]) if name in self.lineage_names else None

    def lineage_columns(self, group: int) -> pa.Table:
        with reading(self.path):
            return self._parquet.read_row_group(group, columns=list(self.lineage_names.values()), use_threads=False)

    def deleted_in(self, group: int, start: int) -> Positions:
        """Rows of a row group, counted from its first, that are deleted already."""
        first, last = np.searchsorted(self._deleted_positions, (start, start + self.rows_in(group)))
        gone = self._deleted_positions[first:last] - start
        return np.union1d(gone, self._deleted_by_value(group)) if self._by_value else gone

    @cached_property
    def _by_value(self) -> list[Any]:
        return self._deletes.values(self.scan)

    @cached_property
    def _deleted_positions(self) -> Positions:
        return self._deletes.positions(self.scan)

    def _deleted_by_value(self, group: int) -> Positions:
        compared = {path[0] for paths, _ in self._by_value for path in paths}
        schema = Schema(*(f for f in self.plan.read.wide.fields if f.name in compared))
        layout = self._layout(schema)
        names = [layout.names[f.field_id] for f in schema.fields if f.field_id not in layout.absent]
        found, at = [NONE_DELETED], 0
        for batch in self.batches(group, names) if names else [pa.RecordBatch.from_arrays([pa.nulls(self.rows_in(group))], names=[""])]:
            live = kept(project(batch, schema, layout, self.target.file.constants), 0, NONE_DELETED, self._by_value)
            assert live is not None
            found.append(np.flatnonzero(~live.to_numpy(zero_copy_only=False)) + at)
            at += batch.num_rows
        return np.concatenate(found)

    def _layout(self, schema: Schema) -> Layout:
        return layout_in(self.data_file, self.physical, schema, self.plan.read.mapping)

    def _is_bulky(self) -> bool:
        """Whether a row group takes so much that it should not be fetched whole."""
        return self.largest_size > BUFFERED_FROM

    def _batch_rows(self, group: int) -> int:
        size = self.footer.row_group(group).total_byte_size / max(self.rows_in(group), 1)
        return int(min(max(BATCH_BYTES / max(size, 1), LEAST_ROWS), MOST_ROWS))

    def _next(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
        with reading(self.path):
            return next(batches, None)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Without codes."""
    if not any(pa.types.is_dictionary(kind) for kind in batch.schema.types):
        return batch
    arrays = [column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.columns]
    fields = [field.with_type(array.type) for field, array in zip(batch.schema, arrays, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Errors of reading that name the file. Only around reads: what a write meets is another matter."""
    try:
        yield
    except FileNotFoundError as error:
        raise missing(path) from error
    except (OSError, pa.ArrowException) as error:
        raise CorruptFile(f"Data file {path} cannot be read: {error}") from error


