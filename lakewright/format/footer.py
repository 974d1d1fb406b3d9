"""Leaf columns of a Parquet footer, matched to the table's by field id, and the ranges their statistics state."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.types import (
    DoubleType,
    FloatType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

from lakewright.format.bounds import decode_integer, raw_encoder
from lakewright.format.metrics_config import ColumnMetrics, MetricsConfig

Range = tuple[Any, Any]
_FIELD_ID = b"PARQUET:field_id"
_MICROS = (TimeType, TimestampType, TimestamptzType)
_NANOS = (TimestampNanoType, TimestamptzNanoType)


@dataclass(frozen=True)
class LeafColumn:
    """A leaf of a file's schema; `encode` turns its raw statistics into bounds, and is None where it can have none."""

    index: int
    column: ColumnMetrics
    encode: Callable[[Any], bytes] | None
    is_float: bool


_last: tuple[pq.ParquetSchema, MetricsConfig, tuple[LeafColumn, ...]] | None = None


def leaf_columns(schema: pq.ParquetSchema, config: MetricsConfig) -> tuple[LeafColumn, ...]:
    """The leaves that are columns of the table. The last answer is kept: files of a run share a schema, and this costs more than their statistics."""
    global _last
    last = _last
    if last is not None and last[1] is config and last[0].equals(schema):
        return last[2]
    leaves = tuple(
        LeafColumn(index, column, _encoder(column, schema.column(index)), isinstance(column.field_type, (FloatType, DoubleType)))
        for index, field_id in enumerate(_leaf_ids(schema.to_arrow_schema()))
        if field_id is not None and (column := config.columns.get(field_id)) is not None
    )
    _last = (schema, config, leaves)
    return leaves


def stated_range(statistics: list[Any]) -> Range | None:
    """Least and greatest raw value over the chunks of a column; None if a chunk with values does not say."""
    found: Range | None = None
    for chunk in statistics:
        if chunk is None:
            return None
        if chunk.has_min_max:
            stated = (chunk.min_raw, chunk.max_raw)
            found = stated if found is None else _wider(found, stated, chunk)
        elif chunk.num_values > 0:
            return None
    return found


def null_count(statistics: list[Any]) -> int | None:
    """Nulls over the chunks of a column; None if a chunk does not say."""
    if any(chunk is None or not chunk.has_null_count for chunk in statistics):
        return None
    return sum(int(chunk.null_count) for chunk in statistics)


def _leaf_ids(fields: Any) -> Iterator[int | None]:
    """Field ids of the leaves, in the file's column order."""
    for field in fields:
        kind = field.type
        if pa.types.is_struct(kind):
            yield from _leaf_ids(kind)
        elif pa.types.is_map(kind):
            yield from _leaf_ids((kind.key_field, kind.item_field))
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            yield from _leaf_ids((kind.value_field,))
        else:
            text = (field.metadata or {}).get(_FIELD_ID)
            yield None if text is None else int(text)


def _encoder(column: ColumnMetrics, parquet: pq.ColumnSchema) -> Callable[[Any], bytes] | None:
    """None where statistics are not in Iceberg's unit: better no bounds than wrong ones."""
    logical = str(parquet.logical_type)
    if isinstance(column.field_type, _MICROS) and "microseconds" not in logical:
        return None
    if isinstance(column.field_type, _NANOS) and "nanoseconds" not in logical:
        return None
    return raw_encoder(column.field_type)


def _wider(one: Range, other: Range, chunk: Any) -> Range:
    """Both ranges in one, in the column's own order: decimals kept as bytes are signed, all other bytes are not."""
    if isinstance(one[0], bytes) and "Decimal" in str(chunk.logical_type):
        return min(one[0], other[0], key=decode_integer), max(one[1], other[1], key=decode_integer)
    if isinstance(one[1], float) and (math.isnan(one[1]) or math.isnan(other[1])):
        return one[0], math.nan
    return min(one[0], other[0]), max(one[1], other[1])
