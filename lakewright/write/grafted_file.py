"""A new data file grafted from an old one: bytes copied where nothing changed, and the columns or row groups that did encoded."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema

from lakewright.format.data_file import DataFile
from lakewright.format.graft import GraftWriter, NotGraftable
from lakewright.format.lineage import LINEAGE_FIELDS, ROW_ID, ROW_SEQUENCE
from lakewright.format.metrics import data_file_from_footer
from lakewright.format.storage import delete_file
from lakewright.read.layout import field_id_of
from lakewright.write.arrow_rows import file_schema
from lakewright.write.carried_lineage import carried_lineage
from lakewright.write.changed_group import ChangedGroup
from lakewright.write.delta_output import DeltaOutput
from lakewright.write.graft_nans import GraftNans
from lakewright.write.rows_apart import RowsApart
from lakewright.write.source_file import SourceFile

MOST_AHEAD = 32 << 20  # bytes of a row group, up to which a column is decoded while the one before it is encoded


def graft_obstacle(output: DeltaOutput, source: SourceFile) -> str | None:
    """Why the old file's bytes cannot be used, as far as its schema and partition tell."""
    write, file = output.plan.write, source.data_file
    if file.spec_id != write.spec.spec_id:
        return "it is partitioned by an older spec"
    if not source.names:
        return "it has no field ids"
    if any(f.field_id not in source.names and f.field_id in source.target.file.constants for f in write.schema.fields):
        return "it lacks a column whose values its partition has"
    return None


