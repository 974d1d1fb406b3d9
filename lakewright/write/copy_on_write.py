"""Copy-on-write: a touched file is written anew, by graft where its bytes can be used, and through Arrow where not.

Row groups that lose no row are grafted. Those that do are encoded beside them; if the old file's physical form cannot stand
beside ours, their rows go into a file of their own, so that no change makes bytes decoded that it does not concern.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from lakewright.format.graft import NotGraftable
from lakewright.options import ROW_GROUP_SIZE
from lakewright.plan.delta import DELETE, MATCH, MOVE, UPDATE
from lakewright.read.arrow_scan import DeletedRows
from lakewright.write.arrow_rows import file_schema
from lakewright.write.changed_group import ChangedGroup
from lakewright.write.delta_output import DeltaOutput
from lakewright.write.delta_rows import NOTHING, DeltaRows, DeltaStream, Positions, new_values
from lakewright.write.fanout import FanoutWriter
from lakewright.write.grafted_file import GraftedFile, graft_obstacle, kept_sort_order
from lakewright.write.group_rows import group_rows
from lakewright.write.rows_apart import are_few, sets_apart
from lakewright.write.source_file import SourceFile

TINY_SHARE, TINY_ROWS = 4, 10_000


def rewrite_file(output: DeltaOutput, number: int, stream: DeltaStream, deletes: DeletedRows) -> None:
    """Take the file's delta rows from the stream and write it anew; a file that no row changes is left alone."""
    with SourceFile(output.io, output.plan, output.plan.files[number], deletes) as source:
        _Rewrite(output, source, number).changed_by(stream)


def copy_file(output: DeltaOutput, number: int, deletes: DeletedRows) -> None:
    """Write a part anew that no row changes, since other parts of its file are."""
    with SourceFile(output.io, output.plan, output.plan.files[number], deletes) as source:
        _Rewrite(output, source, number).run(iter(_unchanged(source)))


