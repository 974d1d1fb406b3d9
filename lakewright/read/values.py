"""Values in Iceberg's internal form as Arrow arrays, which Spark and people can read."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.types import IcebergType, UUIDType

from lakewright.format import arrow_types


def internal_array(values: Sequence[Any], source: IcebergType) -> pa.Array:
    """Days, microseconds and the like become dates and timestamps; uuids become text, as Spark shows them."""
    if isinstance(source, UUIDType):
        return pa.array([None if v is None else str(v if isinstance(v, uuid.UUID) else uuid.UUID(bytes=v)) for v in values], pa.string())
    target = arrow_type(source)
    plain = pa.int32() if pa.types.is_date32(target) else pa.int64() if pa.types.is_temporal(target) else target
    array = pa.array(values, plain)
    return array if plain == target else array.cast(target)


def arrow_type(source: IcebergType) -> pa.DataType:
    """The Arrow type of a primitive, with the small offsets Spark takes."""
    target = arrow_types.arrow_type(source)
    if pa.types.is_large_string(target):
        return pa.string()
    if pa.types.is_large_binary(target) or pa.types.is_fixed_size_binary(target):
        return pa.binary()
    return target
