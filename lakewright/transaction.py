"""One write, from request to result: plan, write, commit, after. Every verb of a table goes through here.

A transaction gathers steps (changes of metadata, writes of rows) and publishes them as one version of the table. Rows are
written when they are given; readers see nothing until the end.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from lakewright.call_sites import no_call_sites
from lakewright.commit import metadata_changes as changes
from lakewright.commit.change import APPEND, OVERWRITE, SERIALIZABLE, MetadataChange, SnapshotChange, Step
from lakewright.commit.publish import Published, find_token, publish
from lakewright.commit.result import COMMIT_MS, COMPACT, LOOKUP_MS, POSTPONED, POSTPONED_BRANCH, WRITE_MS, Commit, commit_of, milliseconds, nothing_written
from lakewright.commit.runs import SUCCEEDED, Run, new_run_id, open_run, record_path
from lakewright.commit.store import UNPUBLISHED, TableState
from lakewright.commit.updates import apply
from lakewright.commit.validate import require_branch
from lakewright.errors import CommitOutcomeUnknown, InvalidOption, StalePlan, UnsupportedOperation
from lakewright.format.data_file import DataFile
from lakewright.format.metadata import MAIN, Metadata
from lakewright.format.storage import delete_file, delete_tree, explained, prune_empty_folders
from lakewright.keys.changes import with_key_rules
from lakewright.maintain.dead_runs import roll_back_dead_runs
from lakewright.maintain.rewrite import Compaction, rewrite
from lakewright.namespaces import as_text
from lakewright.options import ISOLATION, LEASE_SECONDS, MERGE_SCHEMA, Options, resolve
from lakewright.plan.blooms import check_blooms
from lakewright.plan.delta import COPY_ON_WRITE
from lakewright.plan.emptiness import has_rows, require_empty, scope_of
from lakewright.plan.keys import is_keyed
from lakewright.plan.overwrite import Replacement, plan_replacement, replaced_partitions
from lakewright.plan.planner import plan_write
from lakewright.plan.request import CompactRequest, IntoEmpty, RowRequest, Then, WriteMode, WriteRequest, Written
from lakewright.plan.request import Request as AnyRequest
from lakewright.plan.schema import Reconciled, project, reconcile, replace_schema
from lakewright.plan.write_plan import WritePlan
from lakewright.progress import Progress, summary
from lakewright.read.frame import to_dataframe
from lakewright.read.scan import FileScan, Scan
from lakewright.rows.change_rows import plan_change
from lakewright.rows.execute import MODE, change_rows
from lakewright.rows.merge import plan_merge
from lakewright.rows.merge_source import MergeSource
from lakewright.rows.row_plan import RowContext, RowPlan
from lakewright.session import session_options
from lakewright.write.engine import ARROW, choose_engine, running, write_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakewright.lake import Lake

log = logging.getLogger("lakewright")

Request = WriteRequest | RowRequest | CompactRequest


class Transaction:
    """Changes to one table that are published together. Use it as a context manager; leaving by an exception drops all of them."""

    def __init__(self, lake: Lake, state: TableState, *, operation: str = "transaction") -> None:
        self.lake = lake
        self.state = state
        self.commits: tuple[Commit, ...] = ()
        self.run_id = new_run_id()
        self._operation = operation
        self._working: Metadata = state.metadata
        self._steps: list[Step] = []
        self._writes = 0
        self._run: Run | None = None
        self._options: Options | None = None
        self._open = ExitStack()
        self._may_be_published = False
        self._branch = MAIN
        self._compaction: Compaction | None = None
        self.gave_way = False

    @property
    def commit(self) -> Commit:
        """The last commit of the transaction."""
        return self.commits[-1]

    def __enter__(self) -> Self:
        self._progress = self._open.enter_context(Progress(self._operation, self.state.name, self.lake.progress))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            with self._open:
                if error is not None:
                    raise error
                self._publish()
        except CommitOutcomeUnknown:
            raise
        except BaseException as reason:
            self._drop_files()
            typed = explained(reason, self.state.name)
            if typed is reason:
                raise
            raise typed from reason
        self._after()

    # Metadata

    def change(self, step: MetadataChange) -> None:
        """Add a change of metadata, checked at once against the table as this transaction has it so far."""
        step = with_key_rules(step, self.state.name)
        self._working = apply(self._working, step.updates(self._working))
        self._steps.append(step)

    def evolve_schema(self, **how: Any) -> None:
        self.change(changes.evolve_schema(self.state.name, **how))

    def evolve_partitions(self, add: list[str] | None = None, drop: list[str] | None = None) -> None:
        self.change(changes.evolve_partitions(self.state.name, add or [], drop or []))

    def set_sort_order(self, sort_by: list[str]) -> None:
        self.change(changes.set_sort_order(self.state.name, sort_by))

    def upgrade(self, format_version: int) -> None:
        self.change(changes.upgrade(self.state.name, format_version))

    def set_properties(self, properties: dict[str, str | None] | None = None, **more: str | None) -> None:
        self.change(changes.set_properties({**(properties or {}), **more}))
        check_blooms(self._working.properties, self._working.schema, self.state.name)

    # Rows

    def append(self, df: DataFrame, **how: Any) -> None:
        self.write(WriteRequest(WriteMode.APPEND, **request_fields(how)), df)

    def overwrite(self, df: DataFrame, where: Any = None, overwrite_schema: bool = False, **how: Any) -> None:
        self.write(WriteRequest(WriteMode.OVERWRITE, where=where, overwrite_schema=overwrite_schema, **request_fields(how)), df)

    def overwrite_partitions(self, df: DataFrame, **how: Any) -> None:
        self.write(WriteRequest(WriteMode.OVERWRITE_PARTITIONS, **request_fields(how)), df)

    def write(self, request: WriteRequest, df: DataFrame) -> None:
        """Plan one write and make its files; the commit comes with the end of the transaction."""
        if request.overwrite_schema and request.where is not None:
            raise InvalidOption(f"An overwrite of part of {self.state.name} cannot replace its schema, which the rows outside where still have; leave out where or overwrite_schema.", table=self.state.name)
        if is_keyed(self._working.properties) and not request.keys_checked:
            raise UnsupportedOperation(
                f"{self.state.name} has a key, and this {request.name} would not look whether keys are there already; use insert, upsert, bulk_insert or insert_overwrite of the table.",
                table=self.state.name,
            )
        if request.mode is not WriteMode.APPEND:
            self._require_first("An overwrite")
        self._step(request, request.name, lambda options, run: self._written(request, df, options, run))

    def change_rows(self, request: RowRequest, source: MergeSource | None = None) -> None:
        """Plan a DELETE, UPDATE or MERGE and make its files."""
        self._require_first(f"A {request.command.value}")
        self._step(request, request.name, lambda options, run: self._changed(request, source, options, run))

    def say(self, request: AnyRequest) -> None:
        """A commit that changes no row, for what its snapshot says, in place of the write before it, which had nothing to change."""
        assert self.commit.nothing_written
        head = self._working.head_if_any(request.branch)
        self.commits = self.commits[:-1]
        self._steps.append(
            SnapshotChange(
                operation=APPEND,
                schema=self._working.schema,
                specs=self._working.specs,
                branch=request.branch,
                read_snapshot_id=head.snapshot_id if head else None,
                token=request.token,
                properties={**self.lake.snapshot_properties(), **request.snapshot_properties},
            )
        )

    def has_rows(self, branch: str) -> bool:
        return has_rows(self.state, self._working, self._working.head_if_any(branch))

    def compact(self, request: CompactRequest) -> None:
        """Plan a compaction and make its files."""
        self._require_first("A compaction")
        self._step(request, COMPACT, lambda options, run: self._compacted(request, options, run))

    def _require_first(self, what: str) -> None:
        if self._writes:
            raise UnsupportedOperation(f"{what} of {self.state.name} must be the first write of its transaction, since it does not see rows the transaction itself added.", table=self.state.name)

    @no_call_sites()
    def _step(self, request: Request, operation: str, make: Callable[[Options, Run], SnapshotChange | None]) -> None:
        """One change of rows: made unless its token is already committed, dropped whole if that fails."""
        self._require_not_postponed(request)
        require_branch(self._working, request.branch, self.state.name, may_be_new=isinstance(request, WriteRequest) and request.makes_branch)
        options = resolve(request.options, session_options(self.lake.spark), self._working.properties)
        self._options, self._branch = self._options or options, request.branch
        earlier = find_token(self._working, request.branch, request.token)
        if earlier is not None:
            log.info("token %s was already committed to %s as snapshot %s", request.token, self.state.name, earlier.snapshot_id)
            self.commits += (commit_of(earlier),)
            return
        run = self._begin_run(request, options)
        before = self._working, len(self._steps)
        try:
            change = make(options, run)
        except BaseException:
            self._working, self._steps = before[0], self._steps[: before[1]]
            raise
        self._writes += 1
        if change is None:
            self.commits += (nothing_written(self._working.head_if_any(request.branch), operation, self.run_id, request.token),)
        else:
            self._steps.append(change)

    def _require_not_postponed(self, request: Request) -> None:
        if request.branch == POSTPONED_BRANCH and is_keyed(self._working.properties) and POSTPONED not in request.snapshot_properties:
            name = self.state.name
            raise UnsupportedOperation(f"Branch {request.branch} of {name} holds records that wait for t.compact(), which brings them to main; nothing else is written there.", table=name)

    def _written(self, request: WriteRequest, df: DataFrame, options: Options, run: Run) -> SnapshotChange | None:
        name = self.state.name
        with self._progress.phase("plan"):
            if request.overwrite_schema:
                schema, last_column_id = replace_schema(df.schema, self._working.schema, self._working.last_column_id)
                self.change(changes.replace_schema(name, schema, last_column_id))
            fitted = self._fitted(df, options)
            plan = self._plan(request, options, run.prefix, choose_engine(self._working.schema, options, self._working.location, self.lake.spark))
            rows = project(df, fitted)
            head = self._working.head_if_any(request.branch)
            replacement = Replacement()
            if request.into_empty is IntoEmpty.TABLE:
                require_empty(self.state, self._working, head)
            if request.mode is WriteMode.OVERWRITE:
                replacement = plan_replacement(self.lake.spark, self.state, self._working, head, request.where)
                rows = replacement.with_kept(rows, name)
        with self._progress.phase("write"):
            began = time.monotonic()
            files = write_files(plan, rows)
            took = {WRITE_MS: milliseconds(time.monotonic() - began)} if request.keys_checked else {}
            said = {**took, **self._checked(request, files)}
            if request.mode is WriteMode.OVERWRITE_PARTITIONS:
                replacement, kept = replaced_partitions(self.lake.spark, self.state, self._working, head, plan, files)
                files = files + kept
        scope = scope_of(plan.spec.spec_id, files) if request.into_empty is IntoEmpty.PARTITIONS else replacement.partitions
        if request.into_empty is IntoEmpty.PARTITIONS:
            require_empty(self.state, self._working, head, scope)
        self._progress.update(f"{len(files)} files")
        if not files and not replacement.removed:
            return None
        return SnapshotChange(
            operation=APPEND if request.mode is WriteMode.APPEND else OVERWRITE,
            schema=self._working.schema,
            specs=self._working.specs,
            added=files,
            removed=replacement.removed,
            removed_vectors=replacement.removed_vectors,
            branch=request.branch,
            read_snapshot_id=head.snapshot_id if head else None,
            isolation=SERIALIZABLE if request.keys_checked else options[ISOLATION],
            filter=replacement.filter,
            partitions=scope,
            rows_read=request.into_empty is not None,
            token=request.token,
            properties={**self.lake.snapshot_properties(), **request.snapshot_properties, **said},
            command=request.called,
            is_always_serializable=request.keys_checked,
            makes_branch=request.makes_branch,
        )

    def _checked(self, request: WriteRequest, files: Sequence[DataFile]) -> Mapping[str, str]:
        if request.checked is None:
            return {}
        began = time.monotonic()
        with running(self.lake.spark, f"lakewright-{self.run_id}", self.state.name):
            scan = Scan(None, tuple(FileScan(file, 0, None) for file in files))
            said = request.checked(Written(self.state.io, files, lambda: to_dataframe(self.lake.spark, self.state.io, self._working, scan)))
        return {LOOKUP_MS: milliseconds(time.monotonic() - began), **said}

    def _changed(self, request: RowRequest, source: MergeSource | None, options: Options, run: Run) -> SnapshotChange | None:
        takes_all = source is not None and any(clause.values is None for clause in request.clauses if clause.then is not Then.DELETE)
        grown_by = request.source if takes_all else request.grown_by
        if grown_by is not None and options[MERGE_SCHEMA]:
            self._fitted(grown_by, options)
        given = replace(request, snapshot_properties={**self.lake.snapshot_properties(), **request.snapshot_properties})
        return change_rows(self._row_context(request, options, run.prefix, options[MODE[request.command]]), given, source, self._progress)

    def _compacted(self, request: CompactRequest, options: Options, run: Run) -> SnapshotChange | None:
        given = replace(request, snapshot_properties={**self.lake.snapshot_properties(), **request.snapshot_properties})
        self._compaction = rewrite(self._row_context(request, options, run.prefix, COPY_ON_WRITE), given, self._progress)
        return self._compaction.change(self.state) if self._compaction.bins else None

    def planned_rows(self, request: RowRequest, source: MergeSource | None = None) -> tuple[RowContext, RowPlan]:
        """What `change_rows` would do, without doing it."""
        require_branch(self._working, request.branch, self.state.name)
        options = resolve(request.options, session_options(self.lake.spark), self._working.properties)
        context = self._row_context(request, options, f"{self._working.location}/data", options[MODE[request.command]])
        return context, plan_change(context, request) if source is None else plan_merge(context, request, source)

    def _row_context(self, request: RowRequest | CompactRequest, options: Options, prefix: str, mode: str) -> RowContext:
        return RowContext(
            spark=self.lake.spark,
            state=self.state,
            metadata=self._working,
            head=self._working.head_if_any(request.branch),
            options=options,
            mode=mode,
            write=self._plan(request, options, prefix, ARROW),
        )

    def _fitted(self, df: DataFrame, options: Options) -> Reconciled:
        """How the rows fit the table; where its schema has to grow for them, that is a step of this transaction."""
        fitted = reconcile(df.schema, self._working.schema, options, self.state.name, last_column_id=self._working.last_column_id)
        if fitted.changed:
            self.change(changes.merge_schema(self.state.name, self._working.schema, fitted.schema, fitted.last_column_id))
        return fitted

    def _plan(self, request: Request, options: Options, prefix: str, engine: str) -> WritePlan:
        return plan_write(
            self.state,
            self._working,
            self._working.schema,
            options,
            engine=engine,
            run_id=self.run_id,
            data_prefix=f"{prefix}/{self._writes}" if self._writes else prefix,
            branch=request.branch,
            io_properties=self.state.io.properties,
            arranged=request.arranged if isinstance(request, WriteRequest) else None,
        )

    def _begin_run(self, request: Request, options: Options) -> Run:
        if self._run is None:
            roll_back_dead_runs(self.lake.store, self.state)
            head = self._working.head_if_any(request.branch)
            self._run = self._open.enter_context(
                open_run(
                    self.state.io,
                    table=self.state.name,
                    table_location=self._working.location,
                    operation=self._operation,
                    branch=request.branch,
                    token=request.token,
                    lease_seconds=options[LEASE_SECONDS],
                    run_id=self.run_id,
                    read_snapshot_id=head.snapshot_id if head else None,
                )
            )
        return self._run

    def _publish(self) -> None:
        if self._steps or self.state.metadata_location == UNPUBLISHED:
            options = self._options or resolve({}, session_options(self.lake.spark), self._working.properties)
            self._may_be_published = True
            began = time.monotonic()
            try:
                with self._progress.phase("commit"):
                    published = self._published(options)
            except CommitOutcomeUnknown:
                raise
            except Exception:
                self._may_be_published = False
                raise
            self.state = published.state
            took = {COMMIT_MS: milliseconds(time.monotonic() - began)}
            self.commits += tuple(replace(commit, summary={**commit.summary, **took}) for commit in published.commits)
            self._may_be_published = not self.gave_way and (not published.commits or any(commit.run_id == self.run_id for commit in published.commits))
        if not self._may_be_published:
            self._drop_files()
        self._end_run()
        for commit in self.commits:
            self._progress.done(
                summary(
                    self._operation,
                    self.state.name,
                    None if commit.nothing_written else commit.snapshot_id,
                    rows=commit.added_rows,
                    files=commit.added_files,
                    deleted_rows=commit.deleted_rows,
                    removed_files=commit.removed_files,
                )
            )

    def _published(self, options: Options) -> Published:
        """A compaction that meets other commits goes on with what they left of it; anything else is as it was planned or not at all."""
        while True:
            try:
                return publish(self.lake.store, self.state, self._steps, run_id=self.run_id, options=options, check_run=self._check_run)
            except StalePlan:
                if self._compaction is None:
                    raise
            state = self.lake.store.load(self.state.identifier, known=self.state)
            refused = self._steps[-1]
            assert isinstance(refused, SnapshotChange)
            self._compaction = self._compaction.after_conflict(refused, state)
            if not self._compaction.bins:
                self.gave_way = True
                return Published(state, (nothing_written(state.metadata.head(refused.branch), self._operation, self.run_id, refused.token),))
            self._steps[-1] = self._compaction.change(state)

    def _after(self) -> None:
        """What a table asks for after a write; nothing in it can fail the write."""
        if self._options is None or self._operation == COMPACT or all(commit.nothing_written for commit in self.commits):
            return
        from lakewright.maintain.compact import compact_if_due

        self.state = compact_if_due(self.lake, self.state, self._branch, self._options)

    def _end_run(self) -> None:
        if self._run is None:
            return
        last = self.commits[-1] if self.commits else nothing_written(self._working.head(), self._operation, self.run_id, None)
        try:
            self._run.finish(SUCCEEDED, snapshot_id=last.snapshot_id, rows=last.added_rows, files=last.added_files)
        except Exception as error:  # the commit is made; the record is settled by the next clean-up
            log.warning("could not record the end of run %s: %s", self.run_id, error)

    def _check_run(self) -> None:
        if self._run is not None:
            self._run.require_alive()

    def _drop_files(self) -> None:
        """Delete the run's data files, unless a version of the table may refer to them; of a table that was never made, its record too."""
        if self._run is None or self._may_be_published:
            return
        try:
            delete_tree(self.state.io, self._run.prefix)
            if self.state.metadata_location == UNPUBLISHED:
                delete_file(self.state.io, record_path(self._run.table_location, self.run_id))
                prune_empty_folders(self._run.table_location)
        except Exception as error:  # what failed the run matters more; the next clean-up finds the files by the record
            log.warning("could not delete the files of run %s: %s", self.run_id, error)


def request_fields(how: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments of a verb into the fields of a request: what is not named there is an option."""
    fields = {key: how.pop(key) for key in ("branch", "token", "snapshot_properties") if how.get(key) is not None}
    if "token" in fields:
        fields["token"] = str(fields["token"])
    if "snapshot_properties" in fields:
        fields["snapshot_properties"] = as_text(fields["snapshot_properties"])
    return {**fields, "options": {key: value for key, value in how.items() if value is not None}}
