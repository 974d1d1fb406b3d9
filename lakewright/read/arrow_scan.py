"""Reading data files with Arrow, deletes applied: what a Python task does where Spark itself cannot open the files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping

from lakewright.format.data_file import DataFile
from lakewright.format.deletion_vector import Positions, to_array
from lakewright.format.metadata import Metadata
from lakewright.read.deletes import DeleteFile
from lakewright.read.footers import identity_value, layout_in, name_mapping
from lakewright.read.layout import FILE, POSITION, Layout
from lakewright.read.native_deletes import dropped_fields, equality_ids, path_to
from lakewright.read.parquet import opened
from lakewright.read.positions import DeletedPositions
from lakewright.read.projection import output_schema, project
from lakewright.read.scan import FileScan

BATCH_ROWS = 16_384


@dataclass(frozen=True)
class ArrowRead:
    """What is the same for all files of a read; it pickles. `wide` also has the columns that only deletes compare.
    use_threads: whether a file is read with all cores, for a reader of few files that nobody else reads beside."""

    schema: Schema
    wide: Schema
    mapping: NameMapping | None
    with_position: bool
    use_threads: bool = False

    @cached_property
    def output(self) -> pa.Schema:
        schema = self.columns.output
        return schema.append(pa.field(FILE, pa.string())).append(pa.field(POSITION, pa.int64())) if self.with_position else schema

    @cached_property
    def columns(self) -> _Columns:
        return _Columns(self.schema, self.mapping)

    @cached_property
    def wide_columns(self) -> _Columns:
        return _Columns(self.wide, self.mapping)


class _Columns:
    """The columns of a schema in data files. Files in a row mostly have the same of their own, which are looked through once."""

    def __init__(self, schema: Schema, mapping: NameMapping | None) -> None:
        self.schema, self.mapping, self.output = schema, mapping, output_schema(schema)
        self._last: tuple[pa.Schema, Layout] | None = None

    def layout(self, file: DataFile, physical: pa.Schema) -> Layout:
        last = self._last
        if last is None or not last[0].equals(physical, check_metadata=True):
            last = self._last = physical, layout_in(file, physical, self.schema, self.mapping)
        return last[1]

    def project(self, batch: pa.RecordBatch, layout: Layout, constants: Mapping[int, Any]) -> pa.RecordBatch:
        return project(batch, self.schema, layout, constants, self.output)


@dataclass(frozen=True)
class RowGroups:
    """Some row groups of a file, of which the footer has been read already."""

    footer: pq.FileMetaData
    numbers: Sequence[int]


@dataclass(frozen=True)
class ArrowFile:
    """One file of a read; it pickles. constants: what its partition says of columns the file may lack."""

    scan: FileScan
    constants: Mapping[int, Any]


def arrow_read(metadata: Metadata, files: Sequence[FileScan], schema: Schema, *, with_position: bool = False, use_threads: bool = False) -> ArrowRead:
    extra = dropped_fields(metadata, schema, equality_ids(files))
    return ArrowRead(schema, Schema(*schema.fields, *extra), name_mapping(metadata), with_position, use_threads)


def arrow_file(metadata: Metadata, file: FileScan, schema: Schema) -> ArrowFile:
    values = {f.source_id: identity_value(metadata, file.data_file, f.source_id) for f in metadata.specs[file.data_file.spec_id].fields}
    return ArrowFile(file, {i: value for i, value in values.items() if value is not None and schema._lazy_id_to_field.get(i)})


def read_batches(io: FileIO, read: ArrowRead, file: ArrowFile, deletes: DeletedRows | None = None, groups: RowGroups | None = None) -> Iterator[pa.RecordBatch]:
    """The live rows of a file, in batches of the read's output schema. groups: the row groups that are read, all unless given."""
    deletes = deletes or DeletedRows(io, read)
    gone = deletes.positions(file.scan)
    values = deletes.values(file.scan)
    for start, batch in _batches(io, read, file, read.wide_columns if values else read.columns, groups):
        keep = kept(batch, start, gone, values)
        shown = _shown(batch, read, file, start) if values or read.with_position else batch
        shown = shown if keep is None else shown.filter(keep)
        if shown.num_rows:
            yield shown


