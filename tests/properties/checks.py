"""What must be true of every data file: its rows are of its partition, within its bounds, and counted right."""

from __future__ import annotations

import os
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, NestedField, StructType

from lakewright.format.data_file import DataFile
from lakewright.format.metadata import Metadata
from lakewright.format.storage import local_path

EPOCH = datetime(1970, 1, 1)


def internal(value: Any) -> Any:
    """A value in Iceberg's internal form."""
    if isinstance(value, datetime):
        since = value.replace(tzinfo=None) - EPOCH
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return (value - EPOCH.date()).days if isinstance(value, date) else value


def check_file(metadata: Metadata, file: DataFile) -> None:
    local = local_path(file.file_path) or ""
    rows = pq.ParquetFile(local).read()
    assert rows.num_rows == file.record_count > 0
    assert os.path.getsize(local) == file.file_size_in_bytes
    columns = {field.name: rows[field.name].to_pylist() for field in metadata.schema.fields}
    check_partition(metadata, file, columns)
    for field in metadata.schema.fields:
        check_metrics(file, field, columns[field.name])
    check_field_ids(rows.schema, metadata.schema)


def check_partition(metadata: Metadata, file: DataFile, columns: dict[str, list[Any]]) -> None:
    for at, field in enumerate(metadata.specs[file.spec_id].fields):
        source = metadata.schema.find_field(field.source_id)
        transform = field.transform.transform(source.field_type)
        for value in columns[source.name]:
            expected = transform(internal(value)) if value is not None else None
            assert same(expected, file.partition[at]), f"{value!r} of {source.name} is in partition {file.partition[at]!r} of {field.name}"


def check_metrics(file: DataFile, field: NestedField, values: list[Any]) -> None:
    """Of a column, or of what a struct holds; columns inside lists and maps have neither counts nor bounds."""
    if isinstance(field.field_type, StructType):
        for child in field.field_type.fields:
            check_metrics(file, child, [None if v is None else v[child.name] for v in values])
        return
    key = field.field_id
    if not field.field_type.is_primitive:
        assert key not in file.lower_bounds and key not in file.upper_bounds
        return
    present = [internal(v) for v in values if v is not None]
    assert file.value_counts[key] == len(values)
    assert file.null_value_counts[key] == len(values) - len(present)
    if isinstance(field.field_type, (FloatType, DoubleType)):
        assert file.nan_value_counts[key] == sum(v != v for v in present)
        present = [v for v in present if v == v]
    else:
        assert key not in file.nan_value_counts
    if not present:
        assert key not in file.lower_bounds and key not in file.upper_bounds
        return
    lower, upper = file.lower_bounds.get(key), file.upper_bounds.get(key)
    assert lower is not None, f"no lower bound of {field.name}"
    assert from_bytes(field.field_type, lower) <= min(present)
    if upper is not None:
        assert from_bytes(field.field_type, upper) >= max(present)
    else:
        assert isinstance(max(present), (str, bytes)), f"no upper bound of {field.name}"


def check_field_ids(physical: pa.Schema, schema: Schema) -> None:
    found = {field.name: int(field.metadata[b"PARQUET:field_id"]) for field in physical}
    assert found == {field.name: field.field_id for field in schema.fields}


def same(one: Any, other: Any) -> bool:
    return bool(one == other or (one != one and other != other))
