"""Operations that meet, at the commit layer: what each does to plain rows, and the change it makes of a table, step by step.

The table is filed by region: eu has files of 10 and 20, 30 and 40, 50 and 60, 70 and 80, us of 90 and 100, 110 and 120. One of
two files has another row that was deleted earlier, merged on read. The first operation is about row 10; the second about the
same row, row 20 of the same file, row 50 of the same partition, or row 90.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import And, BooleanExpression, GreaterThanOrEqual, LessThanOrEqual
from pyroaring import BitMap64
from sqlalchemy import event

from lakewright.commit.change import OVERWRITE, REPLACE, SERIALIZABLE, SnapshotChange
from lakewright.commit.store import PointerStore, TableState
from lakewright.errors import CommitConflict
from lakewright.format.data_file import DataFile
from lakewright.format.metadata import Snapshot
from lakewright.format.storage import local_path
from lakewright.plan.delta import MERGE_ON_READ
from lakewright.plan.overwrite import with_their_deletes
from lakewright.plan.request import Clause, Command, RowRequest, Then, When
from lakewright.read.positions import deleted_positions
from lakewright.read.scan import FileScan, plan_scan
from lakewright.rows.execute import _change
from lakewright.rows.row_plan import RowContext, RowPlan
from lakewright.write.delta_write import Materialised
from tests.commit.kit import EPOCH, Kit
from tests.commit.stores import Rival

KINDS = ("append", "overwrite", "delete", "update", "merge", "rewrite")
ROW_LEVEL = ("delete", "update", "merge")
KEYS = {"same row": 10, "same file": 20, "same partition": 50, "disjoint": 90}
SCOPES = tuple(KEYS)
STOPS = ("read", "plan", "write", "validate")
FILES = {(10, 20): "eu", (30, 40): "eu", (50, 60): "eu", (70, 80): "eu", (90, 100): "us", (110, 120): "us"}
COMMITS, CONFLICT = "commits", "conflict"

Row = tuple[int, str, date]
Rows = Counter[Row]
Steps = Generator[str, None, SnapshotChange | None]


def day(number: int) -> date:
    """Values are days, since the table has a column of them."""
    return EPOCH + timedelta(days=number)


def unsynced(kit: Kit) -> None:
    """Let SQLite not wait for the disk, which takes longer than all the rest."""
    assert isinstance(kit.catalog, SqlCatalog)
    event.listen(kit.catalog.engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous = OFF"))
    kit.catalog.engine.dispose()


class Ground(Kit):
    """The table, and the way back to how it began."""

    def __init__(self, folder: Path, version: int, mode: str, properties: Mapping[str, str] | None = None) -> None:
        modes = {f"write.{command}.mode": mode for command in ROW_LEVEL}
        super().__init__(folder, partition_by=["region"], format_version=version, properties={**modes, **(properties or {})})
        unsynced(self)
        self.mode = mode
        files = [self.file([(n, region, day(n)) for n in (*ids, ids[0] + 5)]) for ids, region in FILES.items()]
        self.publish(self.change(added=files))
        self.publish(self.delta(*(self.row_deletes(file, BitMap64([2])) for file in files[::2]), touched=files[::2]))
        self.publish(self.replacement(files[1::2], *(self.file([(n, region, day(n)) for n in ids]) for ids, region in list(FILES.items())[1::2])))
        self.beginning = self.load()
        self.before = self.rows()

    def reset(self) -> Ground:
        assert isinstance(self.store, PointerStore)
        self.store.swap(self.load(), self.beginning.metadata_location, self.beginning.metadata)
        self.state = self.beginning
        return self

    def rows(self) -> Rows:
        """What PyIceberg reads."""
        columns = self.iceberg.scan().to_arrow().select(["id", "region", "day"]).to_pydict().values()
        return Counter(zip(*columns, strict=True))

    def row_deletes(self, file: DataFile, positions: BitMap64) -> DataFile:
        if self.state.metadata.format_version >= 3:
            return self.vectors(file, positions=list(positions))[0]
        return self.position_deletes(file, positions=list(positions))


@dataclass(frozen=True)
class Operation:
    """One operation about a row. Values tell which of two writers it was, and none of their updates commute."""

    kind: str
    scope: str = "same row"
    writer: int = 1
    isolation: str = SERIALIZABLE

    @property
    def key(self) -> int:
        return KEYS[self.scope]

    @property
    def region(self) -> str:
        return "us" if self.scope == "disjoint" else "eu"

    @property
    def other_key(self) -> int:
        """A merge has a source row for this key too, which the table does not have."""
        return self.key + 1 if self.writer == 1 else self.key - 1

    @property
    def keys(self) -> tuple[int, ...]:
        return (self.key, self.other_key) if self.kind == "merge" else (self.key,)

    @cached_property
    def filter(self) -> BooleanExpression:
        return And(GreaterThanOrEqual("id", min(self.keys)), LessThanOrEqual("id", max(self.keys)))

    @property
    def appended(self) -> tuple[int, ...]:
        """An append has no file in common with anything: here one that by its bounds may hold the row, and does not."""
        return (5, 15) if self.scope == "same file" else (self.key,)

    @property
    def rewritten(self) -> tuple[int, ...]:
        """Rows of the two files a rewrite joins."""
        return {"same partition": (50, 60, 70, 80), "disjoint": (90, 100, 110, 120)}.get(self.scope, (10, 20, 30, 40))

    def new(self, number: int) -> Row:
        return number, self.region, day(1000 * self.writer)

    def updated(self, row: Row) -> Row:
        value = (row[2] - EPOCH).days
        return row[0], row[1], day(2 * value + 1 if self.writer == 1 else 3 * value)

    def after(self, rows: Rows) -> Rows:
        """The rows after the operation."""
        chosen = Counter({row: count for row, count in rows.items() if row[0] in self.keys})
        match self.kind:
            case "append":
                return rows + Counter(map(self.new, self.appended))
            case "overwrite":
                return rows - chosen + Counter([self.new(self.key)])
            case "delete":
                return rows - chosen
            case "update" | "merge":
                updated = rows - chosen + Counter(map(self.updated, chosen.elements()))
                missing = set(self.keys) - {row[0] for row in chosen} if self.kind == "merge" else set()
                return updated + Counter(map(self.new, missing))
        return rows

    # The same at the commit layer

    def steps(self, ground: Ground) -> Steps:
        """The names of steps as they are done, and at the end the change to commit, None where there is nothing to do."""
        state = ground.load()
        head = state.metadata.head()
        yield "read"
        scanned = plan_scan(state.io, state.metadata, head, None if self.kind in ("append", "rewrite") else self.filter).files
        located = [(scan, list(_live(ground, scan))) for scan in scanned]
        yield "plan"
        match self.kind:
            case "append":
                change: SnapshotChange | None = ground.change(added=[ground.file(map(self.new, self.appended))])
            case "overwrite":
                change = self._replaced(ground, state, head, located)
            case "rewrite":
                change = self._rewritten(ground, state, head, located)
            case _:
                change = self._changed(ground, state, head, located)
        yield "write"
        return change

    def _replaced(self, ground: Ground, state: TableState, head: Snapshot | None, located: list[Located]) -> SnapshotChange:
        removed, vectors = with_their_deletes(state, state.metadata, head, [scan for scan, _ in located])
        kept = [row for _, rows in located for _, row in rows if row[0] != self.key]
        added = [ground.file([*kept, self.new(self.key)])]
        return ground.change(
            OVERWRITE, added=added, removed=removed, removed_vectors=vectors, read_snapshot_id=_id(head), isolation=self.isolation, filter=self.filter
        )

    def _rewritten(self, ground: Ground, state: TableState, head: Snapshot | None, located: list[Located]) -> SnapshotChange:
        own = [(scan, rows) for scan, rows in located if any(row[0] in self.rewritten for _, row in rows)]
        removed, vectors = with_their_deletes(state, state.metadata, head, [scan for scan, _ in own])
        added = [ground.file([row for _, rows in own for _, row in rows])]
        return ground.change(REPLACE, added=added, removed=removed, removed_vectors=vectors, read_snapshot_id=_id(head))

    def _changed(self, ground: Ground, state: TableState, head: Snapshot | None, located: list[Located]) -> SnapshotChange | None:
        """What rows/execute.py declares for a delta that was materialised by hand."""
        touched = [(scan, rows) for scan, rows in located if any(row[0] in self.keys for _, row in rows)]
        seen = {row[0] for _, rows in touched for _, row in rows}
        inserted = [self.new(key) for key in self.keys if key not in seen] if self.kind == "merge" else []
        if not touched and not inserted:
            return None
        clauses = (Clause(When.MATCHED, Then.DELETE if self.kind == "delete" else Then.UPDATE),)
        options = ground.options(**{f"{self.kind}_isolation_level": self.isolation})
        context = RowContext(cast(Any, None), state, state.metadata, head, options, ground.mode, cast(Any, None))
        made = self._merged_on_read(ground, touched, inserted) if ground.mode == MERGE_ON_READ else self._copied(ground, touched, inserted)
        request = RowRequest(Command(self.kind), clauses)
        return _change(context, request, RowPlan(read=tuple(scan for scan, _ in located), filter=self.filter), made)

    def _copied(self, ground: Ground, touched: list[Located], inserted: list[Row]) -> Materialised:
        rewritten = [[new for _, row in rows for new in self._new_rows(row)] for _, rows in touched]
        added = tuple(ground.file(rows) for rows in [*rewritten, inserted] if rows)
        paths = frozenset(scan.data_file.file_path for scan, _ in touched)
        return Materialised(added, (), paths, paths, frozenset(), frozenset(), {}, 0)

    def _merged_on_read(self, ground: Ground, touched: list[Located], inserted: list[Row]) -> Materialised:
        deletes, replaced, vectors = [], set(), set()
        moved = [new for _, rows in touched for _, row in rows if row[0] in self.keys for new in self._new_rows(row)]
        for scan, rows in touched:
            path, gone = scan.data_file.file_path, BitMap64(at for at, row in rows if row[0] in self.keys)
            if len(gone) == len(rows):
                replaced.add(path)
            elif ground.state.metadata.format_version >= 3:
                deletes.append(ground.row_deletes(scan.data_file, gone | deleted_positions(ground.state.io, scan)))
                vectors |= {path} if scan.deletes else set()
            else:
                deletes.append(ground.row_deletes(scan.data_file, gone))
        added = tuple(ground.file(rows) for rows in (moved, inserted) if rows)
        paths = frozenset(scan.data_file.file_path for scan, _ in touched)
        return Materialised(added, tuple(deletes), paths, frozenset(replaced), frozenset(vectors), frozenset(), {}, 0)

    def _new_rows(self, row: Row) -> list[Row]:
        """What becomes of a row."""
        if row[0] not in self.keys:
            return [row]
        return [] if self.kind == "delete" else [self.updated(row)]


Located = tuple[FileScan, list[tuple[int, Row]]]


def _live(ground: Ground, scan: FileScan) -> Iterator[tuple[int, Row]]:
    """Positions and rows of a file, without those deleted."""
    columns = pq.read_table(local_path(scan.data_file.file_path) or "", columns=["id", "region", "day"]).to_pydict().values()
    gone = deleted_positions(ground.state.io, scan)
    return ((at, row) for at, row in enumerate(zip(*columns, strict=True)) if at not in gone)


def _id(head: Snapshot | None) -> int | None:
    return head.snapshot_id if head else None


def plan(ground: Ground, operation: Operation) -> list[SnapshotChange]:
    """All steps up to the commit."""
    return finished(operation.steps(ground), lambda step: None)


def finished(steps: Steps, seen: Callable[[str], object]) -> list[SnapshotChange]:
    while True:
        try:
            seen(next(steps))
        except StopIteration as done:
            return [] if done.value is None else [done.value]


def run(ground: Ground, operation: Operation, stop: str | None = None, meanwhile: Callable[[], object] = lambda: None) -> str:
    """Run an operation; once a step is done (for "validate": all but the publish) something else happens, then it goes on."""
    changes = finished(operation.steps(ground), lambda step: meanwhile() if step == stop else None)
    try:
        if changes:
            ground.publish(*changes, store=Rival(ground.store, meanwhile) if stop == "validate" else None)
    except CommitConflict:
        return CONFLICT
    return COMMITS


def serial(rows: Rows, *operations: Operation) -> Rows:
    for operation in operations:
        rows = operation.after(rows)
    return rows


def serial_results(rows: Rows, a: Operation, b: Operation) -> Iterable[Rows]:
    return serial(rows, a, b), serial(rows, b, a)
