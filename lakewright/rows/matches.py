"""The message of a MERGE that matched a row several times: which key it was, not only where the row is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlglot
from pyiceberg.schema import Schema
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakewright.errors import DuplicateKey, LakewrightError, MultipleMatches
from lakewright.plan.delta import ACTION, INSERT, value_column
from lakewright.plan.names import match_name
from lakewright.plan.request import RowRequest
from lakewright.quoting import quoted
from lakewright.read.layout import FILE, POSITION
from lakewright.rows.merge_source import SOURCE_ROW, MergeSource
from lakewright.rows.row_plan import RowContext, RowPlan
from lakewright.write.delta_at_hand import DeltaAtHand
from lakewright.write.delta_messages import place_of_match

if TYPE_CHECKING:
    from collections.abc import Sequence


def explain_matches(context: RowContext, request: RowRequest, plan: RowPlan, error: MultipleMatches) -> LakewrightError:
    """The same error with the key of one such row, looked up where the task found it."""
    place = place_of_match(str(error))
    shown = None if place is None else _row(context, request, plan, *place)
    which = f", for example the one with {shown}" if shown else ""
    return MultipleMatches(
        f"The merge into {context.table} found several source rows for one row of the table{which}. Nothing was changed. "
        "Keep one source row per key, for example with dropDuplicates.",
        table=context.table,
    )


def require_new(plan: RowPlan, source: MergeSource, request: RowRequest, table: str) -> None:
    """Raise DuplicateKey if a source row has a match."""
    found = None if plan.matches is None else plan.matches.select(SOURCE_ROW).first()
    if found is None:
        return
    row = source.rows.where(f"{SOURCE_ROW} = {found[0]}").select(*map(quoted, source.columns)).first()
    named = {} if row is None else {name: row[name] for name in source.columns if isinstance(request.on, str) and quoted(name) in request.on}
    shown = ", ".join(f"{name} = {value!r}" for name, value in named.items())
    raise already_there(shown or f"its first columns are {row and row[:3]}", table)


def already_there(shown: str, table: str) -> DuplicateKey:
    return DuplicateKey(
        f"A record for {table} has a key that is already there: {shown}. Nothing was written. Use upsert to replace rows, or insert(…, drop_duplicates=True) to leave those records out.",
        table=table,
    )


def require_unique(plan: RowPlan, request: RowRequest, schema: Schema, table: str) -> None:
    """Raise DuplicateKey if two rows to insert have one key."""
    from pyspark.sql import functions as F

    if plan.delta is None or isinstance(plan.delta, DeltaAtHand):
        return
    keys = [value_column(field_id) for field_id in request.unique]
    twice = plan.delta.where(F.col(ACTION) == INSERT).groupBy(*keys).count().where(F.col("count") > 1).first()
    if twice is not None:
        shown = ", ".join(f"{schema.find_column_name(field_id)} = {twice[key]!r}" for field_id, key in zip(request.unique, keys, strict=True))
        raise DuplicateKey(f"The merge into {table} would insert several rows of one key: {shown}. Nothing was written. Keep one source row per key, or use upsert, which combines them.", table=table)


def _row(context: RowContext, request: RowRequest, plan: RowPlan, path: str, position: int) -> str | None:
    from pyspark.sql import functions as F

    names = _key_columns(context, request)
    scanned = [f for f in plan.read if f.data_file.file_path == path]
    if not scanned or plan.located is None:
        return None
    from lakewright.read.located import located_rows

    rows, called = located_rows(context.spark, context.state.io, context.metadata, scanned, context.schema, row_ids=False)
    found = rows.where((F.col(FILE) == called[path]) & (F.col(POSITION) == position)).select(*(quoted(n) for n in names)).first()
    return None if found is None else ", ".join(f"{name} = {value!r}" for name, value in zip(names, found, strict=True))


def _key_columns(context: RowContext, request: RowRequest) -> Sequence[str]:
    """The table's columns in ON; its first columns where ON is not text."""
    known = [f.name for f in context.schema.fields]
    try:
        parsed = sqlglot.parse_one(request.on, dialect="spark") if isinstance(request.on, str) else None
    except SqlglotError:
        parsed = None
    columns = parsed.find_all(exp.Column) if parsed is not None else ()
    named = [name for c in columns if c.table.lower() in ("", request.target_alias.lower()) and (name := match_name(c.name, known))]
    return list(dict.fromkeys(named)) or known[:3]
