"""Branches and tags."""

from __future__ import annotations

import re

from lakewright.commit.change import MetadataChange
from lakewright.commit.result import Commit
from lakewright.commit.updates import Update, remove_ref, set_ref
from lakewright.errors import InvalidOption, RefExists, RefNotFound
from lakewright.format.metadata import MAIN, Json, Metadata


def create(table: str, name: str, at: int | str | Commit | None, kind: str) -> MetadataChange:
    if not re.fullmatch(r"[\w][\w.\-/]*", name) or name.isdigit():
        raise InvalidOption(f"{name!r} is not a name for a {kind}; use letters, digits, '_', '-', '.' and '/', and not digits only.", table=table)

    def updates(metadata: Metadata) -> list[Update]:
        if name in metadata.refs or name == MAIN:
            raise RefExists(f"{table} already has a {metadata.refs.get(name, {}).get('type', 'branch')} {name!r}; drop it first (t.drop_ref({name!r})) or choose another name.", table=table)
        return [set_ref(name, _snapshot_id(metadata, at, table), kind)]

    return MetadataChange(f"create {kind}", updates, lambda metadata: [_unchanged(metadata, name)])


def drop(table: str, name: str) -> MetadataChange:
    def updates(metadata: Metadata) -> list[Update]:
        if name == MAIN:
            raise InvalidOption(f"The main branch of {table} cannot be dropped.", table=table)
        if name not in metadata.refs:
            raise RefNotFound(f"{table} has no branch or tag {name!r}; it has {', '.join(sorted(metadata.refs)) or 'none'}.", table=table)
        return [remove_ref(name)]

    return MetadataChange("drop ref", updates, lambda metadata: [_unchanged(metadata, name)])


def _snapshot_id(metadata: Metadata, at: int | str | Commit | None, table: str) -> int:
    if isinstance(at, Commit):
        at = at.snapshot_id
    if isinstance(at, int):
        return metadata.snapshot(at).snapshot_id
    head = metadata.head(at or MAIN)
    if head is None:
        raise RefNotFound(f"{table} has no snapshot yet, so there is nothing for a branch or tag to point to. Write rows first.", table=table)
    return head.snapshot_id


def _unchanged(metadata: Metadata, name: str) -> Json:
    return {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": metadata.refs.get(name, {}).get("snapshot-id")}
