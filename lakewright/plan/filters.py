"""A `where` as Spark filters with it and as Iceberg prunes with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression
from pyiceberg.schema import Schema

from lakewright.errors import InvalidFilter

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True)
class Filter:
    """sql: what Spark filters with (None: every row).

    iceberg: inclusive, so a file it rules out holds no matching row. strict: a file whose every row satisfies it holds only rows
    for which the SQL is TRUE (AlwaysFalse where that cannot be told). exact: row by row, iceberg says what the SQL says.
    """

    sql: str | Column | None
    iceberg: BooleanExpression
    strict: BooleanExpression
    exact: bool


def parse_where(
    where: str | Column | None,
    schema: Schema,
    table: str | None = None,
    *,
    session_tz: str | None = None,
    deterministic: bool = False,
    also: Iterable[str] = (),
) -> Filter:
    """Parse and check a filter; a Column is taken as it is and prunes nothing, since Spark has no public way to look into one.

    session_tz: the session's time zone, without which wall times prune nothing. deterministic=True refuses what may give another
    answer when evaluated again (rand(), now(), …), as an overwrite must. also: names that are no columns of the schema but may be used.
    """
    if where is None:
        return Filter(None, AlwaysTrue(), AlwaysTrue(), True)
    if not isinstance(where, str):
        return Filter(where, AlwaysTrue(), AlwaysFalse(), False)
    from lakewright.plan.filter_text import translate  # half a second to import, and many processes see no filter

    pair = translate(where, schema, table, session_tz, deterministic=deterministic, also=set(also))
    return Filter(where, pair.inclusive, pair.strict, pair.exact)


@contextmanager
def resolving(where: str | Column | None, table: str) -> Iterator[None]:
    """Around handing a filter to Spark, which knows functions and types that the parser leaves to it."""
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as error:
        if where is None:
            raise
        reason = str(error).splitlines()[0]
        raise InvalidFilter(f"Spark cannot apply the where {str(where)!r} to {table}: {reason}", table=table) from error
