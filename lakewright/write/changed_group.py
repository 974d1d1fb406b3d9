"""What happens to the rows of one row group, and how it is done to Arrow arrays: no Python per row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.write.delta_rows import Positions

Rows = TypeVar("Rows", pa.RecordBatch, pa.Array)


@dataclass(frozen=True)
class ChangedGroup:
    """Rows are counted from the group's first, which is at `start` in the file. values: new ones of the assigned columns, for `updated`."""

    index: int
    start: int
    rows: int
    removed: Positions
    updated: Positions
    values: pa.RecordBatch | None

    @property
    def kept(self) -> int:
        return self.rows - len(self.removed)

    def part(self, at: int, rows: int) -> ChangedGroup:
        """The same for some of the rows, counted from the first of them."""
        first, last = (int(n) for n in np.searchsorted(self.updated, (at, at + rows)))
        values = self.values.slice(first, last - first) if self.values is not None else None
        return ChangedGroup(self.index, self.start + at, rows, _within(self.removed, at, rows), self.updated[first:last] - at, values)

    def updating(self, columns: pa.RecordBatch) -> pa.RecordBatch:
        """Assigned columns with their new values."""
        if self.values is None or not len(self.updated):
            return columns
        arrays = [replaced(columns.column(name), self.updated, self.values.column(name)) for name in columns.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=columns.schema)

    def keeping(self, rows: Rows) -> Rows:
        """The rows that stay."""
        chosen: Rows = rows.filter(self._stays) if len(self.removed) else rows
        return chosen

    def parted(self, column: pa.Array) -> tuple[pa.Array, pa.Array]:
        """The values of rows that stay and are not updated, and of those that are."""
        return column.filter(self._untouched), column.take(pa.array(self.updated))

    @cached_property
    def _stays(self) -> pa.BooleanArray:
        return self._without(self.removed)

    @cached_property
    def _untouched(self) -> pa.BooleanArray:
        return self._without(np.concatenate((self.removed, self.updated)))

    def _without(self, left_out: Positions) -> pa.BooleanArray:
        stays = np.ones(self.rows, dtype=bool)
        stays[left_out] = False
        return pa.array(stays)


def replaced(column: pa.Array, at: Positions, values: pa.Array) -> pa.Array:
    """The column with other values at some places, given in order."""
    if isinstance(column, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(column.type, replaced(column.storage, at, values.storage))
    if len(at) == len(column):
        return values
    if not pa.types.is_nested(column.type):
        mask = np.zeros(len(column), dtype=bool)
        mask[at] = True
        return pc.replace_with_mask(column, pa.array(mask), values)
    places = np.arange(len(column))
    places[at] = np.arange(len(column), len(column) + len(at))
    return pa.concat_arrays([column, values]).take(pa.array(places))


def _within(places: Positions, at: int, rows: int) -> Positions:
    first, last = np.searchsorted(places, (at, at + rows))
    return places[first:last] - at
