"""Records that cannot be written, set aside with the reason in a table of their own, so that the others can be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, NestedField

from lakewright.commit.runs import new_run_id
from lakewright.commit.store import TableState
from lakewright.errors import TypeMismatch
from lakewright.keys.definition import Definition, definition_of
from lakewright.keys.request import KeyRequest, Operation
from lakewright.plan.conversion import Cast, checked, lossless
from lakewright.plan.names import match_name
from lakewright.plan.project import fitting
from lakewright.quoting import quoted
from lakewright.rows.expressions import condition_of, explaining
from lakewright.rows.kept import kept

if TYPE_CHECKING:
    import pyspark.sql.types as spark
    from pyspark.sql import Column

    from lakewright.lake import Lake

QUARANTINED, REASONS, GONE = "lakewright.records-quarantined", "_lw_reasons", "_lw_gone"
ERRORS = "at timestamp, operation string, token string, reason string, record string"


def errors_table(table: str) -> str:
    return f"{table}$errors"


def quarantined(lake: Lake, state: TableState, request: KeyRequest) -> KeyRequest:
    """The request with the records that can be written; the others are committed to the table's errors first, so that none is lost.

    They are committed once for a token, or else for this run.
    """
    from pyspark.sql import functions as F

    definition = definition_of(state.metadata, state.name)
    reasons, values = _looked_at(request, definition, state.metadata.schema)
    with explaining("delete_when", state.name):
        rows = kept(request.records.withColumn(REASONS, F.array_compact(F.array(*reasons))))
    bad = rows.where(F.size(REASONS) > 0)
    count = bad.count()
    token = request.token or new_run_id()
    if count:
        record = F.to_json(F.struct(*(F.col(quoted(c)) for c in request.records.columns)))
        told = bad.select(
            F.current_timestamp().alias("at"),
            F.lit(request.operation.value).alias("operation"),
            F.lit(token).alias("token"),
            F.concat_ws("; ", REASONS).alias("reason"),
            record.alias("record"),
        )
        lake.create_table(errors_table(state.name), ERRORS, if_not_exists=True).append(told, token=f"errors-{token}")
    good = rows.where(F.size(REASONS) == 0).select(*(values.get(c, F.col(quoted(c))).alias(c) for c in request.records.columns))
    return replace(request, records=good, snapshot_properties={**request.snapshot_properties, QUARANTINED: str(count)})


def _looked_at(request: KeyRequest, definition: Definition, schema: Schema) -> tuple[list[Column], dict[str, Column]]:
    """What may be wrong with a record, each a text or null; and the values of columns that have to be cast."""
    from pyspark.sql import functions as F

    reasons = [F.when(F.expr(part.of(None)).isNull(), F.lit(f"the key {part.text} is null")) for part in definition.key]
    values: dict[str, Column] = {}
    if request.operation is Operation.DELETE_KEYS:
        return reasons, values
    is_record = ~condition_of(request.delete_when) if request.delete_when is not None else F.lit(True)
    for field in schema.fields:
        name = match_name(field.name, request.records.columns)
        if name is None:
            continue
        value = F.col(quoted(name))
        cast = _needed_cast(request.records.schema[name].dataType, field, definition.table)
        if cast is not None:
            made, fits = fitting(value, cast)
            reasons.append(F.when(value.isNotNull() & ~F.coalesce(fits, F.lit(False)), F.concat(F.lit(f"{field.name} is "), value.cast("string"), F.lit(f", which is no {field.field_type}"))))
            values[name] = made
        if field.required and field.name not in definition.key_columns:
            reasons.append(F.when(value.isNull() & is_record, F.lit(f"{field.name} is null, and the table requires it")))
    return reasons, values


def _needed_cast(given: spark.DataType, field: NestedField, table: str) -> Cast | None:
    target: IcebergType = field.field_type
    if not target.is_primitive:
        return None
    safe: Any = lossless(given, target)
    if safe is not None:
        return safe if isinstance(safe, Cast) and safe.checked else None
    cast = checked(given, target)
    if cast is None:
        raise TypeMismatch(f"Column {field.name!r} is {given.simpleString()}, and no value of that can be {target} in table {table}.", table=table, column=field.name)
    return cast
