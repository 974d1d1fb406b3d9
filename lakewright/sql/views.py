"""Temporary views over lake tables: kept by the lake as text, so that they see new commits; all others are Spark's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewright.sql.errors import sql_error, unsupported
from lakewright.sql.frames import Frames, View
from lakewright.sql.lexer import tokens_within
from lakewright.sql.references import references
from lakewright.sql.statements import CreateView, DropView

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def create_view(frames: Frames, statement: CreateView) -> DataFrame | None:
    """Keep the view, or let Spark make it where nothing of the lake is in it."""
    lake = frames.lake
    rows = frames.query(statement.query)  # what is wrong with it is told now, not at its first use
    if not frames.reads_lake:
        return frames.query(statement.text)
    if not statement.temporary:
        raise unsupported("A lake keeps no views of its own; use CREATE TEMPORARY VIEW, which sees new commits.", frames.sql, statement.start)
    if len(statement.name.parts) > 1:
        raise sql_error("A temporary view has a name of one part.", frames.sql, statement.name.start)
    name = statement.name.text.lower()
    if name in lake.views and not statement.replace:
        raise sql_error(f"There already is a view {statement.name.text}; use CREATE OR REPLACE TEMPORARY VIEW.", frames.sql, statement.name.start)
    if statement.columns and len(statement.columns) != len(rows.columns):
        raise sql_error(f"The view names {len(statement.columns)} columns, and its query gives {len(rows.columns)}.", frames.sql, statement.name.end)
    view = View(frames.sql, statement.query, statement.columns, frames.parameters, frames.given)
    if name in _used(frames, view):
        raise sql_error(f"The view {statement.name.text} would be made of itself.", frames.sql, statement.name.start)
    lake.views[name] = view
    return None


def drop_view(frames: Frames, statement: DropView) -> DataFrame | None:
    if len(statement.name.parts) == 1 and frames.lake.views.pop(statement.name.text.lower(), None) is not None:
        return None
    return frames.query(statement.text)


def _used(frames: Frames, view: View) -> set[str]:
    """The views of the lake that a view is made of, directly or not."""
    found: set[str] = set()
    pending = [view]
    while pending:
        each = pending.pop()
        for reference in references(each.sql, tokens_within(each.sql, each.query.start, each.query.end)):
            name = reference.name.text.lower()
            if name in frames.lake.views and reference.arguments is None and name not in found and reference.name.text not in each.given:
                found.add(name)
                pending.append(frames.lake.views[name])
    return found
