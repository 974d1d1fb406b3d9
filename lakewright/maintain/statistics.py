"""Numbers of distinct values by column: a sketch of each, in a Puffin file that the table's metadata names, for planners of any engine.

The sketches are DataSketches' theta sketches of the values in Iceberg's single-value bytes, as the Puffin specification
defines `apache-datasketches-theta-v1` (https://iceberg.apache.org/puffin-spec/#blob-types).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.conversions import to_bytes
from pyiceberg.types import BooleanType, DecimalType, IcebergType, NestedField, PrimitiveType, UUIDType

from lakewright.commit.change import MetadataChange
from lakewright.commit.updates import Update, set_statistics
from lakewright.errors import SchemaError, StalePlan, UnsupportedOperation
from lakewright.format.metadata import Json, Metadata, Snapshot
from lakewright.format.puffin import SketchFile, write_sketches
from lakewright.format.storage import delete_file
from lakewright.plan.names import find_field
from lakewright.quoting import quoted
from lakewright.read.reader import read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakewright.transaction import Transaction

THETA = "apache-datasketches-theta-v1"


@dataclass(frozen=True)
class _Sketch:
    field: NestedField
    sketch: bytes
    distinct: int


def analyze(tx: Transaction, columns: Sequence[str] | None) -> DataFrame:
    """Sketch columns of the newest snapshot and record them in the transaction; what was counted."""
    state, spark = tx.state, tx.lake.spark
    head = state.metadata.head()
    if head is None:
        raise UnsupportedOperation(f"{state.name} has no snapshot yet, so there is nothing to count. Write rows first.", table=state.name)
    fields = _chosen(state.metadata, columns, state.name)
    sketches = _sketched(read(spark, state, snapshot_id=head.snapshot_id), fields)
    path = f"{state.metadata.location}/metadata/{head.snapshot_id}-{uuid.uuid4()}.stats"
    blobs = [(_about(head, sketch), sketch.sketch) for sketch in sketches]
    written = write_sketches(state.io, path, THETA, blobs)
    try:
        tx.change(_recorded(state.name, head, written, [about for about, _ in blobs]))
    except BaseException:
        delete_file(state.io, path)
        raise
    rows = [(state.metadata.schema.find_column_name(s.field.field_id), s.distinct) for s in sketches]
    return spark.createDataFrame(rows, "column string, distinct_values bigint")


def _chosen(metadata: Metadata, columns: Sequence[str] | None, table: str) -> list[NestedField]:
    if columns is None:
        return [f for f in metadata.schema.fields if isinstance(f.field_type, PrimitiveType)]
    found = [find_field(metadata.schema, name, table) for name in columns]
    for name, field in zip(columns, found, strict=True):
        if field not in metadata.schema.fields or not isinstance(field.field_type, PrimitiveType):
            raise SchemaError(f"Column {name!r} of {table} is {field.field_type} or inside another; distinct values are counted of plain columns.", table=table, column=name)
    return found


def _sketched(rows: DataFrame, fields: Sequence[NestedField]) -> list[_Sketch]:
    """One pass over the rows for all columns."""
    from pyspark.sql import functions as F

    names = [f"c{number}" for number in range(len(fields))]
    kinds = [f.field_type for f in fields]

    def as_bytes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([single_values(column, kind) for column, kind in zip(batch.columns, kinds, strict=True)], names)

    values = rows.select(*(F.col(quoted(f.name)) for f in fields)).mapInArrow(as_bytes, ", ".join(f"{name} binary" for name in names))
    aggregated = values.agg(*(F.theta_sketch_agg(name).alias(name) for name in names))
    estimated = aggregated.select("*", *(F.theta_sketch_estimate(name).alias(f"n{name}") for name in names)).first()
    assert estimated is not None
    return [_Sketch(field, bytes(estimated[name]), int(estimated[f"n{name}"])) for field, name in zip(fields, names, strict=True)]


def single_values(values: pa.Array, kind: IcebergType) -> pa.Array:
    """Values as Iceberg writes single ones: fixed widths little-endian, decimals as few big-endian bytes as hold them, texts as UTF-8."""
    if isinstance(kind, (DecimalType, UUIDType)):
        return _each_distinct(values, lambda value: to_bytes(kind, uuid.UUID(value) if isinstance(kind, UUIDType) else value))
    if isinstance(kind, BooleanType):
        return _each_distinct(values, lambda value: b"\x01" if value else b"\x00")
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type) or pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        return values.cast(pa.binary())
    width = values.type.bit_width // 8
    fixed = pa.Array.from_buffers(pa.binary(width), len(values), values.buffers(), offset=values.offset)
    return fixed.cast(pa.binary())


def _each_distinct(values: pa.Array, convert: Callable[[Any], bytes]) -> pa.Array:
    encoded = values.dictionary_encode()
    dictionary = pa.array([convert(value) for value in encoded.dictionary.to_pylist()], pa.binary())
    return dictionary.take(encoded.indices)


def _about(head: Snapshot, sketch: _Sketch) -> Json:
    return {"fields": [sketch.field.field_id], "snapshot-id": head.snapshot_id, "sequence-number": head.sequence_number, "properties": {"ndv": str(sketch.distinct)}}


def _recorded(table: str, head: Snapshot, file: SketchFile, abouts: Sequence[Json]) -> MetadataChange:
    statistics = {
        "snapshot-id": head.snapshot_id,
        "statistics-path": file.path,
        "file-size-in-bytes": file.size,
        "file-footer-size-in-bytes": file.footer_size,
        "blob-metadata": [{"type": THETA, **about} for about in abouts],
    }

    def updates(metadata: Metadata) -> list[Update]:
        if head.snapshot_id not in {s.snapshot_id for s in metadata.snapshots()}:
            raise StalePlan(f"The snapshot of {table} that was counted is gone; count again.", table=table)
        return [set_statistics(statistics)]

    return MetadataChange("analyze", updates)
