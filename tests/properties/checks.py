"""What must hold of every data file: its rows against what the manifest says of them, as PyIceberg reads it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
from pyiceberg.avro.decoder import StreamingBinaryDecoder
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import TruncateTransform
from pyiceberg.types import BinaryType, DoubleType, FloatType, IntegerType, LongType, PrimitiveType, StringType, StructType

from tests.properties.strategies import leaf_values

EPOCH = datetime(1970, 1, 1)
Leaves = Mapping[int, tuple[PrimitiveType, list[Any]]]


def data_files(table: Table) -> list[DataFile]:
    snapshot = table.current_snapshot()
    manifests = snapshot.manifests(table.io) if snapshot else []
    # Without the compiled decoder of PyIceberg 0.12, which rounds doubles to floats.
    with patch("pyiceberg.avro.file.new_decoder", StreamingBinaryDecoder):
        return [entry.data_file for manifest in manifests for entry in manifest.fetch_manifest_entry(table.io)]


def check_file(file: DataFile, schema: Schema, spec: PartitionSpec) -> None:
    path = Path(file.file_path.removeprefix("file://"))
    rows = pq.ParquetFile(path).read().to_pylist()
    assert file.record_count == len(rows) > 0
    assert file.file_size_in_bytes == path.stat().st_size
    leaves = {field_id: (kind, [internal(value) for value in leaf_values(rows, names)]) for field_id, kind, names in leaf_columns(schema.as_struct())}
    check_partition(file, spec, leaves)
    for field_id, (kind, values) in leaves.items():
        check_metrics(file, field_id, kind, values)


def leaf_columns(struct: StructType, above: tuple[str, ...] = ()) -> Iterator[tuple[int, PrimitiveType, tuple[str, ...]]]:
    """Primitive columns that are in no list and no map."""
    for field in struct.fields:
        if isinstance(field.field_type, StructType):
            yield from leaf_columns(field.field_type, (*above, field.name))
        elif isinstance(field.field_type, PrimitiveType):
            yield field.field_id, field.field_type, (*above, field.name)


def internal(value: Any) -> Any:
    """A value as Iceberg counts it: dates in days, timestamps in microseconds."""
    match value:
        case datetime():
            return ((value.astimezone(UTC) if value.tzinfo else value).replace(tzinfo=None) - EPOCH) // timedelta(microseconds=1)
        case date():
            return (value - EPOCH.date()).days
    return value


def check_partition(file: DataFile, spec: PartitionSpec, leaves: Leaves) -> None:
    """Every row has the recorded partition values, by PyIceberg's scalar transforms."""
    assert len(file.partition) == len(spec.fields)
    for position, field in enumerate(spec.fields):
        kind, values = leaves[field.source_id]
        transform, recorded = field.transform.transform(kind), file.partition[position]
        for value in values:
            expected = transform(value)
            if isinstance(field.transform, TruncateTransform):
                expected = _wrapped(kind, expected)
            assert same(recorded, expected), f"{value!r} by {field.transform} is {expected!r}, but filed under {recorded!r}"


def _wrapped(kind: PrimitiveType, value: Any) -> Any:
    """Below the least int or long, where PyIceberg's scalar transform goes on, the reference implementation wraps around."""
    if isinstance(kind, IntegerType | LongType) and value is not None and value < type(kind).min:
        return value + (2**32 if isinstance(kind, IntegerType) else 2**64)
    return value


def same(one: Any, other: Any) -> bool:
    """Equal, with NaN equal to NaN, and -0.0 another value than 0.0."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isnan(one) and math.isnan(other) or _ordered(one) == _ordered(other)
    return type(one) is type(other) and bool(one == other)


def check_metrics(file: DataFile, field_id: int, kind: PrimitiveType, values: list[Any]) -> None:
    is_float = isinstance(kind, FloatType | DoubleType)
    inside = [value for value in values if value is not None and not (is_float and math.isnan(value))]
    nulls = values.count(None)
    where = f"field {field_id} ({kind}) with {values!r}"
    assert file.value_counts[field_id] == len(values), where
    assert file.null_value_counts[field_id] == nulls, where
    assert (file.nan_value_counts or {}).get(field_id) == (len(values) - nulls - len(inside) if is_float else None), where
    lower, upper = (file.lower_bounds or {}).get(field_id), (file.upper_bounds or {}).get(field_id)
    if not inside:
        assert lower is None and upper is None, where
        return
    # Nothing as short as a bound may be is above a text of the greatest characters.
    assert lower is not None and (upper is not None or isinstance(kind, StringType | BinaryType)), where
    least, most = from_bytes(kind, lower), None if upper is None else from_bytes(kind, upper)
    for value in inside:
        assert _ordered(least) <= _ordered(value), f"{where} is not above its lower bound {least!r}"
        assert most is None or _ordered(value) <= _ordered(most), f"{where} is not below its upper bound {most!r}"


def _ordered(value: Any) -> Any:
    """-0.0 comes before 0.0."""
    return (value, math.copysign(1, value)) if isinstance(value, float) else value
