"""Partition transforms as Spark Columns, equal to the specification's for every value.

Written by hand because Spark's own functions differ from Iceberg's: `hash` has another seed and another way with the last
bytes of a string, `year` and its kin follow the session's time zone, and division rounds towards zero. No Python runs per row.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from lakewright.errors import InvalidTransform
from lakewright.plan.murmur import murmur3_long, with_murmur3_bytes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MICROS_PER_HOUR = 3_600_000_000
MICROS_PER_DAY = 24 * MICROS_PER_HOUR
INT_MIN, LONG_MIN = -(2**31), -(2**63)


def source_column(schema: Schema, source_id: int) -> Column:
    """The table column, or field of a struct column, that a partition or sort field reads."""
    from pyspark.sql import functions as F

    return F.col(".".join(f"`{name.replace('`', '``')}`" for name in source_path(schema, source_id)))


def source_path(schema: Schema, source_id: int) -> tuple[str, ...]:
    """Names from the top of the schema down to a field."""
    parents = schema._lazy_id_to_parent
    ids = [source_id]
    while ids[-1] in parents:
        ids.append(parents[ids[-1]])
    return tuple(schema.find_field(field_id).name for field_id in reversed(ids))


def with_transform(df: DataFrame, name: str, transform: Transform, source_type: IcebergType, column: Column) -> DataFrame:  # type: ignore[type-arg]
    """Adds the transform's result: an int for bucket and the time transforms, else of the source's type; null for null."""
    from pyspark.sql import functions as F

    if not isinstance(transform, BucketTransform):
        return df.withColumn(name, transformed(transform, source_type, column))
    counted = _counted(source_type, column)
    if counted is not None:
        df = df.withColumn(name, murmur3_long(counted))
    else:
        df = with_murmur3_bytes(df, name, _hashed_bytes(source_type, column))
    return df.withColumn(name, F.when(column.isNotNull(), F.col(name).bitwiseAND(F.lit(0x7FFFFFFF)) % F.lit(transform.num_buckets)))


def transformed(transform: Transform, source_type: IcebergType, column: Column) -> Column:  # type: ignore[type-arg]
    """The result of any transform but bucket, which takes more than an expression."""
    from pyspark.sql import functions as F

    match transform:
        case IdentityTransform():
            return column
        case VoidTransform():
            return F.lit(None).cast("int")
        case TruncateTransform():
            return _truncate(source_type, column, transform.width)
        case YearTransform():
            return F.year(_date(source_type, column)) - F.lit(1970)
        case MonthTransform():
            date = _date(source_type, column)
            return (F.year(date) - F.lit(1970)) * F.lit(12) + F.month(date) - F.lit(1)
        case DayTransform():
            return F.unix_date(_date(source_type, column))
        case HourTransform():
            return _hours(source_type, column)
    raise InvalidTransform(f"The partition transform {transform} is not known to this version.")


def micros_column(source_type: IcebergType, column: Column) -> Column:
    """Microseconds since 1970; a timestamp without zone is taken as it reads, whatever the session's zone."""
    from pyspark.sql import functions as F

    if isinstance(source_type, TimestamptzType):
        return F.unix_micros(column)
    seconds = F.unix_date(column.cast("date")).cast("bigint") * 86_400 + F.hour(column) * 3_600 + F.minute(column) * 60
    return seconds * F.lit(1_000_000) + (F.extract(F.lit("SECOND"), column) * F.lit(1_000_000)).cast("bigint")


def _unscaled(source_type: DecimalType, column: Column) -> Column:
    """A decimal's digits as a whole number. Wide ones go by text, as multiplying would round them."""
    from pyspark.sql import functions as F

    if source_type.precision <= 18:
        return (column * F.lit(Decimal(10) ** source_type.scale)).cast("bigint")
    digits = "S" + "0" * max(1, source_type.precision - source_type.scale) + ("D" + "0" * source_type.scale if source_type.scale else "")
    return F.replace(F.to_char(column, F.lit(digits)), F.lit("."), F.lit("")).cast("decimal(38,0)")


def _counted(source_type: IcebergType, column: Column) -> Column | None:
    """The number that stands for a value, of the types that have one."""
    from pyspark.sql import functions as F

    match source_type:
        case IntegerType() | LongType():
            return column.cast("bigint")
        case DateType():
            return F.unix_date(column).cast("bigint")
        case TimestampType() | TimestamptzType():
            return micros_column(source_type, column)
    return None


def _hashed_bytes(source_type: IcebergType, column: Column) -> Column:
    match source_type:
        case DecimalType():
            return _minimal_bytes(source_type, column)
        case UUIDType():
            return uuid_bytes(column)
        case StringType() | BinaryType() | FixedType():
            return column.cast("binary")
    raise InvalidTransform(f"bucket does not take a column of type {source_type}.")


