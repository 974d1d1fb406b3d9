"""The table that a statement writes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewright.errors import NotABranch
from lakewright.plan.request import MAIN
from lakewright.sql.cursor import Name
from lakewright.sql.errors import point, unsupported
from lakewright.sql.frames import Frames
from lakewright.sql.names import require

if TYPE_CHECKING:
    from lakewright.table import Table


def writable(frames: Frames, name: Name) -> tuple[Table, str]:
    """The table and the branch of it that a name means."""
    found = require(frames.lake, frames.sql, name)
    if found.metadata is not None:
        raise unsupported(f"{name.text} shows what the table is made of, and cannot be written.", frames.sql, name.start)
    if found.ref is not None and name.parts[-1].lower().startswith("tag_"):
        error = NotABranch(f"{found.ref!r} is named as a tag of {found.table.name}, and tags stay where they are; write to a branch.", table=found.table.name)
        raise point(error, frames.sql, name.start)
    return found.table, found.ref or MAIN
