"""Which table of the lake a name in SQL means, and which part or version of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from lakewright.errors import InvalidOption, LakewrightError, NamespaceNotFound, TableNotFound
from lakewright.sql.cursor import Name
from lakewright.sql.errors import point, sql_error, unsupported

if TYPE_CHECKING:
    from lakewright.lake import Lake
    from lakewright.table import Table

METADATA = ("history", "snapshots", "files", "partitions", "refs", "manifests", "entries", "runs", "timeline")
_REFS = ("branch_", "tag_")


@dataclass(frozen=True)
class Found:
    """ref: a branch or tag. metadata: one of METADATA."""

    table: Table
    ref: str | None = None
    metadata: str | None = None


def find(lake: Lake, parts: Sequence[str]) -> Found | None:
    """The table of the lake, if it has one; a name of one part never is one, since it has no namespace."""
    whole = _loaded(lake, parts)
    if whole is not None:
        return Found(whole)
    last = parts[-1]
    ref = next((last[len(kind) :] for kind in _REFS if last.lower().startswith(kind)), None)
    metadata = last.lower() if last.lower() in METADATA else None
    table = _loaded(lake, parts[:-1]) if metadata or ref else None
    return None if table is None else Found(table, ref, metadata)


def require(lake: Lake, sql: str, name: Name) -> Found:
    found = find(lake, name.parts)
    if found is None:
        raise not_found(lake, sql, name)
    return found


def require_table(lake: Lake, sql: str, name: Name) -> Table:
    """A table as a whole: what changes its shape does not go to a branch."""
    found = require(lake, sql, name)
    if found.ref is not None or found.metadata is not None:
        raise unsupported(f"{name.text} is a part of {found.table.name}; name the table itself.", sql, name.start)
    return found.table


def new_name(sql: str, name: Name) -> str:
    """The name of a table to be made."""
    if any("." in part for part in name.parts):
        raise sql_error("The names of lake tables have no dots inside their parts; leave out the backticks, or choose another name.", sql, name.start)
    if len(name.parts) < 2:
        raise sql_error(f"A table's name has its namespace in front, like nyc.{name.text}.", sql, name.start)
    return name.text


def namespace_name(sql: str, name: Name) -> str:
    if any("." in part for part in name.parts):
        raise sql_error("The names of namespaces have no dots inside their parts; leave out the backticks, or choose another name.", sql, name.start)
    return name.text


def not_found(lake: Lake, sql: str, name: Name) -> LakewrightError:
    known = _known(lake)
    near = get_close_matches(name.text.lower(), [t.lower() for t in known], n=3, cutoff=0.6)
    named = [t for t in known if t.lower() in near or t.rsplit(".", 1)[-1].lower() == name.parts[-1].lower()]
    hint = f"Did you mean {', '.join(named)}?" if named else "lake.tables() lists those there are."
    if len(name.parts) < 2:
        hint = f"A table's name has its namespace in front, like nyc.{name.text}. {hint}"
    return point(TableNotFound(f"There is no table {name.text}. {hint}", table=name.text), sql, name.start)


def _known(lake: Lake) -> list[str]:
    try:
        return lake.tables()
    except LakewrightError:
        return []


def _loaded(lake: Lake, parts: Sequence[str]) -> Table | None:
    if len(parts) < 2 or any("." in part for part in parts):
        return None
    try:
        return lake.table(".".join(parts))
    except (TableNotFound, NamespaceNotFound, InvalidOption):
        return None
