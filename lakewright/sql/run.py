"""`lake.sql`: each statement of the text, in order; the rows of the last one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakewright.commit.result import ROWS_DELETED, ROWS_INSERTED, ROWS_UPDATED, Commit
from lakewright.errors import InvalidOption
from lakewright.sql import looks, tables
from lakewright.sql import statements as st
from lakewright.sql.calls import call
from lakewright.sql.changes import change
from lakewright.sql.commands import check_command
from lakewright.sql.cursor import Cursor, Slice
from lakewright.sql.errors import unsupported
from lakewright.sql.explain import explain
from lakewright.sql.frames import Frames, check_given
from lakewright.sql.inserts import insert
from lakewright.sql.lexer import Token, statements
from lakewright.sql.missing import telling_missing
from lakewright.sql.names import require_table
from lakewright.sql.parameters import Parameters, check_args
from lakewright.sql.parser import parsed
from lakewright.sql.places import placing
from lakewright.sql.sparks import is_sparks
from lakewright.sql.syntax import check_syntax
from lakewright.sql.views import create_view, drop_view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakewright.lake import Lake

COMMITTED = "operation string, snapshot_id bigint, rows_inserted bigint, rows_updated bigint, rows_deleted bigint"


def run(lake: Lake, sql: str, args: Mapping[str, Any] | Sequence[Any] | None, given: Mapping[str, DataFrame]) -> DataFrame:
    """All of the text is read before any of it runs, so that a mistake in the last statement leaves everything as it was."""
    if not isinstance(sql, str):
        raise InvalidOption(f"The SQL is a {type(sql).__name__}; it takes a text.")
    check_args(args)
    check_given(given)
    read = [(parsed(Cursor(sql, tokens, end)), Parameters(args, sql, tokens), tokens) for _, end, tokens in statements(sql)]
    if not read:
        raise InvalidOption("There is no statement in the text.")
    for statement, _, _ in read:
        check_syntax(lake.spark, statement)
    rows = None
    for statement, parameters, tokens in read:
        frames = Frames(lake, sql, parameters, given)
        try:
            with placing(sql, statement, tokens), telling_missing(frames, tokens):
                rows = _ran(frames, statement, tokens)
        finally:
            frames.close()
    return lake.spark.createDataFrame([], "result string") if rows is None else rows


def _ran(frames: Frames, statement: st.Statement, tokens: Sequence[Token]) -> DataFrame | None:
    """The rows of one statement; None if it has none to give."""
    if is_sparks(frames, statement):
        return frames.query(Slice(frames.sql, statement.start, tokens[-1].end))
    match statement:
        case st.Query():
            check_command(frames, tokens)
            return frames.query(statement.text)
        case st.Explain():
            return explain(frames, statement)
        case st.Insert():
            return _committed(frames, insert(frames, statement))
        case st.Delete() | st.Update() | st.Merge() | st.Truncate():
            table, request = change(frames, statement)
            return _committed(frames, table._change_rows(request))
        case st.CreateTable():
            tables.create(frames, statement)
        case st.CreateLike():
            tables.create_like(frames, statement)
        case st.DropTable():
            tables.drop(frames, statement)
        case st.Namespace():
            tables.namespace(frames, statement)
        case st.Alter():
            tables.alter(frames, statement)
        case st.CreateView():
            return create_view(frames, statement)
        case st.DropView():
            return drop_view(frames, statement)
        case st.Show():
            return looks.show(frames, statement)
        case st.Describe():
            return looks.describe(frames, statement)
        case st.Analyze():
            return require_table(frames.lake, frames.sql, statement.table).analyze(statement.columns)
        case st.Call():
            return call(frames, statement)
        case _:
            raise unsupported("This statement is not known.", frames.sql, statement.start)
    return None


def _committed(frames: Frames, commit: Commit) -> DataFrame:
    inserted, updated, deleted = (int(commit.summary.get(key, -1)) for key in (ROWS_INSERTED, ROWS_UPDATED, ROWS_DELETED))
    if inserted < 0:  # not a change of single rows
        inserted, updated, deleted = commit.added_rows, 0, commit.deleted_rows
    return frames.lake.spark.createDataFrame([(commit.operation, commit.snapshot_id, inserted, updated, deleted)], COMMITTED)
