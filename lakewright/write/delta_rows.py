"""A task's delta rows, which come sorted by file and position, handed out in pieces: at most a row group's worth is held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema

from lakewright.errors import CorruptFile
from lakewright.plan.delta import ACTION, CLAUSE, FILE, MATCH, NO_FILE, POSITION, DeltaPlan, value_column
from lakewright.write.arrow_rows import to_file_schema
from lakewright.write.delta_messages import matched_twice

Positions = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class DeltaRows:
    """Delta rows of one file, each position once, in order."""

    rows: pa.RecordBatch
    positions: Positions
    actions: np.ndarray[Any, Any]

    def of(self, *actions: int) -> DeltaRows:
        chosen = np.isin(self.actions, actions)
        return self if chosen.all() else self._chosen(chosen)

    def counted(self) -> dict[int, int]:
        """Rows of each clause that changes something."""
        clauses, counts = np.unique(_numbers(self.rows, CLAUSE)[self.actions != MATCH], return_counts=True)
        return {int(clause): int(count) for clause, count in zip(clauses, counts, strict=True)}

    def after(self, position: int) -> DeltaRows:
        return self._chosen(self.positions > position)

    def _chosen(self, chosen: np.ndarray[Any, Any]) -> DeltaRows:
        return DeltaRows(self.rows.filter(pa.array(chosen)), self.positions[chosen], self.actions[chosen])

    def __len__(self) -> int:
        return len(self.positions)


class DeltaStream:
    """The sorted rows of a task, read once from the front."""

    def __init__(self, plan: DeltaPlan, batches: Iterator[pa.RecordBatch]) -> None:
        self._plan = plan
        self._batches = batches
        self._batch: pa.RecordBatch | None = None
        self._files = np.empty(0, np.int64)

    def next_file(self) -> int | None:
        """FILE of the next row; None at the end."""
        return int(self._files[0]) if self._fill() else None

    def inserts(self) -> Iterator[pa.RecordBatch]:
        """The rows of no file, which come first."""
        while (part := self._cut(NO_FILE, lambda _: None)) is not None:
            yield part

    def take(self, file: int, before: int) -> DeltaRows:
        """The next rows of the file whose positions are below `before`."""
        parts = list(iter(lambda: self._cut(file, lambda rows: int(np.searchsorted(_numbers(rows, POSITION), before))), None))
        rows = pa.concat_batches(parts) if parts else None
        return self._once(file, rows)

    def pieces(self, file: int) -> Iterator[DeltaRows]:
        """All rows of the file, in pieces as they come."""
        last = -1
        while (part := self._cut(file, lambda _: None)) is not None:
            piece = self._once(file, part)
            if piece.positions[0] == last:
                self._refuse_twice(file, last)
                piece = piece.after(last)
            if len(piece):
                last = int(piece.positions[-1])
                yield piece

    def finish(self, file: int) -> None:
        """Says that the file has no more positions than were taken."""
        if self.next_file() == file:
            assert self._batch is not None
            raise CorruptFile(
                f"Data file {self._path(file)} has no row {_numbers(self._batch, POSITION)[0]}, which was read from it before: it was overwritten since. "
                f"Restore it, or roll table {self._plan.write.table} back to a snapshot that does not use it."
            )

    def _fill(self) -> bool:
        while self._batch is None or not self._batch.num_rows:
            batch = next(self._batches, None)
            if batch is None:
                self._batch = None
                return False
            self._batch, self._files = batch, _numbers(batch, FILE)
        return True

    def _cut(self, file: int, limit: Callable[[pa.RecordBatch], int | None]) -> pa.RecordBatch | None:
        """What the batch at hand has of the file, as far as the limit; None when there is nothing more."""
        if not self._fill() or self._files[0] != file:
            return None
        assert self._batch is not None
        end = int(np.searchsorted(self._files, file, side="right"))
        own = self._batch.slice(0, end)
        up_to = limit(own)
        if up_to is not None:
            own = own.slice(0, up_to)
        self._batch, self._files = self._batch.slice(own.num_rows), self._files[own.num_rows :]
        return own if own.num_rows else None

    def _once(self, file: int, rows: pa.RecordBatch | None) -> DeltaRows:
        if rows is None:
            return NOTHING
        positions, actions = _numbers(rows, POSITION), _numbers(rows, ACTION)
        again = np.flatnonzero(positions[1:] == positions[:-1])
        if not len(again):
            return DeltaRows(rows, positions, actions)
        self._refuse_twice(file, int(positions[again[0]]))
        first = np.concatenate(([True], positions[1:] != positions[:-1]))
        return DeltaRows(rows.filter(pa.array(first)), positions[first], actions[first])

    def _refuse_twice(self, file: int, position: int) -> None:
        if self._plan.once:
            raise matched_twice(self._path(file), position, self._plan.write.table)

    def _path(self, file: int) -> str:
        return self._plan.files[file].file.scan.data_file.file_path


NOTHING = DeltaRows(pa.RecordBatch.from_pydict({CLAUSE: pa.array([], pa.int64())}), np.empty(0, np.int64), np.empty(0, np.int64))


def new_values(rows: pa.RecordBatch, fields: Schema, target: pa.Schema, table: str) -> pa.RecordBatch:
    """The values delta rows give to the fields, in the types that go into files."""
    return to_file_schema(rows.select([value_column(f.field_id) for f in fields.fields]), target, fields, table)


def _numbers(rows: pa.RecordBatch, name: str) -> Positions:
    column = rows.column(name)
    numbers: Positions = (column.fill_null(-1) if column.null_count else column).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers
