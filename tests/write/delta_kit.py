"""Data files, deltas over them and the rows that must come out, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from lakewright.format.data_file import EQUALITY_DELETES, DataFile
from lakewright.format.deletion_vector import to_array, to_bitmap
from lakewright.format.lineage import LINEAGE_FIELDS, ROW_ID_NAME, ROW_SEQUENCE_NAME
from lakewright.format.metrics import MetricsConfig, data_file_from_footer
from lakewright.format.position_deletes import write_position_deletes
from lakewright.format.puffin import write_vector_files
from lakewright.plan.delta import (
    ACTION,
    CLAUSE,
    COPY_ON_WRITE,
    DELTA_COLUMNS,
    FILE,
    INSERT,
    MOVE,
    POSITION,
    ROW_ID,
    UPDATE,
    DeltaPlan,
    TargetFile,
    value_column,
)
from lakewright.plan.write_plan import WritePlan
from lakewright.read.arrow_scan import ArrowFile, ArrowRead
from lakewright.read.deletes import DeleteFile
from lakewright.read.positions import deleted_positions, read_position_deletes
from lakewright.read.projection import output_type
from lakewright.read.scan import FileScan
from lakewright.write.arrow_rows import file_schema
from lakewright.write.delta_messages import DeltaMessage
from lakewright.write.delta_task import copy_parts, materialise_batches

OLD_SEQUENCE, NEW_SEQUENCE = 7, 9
Row = dict[str, Any]


def local(location: str) -> str:
    return location.removeprefix("file://")


@dataclass(frozen=True)
class Change:
    """One delta row; values by column name."""

    action: int
    file: int = -1
    position: int | None = None
    values: Row = field(default_factory=dict)
    clause: int = 0


@dataclass
class Kit:
    """A table of data files on disk. Row ids go on from file to file, as a commit would give them."""

    write: WritePlan
    mode: str = COPY_ON_WRITE
    version: int = 3
    assigned: tuple[str, ...] = ()
    fetched: tuple[str, ...] = ()
    once: bool = True
    targets: list[TargetFile] = field(default_factory=list)
    specs: dict[int, PartitionSpec] = field(default_factory=dict)
    next_row_id: int = 1000

    def __post_init__(self) -> None:
        self.io = load_file_io({}, self.write.data_prefix)
        self.specs = {**self.specs, self.write.spec.spec_id: self.write.spec}
        self.made = 0

    @property
    def schema(self) -> Schema:
        return self.write.schema

    def add(
        self,
        rows: Sequence[Row] | pa.Table,
        *,
        group_rows: int = 100,
        schema: Schema | None = None,
        vector: Sequence[int] = (),
        deleted: Sequence[int] = (),
        equality: tuple[str, Sequence[Any]] | None = None,
        with_nans: bool = True,
        constants: dict[int, Any] | None = None,
        parts: Sequence[tuple[int, int]] = (),
        **details: Any,
    ) -> int:
        """A file of rows of a schema, the table's unless an older one is given; the number of its (first) target."""
        of = schema or self.schema
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), schema=file_schema(of))
        path = self._path("parquet")
        options = {"compression": "zstd", "store_schema": False, "store_decimal_as_integer": True, **details.pop("parquet", {})}
        pq.write_table(table, local(path), row_group_size=group_rows, **options)
        footer = pq.read_metadata(local(path))
        config = MetricsConfig.from_options(self.write.options, self.schema)
        nans = {f.field_id: _nans(table.column(f.name)) for f in of.fields if f.name in table.schema.names and pa.types.is_floating(table.schema.field(f.name).type)}
        size = (self.size(path), footer)
        file = data_file_from_footer(path=path, size=size[0], footer=footer, spec_id=details.pop("spec_id", self.write.spec.spec_id), partition=details.pop("partition", ()), config=config, nan_counts=nans if with_nans else None)
        first = details.pop("first_row_id", self.next_row_id if self.version >= 3 else None)
        self.next_row_id += file.record_count
        file = replace(file, first_row_id=first, **details)
        scan = FileScan(file, OLD_SEQUENCE, 1, self._deletes(file, vector, deleted, equality))
        number = len(self.targets)
        starts = np.concatenate(([0], np.cumsum([footer.row_group(g).num_rows for g in range(footer.num_row_groups)])))
        for part in parts or [None]:
            self.targets.append(TargetFile(ArrowFile(scan, constants or {}), part, int(starts[part[0]]) if part else 0))
        return number

    def size(self, path: str) -> int:
        return len(self.io.new_input(path))

    def plan(self) -> DeltaPlan:
        ids = {f.name: f.field_id for f in self.schema.fields}
        read = ArrowRead(self.schema, self.schema, None, with_position=False)
        return DeltaPlan(
            self.write, read, self.specs, tuple(self.targets), self.mode, self.version,
            values=tuple(ids.values()), assigned=tuple(ids[name] for name in self.assigned), once=self.once, fetched=tuple(ids[name] for name in self.fetched),
        )  # fmt: skip

    def batches(self, changes: Sequence[Change], batch_rows: int = 50) -> Iterator[pa.RecordBatch]:
        ordered = sorted(changes, key=lambda c: (c.file, -1 if c.position is None else c.position))
        columns = {
            FILE: pa.array([c.file for c in ordered], pa.int32()),
            POSITION: pa.array([c.position for c in ordered], pa.int64()),
            ACTION: pa.array([c.action for c in ordered], pa.int32()),
            CLAUSE: pa.array([c.clause for c in ordered], pa.int32()),
            ROW_ID: pa.array([self._row_id(c) for c in ordered], pa.int64()),
            **{value_column(f.field_id): pa.array([c.values.get(f.name) for c in ordered], output_type(f.field_type)) for f in self.schema.fields},
        }
        assert tuple(columns)[:5] == DELTA_COLUMNS
        yield from pa.table(columns).to_batches(batch_rows)

    def run(self, *changes: Change, batch_rows: int = 50) -> DeltaMessage:
        self.made += 1
        return materialise_batches(self.plan(), self.batches(changes, batch_rows), 3, 0, self.made)

    def copy(self, *numbers: int) -> DeltaMessage:
        self.made += 1
        return copy_parts(self.plan(), numbers, 4, 0, self.made)

    def live(self, *messages: DeltaMessage) -> list[Row]:
        """The rows of the table after the change, as a reader of format 3 sees them, in order of ids."""
        gone = {path for message in messages for path in message.replaced}
        vectors = {path for message in messages for path in message.superseded_vectors}
        deleted = {path for message in messages for path in message.superseded_deletes}
        made = [delete for message in messages for delete in message.deletes]
        rows: list[Row] = []
        for scan in {target.file.scan.data_file.file_path: target.file.scan for target in self.targets}.values():
            path = scan.data_file.file_path
            if path in gone:
                continue
            old = tuple(d for d in scan.deletes if not (d.is_vector and path in vectors) and d.path not in deleted)
            new = tuple(DeleteFile(d, NEW_SEQUENCE) for d in made if d.referenced_data_file == path or (d.referenced_data_file is None and path in read_position_deletes(self.io, d.file_path)))
            rows += self.rows_of(replace(scan, deletes=(*old, *new)))
        for file in [file for message in messages for file in message.files]:
            rows += self.rows_of(FileScan(replace(file, first_row_id=None), NEW_SEQUENCE, 2))
        return sorted(rows, key=lambda row: row["id"])

    def rows_of(self, scan: FileScan) -> list[Row]:
        """The live rows of a file in the columns it has, by the table's names, with what they inherit."""
        table = pq.ParquetFile(local(scan.data_file.file_path)).read()
        names = {f.field_id: f.name for f in (*self.schema.fields, *LINEAGE_FIELDS)}
        table = table.rename_columns([names.get(int(f.metadata[b"PARQUET:field_id"]), f.name) for f in table.schema])
        gone = set(to_array(deleted_positions(self.io, scan)).tolist())
        equality = [d for d in scan.deletes if not d.is_position]
        for delete in equality:
            (column,) = delete.data_file.equality_ids
            values = set(pq.read_table(local(delete.path)).column(0).to_pylist())
            gone |= {at for at, value in enumerate(table.column(names[column]).to_pylist()) if value in values}
        first, found = scan.data_file.first_row_id, []
        for at, row in enumerate(table.to_pylist(maps_as_pydicts="strict")):
            if at in gone:
                continue
            for f in self.schema.fields:
                row.setdefault(f.name, f.initial_default)
            if self.version >= 3:
                own, sequence = row.get(ROW_ID_NAME), row.get(ROW_SEQUENCE_NAME)
                row[ROW_ID_NAME] = own if own is not None else None if first is None else first + at
                row[ROW_SEQUENCE_NAME] = sequence if sequence is not None else scan.sequence_number
            found.append(row)
        return found

    def before(self) -> list[Row]:
        """The rows of the table before any change."""
        return self.live()

    def row_at(self, number: int, position: int) -> Row:
        scan = self.targets[number].file.scan
        return self.rows_of(replace(scan, deletes=()))[position]

    def expected(self, *changes: Change) -> list[Row]:
        """What the model says: the same changes done to plain rows."""
        rows = {row["id"]: row for row in self.before()}
        for change in changes:
            old = self.row_at(change.file, change.position) if change.position is not None else {}
            if change.action != INSERT and change.action != 0:
                rows.pop(old["id"])
            if change.action == UPDATE:
                new = {**old, **{name: change.values.get(name) for name in self.assigned}}
            elif change.action in (MOVE, INSERT):
                kept = {name: old[name] for name in self.fetched if name in old}
                new = {**{f.name: None for f in self.schema.fields}, **change.values, **kept}
            else:
                continue
            if self.version >= 3:
                new[ROW_ID_NAME] = old.get(ROW_ID_NAME)
                new[ROW_SEQUENCE_NAME] = NEW_SEQUENCE
            rows[new["id"]] = new
        return sorted(rows.values(), key=lambda row: row["id"])

    def _row_id(self, change: Change) -> int | None:
        return self.row_at(change.file, change.position)[ROW_ID_NAME] if change.action == MOVE and self.version >= 3 and change.position is not None else None

    def _path(self, ending: str) -> str:
        self.made += 1
        folder = self.write.data_prefix.rsplit("/", 1)[0] + "/old"
        self.io.new_output(f"{folder}/x").create(overwrite=True).close()
        return f"{folder}/{self.made:03d}.{ending}"

    def _deletes(self, file: DataFile, vector: Sequence[int], deleted: Sequence[int], equality: tuple[str, Sequence[Any]] | None) -> tuple[DeleteFile, ...]:
        made: list[DataFile] = []
        if vector:
            made += write_vector_files(self.io, self._path("puffin"), [(file, to_bitmap(np.array(vector)))])
        if deleted:
            made.append(write_position_deletes(self.io, self._path("deletes.parquet"), [(file.file_path, np.array(deleted))], spec_id=file.spec_id, partition=file.partition))
        if equality:
            column = self.schema.find_field(equality[0])
            path = self._path("equality.parquet")
            pq.write_table(pa.table({column.name: equality[1]}, schema=file_schema(Schema(column))), local(path))
            made.append(DataFile(path, len(equality[1]), 1, file.spec_id, file.partition, EQUALITY_DELETES, equality_ids=(column.field_id,)))
        return tuple(DeleteFile(d, OLD_SEQUENCE + 1) for d in made)


def _nans(column: pa.ChunkedArray) -> int:
    return sum(value is not None and value != value for value in column.to_pylist())
