"""Statements that a lake has too, about a table or namespace that is Spark's alone: they go to Spark as they are."""

from __future__ import annotations

from lakewright.quoting import quoted
from lakewright.sql import statements as st
from lakewright.sql.cursor import Name
from lakewright.sql.frames import Frames
from lakewright.sql.names import find


def is_sparks(frames: Frames, statement: st.Statement) -> bool:
    match statement:
        case st.Insert() | st.Delete() | st.Update() | st.Merge() | st.Truncate() | st.Alter() | st.DropTable() | st.Describe() | st.Analyze():
            return _is_table(frames, statement.table)
        case st.Show() if statement.name is not None:
            return _is_namespace(frames, statement.name) if statement.what in ("TABLES", "NAMESPACES") else _is_table(frames, statement.name)
        case _:
            return False


def _is_table(frames: Frames, name: Name) -> bool:
    if len(name.parts) == 1 and name.text.lower() in frames.lake.views:
        return False
    return find(frames.lake, name.parts) is None and bool(frames.lake.spark.catalog.tableExists(_written(name)))


def _is_namespace(frames: Frames, name: Name) -> bool:
    return name.text not in frames.lake.namespaces() and bool(frames.lake.spark.catalog.databaseExists(_written(name)))


def _written(name: Name) -> str:
    return ".".join(map(quoted, name.parts))
