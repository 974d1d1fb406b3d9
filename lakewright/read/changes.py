"""Incremental queries: the rows that changed between two commits, as of their latest change or as a log of every change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema

from lakewright.call_sites import no_call_sites
from lakewright.commit.result import ROWS_COPIED, ROWS_DELETED, ROWS_INSERTED, ROWS_UPDATED
from lakewright.commit.store import TableState
from lakewright.errors import DuplicateColumn
from lakewright.format.lineage import ROW_SEQUENCE
from lakewright.format.metadata import Metadata, Snapshot
from lakewright.plan.filters import Filter, parse_where, resolving
from lakewright.quoting import quoted
from lakewright.read.change_files import ChangedFiles, in_glob
from lakewright.read.change_range import Range, Step, resolve_range
from lakewright.read.change_rows import (
    AFTER,
    CHANGE_ORDINAL,
    CHANGE_TYPE,
    COMMIT_SNAPSHOT_ID,
    INSERT,
    LOG_COLUMNS,
    STEP,
    UPDATE_AFTER,
    changed_rows,
    key_columns,
)
from lakewright.read.few_rows import few_rows
from lakewright.read.frame import to_dataframe
from lakewright.read.newer_rows import SEQUENCE, with_sequence
from lakewright.read.prune import Pruner
from lakewright.read.scan import FileScan, Scan, plan_scan
from lakewright.read.timetravel import Moment
from lakewright.session import time_zone

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SMALL = 200_000  # changed rows; about a hundred bytes of each go to every task


@no_call_sites()
def changes(
    spark: SparkSession,
    state: TableState,
    *,
    since: Moment | None = None,
    until: Moment | None = None,
    log: bool = False,
    where: str | Column | None = None,
    path_glob: str | None = None,
    ref: str | None = None,
) -> DataFrame:
    zone = time_zone(spark)
    found = resolve_range(state.metadata, state.name, since, until, ref=ref, time_zone=zone)
    if log:
        check_no_clash(found.schema, state.name)
    chosen = parse_where(where, found.schema, state.name, session_tz=zone, also=LOG_COLUMNS if log else ())
    query = _Query(spark, state, found, chosen, path_glob)
    with resolving(where, state.name):
        rows = query.log() if log else query.latest()
        return rows if chosen.sql is None else rows.where(chosen.sql)


def check_no_clash(schema: Schema, table: str) -> None:
    clash = next((f.name for f in schema.fields if f.name.lower() in LOG_COLUMNS), None)
    if clash is not None:
        raise DuplicateColumn(f"Column {clash!r} of {table} has the name of a column that log=True adds. Rename it, or ask for changes without log.", table=table, column=clash)


def has_lineage(metadata: Metadata, begin: Snapshot | None) -> bool:
    """Whether every commit after this one says of each row when it was last changed; of rows since the beginning that is not asked."""
    return begin is None or (metadata.format_version >= 3 and begin.first_row_id is not None)


def newest_known(begin: Snapshot | None) -> int:
    """The sequence number that files with rows changed after a snapshot are above: a row is never newer than its file."""
    return -1 if begin is None else begin.sequence_number


def _is_all_changed(file: FileScan, begin: Snapshot) -> bool:
    """Whether a file that came after a snapshot says that no row of it is older: each takes the file's sequence number, or has a later one."""
    data = file.data_file
    older = data.record_count - data.null_value_counts.get(ROW_SEQUENCE, 0)
    least = data.lower_bounds.get(ROW_SEQUENCE)
    return older == 0 or (least is not None and int.from_bytes(least, "little", signed=True) > begin.sequence_number)


def _small_steps(metadata: Metadata, steps: Sequence[Step]) -> set[int]:
    """Steps whose commits say that they changed few rows, whatever number they copied; few in all of them together."""
    small, room = set(), SMALL
    for number, step in enumerate(steps):
        summary = metadata.snapshot(step.snapshot_id).summary
        changed = sum(int(summary.get(key, 0)) for key in (ROWS_DELETED, ROWS_UPDATED, ROWS_INSERTED))
        if ROWS_COPIED in summary and changed <= room:
            small.add(number)
            room -= changed
    return small


@dataclass(frozen=True)
class _Query:
    spark: SparkSession
    state: TableState
    range: Range
    chosen: Filter
    path_glob: str | None

    def log(self) -> DataFrame:
        from pyspark.sql import functions as F

        steps = (*self.range.undone, *self.range.done)
        commit = F.element_at(F.lit([step.snapshot_id for step in steps] or [0]).cast("array<bigint>"), F.col(STEP) + 1)
        shown = [CHANGE_TYPE, F.col(STEP).alias(CHANGE_ORDINAL), commit.alias(COMMIT_SNAPSHOT_ID)]
        return self._changed(steps).select(*self._names, *shown)

    def latest(self) -> DataFrame:
        """From row lineage where there is one; else from the log where rows have a key, and from the two states where not."""
        begin, until = self.range.begin, self.range.until
        if has_lineage(self.state.metadata, begin):
            return self._by_lineage()
        if self.range.schema.identifier_field_ids:
            return self._latest_by_key()
        one = [Step(until.snapshot_id, begin, until)] if until is not None and self.range.done else []
        return self._changed(one).where(f"{CHANGE_TYPE} = '{INSERT}'").select(*self._names)

    def _by_lineage(self) -> DataFrame:
        """Files of changed rows alone are read as they are; of others each row is asked when it was last changed. Few rows are read here."""
        state, begin, schema = self.state, self.range.begin, self.range.schema
        planned = plan_scan(state.io, state.metadata, self.range.until, self.chosen, schema=schema, newer_than=newest_known(begin), with_metrics=begin is not None)
        matches = in_glob(self.path_glob, state.metadata.location)
        whole: list[FileScan] = []
        mixed: list[FileScan] = []
        for file in filter(matches, planned.files):
            (whole if begin is None or _is_all_changed(file, begin) else mixed).append(file)
        few = few_rows(self.spark, state.io, state.metadata, whole, mixed, schema, newest_known(begin))
        if few is not None:
            return few
        frames = [self._read(whole, schema)] if whole or not mixed else []
        if begin is not None and mixed:
            frames.append(self._read(mixed, with_sequence(schema), whole=False).where(f"{SEQUENCE.name} IS NULL OR {SEQUENCE.name} > {begin.sequence_number}").drop(SEQUENCE.name))
        return reduce(lambda left, right: left.unionAll(right), frames)

    def _read(self, files: Sequence[FileScan], schema: Schema, *, whole: bool = True) -> DataFrame:
        return to_dataframe(self.spark, self.state.io, self.state.metadata, Scan(self.range.until, tuple(files)), schema=schema, whole=whole)

    def _latest_by_key(self) -> DataFrame:
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        latest = F.max(STEP).over(Window.partitionBy(*key_columns(self.range.schema)))
        rows = self._changed(self.range.done).withColumn(AFTER, F.col(STEP) == latest)
        return rows.where(F.col(AFTER) & F.col(CHANGE_TYPE).isin(INSERT, UPDATE_AFTER)).select(*self._names)

    def _changed(self, steps: Sequence[Step]) -> DataFrame:
        state = self.state
        pruner = Pruner(self.chosen.iceberg, self.range.schema, state.metadata.schemas, state.metadata.specs)
        files = ChangedFiles(state.io, state.metadata, in_glob(self.path_glob, state.metadata.location), pruner)
        return changed_rows(self.spark, state.io, state.metadata, files.images(steps), self.range.schema, small=_small_steps(state.metadata, steps))

    @property
    def _names(self) -> list[str]:
        return [quoted(f.name) for f in self.range.schema.fields]