def _shown(batch: pa.RecordBatch, read: ArrowRead, file: ArrowFile, start: int) -> pa.RecordBatch:
    """Without the columns that only deletes compare, and with the place of each row where that is asked for."""
    columns = batch.columns[: len(read.schema.fields)]
    if read.with_position:
        columns.append(pa.repeat(file.scan.data_file.file_path, batch.num_rows))
        columns.append(pa.array(np.arange(start, start + batch.num_rows, dtype=np.int64)))
    return pa.RecordBatch.from_arrays(columns, schema=read.output)


class DeletedRows:
    """What delete files hold, each read once however many data files it applies to."""

    def __init__(self, io: FileIO, read: ArrowRead) -> None:
        self.io, self.read = io, read
        self._positions = DeletedPositions(io)
        self._values: dict[str, set[tuple[Any, ...]]] = {}

    def load(self, files: Iterable[FileScan]) -> None:
        """Read ahead what says which rows of these files are deleted."""
        scans = list(files)
        self._positions.load(scans)
        for scan in scans:
            self.values(scan)

    def positions(self, scan: FileScan) -> Positions:
        """Positions deleted in a file, sorted."""
        return to_array(self._positions.of(scan))

    def values(self, scan: FileScan) -> list[tuple[list[list[str]], set[tuple[Any, ...]]]]:
        """For each set of columns that deletes compare: their paths and the values deleted."""
        groups: dict[tuple[int, ...], set[tuple[Any, ...]]] = {}
        for delete in scan.deletes:
            if not delete.is_position:
                ids = tuple(sorted(delete.data_file.equality_ids))
                groups[ids] = groups.get(ids, set()) | self._value_set(delete, ids)
        return [([path_to(self.read.wide, i) for i in ids], values) for ids, values in groups.items()]

    def _value_set(self, delete: DeleteFile, ids: tuple[int, ...]) -> set[tuple[Any, ...]]:
        if delete.path not in self._values:
            paths = [path_to(self.read.wide, i) for i in ids]
            keys = _Columns(Schema(*(f for f in self.read.wide.fields if f.name in {path[0] for path in paths})), self.read.mapping)
            whole = ArrowFile(FileScan(delete.data_file, 0, None), {})
            self._values[delete.path] = {row for _, batch in _batches(self.io, self.read, whole, keys) for row in _rows(batch, paths)}
        return self._values[delete.path]


def _batches(io: FileIO, read: ArrowRead, file: ArrowFile, columns: _Columns, groups: RowGroups | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Each batch with the position of its first row."""
    with opened(io, file.scan.data_file.file_path, metadata=groups and groups.footer) as parquet:
        layout = columns.layout(file.scan.data_file, parquet.schema_arrow)
        names = [layout.names[f.field_id] for f in columns.schema.fields if f.field_id not in layout.absent]
        for start, some in _runs(parquet.metadata, groups.numbers if groups else None):
            for batch in parquet.iter_batches(batch_size=BATCH_ROWS, row_groups=some, columns=names, use_threads=read.use_threads):
                yield start, columns.project(batch, layout, file.constants)
                start += batch.num_rows


def _runs(footer: pq.FileMetaData, groups: Sequence[int] | None) -> Iterator[tuple[int, list[int]]]:
    """Row groups to read one after another, with the position of their first row."""
    if groups is None:
        yield 0, list(range(footer.num_row_groups))
        return
    start = 0
    for group in range(footer.num_row_groups):
        if group in groups:
            yield start, [group]
        start += footer.row_group(group).num_rows


def kept(batch: pa.RecordBatch, start: int, gone: Positions, values: list[tuple[list[list[str]], set[tuple[Any, ...]]]]) -> pa.Array | None:
    """Which rows stay; None for all."""
    keep = None
    first, last = np.searchsorted(gone, (start, start + batch.num_rows))
    if first < last:
        keep = np.ones(batch.num_rows, dtype=bool)
        keep[gone[first:last] - start] = False
    for paths, deleted in values:
        live = np.fromiter((row not in deleted for row in _rows(batch, paths)), dtype=bool, count=batch.num_rows)
        keep = live if keep is None else keep & live
    return None if keep is None else pa.array(keep)


def _rows(batch: pa.RecordBatch, paths: list[list[str]]) -> Iterator[tuple[Any, ...]]:
    columns = []
    for name, *inner in paths:
        array = batch.column(name)
        for part in inner:
            array = pc.struct_field(array, part)
        columns.append(["NaN" if isinstance(v, float) and math.isnan(v) else v for v in array.to_pylist()])
    return zip(*columns, strict=True)