class _Rewrite:
    def __init__(self, output: DeltaOutput, source: SourceFile, number: int) -> None:
        self._output, self._source, self._number = output, source, number
        plan = output.plan
        self._assigned = Schema(*(f for f in plan.write.schema.fields if f.field_id in plan.assigned))
        self._assigned_arrow = file_schema(self._assigned)
        self._graft: GraftedFile | None = None
        self._is_graftable = graft_obstacle(output, source) is None
        self._sets_apart = False
        self._tiny = max(source.largest_rows / TINY_SHARE, TINY_ROWS)
        self._fanout: FanoutWriter | None = None

    def changed_by(self, stream: DeltaStream) -> None:
        untouched: list[tuple[int, int, DeltaRows]] = []
        groups = self._taken(stream)
        for index, start, rows in groups:
            if len(rows) and (rows.actions != MATCH).any():
                self._output.touched.add(self._source.path)
                self.run(chain(untouched, [(index, start, rows)], groups))
                return
            untouched.append((index, start, NOTHING))

    def run(self, groups: Iterator[tuple[int, int, DeltaRows]]) -> None:
        self._sets_apart = sets_apart(self._output, self._source, is_sorted=bool(kept_sort_order(self._output, self._source.data_file))) and self._can_encode_groups()
        changes = _Peekable(self._change(index, start, rows) for index, start, rows in groups)
        while (group := changes.next()) is not None:
            if not group.kept:
                continue
            together = self._with_neighbours(group, changes) if self._is_encoded(group) else [group]
            self._output.copied += sum(group.kept - len(group.updated) for group in together)
            if not self._is_grafted(together):
                for group in together:
                    self._stream(group)
        if self._graft is not None:
            self._graft.close()
        if self._fanout is not None:
            self._output.closed(self._fanout)
        self._output.rewritten.add(self._number)
        self._output.drop(self._source.scan)

    def _taken(self, stream: DeltaStream) -> Iterator[tuple[int, int, DeltaRows]]:
        """Each row group with the position of its first row and its delta rows."""
        for index, start in self._source.groups():
            yield index, start, stream.take(self._number, start + self._source.rows_in(index))
        stream.finish(self._number)

    def _change(self, index: int, start: int, rows: DeltaRows) -> ChangedGroup:
        gone, updated, values = self._source.deleted_in(index, start), _NONE, None
        if len(rows):
            self._output.counts.update(rows.counted())
            moved, updates = rows.of(MOVE), rows.of(UPDATE)
            if len(moved):
                self._output.move(moved, self._source, index, start)
            leaving = rows.of(DELETE, MOVE).positions - start
            gone = np.union1d(gone, leaving) if len(gone) else leaving
            if len(updates):
                updated = updates.positions - start
                values = new_values(updates.rows, self._assigned, self._assigned_arrow, self._output.plan.write.table)
        return ChangedGroup(index, start, self._source.rows_in(index), gone, updated, values)

    def _is_encoded(self, group: ChangedGroup) -> bool:
        """Whether all columns of the row group are encoded: it loses rows, be it to a group behind it, or is one that an earlier change left there."""
        return len(group.removed) > 0 or (self._sets_apart and (are_few([group]) or group.kept < self._tiny))

    def _with_neighbours(self, group: ChangedGroup, changes: _Peekable) -> list[ChangedGroup]:
        """The row group, and those after it that are encoded too, as long as either would be tiny on its own and both are no more than a row group can be."""
        together, rows, size = [group], self._staying(group), self._size(group)
        while (after := changes.peek()) is not None and self._is_encoded(after) and min(rows, self._staying(after)) < self._tiny:
            rows, size = rows + self._staying(after), size + self._size(after)
            if rows > self._source.largest_rows + self._tiny or size > max(self._output.plan.write.options[ROW_GROUP_SIZE], self._source.largest_size):
                break
            changes.next()
            together += [after] if after.kept else []
        return together

    def _staying(self, group: ChangedGroup) -> int:
        return group.kept - (len(group.updated) if self._sets_apart else 0)

    def _size(self, group: ChangedGroup) -> float:
        return self._source.size_of(group.index) * self._staying(group) / max(group.rows, 1)

    def _is_grafted(self, groups: list[ChangedGroup]) -> bool:
        """Whether the old file could be used for them. If not, it will not be for those to come either."""
        try:
            graft = self._opened_graft() if self._is_graftable else None
            if graft is None:
                return False
            if not self._is_encoded(groups[0]):
                graft.copy(groups[0])
            elif graft.can_encode_groups:
                graft.encode(groups, apart=self._sets_apart and are_few(groups))
            else:
                return False
        except NotGraftable:
            self._is_graftable = False
            if self._graft is not None:
                self._graft.forget(groups)
            return False
        return True

    def _can_encode_groups(self) -> bool:
        try:
            return self._is_graftable and self._opened_graft().can_encode_groups
        except NotGraftable:
            self._is_graftable = False
            return False

    def _opened_graft(self) -> GraftedFile:
        if self._graft is None:
            self._graft = GraftedFile(self._output, self._source)
        return self._graft

    def _stream(self, group: ChangedGroup) -> None:
        """The rows that stay, in the table's columns and under its current partition spec."""
        source, output = self._source, self._output
        if self._fanout is None:
            order = output.plan.write.sort_order
            is_sorted = order.order_id == kept_sort_order(output, source.data_file)
            self._fanout = output.fanout(lineage=output.has_lineage, sort_order=order if is_sorted else UNSORTED_SORT_ORDER)
        for rows in group_rows(output, source, group, self._assigned):
            self._fanout.write(rows)


class _Peekable:
    def __init__(self, changes: Iterator[ChangedGroup]) -> None:
        self._changes = changes
        self._ahead: list[ChangedGroup] = []

    def peek(self) -> ChangedGroup | None:
        if not self._ahead:
            self._ahead.extend(_first(self._changes))
        return self._ahead[0] if self._ahead else None

    def next(self) -> ChangedGroup | None:
        found = self.peek()
        self._ahead.clear()
        return found


def _first(changes: Iterator[ChangedGroup]) -> list[ChangedGroup]:
    found = next(changes, None)
    return [] if found is None else [found]


def _unchanged(source: SourceFile) -> Iterator[tuple[int, int, DeltaRows]]:
    for index, start in source.groups():
        yield index, start, NOTHING


_NONE: Positions = np.empty(0, np.int64)
