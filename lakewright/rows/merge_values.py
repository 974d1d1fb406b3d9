"""The values a clause of a MERGE assigns, with `*` written out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakewright.errors import ColumnNotFound
from lakewright.options import MERGE_SCHEMA
from lakewright.plan.names import did_you_mean, match_name
from lakewright.plan.request import Clause, RowRequest
from lakewright.quoting import quoted

if TYPE_CHECKING:
    from lakewright.rows.merge_source import MergeSource
    from lakewright.rows.row_plan import RowContext


def clause_values(clause: Clause, context: RowContext, request: RowRequest, source: MergeSource) -> Mapping[str, Any]:
    """Column to expression. `*` takes every column from the source's of the same name, which must be there unless schemas are merged."""
    from pyspark.sql import functions as F

    if clause.values is not None:
        return clause.values
    values: dict[str, Any] = {}
    for field in context.schema.fields:
        name = match_name(field.name, source.columns)
        if name is not None:
            values[quoted(field.name)] = F.col(f"{quoted(request.source_alias)}.{quoted(name)}")
        elif not context.options[MERGE_SCHEMA]:
            raise ColumnNotFound(
                f"{clause} * of the merge into {context.table} needs column {field.name!r}, which the source does not have. {did_you_mean(field.name, source.columns)} "
                "Name the columns to assign instead, or use merge_schema=True.",
                table=context.table,
                column=field.name,
            )
    return values
