"""A `where` as Spark filters with it and as Iceberg prunes with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True)
class Filter:
    """sql: what Spark filters with (None: every row).

    iceberg: inclusive, so a file it rules out holds no matching row. strict: a file whose every row satisfies it holds only rows
    for which the SQL predicate is TRUE (AlwaysFalse where that cannot be told). exact: row by row, iceberg says what the SQL says.
    """

    sql: str | Column | None
    iceberg: BooleanExpression
    strict: BooleanExpression
    exact: bool


def parse_where(
    where: str | Column | None, schema: Schema, table: str | None = None, *, session_tz: str | None = None, deterministic: bool = False
) -> Filter:
    """Parse and check a filter. session_tz: the session's time zone, without which timestamps prune nothing.

    deterministic=True refuses rand(), uuid(), current_timestamp() and the like, as an overwrite must.
    """
    raise NotImplementedError
