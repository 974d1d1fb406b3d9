"""NaNs of files that Spark's own writer made, which footers do not count."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakewright.format.footer import LeafColumn, Range, leaf_columns, stated_range
from lakewright.format.metrics_config import MetricsConfig


@dataclass(frozen=True)
class NanStatistics:
    """What a decoded float column knows more than its footer; `bounds` is None where every value is NaN or null."""

    count: int
    bounds: Range | None


def nan_statistics(source: Any, footer: pq.FileMetaData, config: MetricsConfig) -> dict[int, NanStatistics]:
    """NaN counts and NaN-free bounds of the float columns that may hold a NaN, by field id.

    `source` is what `pq.ParquetFile` takes, opened only if a chunk must be decoded. parquet-java's footer has NaN for the
    maximum of a chunk exactly when one is in it, so of its files only such chunks are; of others every float chunk is.
    """
    trusted = (footer.created_by or "").startswith("parquet-mr")
    opened: list[pq.ParquetFile] = []

    def decode(group: int, leaf: LeafColumn) -> pa.ChunkedArray:
        if not opened:
            opened.append(pq.ParquetFile(source, metadata=footer))
        return _leaf_values(opened[0].reader.read_row_group(group, column_indices=[leaf.index]))

    found: dict[int, NanStatistics] = {}
    for leaf in leaf_columns(footer.schema, config):
        if not leaf.is_float or leaf.column.repeated or not leaf.column.mode.counts:
            continue
        ranges: list[Range] = []
        counts: list[int] = []
        for group in range(footer.num_row_groups):
            statistics = footer.row_group(group).column(leaf.index).statistics
            if statistics is not None and statistics.has_null_count and statistics.num_values == 0:
                continue
            stated = stated_range([statistics])
            if trusted and stated is not None and not math.isnan(stated[1]):
                ranges.append(stated)
                continue
            values = decode(group, leaf)
            is_nan = pc.is_nan(values)
            counts.append(pc.sum(is_nan).as_py() or 0)
            ranges += _extent(pc.filter(values, pc.invert(is_nan)))
        if counts:
            joined = (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None
            found[leaf.column.field_id] = NanStatistics(sum(counts), joined)
    return found


def _leaf_values(table: pa.Table) -> pa.ChunkedArray:
    values = table.column(0)
    while pa.types.is_struct(values.type):
        values = pc.struct_field(values, [0])
    return values


def _extent(values: pa.ChunkedArray) -> list[Range]:
    if len(values) == 0:
        return []
    extent = pc.min_max(values)
    return [(extent["min"].as_py(), extent["max"].as_py())]
