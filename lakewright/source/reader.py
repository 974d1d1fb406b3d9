"""Reading through the Data Source: files pruned by the filters Spark pushes, and read with Arrow in Python tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.schema import Schema
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from lakewright.commit.store import TableState
from lakewright.errors import ColumnNotFound, TypeMismatch
from lakewright.format.metadata import Snapshot
from lakewright.plan.types import iceberg_to_spark
from lakewright.read.arrow_frame import read_share, shares
from lakewright.read.arrow_scan import ArrowFile, ArrowRead, arrow_file, arrow_read
from lakewright.read.scan import plan_scan
from lakewright.read.spark_arrow import arrow_schema
from lakewright.read.timetravel import read_schema, resolve
from lakewright.source.filters import pruning_filter
from lakewright.source.options import ReadOptions


@dataclass
class Files(InputPartition):
    """The files one task reads, and how."""

    read: ArrowRead
    files: list[ArrowFile]


def pinned(state: TableState, options: ReadOptions) -> tuple[Snapshot | None, Schema]:
    """The version that is read, and the schema it shows. Times without a zone are UTC, since no session is there to ask."""
    metadata = state.metadata
    snapshot = resolve(metadata, snapshot_id=options.snapshot_id, as_of=options.as_of, ref=options.ref, time_zone="UTC")
    return snapshot, read_schema(metadata, snapshot, snapshot_id=options.snapshot_id, as_of=options.as_of, ref=options.ref)


class LakeReader(DataSourceReader):
    def __init__(self, state: TableState, options: ReadOptions, schema: StructType) -> None:
        self.io = state.io
        self.table = state.name
        self.metadata = state.metadata
        self.snapshot, self.table_schema = pinned(state, options)
        self.columns = _shown(self.table_schema, schema, state.name)
        self.output = arrow_schema(schema)
        self.filter: BooleanExpression = AlwaysTrue()
        self.pushFilters = _PushFilters(self)  # type: ignore[method-assign]

    def __getstate__(self) -> dict[str, Any]:
        """What `read` needs: tasks are not sent the table's history."""
        return {"io": self.io, "output": self.output}

    def partitions(self) -> Sequence[InputPartition]:
        scan = plan_scan(self.io, self.metadata, self.snapshot, self.filter, schema=self.table_schema)
        read = arrow_read(self.metadata, scan.files, self.columns)
        return [Files(read, [arrow_file(self.metadata, file, self.columns) for file in share]) for share in shares(scan.files)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, Files):
            for batch in read_share(self.io.properties, partition.read, partition.files):
                yield batch if batch.schema.equals(self.output) else batch.cast(self.output)


class _PushFilters:
    """`pushFilters`, in a form PySpark does not take for an override.

    It refuses to plan a reader that overrides the method on sessions where spark.sql.python.filterPushdown.enabled is off,
    which is the default; yet where it is on, it calls whatever is there.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: LakeReader) -> None:
        self.reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Leaves out files that cannot match; Spark still evaluates every filter on the rows."""
        self.reader.filter = pruning_filter(filters, self.reader.table_schema)
        return filters


def _shown(table_schema: Schema, asked: StructType, table: str) -> Schema:
    """The columns asked for, in that order: all of them, or those of .schema(…)."""
    known = {field.name: field for field in table_schema.fields}
    types: dict[str, Any] = {field.name: field.dataType for field in iceberg_to_spark(table_schema).fields}
    for field in asked.fields:
        if field.name not in known:
            raise ColumnNotFound(f"Table {table} has no column {field.name!r} (any more); load it again.", table=table, column=field.name)
        if field.dataType.simpleString() != types[field.name].simpleString():
            raise TypeMismatch(
                f"Column {field.name!r} of table {table} is {types[field.name].simpleString()}, not {field.dataType.simpleString()}; load it again, and cast it afterwards.",
                table=table,
                column=field.name,
            )
    return Schema(*(known[field.name] for field in asked.fields), schema_id=table_schema.schema_id)
