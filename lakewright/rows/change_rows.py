"""DELETE and UPDATE: the rows of one table that a condition selects, removed or given new values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.types import NestedField

from lakewright.plan.delta import ACTION, DELETE
from lakewright.plan.filters import Filter, parse_where, resolving
from lakewright.plan.overwrite import WholeFiles
from lakewright.plan.request import Clause, RowRequest, Then
from lakewright.quoting import quoted
from lakewright.read.scan import FileScan, plan_scan
from lakewright.rows.expressions import assignments, require_deterministic
from lakewright.rows.moves import moves_of, update_action
from lakewright.rows.row_plan import Located, RowContext, RowPlan, delta_plan, delta_rows, locate, no_rows
from lakewright.session import time_zone

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def plan_change(context: RowContext, request: RowRequest) -> RowPlan:
    """The plan of a DELETE or an UPDATE. Files sure to match with all their rows are dropped unread."""
    clause = request.clauses[0]
    require_deterministic(request.where, "where", context.table)
    chosen = parse_where(request.where, context.schema, context.table, session_tz=time_zone(context.spark), deterministic=True)
    scan = plan_scan(context.state.io, context.metadata, context.head, chosen, with_metrics=True)
    whole = _whole(context, chosen, scan.files) if clause.then is Then.DELETE else ()
    gone = {f.data_file.file_path for f in whole}
    read = tuple(f for f in scan.files if f.data_file.file_path not in gone)
    if not read:
        _selected(context, _called(no_rows(context), request), chosen, clause)
        return RowPlan(whole=whole, filter=chosen.iceberg)
    located = locate(context, read)
    selected, values = _selected(context, _called(located.rows, request), chosen, clause)
    numbered = located.numbered(context.spark, selected)
    in_one_task = chosen.exact and _is_one_task(located)
    if clause.then is Then.DELETE:
        delta, plan = delta_rows(context, numbered, DELETE, 0, {}), delta_plan(context, located.files, located.targets, values=(), assigned=(), once=False, in_one_task=in_one_task)
    else:
        assigned = tuple(values)
        moves = moves_of(context, read, assigned)
        delta = delta_rows(context, numbered.withColumn(ACTION, update_action(context, moves, values, _old)), ACTION, 0, values)
        plan = delta_plan(context, located.files, located.targets, values=assigned, assigned=assigned, once=True, moves=moves, in_one_task=in_one_task)
    return RowPlan(whole, read, delta, plan, chosen.iceberg, located.rows)


def _called(rows: DataFrame, request: RowRequest) -> DataFrame:
    """Under the table's name in the statement, which a text that filters files never has, but queries in a condition and new values may."""
    is_plain = isinstance(request.where, str | None) and all(clause.values is None for clause in request.clauses)
    return rows if is_plain else rows.alias(request.target_alias)


def _selected(context: RowContext, rows: DataFrame, chosen: Filter, clause: Clause) -> tuple[DataFrame, dict[int, Column]]:
    """The rows that the condition selects, and the values an UPDATE gives them."""
    with resolving(chosen.sql, context.table):
        selected = rows if chosen.sql is None else rows.where(chosen.sql)
    return selected, _new_values(context, selected, clause) if clause.then is Then.UPDATE else {}


def _whole(context: RowContext, chosen: Filter, files: tuple[FileScan, ...]) -> tuple[FileScan, ...]:
    """Rows already deleted by anything but a vector are not counted by the manifest, so such files are read."""
    whole = WholeFiles(chosen.strict, context.metadata)
    return tuple(f for f in files if all(d.is_vector for d in f.deletes) and whole.match(f.data_file))


def _is_one_task(located: Located) -> bool:
    """Whether Spark reads all rows in one task whatever it is told: those of one row group, which a condition without queries leaves there."""
    if len(located.targets) > 1:
        return False
    scan = located.targets[0].file.scan
    return len(scan.data_file.split_offsets) == 1 and all(d.is_position for d in scan.deletes)


def _new_values(context: RowContext, rows: DataFrame, clause: Clause) -> dict[int, Column]:
    return assignments(rows, clause.values or {}, context.schema, context.options, alias=None, old=_old, what="update", table=context.table)


def _old(field: NestedField) -> Column:
    from pyspark.sql import functions as F

    return F.col(quoted(field.name))
