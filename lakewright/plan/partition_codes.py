"""Partition values as folder names of Spark's own writer, and back.

Spark gives null and '' one folder, and writes dates and times by the session's zone. So rows are partitioned by a code:
a whole number for what Iceberg counts, else 'v' and the hex digits of the value, or 'h' and a digest where those are too long.
"""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from lakewright.format.bounds import unscaled
from lakewright.plan.transform_columns import micros_column

if TYPE_CHECKING:
    from pyspark.sql import Column

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
LONGEST = 80
DIGEST = "h"


def is_counted(kind: IcebergType) -> bool:
    """Whether the code of this type is a whole number."""
    return isinstance(kind, BooleanType | IntegerType | LongType | DateType | TimestampType | TimestamptzType)


def code_column(kind: IcebergType, value: Column) -> Column:
    """The code of a partition value of this type; null for null."""
    from pyspark.sql import functions as F

    match kind:
        case IntegerType() | LongType():
            return value
        case BooleanType():
            return value.cast("int")
        case DateType():
            return F.unix_date(value.cast("date"))
        case TimestampType() | TimestamptzType():
            return micros_column(kind, value)
    data = value.cast("binary") if isinstance(kind, StringType | BinaryType | FixedType) else value.cast("string").cast("binary")
    plain, digest = F.concat(F.lit("v"), F.hex(data)), F.concat(F.lit(DIGEST), F.sha2(data, 256))
    return F.when(F.octet_length(data) > LONGEST, digest).otherwise(plain) if _may_be_long(kind) else plain


def decode(kind: IcebergType, code: str) -> Any:
    """The value behind a folder name in Iceberg's internal form; a digest has none and must be looked up in a file."""
    if code == NULL_FOLDER:
        return None
    match kind:
        case BooleanType():
            return code == "1"
        case _ if is_counted(kind):
            return int(code)
    data = bytes.fromhex(code[1:])
    match kind:
        case BinaryType() | FixedType():
            return data
        case UUIDType():
            return UUID(data.decode())
        case DecimalType():
            return _decimal(kind, Decimal(data.decode()))
        case DoubleType():
            return float(data)
        case FloatType():
            return struct.unpack("<f", struct.pack("<f", float(data)))[0]
    return data.decode()


def _decimal(kind: DecimalType, value: Decimal) -> Decimal:
    """At the type's scale, with all its digits: Python's own arithmetic keeps 28."""
    return Decimal(f"{unscaled(value, kind.scale)}E-{kind.scale}")


def is_digest(code: str) -> bool:
    return code.startswith(DIGEST)


def _may_be_long(kind: IcebergType) -> bool:
    return isinstance(kind, StringType | BinaryType) or (isinstance(kind, FixedType) and len(kind) > LONGEST)
