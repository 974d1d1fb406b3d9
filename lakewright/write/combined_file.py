"""New data files out of several old ones of one partition: row groups copied as bytes, and those that cannot be joined to larger ones."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema

from lakewright.format.graft_join import JoinWriter, Member
from lakewright.format.lineage import LINEAGE_FIELDS, ROW_ID_NAME, ROW_SEQUENCE_NAME
from lakewright.format.metrics import data_file_from_footer
from lakewright.format.parquet_footer import Footer, NotGraftable
from lakewright.format.storage import delete_file
from lakewright.options import COMPACT_COPY, COMPACT_MIN_ROW_GROUP, ROW_GROUP_LIMIT, ROW_GROUP_SIZE
from lakewright.write.arrow_rows import file_schema, nan_counts
from lakewright.write.carried_lineage import carried_lineage
from lakewright.write.changed_group import ChangedGroup
from lakewright.write.delta_output import DeltaOutput
from lakewright.write.graft_nans import GraftNans
from lakewright.write.group_rows import group_rows
from lakewright.write.rolling import MOST_BUFFERED
from lakewright.write.source_file import NONE_DELETED, SourceFile

NO_COLUMNS = Schema()


def least_copied(output: DeltaOutput) -> int:
    """Bytes from which on a row group is worth being kept as it is."""
    options = output.plan.write.options
    return int(min(options[COMPACT_MIN_ROW_GROUP], options[ROW_GROUP_SIZE] // 4))


def is_copied(output: DeltaOutput, source: SourceFile, index: int, largest: float) -> bool:
    """Whether a row group that loses no row is of a size to keep."""
    return bool(output.plan.write.options[COMPACT_COPY]) and least_copied(output) <= source.size_of(index) <= largest


class CombinedFile:
    """One new file of a partition. Raises NotGraftable where `like`, the file whose form it takes, turns out not to fit what comes.

    keeps_order: rows stay in the order they are given in, so that a sorted file stays sorted.
    """

    def __init__(self, output: DeltaOutput, partition: tuple[Any, ...], settings: dict[str, Any], like: Footer | None, *, largest: float, keeps_order: bool, sort_order_id: int | None) -> None:
        self._output, self._partition, self._sort_order_id = output, partition, sort_order_id
        self._largest, self._keeps_order = largest, keeps_order
        self._nans: Counter[int] = Counter()
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = self._waiting_rows = 0
        self._waiting_size = 0.0  # encoded, as the old files have it
        self.location = output.location(output.plan.write, partition, "parquet")
        self._stream: Any = output.io.new_output(self.location).create(overwrite=True)
        output.opened.append(self._stream)
        try:
            self._writer = JoinWriter(self._stream, output.carried_arrow, settings, like)
        except NotGraftable:
            self.discard()
            raise

    @property
    def size(self) -> float:
        """Bytes of the file so far, with what waits to be encoded."""
        return self._writer.size + self._waiting_size

    def member(self, source: SourceFile) -> Member | None:
        """The source as one whose bytes can be used; None if it is not."""
        if not source.names or not any(is_copied(self._output, source, index, self._largest) for index in source.row_groups):
            return None
        try:
            return self._writer.member(source.stream, source.path)
        except NotGraftable:
            return None

    def take(self, source: SourceFile, member: Member | None, nans: GraftNans, index: int, start: int) -> None:
        """The live rows of a row group."""
        removed = source.deleted_in(index, start)
        group = ChangedGroup(index, start, source.rows_in(index), removed, NONE_DELETED, None)
        if not group.kept:
            return
        if member is not None and not len(removed) and is_copied(self._output, source, index, self._largest):
            if self._keeps_order:
                self.flush()
            self._copy(source, member, nans, group)
        else:
            bytes_per_row = source.size_of(index) / group.rows
            for rows in group_rows(self._output, source, group, NO_COLUMNS):
                self._add(rows, bytes_per_row)

    def _add(self, rows: pa.RecordBatch, bytes_per_row: float) -> None:
        options = self._output.plan.write.options
        while rows.num_rows:
            part = rows.slice(0, options[ROW_GROUP_LIMIT] - self._waiting_rows)
            rows = rows.slice(part.num_rows)
            self._waiting.append(part)
            self._waiting_bytes += part.nbytes
            self._waiting_rows += part.num_rows
            self._waiting_size += part.num_rows * bytes_per_row
            if self._waiting_rows >= options[ROW_GROUP_LIMIT] or self._waiting_bytes >= MOST_BUFFERED or self._waiting_size >= options[ROW_GROUP_SIZE]:
                self.flush()

    def flush(self) -> None:
        """Encode what waits, as one row group."""
        if not self._waiting_rows:
            return
        for batch in self._waiting:
            self._nans.update(nan_counts(batch, self._output.carried_schema))
        self._writer.encode_rows(pa.Table.from_batches(self._waiting))
        self._waiting, self._waiting_bytes, self._waiting_rows, self._waiting_size = [], 0, 0, 0.0

    def settle(self, nans: GraftNans) -> None:
        """Count the NaNs of what was copied of one source, which must still be open."""
        self._nans.update(nans.totals(self._output.carried_arrow))

    def close(self) -> None:
        self.flush()
        size, footer = self._writer.close()
        if not footer.num_rows:
            self.discard()
            return
        self._output.opened.remove(self._stream)
        self._stream.close()
        made = data_file_from_footer(
            path=self.location,
            size=size,
            footer=footer,
            spec_id=self._output.plan.write.spec.spec_id,
            partition=self._partition,
            config=self._output.metrics,
            sort_order_id=self._sort_order_id,
            nan_counts=self._nans,
        )
        self._output.written.append(made)

    def discard(self) -> None:
        self._output.opened.remove(self._stream)
        self._output.locations.remove(self.location)
        with suppress(Exception):
            self._stream.close()
        delete_file(self._output.io, self.location)

    def _copy(self, source: SourceFile, member: Member, nans: GraftNans, group: ChangedGroup) -> None:
        columns: dict[str, pa.ChunkedArray] = {}
        missing = Schema(*(f for f in self._output.plan.write.schema.fields if f.name in member.encoded))
        if missing.fields:
            rows = source.whole_columns(group.index, missing, file_schema(missing))
            nans.encoded(group.index, None, rows)
            columns |= {name: pa.chunked_array([rows.column(name)]) for name in rows.schema.names}
        if self._output.has_lineage and not (source.has_whole_lineage(group.index) and member.encoded.isdisjoint((ROW_ID_NAME, ROW_SEQUENCE_NAME))):
            own = source.lineage_columns(group.index) if source.lineage_names else None
            lineage = carried_lineage(source, own, group.start, group.rows, group.updated)
            columns |= {field.name: pa.chunked_array([array]) for field, array in zip(LINEAGE_FIELDS, lineage, strict=True)}
        self._writer.copy_group(member, group.index, columns)
        self._output.copied += group.rows
        nans.copied(group.index)
