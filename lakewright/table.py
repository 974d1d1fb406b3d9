"""A table: thin, every verb delegates."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.sorting import SortOrder

from lakewright.call_sites import no_call_sites
from lakewright.commit import refs
from lakewright.commit.change import MetadataChange
from lakewright.commit.refs import Retention
from lakewright.commit.result import Commit
from lakewright.commit.runs import list_runs, new_run_id
from lakewright.commit.store import TableState
from lakewright.errors import InvalidOption, StalePlan
from lakewright.format.metadata import MAIN, Metadata, Snapshot
from lakewright.keys.arrange import Arrangement, Partitioner
from lakewright.keys.engines import Function
from lakewright.keys.guard import within_keys
from lakewright.keys.index.record.pointer import drop_index
from lakewright.keys.request import Operation
from lakewright.keys.run import by_key, take_in
from lakewright.maintain import rollback, savepoints
from lakewright.maintain.compact import compact, in_background
from lakewright.maintain.dead_runs import has_files
from lakewright.maintain.expiry import Expired, expire_snapshots
from lakewright.maintain.orphans import Removed, remove_orphans
from lakewright.maintain.statistics import analyze
from lakewright.options import REPLANS, RETRY_TOTAL, Option, resolve
from lakewright.plan.keys import is_keyed
from lakewright.plan.request import Clause, Command, CompactRequest, RowRequest, Then, When, WriteMode, WriteRequest
from lakewright.read import tables
from lakewright.read.changes import changes
from lakewright.read.reader import read
from lakewright.read.timeline import timeline
from lakewright.read.timetravel import resolve as resolve_snapshot
from lakewright.read.timetravel import to_millis
from lakewright.rows.builder import MergeBuilder
from lakewright.rows.expressions import explaining
from lakewright.rows.merge import check_clauses
from lakewright.rows.merge_source import MergeSource, read_source
from lakewright.rows.row_plan import RowContext, RowPlan
from lakewright.session import session_options, time_zone
from lakewright.transaction import Transaction, request_fields
from lakewright.write.engine import running

if TYPE_CHECKING:
    from concurrent.futures import Future
    from datetime import datetime

    from pyspark.sql import Column, DataFrame

    from lakewright.lake import Lake
    from lakewright.shards.config import BuildResult

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
        """Add rows. Takes token=, branch=, snapshot_properties= and every write option as a keyword, as all writes do. On a keyed table: insert."""
        if is_keyed(self.properties):
            return self.insert(df, **how)
        return self._write(WriteRequest(WriteMode.APPEND, **request_fields(how)), df)

    def overwrite(self, df: DataFrame, where: str | Column | None = None, *, overwrite_schema: bool = False, **how: Any) -> Commit:
        """Replace all rows, or those `where` selects; a row of df outside `where` is refused."""
        if is_keyed(self.properties) and where is None and not overwrite_schema:
            return by_key(self, Operation.OVERWRITE, df, **how)
        return self._write(WriteRequest(WriteMode.OVERWRITE, where=where, overwrite_schema=overwrite_schema, **request_fields(how)), df)

    def overwrite_partitions(self, df: DataFrame, **how: Any) -> Commit:
        """Replace the partitions that df has rows for, and no others. On a keyed table: insert_overwrite."""
        if is_keyed(self.properties):
            return self.insert_overwrite(df, **how)
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

    # Writing by key

    def upsert(self, df: DataFrame, *, delete_when: str | Column | None = None, combine_before: bool = True, merge: Function | None = None, on_record_error: str = "fail", **how: Any) -> Commit:
        """Bring each key's row up to date with df's records, adding rows for new keys. A record older than its row, by the table's ordering, changes nothing.

        delete_when: which records delete their key's row. merge: a function of two Arrow batches, rows and records, that returns the merged
        rows, instead of the table's merge engine. combine_before=False says that no key comes twice, which is checked.
        on_record_error="quarantine": records that cannot be written go to `<table>$errors`, with the reason.
        """
        return by_key(self, Operation.UPSERT, df, on_record_error, delete_when=delete_when, combine_before=combine_before, function=merge, **how)

    def insert(self, df: DataFrame, *, drop_duplicates: bool = False, combine_before: bool = True, on_record_error: str = "fail", **how: Any) -> Commit:
        """Add rows for new keys; a key that is there already is an error, or left out with drop_duplicates=True."""
        return by_key(self, Operation.INSERT, df, on_record_error, drop_duplicates=drop_duplicates, combine_before=combine_before, **how)

    def bulk_insert(self, df: DataFrame, *, by: str | Partitioner = "none", parallelism: int | None = None, trust: bool = False, combine_before: bool = True, on_record_error: str = "fail", **how: Any) -> Commit:
        """Add rows without looking keys up: to a table, or partitions, without rows, or with trust=True anywhere, which the snapshot records.

        by: how rows are laid out: none, sort (by key), hash (by key), or a function that takes the rows and returns them arranged.
        """
        return by_key(self, Operation.BULK_INSERT, df, on_record_error, arrange=Arrangement(by, parallelism), trust=trust, combine_before=combine_before, **how)

    def delete_keys(self, df: DataFrame, *, on_record_error: str = "fail", **how: Any) -> Commit:
        """Delete the rows of df's keys; keys that are not there do not matter."""
        return by_key(self, Operation.DELETE_KEYS, df, on_record_error, **how)

    def insert_overwrite(self, df: DataFrame, *, combine_before: bool = True, on_record_error: str = "fail", **how: Any) -> Commit:
        """Replace the partitions that df has rows for, buckets aside, and the rows of its keys in others."""
        return by_key(self, Operation.INSERT_OVERWRITE, df, on_record_error, combine_before=combine_before, **how)

    def transaction(self) -> Transaction:
        """Changes of schema and rows in one commit: `with t.transaction() as tx: tx.evolve_schema(...); tx.append(df)`."""
        return _TableTransaction(self)

    def _write(self, request: WriteRequest, df: DataFrame) -> Commit:
        self.refresh()
        return self._planned(request.name, lambda tx: tx.write(request, df), request.options)

    def _change_rows(self, request: RowRequest) -> Commit:
        self.refresh()
        request = within_keys(request, self._state.metadata, self.name)
        source = self._source(request)
        return self._planned(request.name, lambda tx: tx.change_rows(request, source), request.options, REPLANS)

    def _planned(self, operation: str, step: Callable[[Transaction], None], given: Mapping[str, Any], replans: Option[int] | None = None) -> Commit:
        """Run one step, planned again as often as allowed where other commits came between; compactions, which change no row, do not
        count against that: with them it goes on until a commit would give up."""
        began, met = time.monotonic(), 0
        while True:
            try:
                with Transaction(self._lake, self._state, operation=operation) as tx:
                    step(tx)
            except StalePlan as stale:
                options = resolve(given, session_options(self._lake.spark), self.properties)
                met += not stale.by_rewrite
                if met > (0 if replans is None else options[replans]) or time.monotonic() - began > options[RETRY_TOTAL] / 1000:
                    raise
                log.info("%s of %s met another commit, planning it again", operation, self.name)
                self.refresh()
            else:
                break
        self._state = tx.state
        return tx.commit

    @no_call_sites()
    def _source(self, request: RowRequest) -> MergeSource | None:
        if request.command is not Command.MERGE:
            return None
        check_clauses(request, self.name)
        with running(self._lake.spark, f"lakewright-{new_run_id()}", self.name), explaining("source of the merge", self.name):
            return read_source(request, self.schema)

    @no_call_sites()
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
        optimized: bool = False,
    ) -> DataFrame:
        """The rows, at the newest version or an earlier one. `where` also prunes files; `metadata` adds where each row comes from;
        `optimized` reads the table as of its last compaction, or a later snapshot without delete files."""
        self.refresh()
        return read(self._lake.spark, self._state, where=where, snapshot_id=snapshot_id, as_of=as_of, ref=ref, metadata_columns=metadata, optimized=optimized)

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

    def timeline(self) -> DataFrame:
        """What was done and is being done: snapshots and runs together, each with its action and state, oldest first."""
        runs = list_runs(self._state.io, self.location)  # first: what one of them has committed since is then among the snapshots
        state = self.refresh()._state
        return timeline(self._lake.spark, state.metadata, runs, lambda run: has_files(state, run))

    def savepoints(self) -> DataFrame:
        """name, snapshot_id, committed_at and saved_at of each savepoint."""
        return savepoints.savepoints_frame(self._lake.spark, self.refresh()._state.metadata)

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

    # Going back

    def rollback(self, to: int | Commit, *, branch: str = MAIN) -> Commit:
        """Set a branch back to one of its earlier commits, which is returned; to its newest one changes nothing."""
        return self._moved(rollback.rollback(self._lake.store, self.refresh()._state, to, branch))

    def savepoint(self, name: str, at: int | str | Commit | None = None) -> Commit:
        """Keep the newest commit, or the one given, from expiry until the savepoint is dropped; returns that commit."""
        return self._moved(savepoints.save(self._lake.store, self.refresh()._state, name, at))

    def restore(self, name: str, *, branch: str = MAIN) -> Commit:
        """Set a branch back to a savepoint, whose commit is returned."""
        return self._moved(rollback.restore(self._lake.store, self.refresh()._state, name, branch))

    def drop_savepoint(self, name: str) -> Table:
        self._state = savepoints.drop(self._lake.store, self.refresh()._state, name)
        return self

    def _moved(self, outcome: tuple[TableState, Commit]) -> Commit:
        self._state, commit = outcome
        return commit

    # Serving

    def publish_shards(self, url: str, **how: Any) -> BuildResult:
        """Publish the newest snapshot as a sharded key-value snapshot: `t.publish_shards("s3://…/users", value="payload", num_shards=16)`.

        Takes the options of `lw.shards.ShardConfig`; `key` is the table's own unless given. Only shards with changes since the last
        publish are built anew, unless `full=True`; the result says so where all had to be.
        """
        from lakewright.shards.incremental import publish_shards

        return publish_shards(self, url, **how)

    # Upkeep

    def compact(self, where: str | Column | None = None, **how: Any) -> Commit:
        """Combine small files, split large ones and apply deletes, in one commit that changes no row; `where` limits it to files that may match.

        Records that the bucket mode postpone keeps back are taken in first, by a commit of their own.
        """
        take_in(self)
        self.refresh()
        self._state, commit = compact(self._lake, self._state, CompactRequest(where, **request_fields(how)))
        return commit

    def compact_async(self, where: str | Column | None = None, **how: Any) -> Future[Commit]:
        """The same in a thread of its own, beside what this one does; `result()` of what it returns waits for the commit."""
        return in_background(lambda: Table(self._lake, self._state).compact(where, **how), f"compact {self.name}")

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

    def expire_snapshots(self, older_than: datetime | str | int | None = None, retain_last: int | None = None, dry_run: bool = False) -> Expired:
        """Forget snapshots that are too old by the table's rules, or older than given, and delete the files only they refer to.

        `older_than` (a time) and `retain_last` (a number of snapshots of each branch) stand in for the table's properties;
        limits that a branch or tag has of its own hold all the same. What refs and savepoints point to is kept.
        """
        self.refresh()
        spark = self._lake.spark
        options = resolve({}, session_options(spark), self.properties)
        before = None if older_than is None else to_millis(older_than, time_zone(spark), name="older_than")
        expired = expire_snapshots(self._lake.store, self._state, options, older_than_ms=before, retain_last=retain_last, dry_run=dry_run)
        self.refresh()
        return expired


    def drop_index(self) -> None:
        """Delete the record index. Nothing but time is lost: with lakewright.index record, the next upsert makes it again."""
        self.refresh()
        drop_index(self._state.io, self.location)


class _TableTransaction(Transaction):
    """A transaction that leaves its table at the version it published."""

    def __init__(self, table: Table) -> None:
        table.refresh()
        super().__init__(table._lake, table._state)
        self._table = table

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        self._table._state = self.state
