"""What has to be done to a value of the incoming rows so that it becomes a value of the table: declared here, done by `project`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from lakewright.plan.types import spark_type

if TYPE_CHECKING:
    import pyspark.sql.types as spark


@dataclass(frozen=True)
class Keep:
    """The value as it is."""


@dataclass(frozen=True)
class Cast:
    """A cast to the table's type. checked: a value that does not survive it fails the write."""

    target: IcebergType
    checked: bool = False
    exact: bool = False  # checked by casting back, since the cast itself would round or cut silently


@dataclass(frozen=True)
class ToStruct:
    fields: tuple[Assign, ...]


@dataclass(frozen=True)
class ToList:
    element: Conversion
    no_nulls: bool = False


@dataclass(frozen=True)
class ToMap:
    key: Conversion
    value: Conversion
    no_nulls: bool = False


Conversion = Keep | Cast | ToStruct | ToList | ToMap


@dataclass(frozen=True)
class Assign:
    """One field of the table and where its value comes from; source None: its write default, else null. no_nulls: a null fails the write."""

    field: NestedField
    path: str
    source: str | None
    conversion: Conversion = Keep()
    no_nulls: bool = False


@dataclass(frozen=True)
class Reconciled:
    """What a write does to the table's schema and to its rows. It pickles.

    schema is the table's own when not changed; otherwise it has the merged columns and the next schema id after the table's.
    """

    schema: Schema
    changed: bool
    last_column_id: int
    columns: tuple[Assign, ...]


WHOLE_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}


def lossless(source: spark.DataType, target: IcebergType) -> Cast | Keep | None:
    """The conversion of one value if none can be lost by it, else None."""
    name = source.typeName()
    if name == "void":
        return Cast(target)
    if isinstance(target, UUIDType):
        return Cast(target, checked=True) if name in ("string", "char", "varchar") else None
    if isinstance(target, FixedType):
        return Cast(target, checked=True) if name == "binary" else None
    if source == spark_type(target):
        return Keep()
    return Cast(target) if _widens(source, name, target) else None


def _widens(source: spark.DataType, name: str, target: IcebergType) -> bool:
    if name in ("char", "varchar"):
        return isinstance(target, StringType)
    if name in WHOLE_DIGITS:
        if isinstance(target, DecimalType):
            return target.precision - target.scale >= WHOLE_DIGITS[name]
        wider: dict[str, tuple[type[IcebergType], ...]] = {
            "byte": (IntegerType, LongType, FloatType, DoubleType),
            "short": (IntegerType, LongType, FloatType, DoubleType),
            "integer": (LongType, DoubleType),
            "long": (),
        }
        return isinstance(target, wider[name])
    if name == "float":
        return isinstance(target, DoubleType)
    if name == "decimal":
        precision, scale = source.precision, source.scale  # type: ignore[attr-defined]
        if isinstance(target, DecimalType):
            return bool(target.scale >= scale and target.precision - target.scale >= precision - scale)
        fits = 18 if isinstance(target, LongType) else 9 if isinstance(target, IntegerType) else 0
        return bool(scale == 0 and precision <= fits)
    return False


def checked(source: spark.DataType, target: IcebergType) -> Cast | None:
    """The cast that fails the write for each value it would change, or None where Spark has no such cast."""
    name = source.typeName()
    temporal = {"date": (DateType,), "timestamp": (DateType, TimestamptzType, TimestampType), "timestamp_ntz": (DateType, TimestamptzType, TimestampType)}
    if isinstance(target, StringType):
        return Cast(target)
    if name in ("string", "char", "varchar"):
        return Cast(target, checked=True)
    numeric = isinstance(target, (IntegerType, LongType, FloatType, DoubleType, DecimalType))
    if name in WHOLE_DIGITS or name in ("float", "double", "decimal", "boolean"):
        return Cast(target, checked=True, exact=not isinstance(target, (FloatType, DoubleType)) and name != "boolean") if numeric else None
    if name == "date" and isinstance(target, (TimestampType, TimestamptzType)):
        return Cast(target, checked=True)
    if name in temporal and isinstance(target, temporal[name]):
        return Cast(target, checked=True, exact=True)
    return None


def promotion(table_type: IcebergType, incoming: IcebergType) -> IcebergType | None:
    """The wider type a table column may legally take for incoming values: int → long, float → double, decimal(P, S) → decimal(P', S)."""
    if isinstance(table_type, IntegerType) and isinstance(incoming, LongType):
        return incoming
    if isinstance(table_type, FloatType) and isinstance(incoming, DoubleType):
        return incoming
    if isinstance(table_type, DecimalType) and isinstance(incoming, DecimalType):
        return incoming if incoming.scale == table_type.scale and incoming.precision > table_type.precision else None
    return None
