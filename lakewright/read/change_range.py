"""Which commits lie between two points of a table's history, and in which direction each is gone through."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pyiceberg.schema import Schema

from lakewright.errors import InvalidOption, RangeNotFound, RefNotFound
from lakewright.format.metadata import MAIN, Metadata, Snapshot
from lakewright.read.timetravel import HasSnapshot, Moment, at_time, read_schema, time_text, to_millis

REPLACE = "replace"
TIMES = range(10**11, 10**14)  # milliseconds of 1973 to 5138; the ids of snapshots are drawn from 63 bits


@dataclass(frozen=True)
class Step:
    """From one state to the next. snapshot_id: the commit that made the difference, or that is undone. None is the empty table."""

    snapshot_id: int
    before: Snapshot | None
    after: Snapshot | None


@dataclass(frozen=True)
class Range:
    """What lies in (since, until]. begin: since itself, or where its line and that of until part.

    undone: the way up from a since that was rolled back; done: the way down from begin. Commits that only moved rows to other files
    are in neither.
    """

    begin: Snapshot | None
    until: Snapshot | None
    schema: Schema
    undone: tuple[Step, ...]
    done: tuple[Step, ...]


def resolve_range(
    metadata: Metadata, table: str, since: Moment | None, until: Moment | None, *, ref: str | None = None, time_zone: str | None = None
) -> Range:
    head = metadata.head(ref or MAIN)
    points = _Points(metadata, table, head, ref or MAIN, time_zone)
    begin, end = points.of("since", since), head if until is None else points.of("until", until)
    points.check_order(since, until, begin, end)
    schema = read_schema(metadata, end, snapshot_id=None if until is None or end is None else end.snapshot_id, ref=ref if until is None else None)
    if since is None or begin is None:
        return Range(None, end, schema, (), _done(_line(metadata, end)))
    line, until_line = _line(metadata, begin), _line(metadata, end)
    fork = points.fork(line, until_line)
    undone = _undone(line[: _index(line, fork)], fork)
    return Range(fork, end, schema, undone, _done(until_line[: _index(until_line, fork)], fork))


class _Points:
    """What since and until name, in one table."""

    def __init__(self, metadata: Metadata, table: str, head: Snapshot | None, ref: str, time_zone: str | None) -> None:
        self.metadata, self.table, self.head, self.ref, self.time_zone = metadata, table, head, ref, time_zone

    def of(self, name: str, given: Moment | None) -> Snapshot | None:
        """None for what lies before the first commit: nothing given, or a commit that wrote nothing into an empty table."""
        if given is None:
            return None
        if isinstance(given, HasSnapshot):
            return None if given.snapshot_id is None else self._known(name, given.snapshot_id)
        number = _number(given)
        if number is not None and (self.metadata.has_snapshot(number) or not _may_be_time(given)):
            return self._known(name, number)
        return self._at(name, to_millis(given, self.time_zone, name))

    def check_order(self, since: Moment | None, until: Moment | None, begin: Snapshot | None, end: Snapshot | None) -> None:
        """A since that was rolled back may lie after until; else the way back is a mistake."""
        backwards = begin is not None and end is not None and begin.snapshot_id != end.snapshot_id and end.snapshot_id in _ids(_line(self.metadata, begin))
        if backwards and begin is not None and end is not None:
            current = _ids(_line(self.metadata, self.head))
            backwards = not (end.snapshot_id in current and begin.snapshot_id not in current)
        if backwards or self._times_cross(since, until):
            raise InvalidOption(f"The changes of {self.table} are asked for since {_shown(since)}, which is later than until, {_shown(until)}; change them round.", table=self.table)

    def fork(self, line: list[Snapshot], until_line: list[Snapshot]) -> Snapshot | None:
        """The newest state that both lines have; None where both begin with the empty table."""
        shared = _ids(until_line)
        found = next((snapshot for snapshot in line if snapshot.snapshot_id in shared), None)
        if found is None and any(one and one[-1].parent_id is not None for one in (line, until_line)):
            raise self._missing(f"since, snapshot {line[0].snapshot_id}, and until share no commit that is still kept")
        return found

    def _known(self, name: str, snapshot_id: int) -> Snapshot:
        if not self.metadata.has_snapshot(snapshot_id):
            raise self._missing(f"{name} is snapshot {snapshot_id}, which is unknown or has expired")
        return self.metadata.snapshot(snapshot_id)

    def _at(self, name: str, millis: int) -> Snapshot:
        if self.ref == MAIN:
            try:
                return at_time(self.metadata, millis)
            except RefNotFound:
                found = None
        else:
            found = next((snapshot for snapshot in _line(self.metadata, self.head) if snapshot.timestamp_ms <= millis), None)
        if found is None:
            raise self._missing(f"{name} is {time_text(millis)}, from before the oldest commit that is kept")
        return found

    def _missing(self, what: str) -> RangeNotFound:
        line = _line(self.metadata, self.head)
        if not line:
            return RangeNotFound(f"{self.table} has no such range of changes: {what}. The table has no commit yet.", table=self.table)
        earliest = line[-1]
        return RangeNotFound(
            f"{self.table} has no such range of changes: {what}. The earliest usable commit is snapshot {earliest.snapshot_id} "
            f"of {time_text(earliest.timestamp_ms)}; leave since out to begin with all of its rows.",
            table=self.table,
        )

    def _times_cross(self, since: Moment | None, until: Moment | None) -> bool:
        first, last = self._millis(since), self._millis(until)
        return first is not None and last is not None and first > last

    def _millis(self, given: Moment | None) -> int | None:
        """What was given as a time."""
        number = _number(given)
        if not isinstance(given, (datetime, str, int)) or (number is not None and self.metadata.has_snapshot(number)):
            return None
        return to_millis(given, self.time_zone)


def _number(given: object) -> int | None:
    if isinstance(given, str) and given.strip().lstrip("-").isdigit():
        return int(given)
    return given if isinstance(given, int) and not isinstance(given, bool) else None


def _may_be_time(given: object) -> bool:
    """Digits may be milliseconds, and up to eight of them in a text a date."""
    return _number(given) in TIMES or (isinstance(given, str) and len(given.strip()) <= 8)


def _shown(given: object) -> str:
    return f"snapshot {given.snapshot_id}" if isinstance(given, HasSnapshot) else str(given)


def _line(metadata: Metadata, snapshot: Snapshot | None) -> list[Snapshot]:
    """The snapshot and its ancestors, newest first."""
    return [] if snapshot is None else list(metadata.ancestors(snapshot.snapshot_id))


def _ids(line: list[Snapshot]) -> set[int]:
    return {snapshot.snapshot_id for snapshot in line}


def _index(line: list[Snapshot], fork: Snapshot | None) -> int:
    return len(line) if fork is None else next(at for at, snapshot in enumerate(line) if snapshot.snapshot_id == fork.snapshot_id)


def _done(newest_first: list[Snapshot], begin: Snapshot | None = None) -> tuple[Step, ...]:
    """The first of all states is compared with the empty table, also where what led to it has expired."""
    steps, before = [], begin
    for snapshot in reversed(newest_first):
        if snapshot.operation != REPLACE or before is None:
            steps.append(Step(snapshot.snapshot_id, before, snapshot))
        before = snapshot
    return tuple(steps)


def _undone(newest_first: list[Snapshot], fork: Snapshot | None) -> tuple[Step, ...]:
    parents = [*newest_first, fork][1:]
    return tuple(Step(s.snapshot_id, s, parent) for s, parent in zip(newest_first, parents, strict=True) if s.operation != REPLACE or parent is None)
