"""Giving a column the value of an expression, by the rules of Spark's ANSI store assignment.

A number goes into any numeric column and is rounded to its scale, a value that does not fit its range fails the job; anything
but that and safe casts is refused when planned. The rules of appended DataFrames (`plan.schema`) are stricter: there a rounded
value would be a surprise, here `fare * 1.1` is what was asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from lakewright.errors import TypeMismatch
from lakewright.options import Options
from lakewright.plan.conversion import WHOLE_DIGITS, Assign, Cast, Conversion, lossless
from lakewright.plan.project import assigned_value
from lakewright.plan.schema import reconcile

if TYPE_CHECKING:
    import pyspark.sql.types as spark
    from pyspark.sql import Column

NUMERIC = (IntegerType, LongType, FloatType, DoubleType, DecimalType)
TEMPORAL = (DateType, TimestampType, TimestamptzType)


def assign(value: Column, given: spark.DataType, field: NestedField, path: str, options: Options, table: str) -> Column:
    """The value as one of the column; raises TypeMismatch where the types do not allow it."""
    conversion = _conversion(given, field.field_type)
    if conversion is None:
        conversion = _nested(given, field, path, options, table)
    return assigned_value(value, Assign(field, path, path, conversion, no_nulls=field.required))


def _conversion(given: spark.DataType, target: IcebergType) -> Conversion | None:
    if not target.is_primitive and given.typeName() != "void":
        return None
    safe = lossless(given, target)
    if safe is not None:
        return safe
    name = given.typeName()
    if isinstance(target, NUMERIC) and (name in WHOLE_DIGITS or name in ("float", "double", "decimal")):
        return Cast(target, checked=True)
    if isinstance(target, StringType) and name not in ("struct", "array", "map", "binary"):
        return Cast(target)
    if isinstance(target, TEMPORAL) and name in ("date", "timestamp", "timestamp_ntz"):
        return Cast(target, checked=True)
    return None


def _nested(given: spark.DataType, field: NestedField, path: str, options: Options, table: str) -> Conversion:
    """Structs, lists and maps follow the rules of appended rows."""
    import pyspark.sql.types as spark

    if field.field_type.is_primitive:
        raise TypeMismatch(f"Column {path!r} of {table} is {field.field_type}, and the value given for it is {given.simpleString()}. Cast the expression to the column's type.", table=table, column=path)
    fitted = reconcile(spark.StructType([spark.StructField(field.name, given, nullable=False)]), Schema(field), options, table)
    return fitted.columns[0].conversion
