"""Doing to a DataFrame what `reconcile` declared, with a plain select; and telling from a failed job which value did not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote
from uuid import UUID

from pyiceberg.types import DoubleType, FixedType, FloatType, IcebergType, UUIDType

from lakewright import errors
from lakewright.errors import LakewrightError, NullInRequiredColumn, TypeMismatch
from lakewright.plan.conversion import Assign, Cast, Conversion, Keep, Reconciled, ToList, ToMap, ToStruct
from lakewright.plan.types import FIELD_ID, spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

UUID_TEXT = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
NULL, UNFIT = "NULL_IN_REQUIRED", "DOES_NOT_FIT"
_MARKER = re.compile(r"\[LAKEWRIGHT:(\w+) (\S*)\] (.*?)(?= SQLSTATE: |\n|$)")
_PYTHON_ERROR = re.compile(r"lakewright\.errors\.(\w+): (.*?)(?= SQLSTATE: |\n|$)")


def project(df: DataFrame, reconciled: Reconciled, field_ids: bool = False) -> DataFrame:
    """The rows in the table's columns, order and types. field_ids: with the metadata from which Spark's Parquet writer takes field ids."""
    return df.select(*projected_columns(reconciled, field_ids))


def projected_columns(reconciled: Reconciled, field_ids: bool = False) -> list[Column]:
    return [_column(assign, field_ids) for assign in reconciled.columns]


def _column(assign: Assign, field_ids: bool) -> Column:
    from pyspark.sql import functions as F

    value = assigned_value(None if assign.source is None else F.col("`" + assign.source.replace("`", "``") + "`"), assign)
    if not field_ids:
        plain = assign.source == assign.field.name and isinstance(assign.conversion, Keep) and not assign.no_nulls
        return value if plain else value.alias(assign.field.name)
    if not assign.field.field_type.is_primitive:
        value = value.cast(spark_type(assign.field.field_type, field_ids=True, nullable=True))
    return value.alias(assign.field.name, metadata={FIELD_ID: assign.field.field_id})


def assigned_value(source: Column | None, assign: Assign) -> Column:
    """The value of one field; None stands for a field the rows do not have."""
    from pyspark.sql import functions as F

    if source is None:
        default = assign.field.write_default
        return F.lit(str(default) if isinstance(default, UUID) else default).cast(spark_type(assign.field.field_type, nullable=True))
    value = _converted(source, assign.conversion, assign.path)
    return _not_null(value, assign.path) if assign.no_nulls else value


def _converted(value: Column, conversion: Conversion, path: str) -> Column:
    from pyspark.sql import functions as F

    match conversion:
        case Keep():
            return value
        case Cast():
            return _cast(value, conversion, path)
        case ToStruct(fields):
            made = F.struct(*(assigned_value(None if a.source is None else value.getField(a.source), a).alias(a.field.name) for a in fields))
            return F.when(value.isNotNull(), made)
        case ToList(element, no_nulls):
            where = f"{path}.element"
            return F.transform(value, lambda e: _checked_null(_converted(e, element, where), no_nulls, where))
        case ToMap(key, item, no_nulls):
            where = f"{path}.value"
            if not isinstance(key, Keep):
                value = F.transform_keys(value, lambda k, _: _converted(k, key, f"{path}.key"))
            if isinstance(item, Keep) and not no_nulls:
                return value
            return F.transform_values(value, lambda _, v: _checked_null(_converted(v, item, where), no_nulls, where))


def _checked_null(value: Column, no_nulls: bool, path: str) -> Column:
    return _not_null(value, path) if no_nulls else value


def _not_null(value: Column, path: str) -> Column:
    from pyspark.sql import functions as F

    return F.coalesce(value, F.raise_error(F.lit(f"[LAKEWRIGHT:{NULL} {quote(path)}] a null")))


def _cast(value: Column, cast: Cast, path: str) -> Column:
    """try_cast fails in the same way whether the session is ANSI or not."""
    from pyspark.sql import functions as F

    target = spark_type(cast.target)
    if not cast.checked:
        return value.cast(target)
    shown = F.hex(value) if isinstance(cast.target, FixedType) else value.cast("string")
    refusal = F.raise_error(F.concat(F.lit(f"[LAKEWRIGHT:{UNFIT} {quote(path)}] {cast.target} from "), shown))
    made, fits = fitting(value, cast)
    return F.when(value.isNull() | fits, made).otherwise(refusal.cast(target))


def fitting(value: Column, cast: Cast) -> tuple[Column, Column]:
    """The value cast, and whether nothing is lost by that."""
    from pyspark.sql import functions as F

    target: IcebergType = cast.target
    if isinstance(target, UUIDType):
        return value, value.rlike(UUID_TEXT)
    if isinstance(target, FixedType):
        return value, F.octet_length(value) == len(target)
    made = value.try_cast(spark_type(target))
    fits = made.isNotNull()
    if isinstance(target, (FloatType, DoubleType)):
        overflowed = (F.abs(made) == float("inf")) & ~value.cast("string").rlike("(?i)inf")
        return made, fits & ~F.coalesce(overflowed, F.lit(False))
    if cast.exact:
        fits = fits & F.coalesce(made == value, F.lit(False))
    return made, fits


def translate_task_error(error: BaseException, table: str | None = None) -> LakewrightError | None:
    """The typed error behind a job that failed because a value did not fit, or None if it failed for another reason."""
    for text in _messages(error):
        marked = _MARKER.search(text)
        if marked:
            return _typed(marked.group(1), unquote(marked.group(2)), marked.group(3), table)
        raised = _PYTHON_ERROR.search(text)
        kind: Any = getattr(errors, raised.group(1), None) if raised else None
        if raised and isinstance(kind, type) and issubclass(kind, LakewrightError):
            return kind(raised.group(2), table=table)
    return None


def _messages(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        yield str(error)
        error = error.__cause__


def _typed(marker: str, column: str, detail: str, table: str | None) -> LakewrightError:
    where = f"table {table}" if table else "the table"
    if marker == NULL:
        return NullInRequiredColumn(
            f"A row has null for {column!r}, which {where} requires; filter it out or use coalesce. Nothing was written.", table=table, column=column
        )
    target, _, value = detail.partition(" from ")
    return TypeMismatch(f"A row has {value!r} for {column!r}, which does not fit {target} of {where}; nothing was written.", table=table, column=column)
