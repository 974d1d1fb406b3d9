"""Which snapshot a read sees: the head, or one by id, by time, by branch or by tag."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Protocol, runtime_checkable
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyiceberg.schema import Schema

from lakewright.commit.result import is_compaction
from lakewright.errors import InvalidOption, RefNotFound
from lakewright.format.metadata import MAIN, Metadata, Snapshot

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@runtime_checkable
class HasSnapshot(Protocol):
    """A Commit, or anything else that names a snapshot."""

    @property
    def snapshot_id(self) -> int | None: ...


Moment = datetime | str | int | HasSnapshot


def resolve(
    metadata: Metadata,
    *,
    snapshot_id: int | HasSnapshot | None = None,
    as_of: Moment | None = None,
    ref: str | None = None,
    time_zone: str | None = None,
) -> Snapshot | None:
    """The snapshot meant; None only for a table without snapshots that is read without time travel.

    `as_of` gives the state of the main branch at that time, also before a rollback: a datetime, an ISO string or milliseconds since
    1970. A time without a zone is taken in `time_zone` (the session's), else in this machine's. A Commit means its own snapshot.
    """
    given = {name: value for name, value in (("snapshot_id", snapshot_id), ("as_of", as_of), ("ref", ref)) if value is not None}
    if len(given) > 1:
        raise InvalidOption(f"A read takes one of snapshot_id, as_of and ref; it got {' and '.join(given)}.")
    if snapshot_id is not None:
        return metadata.snapshot(_named(snapshot_id) if isinstance(snapshot_id, HasSnapshot) else int(snapshot_id))
    if as_of is not None:
        if isinstance(as_of, HasSnapshot):
            return metadata.snapshot(_named(as_of))
        return at_time(metadata, to_millis(as_of, time_zone))
    return metadata.head(ref if ref is not None else MAIN)


def optimized_snapshot(metadata: Metadata, snapshot: Snapshot | None) -> Snapshot | None:
    """The newest snapshot in the line up to this one that is a compaction or has no delete files; this one where none is kept."""
    line = metadata.ancestors(snapshot.snapshot_id if snapshot else None)
    return next((s for s in line if is_compaction(s) or s.summary.get("total-delete-files") == "0"), snapshot)


def read_schema(
    metadata: Metadata, snapshot: Snapshot | None, *, snapshot_id: int | HasSnapshot | None = None, as_of: Moment | None = None, ref: str | None = None
) -> Schema:
    """The schema of a read asked for like this: the current one for the head and for branches, the snapshot's own for an id, a time or a tag."""
    is_tag = ref is not None and metadata.refs.get(ref, {}).get("type") == "tag"
    if snapshot is None or snapshot.schema_id is None or (snapshot_id is None and as_of is None and not is_tag):
        return metadata.schema
    return metadata.schemas.get(snapshot.schema_id, metadata.schema)


def to_millis(moment: datetime | str | int, time_zone: str | None = None, name: str = "as_of") -> int:
    """Milliseconds since 1970 of a moment; digits alone are milliseconds already. name: what it was given as."""
    if isinstance(moment, bool) or not isinstance(moment, (datetime, str, int)):
        raise InvalidOption(f"{name} is {moment!r}; it takes a datetime, an ISO date or time, milliseconds since 1970, or a Commit.")
    if isinstance(moment, int):
        return moment
    if isinstance(moment, str):
        text = moment.strip()
        if text.lstrip("-").isdigit() and len(text) > 8:
            return int(text)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise InvalidOption(f"{name} is {text!r}, which is no date or time; write it as 2024-05-01T12:30:00, with +00:00 or Z for UTC.") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=_zone(time_zone)) if time_zone else moment.astimezone()
    return (moment - EPOCH) // _MILLISECOND


_MILLISECOND = datetime(1970, 1, 1, 0, 0, 0, 1000) - datetime(1970, 1, 1)


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        offset = datetime.fromisoformat(f"2000-01-01T00:00:00{name.removeprefix('GMT').removeprefix('UTC') or '+00:00'}").tzinfo
        return offset or UTC


def _named(holder: HasSnapshot) -> int:
    if holder.snapshot_id is None:
        raise RefNotFound("That commit wrote nothing into a table without snapshots, so there is nothing to read at it.")
    return holder.snapshot_id


def at_time(metadata: Metadata, millis: int) -> Snapshot:
    """What main pointed to at a time. The log is kept in the order main moved, which clocks of several writers may not follow."""
    log = metadata.raw.get("snapshot-log") or _log_from_parents(metadata)
    chosen = next((entry["snapshot-id"] for entry in reversed(log) if entry["timestamp-ms"] <= millis), None)
    if chosen is not None:
        return metadata.snapshot(chosen)
    if not log:
        raise RefNotFound("The table has no snapshot yet, so there is no earlier state to read.")
    earliest = log[0]
    raise RefNotFound(
        f"Nothing is kept from before {time_text(earliest['timestamp-ms'])}, and as_of is {time_text(millis)}: the earliest usable state is snapshot {earliest['snapshot-id']}."
    )


def _log_from_parents(metadata: Metadata) -> list[dict[str, int]]:
    head = metadata.head()
    line = list(metadata.ancestors(head.snapshot_id)) if head else []
    return [{"snapshot-id": s.snapshot_id, "timestamp-ms": s.timestamp_ms} for s in reversed(line)]


def time_text(millis: int) -> str:
    try:
        return (EPOCH + millis * _MILLISECOND).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return f"{millis} ms"
