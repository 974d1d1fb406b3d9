"""Branches and tags."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass

from lakewright.commit.change import MetadataChange
from lakewright.commit.result import Commit
from lakewright.commit.updates import Update, remove_properties, remove_ref, set_ref
from lakewright.errors import InvalidOption, RefExists, RefNotFound
from lakewright.format.metadata import MAIN, Json, Metadata

SAVEPOINT = "lakewright.savepoint."  # and its name: the table property that tells a savepoint from other tags

@dataclass(frozen=True)
class Retention:
    """How long a branch or tag is kept, and how many and how old snapshots of a branch; None leaves it to the table's properties."""

    max_ref_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None

    def limits(self, kind: str, table: str) -> dict[str, int]:
        given = {key: value for key, value in asdict(self).items() if value is not None}
        if any(value < 1 for value in given.values()):
            raise InvalidOption(f"A {kind} of {table} is kept for {min(given.values())}; that takes a number above 0.", table=table)
        if kind == "tag" and given.keys() - {"max_ref_age_ms"}:
            raise InvalidOption(f"A tag of {table} is one snapshot; only a branch keeps a number of them.", table=table)
        return given


def create(table: str, name: str, at: int | str | Commit | None, kind: str, retention: Retention | None = None, *, replace: bool = False) -> MetadataChange:
    """replace: move it if it is there already; limits that are not given stay as they were."""
    limits = (retention or Retention()).limits(kind, table)
    if not re.fullmatch(r"[\w][\w.\-/]*", name) or name.isdigit():
        raise InvalidOption(f"{name!r} is not a name for a {kind}; use letters, digits, '_', '-', '.' and '/', and not digits only.", table=table)

    def updates(metadata: Metadata) -> list[Update]:
        there = metadata.refs.get(name, {})
        _require_no_savepoint(metadata, name, table)
        if there.get("type") not in (None, kind) or name == MAIN or (there and not replace):
            raise RefExists(f"{table} already has a {there.get('type', 'branch')} {name!r}; drop it first (t.drop_ref({name!r})) or choose another name.", table=table)
        kept = {limit: there[key] for limit in asdict(Retention()) if (key := limit.replace("_", "-")) in there}
        forgotten = [SAVEPOINT + name] if SAVEPOINT + name in metadata.properties else []  # of a savepoint another engine dropped
        return [set_ref(name, snapshot_id_at(metadata, at, table), kind, **{**kept, **limits}), *(remove_properties(forgotten) if forgotten else [])]

    return MetadataChange(f"create {kind}", updates, lambda metadata: [unchanged(metadata, name)])


def drop(table: str, name: str) -> MetadataChange:
    def updates(metadata: Metadata) -> list[Update]:
        if name == MAIN:
            raise InvalidOption(f"The main branch of {table} cannot be dropped.", table=table)
        if name not in metadata.refs:
            raise RefNotFound(f"{table} has no branch or tag {name!r}; it has {', '.join(sorted(metadata.refs)) or 'none'}.", table=table)
        _require_no_savepoint(metadata, name, table)
        return [remove_ref(name)]

    return MetadataChange("drop ref", updates, lambda metadata: [unchanged(metadata, name)])


def savepoint(metadata: Metadata, name: str) -> Json | None:
    """What is recorded of a savepoint, if its tag is still where it was put: another engine may have dropped or moved it."""
    said = metadata.properties.get(SAVEPOINT + name)
    recorded: Json | None = None if said is None else json.loads(said)
    ref = metadata.refs.get(name, {})
    return recorded if recorded and ref.get("type") == "tag" and ref["snapshot-id"] == recorded["snapshot-id"] else None


def _require_no_savepoint(metadata: Metadata, name: str, table: str) -> None:
    if savepoint(metadata, name) is not None:
        raise RefExists(f"{name!r} is a savepoint of {table}, which is neither moved nor dropped as a tag; t.drop_savepoint({name!r}) gives it up.", table=table)


def snapshot_id_at(metadata: Metadata, at: int | str | Commit | None, table: str) -> int:
    if isinstance(at, Commit):
        at = at.snapshot_id
    if isinstance(at, int):
        return metadata.snapshot(at).snapshot_id
    head = metadata.head(at or MAIN)
    if head is None:
        raise RefNotFound(f"{table} has no snapshot yet, so there is nothing for a branch or tag to point to. Write rows first.", table=table)
    return head.snapshot_id


def unchanged(metadata: Metadata, name: str) -> Json:
    return {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": metadata.refs.get(name, {}).get("snapshot-id")}