def uuid_bytes(column: Column) -> Column:
    from pyspark.sql import functions as F

    return F.unhex(F.replace(column.cast("string"), F.lit("-"), F.lit("")))


def _minimal_bytes(source_type: DecimalType, column: Column) -> Column:
    """The shortest big-endian two's complement of the unscaled value, which is what the specification hashes."""
    from pyspark.sql import functions as F

    unscaled = _unscaled(source_type, column)
    if source_type.precision <= 18:
        digits = F.lpad(F.hex(unscaled), 16, "0")
    else:
        word, words = F.lit(Decimal(2**32)), []
        for _ in range(3):
            # Towards zero first, then one down: the least decimals have no room below them.
            rest = unscaled % word
            words.append(F.lpad(F.hex(F.pmod(unscaled, word).cast("bigint")), 8, "0"))
            unscaled = ((unscaled - rest) / word).cast("decimal(38,0)") - F.when(rest < 0, F.lit(Decimal(1))).otherwise(F.lit(Decimal(0)))
        words.append(F.right(F.lpad(F.hex(unscaled.cast("bigint")), 16, "0"), F.lit(8)))
        digits = F.concat(*reversed(words))
    return F.unhex(F.regexp_replace(digits, "^(?:(?:00(?=[0-7].))+|(?:FF(?=[89A-F].))+)", ""))


def _truncate(source_type: IcebergType, column: Column, width: int) -> Column:
    from pyspark.sql import functions as F

    match source_type:
        case StringType() | BinaryType():
            return F.substring(column, 1, width)
        case IntegerType():
            value = column.cast("bigint")
            floor = value - F.pmod(value, F.lit(width).cast("bigint"))
            return F.when(floor < INT_MIN, floor + 2**32).otherwise(floor).cast("int")
        case LongType():
            remainder = F.pmod(column, F.lit(width).cast("bigint"))
            wrapped = (column.cast("decimal(20,0)") - remainder + F.lit(Decimal(2**64))).cast("bigint")
            return F.when((column < LONG_MIN + width) & (column - F.lit(LONG_MIN) < remainder), wrapped).otherwise(column - remainder)
        case DecimalType() if source_type.precision == 38 and source_type.scale:
            return _truncate_widest(source_type, column, width)
        case DecimalType():
            return _minus(column, F.pmod(column, F.lit(Decimal(width).scaleb(-source_type.scale))))
    raise InvalidTransform(f"truncate does not take a column of type {source_type}.")


def _minus(value: Column, by: Column) -> Column:
    """Fails where the difference has more digits than any decimal; Spark would say null, if the session is not ANSI, and misfile the row."""
    from pyspark.sql import functions as F

    refusal = "lakewright.errors.InvalidTransform: truncate makes more than 38 digits of a value; use another width, or bucket"
    return F.coalesce(F.try_subtract(value, by), F.when(value.isNotNull(), F.raise_error(F.lit(refusal))))


def _truncate_widest(source_type: DecimalType, column: Column, width: int) -> Column:
    """By text: Spark would give the difference of two such decimals one digit less."""
    from pyspark.sql import functions as F

    unscaled = _unscaled(source_type, column)
    digits = F.to_char(_minus(unscaled, F.pmod(unscaled, F.lit(Decimal(width)))), F.lit("S" + "0" * 38))
    whole, fraction = F.substring(digits, 1, 39 - source_type.scale), F.right(digits, F.lit(source_type.scale))
    return F.concat(whole, F.lit("."), fraction).cast(f"decimal(38,{source_type.scale})")


def _date(source_type: IcebergType, column: Column) -> Column:
    from pyspark.sql import functions as F

    match source_type:
        case DateType():
            return column
        case TimestampType():
            return column.cast("date")
        case TimestamptzType():
            return F.date_from_unix_date(_floor_divide(F.unix_micros(column), MICROS_PER_DAY).cast("int"))
    raise InvalidTransform(f"A date transform does not take a column of type {source_type}.")


def _hours(source_type: IcebergType, column: Column) -> Column:
    from pyspark.sql import functions as F

    match source_type:
        case TimestampType():
            return F.unix_date(column.cast("date")) * F.lit(24) + F.hour(column)
        case TimestamptzType():
            return _floor_divide(F.unix_micros(column), MICROS_PER_HOUR).cast("int")
    raise InvalidTransform(f"hour does not take a column of type {source_type}.")


def _floor_divide(value: Column, divisor: int) -> Column:
    from pyspark.sql import functions as F

    by = F.lit(divisor).cast("bigint")
    return F.call_function("div", value - F.pmod(value, by), by)
