"""What a task that materialises a delta has made so far: its files, the writers for new rows, and what it will report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder

from lakewright.format.data_file import DataFile
from lakewright.format.lineage import LINEAGE_FIELDS, ROW_SEQUENCE_NAME
from lakewright.format.metrics import MetricsConfig
from lakewright.format.storage import delete_file
from lakewright.options import MAX_OPEN_FILES, TARGET_FILE_SIZE
from lakewright.plan.delta import CLAUSE, ROW_ID, DeltaPlan
from lakewright.plan.write_plan import WritePlan
from lakewright.read.deletes import only_path
from lakewright.read.scan import FileScan
from lakewright.write.arrow_rows import file_schema
from lakewright.write.delta_messages import DeltaMessage
from lakewright.write.delta_rows import DeltaRows, new_values
from lakewright.write.dictionaries import SAMPLE
from lakewright.write.fanout import FanoutWriter
from lakewright.write.locations import file_location
from lakewright.write.rolling import TaskFiles
from lakewright.write.source_file import SourceFile


def with_lineage(schema: Schema) -> Schema:
    return Schema(*schema.fields, *LINEAGE_FIELDS, schema_id=schema.schema_id)


@dataclass
class DeltaOutput:
    plan: DeltaPlan
    io: FileIO
    task: int
    attempt: int
    task_attempt_id: int
    locations: list[str] = field(default_factory=list)
    written: list[DataFile] = field(default_factory=list)
    deletes: list[DataFile] = field(default_factory=list)
    rewritten: set[int] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)
    replaced: set[str] = field(default_factory=set)
    superseded_vectors: set[str] = field(default_factory=set)
    superseded_deletes: set[str] = field(default_factory=set)
    counts: Counter[int] = field(default_factory=Counter)
    copied: int = 0
    matched: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.opened: list[Any] = []
        self._numbers = count()
        self._settings: dict[str, Any] | None = None
        self._writers: list[FanoutWriter] = []
        self._fresh: FanoutWriter | None = None
        self._moved: FanoutWriter | None = None

    @property
    def has_lineage(self) -> bool:
        return self.plan.format_version >= 3

    @cached_property
    def metrics(self) -> MetricsConfig:
        write = self.plan.write
        config = MetricsConfig.from_options(write.options, write.schema, write.sort_order)
        lineage = MetricsConfig.from_properties({}, Schema(*LINEAGE_FIELDS)) if self.has_lineage else MetricsConfig({})
        return MetricsConfig({**config.columns, **lineage.columns})

    @cached_property
    def carried_schema(self) -> Schema:
        """Of files whose rows were in the table before."""
        return with_lineage(self.plan.write.schema) if self.has_lineage else self.plan.write.schema

    @cached_property
    def carried_arrow(self) -> pa.Schema:
        return file_schema(self.carried_schema)

    @cached_property
    def table_arrow(self) -> pa.Schema:
        return file_schema(self.plan.write.schema)

    @cached_property
    def _fetched(self) -> tuple[Schema, pa.Schema]:
        return self._columns(set(self.plan.fetched))

    @cached_property
    def _assigned(self) -> tuple[Schema, pa.Schema]:
        return self._columns({f.field_id for f in self.plan.write.schema.fields} - set(self.plan.fetched))

    def _columns(self, field_ids: set[int]) -> tuple[Schema, pa.Schema]:
        schema = Schema(*(f for f in self.plan.write.schema.fields if f.field_id in field_ids))
        return schema, file_schema(schema)

    def location(self, plan: WritePlan, partition: tuple[Any, ...], ending: str) -> str:
        """A new name; what is written there is deleted if the task fails."""
        place = self._name(plan, ending)(partition)
        self.locations.append(place)
        return place

    def fanout(self, *, lineage: bool, sort_order: SortOrder, target_size: int | None = None) -> FanoutWriter:
        """A writer of rows under the current partition spec. target_size: of its files, where it is not the table's."""
        schema, arrow = (self.carried_schema, self.carried_arrow) if lineage else (self.plan.write.schema, self.table_arrow)
        options = self.plan.write.options
        plan = replace(self.plan.write, schema=schema, sort_order=sort_order, options=options.replaced(TARGET_FILE_SIZE, target_size) if target_size else options)
        files = TaskFiles(plan, self.io, arrow, self.metrics, self._name(plan, "parquet"), self.locations, self.written)
        writer = FanoutWriter(files, most_open=plan.options[MAX_OPEN_FILES])
        self._writers.append(writer)
        return writer

    def settings(self, source: SourceFile) -> dict[str, Any]:
        """How changed columns of old files are encoded; dictionaries as the first rows the task meets suggest, bloom filters as they had them."""
        if self._settings is None:
            files = TaskFiles(self.plan.write, self.io, self.table_arrow, self.metrics, self._name(self.plan.write, "parquet"))
            self._settings = files.settings(source.first_rows(SAMPLE))
            self._settings.pop("bloom_filter_options", None)
            self._settings["use_dictionary"] = [*self._settings["use_dictionary"], ROW_SEQUENCE_NAME]
        return self._settings

    def closed(self, writer: FanoutWriter) -> None:
        writer.close()
        self._writers.remove(writer)

    def insert(self, rows: pa.RecordBatch) -> None:
        """New rows of the table: readers give them their row ids."""
        if self.plan.together:
            self._write_moved(self._whole_rows(rows), pa.nulls(len(rows), pa.int64()))
        else:
            if self._fresh is None:
                self._fresh = self.fanout(lineage=False, sort_order=UNSORTED_SORT_ORDER)
            self._fresh.write(self._whole_rows(rows))
        self.count(rows)

    def move(self, moved: DeltaRows, source: SourceFile | None = None, group: int = 0, start: int = 0) -> None:
        """Rows in their new form, in whatever file now takes them; they keep their row ids. Columns that the delta does not have are
        those of the source's row group, whose first row is at `start`."""
        if source is None or not self.plan.fetched:
            rows = self._whole_rows(moved.rows)
        else:
            assigned = new_values(moved.rows, *self._assigned, self.plan.write.table)
            fetched = source.rows_at(group, moved.positions - start, *self._fetched)
            arrays = [(assigned if f.name in assigned.schema.names else fetched).column(f.name) for f in self.table_arrow]
            rows = pa.RecordBatch.from_arrays(arrays, schema=self.table_arrow)
        self._write_moved(rows, moved.rows.column(ROW_ID))

    def _write_moved(self, rows: pa.RecordBatch, row_ids: pa.Array) -> None:
        if self.has_lineage:
            rows = pa.RecordBatch.from_arrays([*rows.columns, row_ids.cast(pa.int64()), pa.nulls(len(row_ids), pa.int64())], schema=self.carried_arrow)
        if self._moved is None:
            self._moved = self.fanout(lineage=self.has_lineage, sort_order=UNSORTED_SORT_ORDER)
        self._moved.write(rows)

    def count(self, rows: pa.RecordBatch) -> None:
        clauses, counts = np.unique(rows.column(CLAUSE).to_numpy(zero_copy_only=False), return_counts=True)
        self.counts.update({int(clause): int(number) for clause, number in zip(clauses, counts, strict=True)})

    def drop(self, scan: FileScan) -> None:
        """The file goes, and what is only about it goes with it."""
        self.replaced.add(scan.data_file.file_path)
        self.supersede(scan)

    def supersede(self, scan: FileScan) -> None:
        """The deletes that are about this file alone are not needed any more."""
        path = scan.data_file.file_path
        for delete in scan.deletes:
            if delete.is_vector:
                self.superseded_vectors.add(path)
            elif delete.is_position and only_path(delete.data_file) == path:
                self.superseded_deletes.add(delete.path)

    def meet(self, number: int) -> None:
        """Say that the delta has rows of a file."""
        self.matched.add(self.plan.files[number].file.scan.data_file.file_path)

    def close(self) -> DeltaMessage:
        for writer in self._writers:
            writer.close()
        return DeltaMessage(
            self.task,
            self.attempt,
            self.task_attempt_id,
            tuple(self.written),
            deletes=tuple(self.deletes),
            rewritten=frozenset(self.rewritten),
            touched=frozenset(self.touched),
            replaced=frozenset(self.replaced),
            superseded_vectors=frozenset(self.superseded_vectors),
            superseded_deletes=frozenset(self.superseded_deletes),
            counts=dict(self.counts),
            copied=self.copied,
            matched=frozenset(self.matched),
        )

    def abandon(self) -> None:
        for writer in self._writers:
            with suppress(Exception):
                writer.abandon()
        for stream in self.opened:
            with suppress(Exception):
                stream.close()
        for location in self.locations:
            with suppress(Exception):
                delete_file(self.io, location)

    def _whole_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return new_values(rows, self.plan.write.schema, self.table_arrow, self.plan.write.table)

    def _name(self, plan: WritePlan, ending: str) -> Callable[[tuple[Any, ...]], str]:
        def name(partition: tuple[Any, ...]) -> str:
            return file_location(plan, partition, f"{self.task:05d}-{self.attempt}-{self.task_attempt_id}-{next(self._numbers):05d}.{ending}")

        return name

