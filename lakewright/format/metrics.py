"""Column metrics of a data file, from its Parquet footer.

Columns are matched by the field ids in the footer, never by name. What a footer does not know, the NaNs, comes from the
writer (`nan_counts`), or from `nan_statistics`, which decodes only the chunks that hold one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.types import BinaryType, DecimalType, FixedType, StringType

from lakewright.format import bounds
from lakewright.format.data_file import DATA, DataFile
from lakewright.format.footer import LeafColumn, Range, leaf_columns, null_count, stated_range
from lakewright.format.metrics_config import MetricsConfig, MetricsMode
from lakewright.format.nans import NanStatistics, nan_statistics

__all__ = ["MetricsConfig", "MetricsMode", "NanStatistics", "data_file_from_footer", "nan_statistics", "split_offsets"]


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
    column_sizes: dict[int, int] = {}
    value_counts: dict[int, int] = {}
    null_counts: dict[int, int] = {}
    nan_value_counts: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    groups = [footer.row_group(group) for group in range(footer.num_row_groups)]
    for leaf in leaf_columns(footer.schema, config):
        field, mode = leaf.column.field_id, leaf.column.mode
        chunks = [group.column(leaf.index) for group in groups]
        column_sizes[field] = sum([chunk.total_compressed_size for chunk in chunks])
        if not mode.counts or leaf.column.repeated:
            continue
        statistics = [chunk.statistics for chunk in chunks]
        value_counts[field] = values = sum([chunk.num_values for chunk in chunks])
        nulls = null_count(statistics)
        if nulls is not None:
            null_counts[field] = nulls
        decoded = nans.get(field) if nans is not None and leaf.is_float else None
        if leaf.is_float and (nans is not None or nan_counts is not None):
            nan_value_counts[field] = decoded.count if decoded is not None else (nan_counts or {}).get(field, 0)
        if mode.bounds and leaf.encode is not None and nulls != values:
            stated = decoded.bounds if decoded is not None else stated_range(statistics)
            low, high = (None, None) if stated is None else _bounds(leaf, stated)
            if low is not None:
                lower[field] = low
            if high is not None:
                upper[field] = high
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


def _first_page(chunk: Any) -> int:
    data, dictionary = chunk.data_page_offset, chunk.dictionary_page_offset
    return int(dictionary if dictionary is not None and 0 < dictionary < data else data)


def _bounds(leaf: LeafColumn, stated: Range) -> tuple[bytes | None, bytes | None]:
    """A column's range as Iceberg keeps it, as long as the metrics mode lets it be."""
    assert leaf.encode is not None
    kind, length = leaf.column.field_type, leaf.column.mode.length
    low, high = stated
    if isinstance(kind, StringType):
        return bounds.truncate_string(low, high, length)
    if isinstance(kind, (BinaryType, FixedType)) and length is not None:
        return bounds.truncate_binary(low, high, length)
    if isinstance(kind, DecimalType):
        low, high = bounds.decode_integer(low), bounds.decode_integer(high)
    if leaf.is_float:
        spread = bounds.float_bounds(low, high)
        if spread is None:
            return None, None
        low, high = spread
    return leaf.encode(low), leaf.encode(high)
