"""Partition transforms over Arrow arrays, with results whose Python values are Iceberg's internal form (days as int, …)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec
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
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from pyiceberg_core import transform as core

from lakewright.errors import InvalidTransform

_PLAIN_TYPES: dict[type[IcebergType], pa.DataType] = {
    BooleanType: pa.bool_(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    DateType: pa.date32(),
    TimeType: pa.time64("us"),
    TimestampType: pa.timestamp("us"),
    TimestamptzType: pa.timestamp("us", "UTC"),
    TimestampNanoType: pa.timestamp("ns"),
    TimestamptzNanoType: pa.timestamp("ns", "UTC"),
    StringType: pa.string(),
    BinaryType: pa.binary(),
    UUIDType: pa.binary(16),
}


def apply(transform: Transform[Any, Any], source_type: IcebergType, array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The transform of every value; null stays null. Any Arrow form of the source type is taken: large, view, dictionary."""
    if not transform.can_transform(source_type):
        raise InvalidTransform(f"The transform {transform} does not take {source_type}; choose another transform or column.")
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    plain = [_plain(chunk, source_type) for chunk in chunks] or [pa.array([], _plain_type(source_type))]
    results = [_internal(_transformed(transform, chunk)) for chunk in plain]
    whole = results[0] if len(results) == 1 else pa.concat_arrays(results)
    return pa.ExtensionArray.from_storage(pa.uuid(), whole) if isinstance(transform.result_type(source_type), UUIDType) else whole


def partition_values(spec: PartitionSpec, schema: Schema, batch: pa.RecordBatch | pa.Table) -> list[pa.Array]:
    """One array per field of the spec. Columns are found by name, those inside structs by their path."""
    return [apply(field.transform, schema.find_type(field.source_id), source_column(schema, field.source_id, batch)) for field in spec.fields]


def source_column(schema: Schema, field_id: int, batch: pa.RecordBatch | pa.Table) -> pa.Array | pa.ChunkedArray:
    """The column with a field id; null where a struct around it is."""
    first, *rest = _path(schema.as_struct(), field_id)
    column = batch.column(first)
    return pc.struct_field(column, rest) if rest else column


def _path(struct: StructType, field_id: int) -> Sequence[str]:
    for field in struct.fields:
        if field.field_id == field_id:
            return [field.name]
        if isinstance(field.field_type, StructType):
            below = _path(field.field_type, field_id)
            if below:
                return [field.name, *below]
    return []


def _plain_type(source_type: IcebergType) -> pa.DataType:
    if isinstance(source_type, DecimalType):
        return pa.decimal128(source_type.precision, source_type.scale)
    if isinstance(source_type, FixedType):
        return pa.binary(len(source_type))
    return _PLAIN_TYPES[type(source_type)]


def _plain(array: pa.Array, source_type: IcebergType) -> pa.Array:
    """The one Arrow form of a type that the compiled transforms take."""
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    plain = _plain_type(source_type)
    array = array if array.type == plain else array.cast(plain)
    # Spark aligns its batches to 8 bytes; for decimals the compiled transforms need 16, which a copy has.
    return array.copy_to(pa.default_cpu_memory_manager()) if isinstance(source_type, DecimalType) else array


def _transformed(transform: Transform[Any, Any], array: pa.Array) -> pa.Array:
    if isinstance(transform, IdentityTransform):
        return array
    if isinstance(transform, VoidTransform):
        return pa.nulls(len(array), array.type)
    if isinstance(transform, BucketTransform):
        return core.bucket(array, transform.num_buckets)
    if isinstance(transform, TruncateTransform):
        return _fitting(core.truncate(array, transform.width), transform)
    if isinstance(transform, YearTransform):
        return _complete(core.year(array), array, transform)
    if isinstance(transform, MonthTransform):
        return _complete(core.month(array), array, transform)
    if isinstance(transform, DayTransform):
        return core.day(array)
    if isinstance(transform, HourTransform):
        return core.hour(array)
    raise InvalidTransform(f"The transform {transform} is not known; use identity, bucket, truncate, year, month, day, hour or void.")


def _complete(result: pa.Array, array: pa.Array, transform: Transform[Any, Any]) -> pa.Array:
    """Dates some 262,000 years away have no year in the compiled transforms, which then say null: that would misfile the row."""
    if result.null_count != array.null_count:
        raise InvalidTransform(f"The transform {transform} got a date too far away to have one; partition by day instead, or correct the value.")
    return result


def _fitting(result: pa.Array, transform: TruncateTransform[Any]) -> pa.Array:
    """The least decimals have a truncation with one digit more than their type, which no partition can hold."""
    if pa.types.is_decimal(result.type):
        least = pc.min_max(result)["min"].as_py()
        if least is not None:
            check_digits(least, result.type.precision, transform)
    return result


def check_digits(value: Decimal, precision: int, transform: Transform[Any, Any]) -> None:
    if len(value.as_tuple().digits) > precision:
        raise InvalidTransform(f"The transform {transform} makes {value:f} of a value, more digits than the column's {precision}; use another width, or bucket.")


def _internal(array: pa.Array) -> pa.Array:
    if pa.types.is_date32(array.type):
        return array.view(pa.int32())
    if pa.types.is_timestamp(array.type) or pa.types.is_time64(array.type):
        return array.view(pa.int64())
    return array
