"""Files of a table that no kept version of it refers to."""

from __future__ import annotations

from lakewright.format.storage import list_files
from lakewright.maintain.orphans import _name, reachable
from lakewright.table import Table


def strays(table: Table) -> list[str]:
    state = table.refresh()._state
    used = {_name(path) for path in reachable(state)}
    return [f.path for folder in ("data", "metadata") for f in list_files(state.io, f"{table.location}/{folder}") if _name(f.path) not in used]
