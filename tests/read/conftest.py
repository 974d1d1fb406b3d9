"""Tables made by PyIceberg, with delete files and metadata that others would have written."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from lakewright.format.data_file import ADDED, EQUALITY_DELETES, POSITION_DELETES, DataFile, ManifestEntry
from lakewright.format.manifests import read_manifest_list, write_manifest, write_manifest_list
from lakewright.format.metadata import Metadata, read_metadata
from lakewright.format.storage import local_path
from lakewright.plan.filters import parse_where
from lakewright.read.frame import to_dataframe
from lakewright.read.scan import FileScan, plan_scan
from lakewright.read.timetravel import read_schema, resolve
from lakewright.session import time_zone

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class OtherTable:
    """A table of another engine. `metadata` is PyIceberg's until `commit` builds on it by hand."""

    def __init__(self, table: Table) -> None:
        self.iceberg = table
        self.io = table.io
        self.metadata: Metadata = read_metadata(self.io, table.metadata_location)
        self.folder = Path(local_path(table.location()) or "")

    def append(self, rows: list[dict[str, Any]] | pa.Table) -> OtherTable:
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows, schema=schema_to_pyarrow(self.iceberg.schema(), include_field_ids=False))
        self.iceberg.append(table)
        return self.refresh()

    def refresh(self) -> OtherTable:
        self.metadata = read_metadata(self.io, self.iceberg.metadata_location)
        return self

    def files(self, **options: Any) -> list[FileScan]:
        return list(plan_scan(self.io, self.metadata, self.metadata.head(), **options).files)

    def read(self, spark: SparkSession, where: Any = None, engine: str = "auto", metadata_columns: bool = False, **travel: Any) -> DataFrame:
        snapshot = resolve(self.metadata, **travel)
        schema = read_schema(self.metadata, snapshot, **travel)
        chosen = parse_where(where, schema, session_tz=time_zone(spark))
        scan = plan_scan(self.io, self.metadata, snapshot, chosen, schema=schema)
        return to_dataframe(spark, self.io, self.metadata, scan, schema=schema, where=chosen.sql, engine=engine, metadata_columns=metadata_columns)

    def rows(self, spark: SparkSession, **options: Any) -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in self.read(spark, **options).collect()), key=repr)

    def add(self, rows: list[dict[str, Any]], name: str = "added") -> OtherTable:
        """Append a file written by Arrow alone: PyIceberg would turn null lists into empty ones."""
        table = pa.Table.from_pylist(rows, schema=schema_to_pyarrow(self.metadata.schema))
        path = self.folder / "data" / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table, path)
        return self.commit([DataFile(f"file://{path}", table.num_rows, path.stat().st_size, self.metadata.default_spec_id)], content=0)

    def delete_positions(self, name: str, positions: Sequence[tuple[str, int]], near: DataFile, **overrides: Any) -> DataFile:
        """Write a position delete file for the partition of `near`."""
        table = pa.table({"file_path": [path for path, _ in positions], "pos": pa.array([pos for _, pos in positions], pa.int64())})
        return self._delete_file(name, table, near, content=POSITION_DELETES, **overrides)

    def delete_values(self, name: str, values: pa.Table, ids: Iterable[int], near: DataFile, **overrides: Any) -> DataFile:
        """Write an equality delete file for the partition of `near`."""
        return self._delete_file(name, values, near, content=EQUALITY_DELETES, equality_ids=tuple(ids), **overrides)

    def _delete_file(self, name: str, rows: pa.Table, near: DataFile, **fields: Any) -> DataFile:
        path = self.folder / "data" / f"{name}.parquet"
        pq.write_table(rows, path)
        kept = {"spec_id": near.spec_id, "partition": near.partition, **fields}
        return DataFile(file_path=f"file://{path}", record_count=rows.num_rows, file_size_in_bytes=path.stat().st_size, **kept)

    def commit(self, files: Sequence[DataFile], *, content: int = 1) -> OtherTable:
        """Publish hand-made files, data (content 0) or deletes (1), as the next snapshot."""
        raw = copy.deepcopy(self.metadata.raw)
        head = self.metadata.head()
        snapshot_id, sequence = 1000 + len(raw.get("snapshots", [])), raw["last-sequence-number"] + 1
        specs = {file.spec_id for file in files}
        manifests = read_manifest_list(self.io, head.manifest_list) if head else []
        for spec_id in specs:
            path = f"{self.metadata.location}/metadata/hand-{snapshot_id}-{spec_id}.avro"
            entries = [ManifestEntry(ADDED, snapshot_id, None, None, file) for file in files if file.spec_id == spec_id]
            manifests.append(
                write_manifest(
                    self.io, path, spec=self.metadata.specs[spec_id], schema=self.metadata.schema, content=content, snapshot_id=snapshot_id, entries=entries
                )
            )
        listing = f"{self.metadata.location}/metadata/hand-{snapshot_id}.avro"
        parent = head.snapshot_id if head else None
        write_manifest_list(self.io, listing, snapshot_id=snapshot_id, parent_id=parent, sequence_number=sequence, manifests=manifests)
        when = raw["last-updated-ms"] + 1000
        snapshot = {
            "snapshot-id": snapshot_id,
            "sequence-number": sequence,
            "timestamp-ms": when,
            "manifest-list": listing,
            "schema-id": raw["current-schema-id"],
        }
        if parent is not None:
            snapshot["parent-snapshot-id"] = parent
        raw["snapshots"] = [*raw.get("snapshots", []), {**snapshot, "summary": {"operation": "delete" if content else "append"}}]
        raw.update({"last-sequence-number": sequence, "current-snapshot-id": snapshot_id, "last-updated-ms": when})
        raw["refs"] = {**raw.get("refs", {}), "main": {"snapshot-id": snapshot_id, "type": "branch"}}
        raw["snapshot-log"] = [*raw.get("snapshot-log", []), {"snapshot-id": snapshot_id, "timestamp-ms": when}]
        self.metadata = Metadata(json.loads(json.dumps(raw)))
        return self


@pytest.fixture
def other_table(tmp_path: Path) -> Callable[..., OtherTable]:
    """Make a table with PyIceberg: other_table(schema, partition_spec=…)."""
    catalog = SqlCatalog("others", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("db")
    made = []

    def make(schema: Schema | pa.Schema, **options: Any) -> OtherTable:
        made.append(None)
        return OtherTable(catalog.create_table(f"db.t{len(made)}", schema, **options))

    return make
