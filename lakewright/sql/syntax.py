"""Whether Spark can read what a statement leaves to it, asked before any statement of the text runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lakewright.sql import statements as st
from lakewright.sql.cursor import Slice
from lakewright.sql.errors import sql_error
from lakewright.sql.ready import edited
from lakewright.sql.spark_errors import told_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_syntax(spark: SparkSession, statement: st.Statement) -> None:
    """Spark Connect has no way to read a text without resolving it; there, mistakes show when the statement's turn comes."""
    session: Any = getattr(spark, "_jsparkSession", None)
    if session is None:
        return
    parser = session.sessionState().sqlParser()
    for text in _queries(statement):
        with told_of(text, edited(text, ())), _telling_too_deep(text):
            parser.parsePlan(text.text)
    for text in _expressions(statement):
        with told_of(text, edited(text, ())), _telling_too_deep(text):
            parser.parseExpression(text.text)


@contextmanager
def _telling_too_deep(text: Slice) -> Iterator[None]:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    try:
        yield
    except Py4JJavaError as error:
        if "StackOverflowError" not in str(error):
            raise
        raise sql_error("This is nested deeper than Spark can read.", text.sql, text.start) from None


def _queries(statement: st.Statement) -> Iterator[Slice]:
    match statement:
        case st.Explain():
            yield from _queries(statement.explained)
        case st.Query():
            yield statement.text
        case st.Insert() | st.CreateView():
            yield statement.query
        case st.CreateTable() if statement.query is not None:
            yield statement.query
        case st.Merge() if statement.source.text.startswith("("):
            yield statement.source


def _expressions(statement: st.Statement) -> Iterator[Slice]:
    match statement:
        case st.Explain():
            yield from _expressions(statement.explained)
        case st.Insert() if statement.replace_where is not None:
            yield statement.replace_where
        case st.Delete() if statement.where is not None:
            yield statement.where
        case st.Update():
            yield from (each.value for each in statement.values)
            yield from [statement.where] if statement.where is not None else []
        case st.Merge():
            yield statement.on
            for clause in statement.clauses:
                yield from [clause.condition] if clause.condition is not None else []
                yield from (each.value for each in clause.values or ())
