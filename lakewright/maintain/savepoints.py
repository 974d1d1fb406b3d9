"""Savepoints: tags that no expiry removes, and that a branch can be restored to.

A savepoint is an Iceberg tag of its name, so every engine reads it and keeps its snapshot. The tag says itself that it is kept
for ever, since a table's property may limit those that do not say. A property of the table tells savepoints from other tags.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakewright.commit import refs
from lakewright.commit.change import MetadataChange
from lakewright.commit.refs import SAVEPOINT, Retention
from lakewright.commit.result import Commit, commit_of
from lakewright.commit.store import Store, TableState
from lakewright.commit.updates import Update, now_ms, remove_properties, remove_ref, set_properties
from lakewright.errors import RefExists, SavepointNotFound
from lakewright.format.metadata import Metadata
from lakewright.maintain.recorded import publish_recorded
from lakewright.read.tables import WHEN, frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOR_EVER = Retention(max_ref_age_ms=2**63 - 1)
SAVEPOINTS = pa.schema([("name", pa.string()), ("snapshot_id", pa.int64()), ("committed_at", WHEN), ("saved_at", WHEN)])


@dataclass(frozen=True)
class Savepoint:
    name: str
    snapshot_id: int
    saved_ms: int


def savepoints(metadata: Metadata) -> dict[str, Savepoint]:
    names = (key.removeprefix(SAVEPOINT) for key in metadata.properties if key.startswith(SAVEPOINT))
    recorded = {name: refs.savepoint(metadata, name) for name in names}
    return {name: Savepoint(name, said["snapshot-id"], said["saved-at-ms"]) for name, said in recorded.items() if said is not None}


def save(store: Store, state: TableState, name: str, at: int | str | Commit | None) -> tuple[TableState, Commit]:
    """Make a savepoint at the newest commit, or at the given one. One that is there already, at the same place, is left as it is."""
    saved_ms = now_ms()
    tagged = refs.create(state.name, name, at, "tag", FOR_EVER)

    def updates(metadata: Metadata) -> list[Update]:
        snapshot_id = refs.snapshot_id_at(metadata, at, state.name)
        there = savepoints(metadata).get(name)
        if there is not None and there.snapshot_id == snapshot_id:
            return []
        if there is not None:
            raise RefExists(
                f"{state.name} already has a savepoint {name!r}, at snapshot {there.snapshot_id}; drop it first (t.drop_savepoint({name!r})) or choose another name.",
                table=state.name,
            )
        value = json.dumps({"snapshot-id": snapshot_id, "saved-at-ms": saved_ms})
        return [*tagged.updates(metadata), *set_properties({SAVEPOINT + name: value})]

    def saved(metadata: Metadata) -> int:
        return savepoints(metadata)[name].snapshot_id

    after = publish_recorded(store, state, "savepoint", MetadataChange("savepoint", updates, tagged.requirements), at=saved)
    return after, commit_of(after.metadata.snapshot(saved(after.metadata)))


def drop(store: Store, state: TableState, name: str) -> TableState:
    def updates(metadata: Metadata) -> list[Update]:
        known = savepoints(metadata)
        if name not in known:
            raise SavepointNotFound(f"{state.name} has no savepoint {name!r}; it has {', '.join(sorted(known)) or 'none'}.", table=state.name)
        return [remove_ref(name), *remove_properties([SAVEPOINT + name])]

    change = MetadataChange("drop savepoint", updates, lambda metadata: [refs.unchanged(metadata, name)])
    return publish_recorded(store, state, change.what, change, at=lambda metadata: None)


def savepoints_frame(spark: SparkSession, metadata: Metadata) -> DataFrame:
    """Savepoints, oldest first."""
    known = sorted(savepoints(metadata).values(), key=lambda s: (s.saved_ms, s.name))
    return frame_of(spark, SAVEPOINTS, [(s.name, s.snapshot_id, metadata.snapshot(s.snapshot_id).timestamp_ms * 1000, s.saved_ms * 1000) for s in known])
