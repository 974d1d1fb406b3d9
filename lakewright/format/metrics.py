"""Column metrics of a data file, from its Parquet footer.

Columns are matched by the field ids in the footer, never by name. What a footer does not know, the NaNs, comes from the
writer (`nan_counts`), or from `nan_statistics`, which decodes only the chunks that hold one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

from lakewright.format import bounds
from lakewright.format.data_file import DATA, DataFile
from lakewright.format.metrics_config import ColumnMetrics, MetricsConfig, MetricsMode

__all__ = ["MetricsConfig", "MetricsMode", "NanStatistics", "data_file_from_footer", "nan_statistics", "split_offsets"]

_FIELD_ID = b"PARQUET:field_id"
_MICROS = (TimeType, TimestampType, TimestamptzType)
_NANOS = (TimestampNanoType, TimestamptzNanoType)


@dataclass(frozen=True)
class NanStatistics:
    """What a decoded float column knows more than its footer; `bounds` is None where every value is NaN or null."""

    count: int
    bounds: tuple[float, float] | None


@dataclass(frozen=True)
class _Leaf:
    """A leaf column of a Parquet file that has a field id."""

    index: int
    column: ColumnMetrics
    encode: Callable[[Any], bytes] | None

    @property
    def is_float(self) -> bool:
        return isinstance(self.column.field_type, (FloatType, DoubleType))


def data_file_from_footer(
    *,
    path: str,
    size: int,
    footer: pq.FileMetaData,
    spec_id: int,
    partition: tuple[Any, ...],
    config: MetricsConfig,
    sort_order_id: int | None = None,
    nan_counts: Mapping[int, int] | None = None,
    nans: Mapping[int, NanStatistics] | None = None,
    content: int = DATA,
) -> DataFile:
    """The manifest's view of a file just written.

    NaNs by field id: a writer that saw the values passes `nan_counts` (pyarrow keeps NaN out of the footer's bounds); for
    files of Spark's own writer pass `nans=nan_statistics(...)`. Float columns named in neither have none; with both None
    they are unknown and no NaN count is recorded.
    """
    counted = {field: NanStatistics(count, None) for field, count in (nan_counts or {}).items()}
    known = nan_counts is not None or nans is not None
    column_sizes: dict[int, int] = {}
    value_counts: dict[int, int] = {}
    null_counts: dict[int, int] = {}
    nan_value_counts: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    groups = [footer.row_group(group) for group in range(footer.num_row_groups)]
    for leaf in _layout(footer.schema, config):
        field, mode = leaf.column.field_id, leaf.column.mode
        chunks = [group.column(leaf.index) for group in groups]
        column_sizes[field] = sum(chunk.total_compressed_size for chunk in chunks)
        if not mode.counts or leaf.column.repeated:
            continue
        statistics = [chunk.statistics for chunk in chunks]
        value_counts[field] = values = sum(chunk.num_values for chunk in chunks)
        nulls = _null_count(statistics)
        if nulls is not None:
            null_counts[field] = nulls
        decoded = nans.get(field) if nans is not None and leaf.is_float else None
        if leaf.is_float and known:
            nan_value_counts[field] = (decoded or counted.get(field, NanStatistics(0, None))).count
        if mode.bounds and leaf.encode is not None and nulls != values:
            pair = decoded.bounds if decoded is not None else _range(statistics)
            _add_bounds(leaf, pair, lower, upper)
    return DataFile(
        file_path=path,
        record_count=footer.num_rows,
        file_size_in_bytes=size,
        spec_id=spec_id,
        partition=partition,
        content=content,
        column_sizes=column_sizes,
        value_counts=value_counts,
        null_value_counts=null_counts,
        nan_value_counts=nan_value_counts,
        lower_bounds=lower,
        upper_bounds=upper,
        split_offsets=split_offsets(footer),
        sort_order_id=sort_order_id,
    )


def split_offsets(footer: pq.FileMetaData) -> tuple[int, ...]:
    """Where each row group begins, in order."""
    if footer.num_columns == 0:
        return ()
    return tuple(sorted(_first_page(footer.row_group(group).column(0)) for group in range(footer.num_row_groups)))


def nan_statistics(source: Any, footer: pq.FileMetaData, config: MetricsConfig) -> dict[int, NanStatistics]:
    """NaN counts and NaN-free bounds of the float columns that hold a NaN, by field id.

    `source` is what `pq.ParquetFile` takes, opened only if a chunk must be decoded. parquet-java's footer has NaN for the
    maximum of a chunk exactly when one is in it, so of its files only such chunks are; of others every float chunk is.
    """
    java = (footer.created_by or "").startswith("parquet-mr")
    found: dict[int, NanStatistics] = {}
    reader: pq.ParquetFile | None = None
    for leaf in _layout(footer.schema, config):
        if not leaf.is_float or leaf.column.repeated or not leaf.column.mode.counts:
            continue
        ranges: list[tuple[float, float]] = []
        count, decoded = 0, False
        for group in range(footer.num_row_groups):
            chunk = footer.row_group(group).column(leaf.index)
            if chunk.statistics is not None and chunk.statistics.null_count == chunk.num_values:
                continue
            stated = _range([chunk.statistics])
            if java and stated is not None and not math.isnan(stated[1]):
                ranges.append(stated)
                continue
            reader = reader or pq.ParquetFile(source, metadata=footer)
            values = _leaf_values(reader.reader.read_row_group(group, column_indices=[leaf.index]))
            nan = pc.is_nan(values)
            count += pc.sum(nan).as_py() or 0
            decoded = True
            ranges += _extent(pc.filter(values, pc.invert(nan), null_selection_behavior="drop"))
        if decoded:
            joined = (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None
            found[leaf.column.field_id] = NanStatistics(count, joined)
    return found


_last_layout: tuple[pq.ParquetSchema, MetricsConfig, tuple[_Leaf, ...]] | None = None


def _layout(schema: pq.ParquetSchema, config: MetricsConfig) -> tuple[_Leaf, ...]:
    """The file's leaf columns. The last answer is kept, since files of a run share one schema and reading it costs more than the statistics."""
    global _last_layout
    last = _last_layout
    if last is not None and last[1] is config and last[0].equals(schema):
        return last[2]
    ids = list(_leaf_ids(schema.to_arrow_schema()))
    leaves = tuple(
        _Leaf(index, column, _encoder(column, schema.column(index)))
        for index, field in enumerate(ids)
        if field is not None and (column := config.columns.get(field)) is not None
    )
    _last_layout = (schema, config, leaves)
    return leaves


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
    """None where a chunk's statistics are not in Iceberg's unit: better no bounds than wrong ones."""
    logical = str(parquet.logical_type)
    if isinstance(column.field_type, _MICROS) and "microseconds" not in logical:
        return None
    if isinstance(column.field_type, _NANOS) and "nanoseconds" not in logical:
        return None
    return bounds.raw_encoder(column.field_type)


def _null_count(statistics: list[Any]) -> int | None:
    total = 0
    for chunk in statistics:
        if chunk is None or not chunk.has_null_count:
            return None
        total += chunk.null_count
    return total


def _range(statistics: list[Any]) -> tuple[Any, Any] | None:
    """Least and greatest raw value over the chunks; None if a chunk with values does not say."""
    low: Any = None
    high: Any = None
    for chunk in statistics:
        if chunk is None:
            return None
        if not chunk.has_min_max:
            if chunk.num_values == 0:
                continue
            return None
        least, greatest = chunk.min_raw, chunk.max_raw
        if len(statistics) > 1 and low is not None:
            least, greatest = _merge(low, high, least, greatest, chunk)
        low, high = least, greatest
    return None if low is None else (low, high)


def _merge(low: Any, high: Any, least: Any, greatest: Any, chunk: Any) -> tuple[Any, Any]:
    """Wider of two ranges, in the column's own order: decimals kept as bytes are signed, every other kind of bytes is not."""
    if isinstance(low, bytes) and "Decimal" in str(chunk.logical_type):
        return min(low, least, key=bounds.decode_integer), max(high, greatest, key=bounds.decode_integer)
    if isinstance(greatest, float) and (math.isnan(greatest) or math.isnan(high)):
        return low, math.nan
    return min(low, least), max(high, greatest)


def _add_bounds(leaf: _Leaf, pair: tuple[Any, Any] | None, lower: dict[int, bytes], upper: dict[int, bytes]) -> None:
    if pair is None or leaf.encode is None:
        return
    kind, length = leaf.column.field_type, leaf.column.mode.length
    if leaf.is_float:
        pair = bounds.float_bounds(*pair)
        if pair is None:
            return
    elif isinstance(kind, DecimalType):
        pair = bounds.decode_integer(pair[0]), bounds.decode_integer(pair[1])
    low: bytes | None = leaf.encode(pair[0])
    high: bytes | None = leaf.encode(pair[1])
    if isinstance(kind, StringType):
        low, high = bounds.truncate_string(pair[0], pair[1], len(pair[1]) + len(pair[0]) if length is None else length)
    elif length is not None and isinstance(kind, (BinaryType, FixedType)):
        low, high = bounds.truncate_binary(pair[0], pair[1], length)
    if low is not None:
        lower[leaf.column.field_id] = low
    if high is not None:
        upper[leaf.column.field_id] = high


def _first_page(chunk: Any) -> int:
    data, dictionary = chunk.data_page_offset, chunk.dictionary_page_offset
    return int(dictionary if dictionary is not None and 0 < dictionary < data else data)


def _leaf_values(table: pa.Table) -> pa.ChunkedArray:
    values = table.column(0)
    while pa.types.is_struct(values.type):
        values = pc.struct_field(values, [0])
    return values


def _extent(values: pa.ChunkedArray) -> list[tuple[float, float]]:
    if len(values) == 0:
        return []
    extent = pc.min_max(values)
    return [(extent["min"].as_py(), extent["max"].as_py())]
