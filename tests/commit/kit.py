"""A small real table at the commit layer: Parquet files by Arrow, no Spark."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DateType, LongType, NestedField, StringType
from pyroaring import BitMap64

from lakewright.catalogs import open_catalog
from lakewright.commit.change import APPEND, OVERWRITE, SnapshotChange, Step, operation_of
from lakewright.commit.create import first_version
from lakewright.commit.publish import Published, publish
from lakewright.commit.result import Commit
from lakewright.commit.runs import data_prefix, new_run_id
from lakewright.commit.store import Store, TableState, open_store
from lakewright.config import resolve_lake
from lakewright.format.data_file import DATA, DELETED, DataFile, ManifestEntry, ManifestFile
from lakewright.format.manifests import read_manifest, read_manifest_list
from lakewright.format.metadata import Metadata
from lakewright.format.metrics import MetricsConfig, data_file_from_footer
from lakewright.format.position_deletes import write_position_deletes
from lakewright.format.puffin import write_vector_files
from lakewright.format.storage import list_files, local_path
from lakewright.maintain.orphans import _name, reachable
from lakewright.options import Options, resolve
from lakewright.plan.partitioning import build_sort_order, build_spec

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "region", StringType(), required=False),
    NestedField(3, "day", DateType(), required=False),
)
EPOCH = date(1970, 1, 1)
_NUMBERS = count()
QUICK = {"commit-retry-min-wait-ms": 1, "commit-retry-max-wait-ms": 2}



def next_run_id() -> str:
    """Run ids in order, so that files are too: they get row ids by their names."""
    return str(uuid.UUID(int=next(_NUMBERS)))


class Kit:
    """One table, and short ways to change it and to look at what changed."""

    def __init__(
        self,
        folder: Path | str,
        partition_by: Sequence[str] = (),
        sort_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        format_version: int = 2,
        catalog: Mapping[str, Any] | None = None,
        name: str = "t",
    ) -> None:
        self.config = resolve_lake(str(folder), catalog)
        self.identifier = ("db", name)
        self.catalog = open_catalog(self.config)
        self.store: Store = open_store(self.catalog)
        self.catalog.create_namespace_if_not_exists(("db",))
        spec, order = build_spec(SCHEMA, partition_by), build_sort_order(SCHEMA, sort_by)
        metadata = first_version(f"{self.config.location}/db/{name}", SCHEMA, spec, order, dict(properties or {}), format_version)
        self.state = self.store.create(self.identifier, metadata, new_run_id())

    @property
    def metadata(self) -> Metadata:
        return self.load().metadata

    @property
    def iceberg(self) -> Table:
        return self.catalog.load_table(self.identifier)

    def load(self) -> TableState:
        self.state = self.store.load(self.identifier, known=self.state)
        return self.state

    # Writing

    def file(self, rows: Iterable[tuple[int, str | None, date | None]], spec: PartitionSpec | None = None, run_id: str | None = None) -> DataFile:
        """Write rows as one data file of a run; all of them must be of one partition."""
        schema, rows = self.state.metadata.schema, list(rows)
        spec = spec or self.state.metadata.spec
        columns = dict(zip(("id", "region", "day"), zip(*rows, strict=True), strict=True))
        names = [f.name for f in schema.fields]
        table = pa.Table.from_pydict({name: columns.get(name, [None] * len(rows)) for name in names}, schema=schema_to_pyarrow(schema))
        path = f"{data_prefix(self.state.metadata.location, run_id or next_run_id())}/{next(_NUMBERS):08d}.parquet"
        local = Path(local_path(path) or "")
        local.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, local)
        config = MetricsConfig.from_properties({}, schema)
        return data_file_from_footer(
            path=path, size=local.stat().st_size, footer=pq.read_metadata(local), spec_id=spec.spec_id, partition=_partition(spec, rows[0]), config=config, nan_counts={}
        )

    def append(self, *rows: tuple[int, str | None, date | None], **fields: Any) -> Commit:
        return self.publish(self.change(added=[self.file(rows)], **fields)).commits[0]

    def overwrite(self, removed: Iterable[DataFile | str], *added: DataFile, **fields: Any) -> Commit:
        return self.publish(self.replacement(removed, *added, **fields)).commits[0]

    def vectors(self, *targets: DataFile, positions: Sequence[int] = (0,)) -> list[DataFile]:
        """One Puffin file with a deletion vector of these positions for each data file."""
        path = f"{data_prefix(self.state.metadata.location, next_run_id())}/vectors.puffin"
        Path(local_path(path) or "").parent.mkdir(parents=True, exist_ok=True)
        return write_vector_files(self.state.io, path, [(target, BitMap64(positions)) for target in targets])

    def position_deletes(self, *targets: DataFile, positions: Sequence[int] = (0,)) -> DataFile:
        """A position delete file of these positions of data files of one partition."""
        path = f"{data_prefix(self.state.metadata.location, next_run_id())}/deletes.parquet"
        Path(local_path(path) or "").parent.mkdir(parents=True, exist_ok=True)
        rows = [(name, np.array(positions, np.int64)) for name in sorted(target.file_path for target in targets)]
        return write_position_deletes(self.state.io, path, rows, spec_id=targets[0].spec_id, partition=targets[0].partition)

    def delta(self, *added: DataFile, touched: Iterable[DataFile] = (), **fields: Any) -> SnapshotChange:
        """A change of rows that read the table as it is now."""
        head = self.load().metadata.head(fields.get("branch", "main"))
        data = [f for f in added if f.content == DATA]
        deletes = [f for f in added if f.content != DATA]
        operation = operation_of(data, fields.get("removed", ()), deletes)
        paths = frozenset(f.file_path for f in touched)
        return self.change(operation, added=list(added), touched=paths, rows_read=True, read_snapshot_id=head.snapshot_id if head else None, **fields)

    def change(self, operation: str = APPEND, **fields: Any) -> SnapshotChange:
        metadata = self.state.metadata
        return SnapshotChange(operation, metadata.schema, metadata.specs, **fields)

    def replacement(self, removed: Iterable[DataFile | str], *added: DataFile, **fields: Any) -> SnapshotChange:
        """An overwrite that read the table as it is now."""
        head = self.load().metadata.head(fields.get("branch", "main"))
        paths = frozenset(f if isinstance(f, str) else f.file_path for f in removed)
        return self.change(OVERWRITE, removed=paths, added=list(added), read_snapshot_id=head.snapshot_id if head else None, **fields)

    def publish(self, *steps: Step, store: Store | None = None, state: TableState | None = None, run_id: str | None = None, **options: Any) -> Published:
        chosen = self.options(**options)
        published = publish(store or self.store, state or self.state, steps, run_id=run_id or new_run_id(), options=chosen)
        self.load()
        return published

    def options(self, **given: Any) -> Options:
        return resolve({**QUICK, **given}, {}, self.state.metadata.properties)

    # Looking

    def manifests(self, branch: str = "main") -> list[ManifestFile]:
        head = self.metadata.head(branch)
        return read_manifest_list(self.state.io, head.manifest_list) if head else []

    def entries(self, branch: str = "main") -> list[ManifestEntry]:
        return [entry for manifest in self.manifests(branch) for entry in read_manifest(self.state.io, manifest, self.metadata.specs)]

    def live(self, branch: str = "main") -> list[DataFile]:
        """Data and delete files, oldest first."""
        entries = sorted((e for e in self.entries(branch) if e.status != DELETED), key=lambda e: (e.sequence_number, e.data_file.file_path))
        return [e.data_file for e in entries]

    def ids(self, branch: str = "main") -> list[int]:
        """What PyIceberg reads."""
        head = self.metadata.head(branch)
        return sorted(self.iceberg.scan(snapshot_id=head.snapshot_id).to_arrow()["id"].to_pylist()) if head else []

    def stored(self) -> set[str]:
        return {os.path.relpath(local_path(f.path) or "", local_path(self.state.metadata.location) or "") for folder in ("data", "metadata") for f in list_files(self.state.io, f"{self.state.metadata.location}/{folder}")}

    def strays(self) -> set[str]:
        """Files below data and metadata that no version of the table refers to."""
        root = local_path(self.state.metadata.location) or ""
        return self.stored() - {os.path.relpath(_name(path), root) for path in reachable(self.load())}


def _partition(spec: PartitionSpec, row: tuple[int, str | None, date | None]) -> tuple[Any, ...]:
    internal = (row[0], row[1], None if row[2] is None else (row[2] - EPOCH).days)
    return tuple(f.transform.transform(SCHEMA.find_field(f.source_id).field_type)(internal[f.source_id - 1]) for f in spec.fields)
