"""A table: thin, every verb delegates."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.sorting import SortOrder

from lakewright.commit import refs
from lakewright.commit.change import MetadataChange
from lakewright.commit.refs import Retention
from lakewright.commit.result import Commit
from lakewright.commit.runs import list_runs, new_run_id
from lakewright.commit.store import TableState
from lakewright.errors import InvalidOption, StalePlan
from lakewright.format.metadata import Metadata, Snapshot
from lakewright.maintain.orphans import Removed, remove_orphans
from lakewright.maintain.statistics import analyze
from lakewright.options import REPLANS, resolve
from lakewright.plan.request import Clause, Command, RowRequest, Then, When, WriteMode, WriteRequest
from lakewright.read import tables
from lakewright.read.changes import changes
from lakewright.read.reader import read
from lakewright.read.timetravel import resolve as resolve_snapshot
from lakewright.rows.builder import MergeBuilder
from lakewright.rows.expressions import explaining
from lakewright.rows.merge import check_clauses
from lakewright.rows.merge_source import MergeSource, read_source
from lakewright.rows.row_plan import RowContext, RowPlan
from lakewright.session import session_options, time_zone
from lakewright.transaction import Transaction, request_fields
from lakewright.write.engine import running

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame

    from lakewright.lake import Lake

log = logging.getLogger("lakewright")


class Table:
    """One table of a lake, at the version it was loaded or last written; `refresh()` moves to the newest."""

    def __init__(self, lake: Lake, state: TableState) -> None:
        self._lake = lake
        self._state = state

    def __repr__(self) -> str:
        return f"Table({self.name!r})"

    @property
    def name(self) -> str:
        return self._state.name

    @property
    def schema(self) -> Schema:
        return self._state.metadata.schema

    @property
    def spec(self) -> PartitionSpec:
        return self._state.metadata.spec

    @property
    def sort_order(self) -> SortOrder:
        return self._state.metadata.sort_order

    @property
    def properties(self) -> dict[str, str]:
        return self._state.metadata.properties

    @property
    def location(self) -> str:
        return self._state.metadata.location

    @property
    def iceberg(self) -> IcebergTable:
        """The PyIceberg table, at the newest version."""
        return self._lake.catalog.load_table(self._state.identifier)

    def refresh(self) -> Table:
        self._state = self._lake.store.load(self._state.identifier, known=self._state)
        return self

    # Writing rows

    def append(self, df: DataFrame, **how: Any) -> Commit:
        """Add rows. Takes token=, branch=, snapshot_properties= and every write option as a keyword, as all writes do."""
        return self._write(WriteRequest(WriteMode.APPEND, **request_fields(how)), df)

    def overwrite(self, df: DataFrame, where: str | Column | None = None, *, overwrite_schema: bool = False, **how: Any) -> Commit:
        """Replace all rows, or those `where` selects; a row of df outside `where` is refused."""
        return self._write(WriteRequest(WriteMode.OVERWRITE, where=where, overwrite_schema=overwrite_schema, **request_fields(how)), df)

    def overwrite_partitions(self, df: DataFrame, **how: Any) -> Commit:
        """Replace the partitions that df has rows for, and no others."""
        return self._write(WriteRequest(WriteMode.OVERWRITE_PARTITIONS, **request_fields(how)), df)

    def delete(self, where: str | Column | None = None, **how: Any) -> Commit:
        """Delete the rows `where` selects, or all of them."""
        return self._change_rows(RowRequest(Command.DELETE, (Clause(When.MATCHED, Then.DELETE),), where=where, **request_fields(how)))

    def update(self, set: Mapping[str, Any], where: str | Column | None = None, **how: Any) -> Commit:
        """Give columns of the rows `where` selects new values: `t.update({"fare": "fare * 1.1"}, where="vendor = 2")`."""
        if not set:
            raise InvalidOption(f"The update of {self.name} names no column; give at least one, as in update({{'fare': 'fare * 1.1'}}).", table=self.name)
        return self._change_rows(RowRequest(Command.UPDATE, (Clause(When.MATCHED, Then.UPDATE, None, dict(set)),), where=where, **request_fields(how)))

    def merge(self, source: DataFrame, on: str | Column, *, target_alias: str = "t", source_alias: str = "s", **how: Any) -> MergeBuilder:
        """Begin a MERGE; clauses follow, and `execute()` runs it. Conditions and values name columns as `t.fare` and `s.fare`."""
        request = RowRequest(Command.MERGE, (), source=source, on=on, target_alias=target_alias, source_alias=source_alias, **request_fields(how))
        return MergeBuilder(request, self._change_rows)

    def transaction(self) -> Transaction:
        """Changes of schema and rows in one commit: `with t.transaction() as tx: tx.evolve_schema(...); tx.append(df)`."""
        return _TableTransaction(self)

    def _write(self, request: WriteRequest, df: DataFrame) -> Commit:
        self.refresh()
        with Transaction(self._lake, self._state, operation=request.mode.value) as tx:
            tx.write(request, df)
        self._state = tx.state
        return tx.commit

    def _change_rows(self, request: RowRequest) -> Commit:
        """Run a row-level operation, planning it again when a commit made meanwhile took away what it rests on."""
        self.refresh()
        source = self._source(request)
        for planned in itertools.count():
            try:
                with Transaction(self._lake, self._state, operation=request.command.value) as tx:
                    tx.change_rows(request, source)
            except StalePlan:
                if planned == resolve(request.options, session_options(self._lake.spark), self.properties)[REPLANS]:
                    raise
                log.info("%s of %s met another commit, planning it again", request.command.value, self.name)
                self.refresh()
            else:
                break
        self._state = tx.state
        return tx.commit

    def _source(self, request: RowRequest) -> MergeSource | None:
        if request.command is not Command.MERGE:
            return None
        check_clauses(request, self.name)
        with running(self._lake.spark, f"lakewright-{new_run_id()}", self.name), explaining("source of the merge", self.name):
            return read_source(request, self.schema)

    def planned_rows(self, request: RowRequest) -> tuple[RowContext, RowPlan]:
        """How a row-level operation would go about it; nothing is written."""
        self.refresh()
        return Transaction(self._lake, self._state).planned_rows(request, self._source(request))

    # Reading

    def read(
        self,
        where: str | Column | None = None,
        *,
        snapshot_id: int | Commit | None = None,
        as_of: datetime | str | int | Commit | None = None,
        ref: str | None = None,
        metadata: bool = False,
    ) -> DataFrame:
        """The rows, at the newest version or an earlier one. `where` also prunes files; `metadata` adds where each row comes from."""
        self.refresh()
        return read(self._lake.spark, self._state, where=where, snapshot_id=snapshot_id, as_of=as_of, ref=ref, metadata_columns=metadata)

    def changes(
        self,
        since: datetime | str | int | Commit | None = None,
        until: datetime | str | int | Commit | None = None,
        *,
        log: bool = False,
        where: str | Column | None = None,
        path_glob: str | None = None,
        ref: str | None = None,
    ) -> DataFrame:
        """The rows changed after `since`, up to and with `until`, each once as of its latest change; `log` tells every change instead.

        Both are commits, snapshot ids or times. Without since it is all rows, without until up to the newest commit of `ref`.
        """
        self.refresh()
        return changes(self._lake.spark, self._state, since=since, until=until, log=log, where=where, path_glob=path_glob, ref=ref)

    def history(self) -> DataFrame:
        """snapshot_id, parent_id, committed_at, operation and summary of each snapshot, oldest first."""
        return tables.history(self._lake.spark, self.refresh()._state.metadata)

    def snapshots(self) -> DataFrame:
        """The same with the columns other engines give it: committed_at, snapshot_id, parent_id, operation, manifest_list, summary."""
        return tables.snapshots(self._lake.spark, self.refresh()._state.metadata)

    def files(self, **version: Any) -> DataFrame:
        """Data and delete files, at the newest version or at snapshot_id=, as_of= or ref=, which partitions, manifests and entries take too."""
        return tables.files(self._lake.spark, self._state.io, *self._at(version))

    def partitions(self, **version: Any) -> DataFrame:
        return tables.partitions(self._lake.spark, self._state.io, *self._at(version))

    def manifests(self, **version: Any) -> DataFrame:
        return tables.manifests(self._lake.spark, self._state.io, *self._at(version))

    def entries(self, **version: Any) -> DataFrame:
        """Every line of the manifests, deleted files included."""
        return tables.entries(self._lake.spark, self._state.io, *self._at(version))

    def _at(self, version: Mapping[str, Any]) -> tuple[Metadata, Snapshot | None]:
        metadata = self.refresh()._state.metadata
        return metadata, resolve_snapshot(metadata, time_zone=time_zone(self._lake.spark), **version)

    def refs(self) -> DataFrame:
        return tables.refs(self._lake.spark, self.refresh()._state.metadata)

    def runs(self) -> DataFrame:
        """Every write that was begun, with its state."""
        return tables.runs(self._lake.spark, list_runs(self._state.io, self.location))

    # Shape

    def evolve_schema(
        self,
        *,
        add: Mapping[str, Any] | None = None,
        rename: Mapping[str, str] | None = None,
        drop: Iterable[str] = (),
        promote: Mapping[str, Any] | None = None,
        move: Mapping[str, Any] | None = None,
        nullable: Iterable[str] = (),
        comments: Mapping[str, str | None] | None = None,
        defaults: Mapping[str, Any] | None = None,
        key: Iterable[str] | None = None,
    ) -> Table:
        """Change columns by field id, or which of them are the key; no file is rewritten."""
        with self.transaction() as tx:
            tx.evolve_schema(
                add=add, rename=rename, drop=tuple(drop), promote=promote, move=move, nullable=tuple(nullable), comments=comments, defaults=defaults, key=key if key is None else tuple(key)
            )
        return self

    def evolve_partitions(self, add: Iterable[str] = (), drop: Iterable[str] = ()) -> Table:
        """Change how new files are partitioned; old ones stay as they are and read right."""
        with self.transaction() as tx:
            tx.evolve_partitions(list(add), list(drop))
        return self

    def set_sort_order(self, sort_by: Iterable[str]) -> Table:
        with self.transaction() as tx:
            tx.set_sort_order(list(sort_by))
        return self

    def set_properties(self, properties: Mapping[str, Any] | None = None, **more: Any) -> Table:
        """Set table properties; None removes one."""
        with self.transaction() as tx:
            tx.set_properties({**(properties or {}), **more})
        return self

    def upgrade(self, format_version: int) -> Table:
        """Move to a newer format version; no file is rewritten, and there is no way back."""
        with self.transaction() as tx:
            tx.upgrade(format_version)
        return self

    # Branches and tags

    def create_branch(self, name: str, at: int | str | Commit | None = None, *, retention: Retention | None = None, replace: bool = False) -> Table:
        return self._changed(refs.create(self.name, name, at, "branch", retention, replace=replace))

    def create_tag(self, name: str, at: int | str | Commit | None = None, *, retention: Retention | None = None, replace: bool = False) -> Table:
        return self._changed(refs.create(self.name, name, at, "tag", retention, replace=replace))

    def drop_ref(self, name: str) -> Table:
        return self._changed(refs.drop(self.name, name))

    def _changed(self, change: MetadataChange) -> Table:
        with self.transaction() as tx:
            tx.change(change)
        return self

    # Upkeep

    def analyze(self, columns: Iterable[str] | None = None) -> DataFrame:
        """Count the distinct values of columns, all plain ones unless named, and record that with the newest snapshot for query planners."""
        self.refresh()
        with Transaction(self._lake, self._state, operation="analyze") as tx:
            counted = analyze(tx, None if columns is None else tuple(columns))
        self._state = tx.state
        return counted

    def remove_orphans(self, older_than_hours: float = 72, dry_run: bool = False) -> Removed:
        """Delete the files of dead runs, and unreferenced files older than the given age; never one a live run may commit."""
        self.refresh()
        return remove_orphans(self._lake.store, self._state, older_than_hours=older_than_hours, dry_run=dry_run)


class _TableTransaction(Transaction):
    """A transaction that leaves its table at the version it published."""

    def __init__(self, table: Table) -> None:
        table.refresh()
        super().__init__(table._lake, table._state)
        self._table = table

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        self._table._state = self.state