class GraftedFile:
    """Made of row groups in order. Raises NotGraftable if the old file is not one this can be done with; nothing is left then."""

    def __init__(self, output: DeltaOutput, source: SourceFile) -> None:
        self._output, self._source = output, source
        self._assigned = _chosen(output.plan.write.schema, output.plan.assigned)
        self._assigned_arrow = file_schema(self._assigned)
        lineage = LINEAGE_FIELDS if output.has_lineage else ()
        self._lineage_arrow = file_schema(Schema(*lineage))
        self._nans = GraftNans(source)
        self._groups = 0
        self._apart = RowsApart()
        self.location = output.location(output.plan.write, source.data_file.partition, "parquet")
        self._stream: Any = output.io.new_output(self.location).create(overwrite=True)
        output.opened.append(self._stream)
        try:
            self._writer = GraftWriter(
                source.stream,
                self._stream,
                keep=[f.field_id for f in (*output.plan.write.schema.fields, *lineage)],
                changed=pa.schema([*self._assigned_arrow, *self._lineage_arrow]),
                settings=output.settings(source),
                path=source.path,
            )
            names = [name.lower() for name in self._writer.arrow_schema.names]
            if len(set(names)) < len(names):
                raise NotGraftable("a column of the table has the name of another one in it")
        except NotGraftable:
            self._discard()
            raise

    @property
    def can_encode_groups(self) -> bool:
        return self._writer.can_encode_groups

    def copy(self, group: ChangedGroup) -> None:
        """A row group that loses no row."""
        columns = [*self._assigned_columns(group), *self._lineage_columns(group)]
        made = pa.RecordBatch.from_arrays([array for _, array in columns], schema=pa.schema([field for field, _ in columns])) if columns else None
        self._writer.copy_group(group.index, made)
        self._nans.copied(group.index)
        self._groups += 1

    def forget(self, groups: Sequence[ChangedGroup]) -> None:
        """They did not come into the file: bytes of them that did belong to no row group."""
        for group in groups:
            self._nans.forget(group.index)

    def encode(self, groups: Sequence[ChangedGroup], *, apart: bool = False) -> None:
        """Row groups as one, without the rows they lose; a column at a time, so that one is in memory, or two where that is little.

        apart: changed rows go to a row group of their own behind it.
        """
        changed: dict[str, list[pa.Array]] | None = {} if apart else None  # what cannot come into the file shows before the group has
        columns = (self._encoded_column(field, groups, changed) for field in self._writer.arrow_schema)
        raw_size = sum(self._source.footer.row_group(group.index).total_byte_size for group in groups)
        rows = sum(group.kept - (len(group.updated) if apart else 0) for group in groups)
        with closing(_ahead(columns) if raw_size <= MOST_AHEAD else columns) as made:
            self._writer.encode_columns(rows, made)
        self._groups += 1
        if changed is not None:
            self._apart.add(changed)
            if self._apart.are_many:
                self._encode_apart()

    def _encode_apart(self) -> None:
        if self._apart.rows:
            self._writer.encode_columns(self._apart.rows, self._apart.taken(self._writer.arrow_schema))

    def close(self) -> None:
        if not self._groups:
            self._discard()
            return
        self._encode_apart()
        size, footer = self._writer.close()
        self._output.opened.remove(self._stream)
        self._stream.close()
        old = self._source.data_file
        made = data_file_from_footer(
            path=self.location,
            size=size,
            footer=footer,
            spec_id=old.spec_id,
            partition=old.partition,
            config=self._output.metrics,
            sort_order_id=kept_sort_order(self._output, old),
            nan_counts=self._nans.totals(self._writer.arrow_schema),
        )
        self._output.written.append(self._with_known_bounds(made))

    def _assigned_columns(self, group: ChangedGroup) -> list[tuple[pa.Field, pa.Array]]:
        if len(group.updated):
            fields, target = self._assigned, self._assigned_arrow
        else:
            fields = Schema(*(f for f in self._assigned.fields if f.name in self._writer.encode_everywhere))
            target = file_schema(fields)
        if not fields.fields:
            return []
        if group.values is not None and len(group.updated) == group.rows:
            before, after = None, group.values
        else:
            before = self._source.whole_columns(group.index, fields, target)
            after = group.updating(before) if len(group.updated) else before
        self._nans.encoded(group.index, before, after)
        return list(zip(after.schema, after.columns, strict=True))

    def _lineage_columns(self, group: ChangedGroup) -> list[tuple[pa.Field, pa.Array]]:
        if not self._output.has_lineage:
            return []
        asked_for = any(field.name in self._writer.encode_everywhere for field in self._lineage_arrow)
        if not asked_for and not len(group.updated) and self._source.has_whole_lineage(group.index):
            return []
        own = self._source.lineage_columns(group.index) if self._source.lineage_names else None
        return list(zip(self._lineage_arrow, carried_lineage(self._source, own, group.start, group.rows, group.updated), strict=True))

    def _encoded_column(self, field: pa.Field, groups: Sequence[ChangedGroup], changed: dict[str, list[pa.Array]] | None) -> pa.ChunkedArray:
        """What stays of a column of the new file; one that is not assigned in the form the old file has it in. changed: takes the new values, where they go apart."""
        chunks = []
        for group in groups:
            before, after = self._column(field, group)
            kept = group.keeping(after)
            self._nans.encoded(group.index, before, pa.RecordBatch.from_arrays([kept], schema=pa.schema([field])))
            if changed is not None:
                kept, apart = group.parted(after)
                changed.setdefault(field.name, []).extend(self._writer.fitting(field.name, apart).chunks)
            chunks.append(kept)
        return pa.chunked_array(chunks)

    def _column(self, field: pa.Field, group: ChangedGroup) -> tuple[pa.RecordBatch | None, pa.Array]:
        """A column of a row group as it was and with new values; the former only where NaNs are counted in it."""
        field_id = field_id_of(field)
        if self._output.has_lineage and field_id in (ROW_ID, ROW_SEQUENCE):
            own = self._source.lineage_columns(group.index) if self._source.lineage_names else None
            lineage = carried_lineage(self._source, own, group.start, group.rows, group.updated)
            return None, lineage[0] if field_id == ROW_ID else lineage[1]
        assert field_id is not None
        assigned = next((f for f in self._assigned.fields if f.field_id == field_id), None)
        if assigned is None:
            array = _joined(self._source.column(group.index, self._source.names[field_id]))
            before = pa.RecordBatch.from_arrays([array], schema=pa.schema([self._source.physical.field(self._source.names[field_id])]))
            return before, _cast(array, field.type)
        before = self._source.whole_columns(group.index, Schema(assigned), file_schema(Schema(assigned)))
        return before, group.updating(before).column(0)

    def _with_known_bounds(self, made: DataFile) -> DataFile:
        """Bounds the old file was known to have hold for columns that only lost rows, where its footer does not say them."""
        old, columns = self._source.data_file, self._output.metrics.columns
        assigned = self._assigned._lazy_id_to_field
        known = {i for i in made.column_sizes if columns[i].mode.bounds and i not in assigned}
        return replace(
            made,
            lower_bounds={i: v for i, v in old.lower_bounds.items() if i in known} | made.lower_bounds,
            upper_bounds={i: v for i, v in old.upper_bounds.items() if i in known} | made.upper_bounds,
        )

    def _discard(self) -> None:
        self._output.opened.remove(self._stream)
        self._output.locations.remove(self.location)
        with suppress(Exception):
            self._stream.close()
        delete_file(self._output.io, self.location)


def kept_sort_order(output: DeltaOutput, old: DataFile) -> int | None:
    """The order the old file's rows were in, if they still are: removing rows keeps it, assigning to what it sorts by does not."""
    order, assigned = output.plan.write.sort_order, output.plan.assigned
    if not assigned:
        return old.sort_order_id
    sorted_by = {f.source_id for f in order.fields}
    is_known = old.sort_order_id == order.order_id
    return old.sort_order_id if is_known and sorted_by.isdisjoint(_chosen(output.plan.write.schema, assigned)._lazy_id_to_field) else None


def _chosen(schema: Schema, field_ids: tuple[int, ...]) -> Schema:
    return Schema(*(f for f in schema.fields if f.field_id in field_ids))


def _ahead(columns: Iterator[pa.ChunkedArray]) -> Generator[pa.ChunkedArray]:
    """The same columns, each made by another thread while its predecessor is in use."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, columns, None)
        while (column := coming.result()) is not None:
            coming = pool.submit(next, columns, None)
            yield column


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type == kind else array.cast(kind)
