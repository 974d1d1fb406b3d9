"""What a manifest says of a data file, against the rows in it. Bounds may be wider than they need be, or missing: a rewrite keeps old ones."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, IntegerType, LongType, PrimitiveType

from lakewright.format.data_file import DataFile
from tests.properties.checks import check_partition, internal, leaf_columns
from tests.properties.strategies import leaf_values


def check_metrics(file: DataFile, schema: Schema, spec: PartitionSpec) -> None:
    """The file's columns by their ids: it may have names and types from before a change of the schema."""
    path = file.file_path.removeprefix("file://")
    parquet = pq.ParquetFile(path)
    rows = parquet.read().to_pylist()
    assert (file.record_count, file.file_size_in_bytes) == (len(rows), Path(path).stat().st_size)
    columns = leaf_columns(pyarrow_to_schema(parquet.schema_arrow).as_struct())
    leaves = {field_id: (kind, [internal(value) for value in leaf_values(rows, names)]) for field_id, kind, names in columns}
    check_partition(file, spec, leaves)  # type: ignore[arg-type]
    for field_id, (kind, values) in leaves.items():
        known = schema._lazy_id_to_field.get(field_id)
        _check_column(file, field_id, known.field_type if known is not None else kind, values)  # type: ignore[arg-type]


def _check_column(file: DataFile, field_id: int, kind: PrimitiveType, values: list[Any]) -> None:
    where = f"field {field_id} ({kind}) of {file.file_path} with {values!r}"
    is_float = isinstance(kind, DoubleType)
    nans = sum(is_float and value is not None and math.isnan(value) for value in values)
    if field_id in file.value_counts:
        counts = file.value_counts[field_id], file.null_value_counts[field_id], file.nan_value_counts.get(field_id, 0)
        assert counts == (len(values), values.count(None), nans), where
    inside = [value for value in values if value is not None and not (is_float and math.isnan(value))]
    lower, upper = file.lower_bounds.get(field_id), file.upper_bounds.get(field_id)
    if inside and lower is not None:
        assert from_bytes(_stored(kind, lower), lower) <= min(inside), where
    if inside and upper is not None:
        assert from_bytes(_stored(kind, upper), upper) >= max(inside), where


def _stored(kind: PrimitiveType, bound: bytes) -> PrimitiveType:
    """A file from before a promotion has bounds of the type it was written with."""
    return IntegerType() if isinstance(kind, LongType) and len(bound) == 4 else kind
