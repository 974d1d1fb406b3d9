"""What DELETE, UPDATE and MERGE have in common: what they look at, and the plan they end in."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.schema import Schema

from lakewright.commit.result import FILES_CONSIDERED, FILES_READ, LOOKUP_MS, milliseconds
from lakewright.commit.store import TableState
from lakewright.format.metadata import Metadata, Snapshot
from lakewright.options import TARGET_FILE_SIZE, Options
from lakewright.plan.delta import ACTION, CLAUSE, COPY_ON_WRITE, FILE, MOVE, POSITION, ROW_ID, DeltaPlan, TargetFile, value_column
from lakewright.plan.targets import FIRST_ROW, plan_targets, with_targets
from lakewright.plan.types import spark_struct
from lakewright.plan.write_plan import WritePlan
from lakewright.read.arrow_scan import arrow_read
from lakewright.read.located import STORED_ROW_ID, located_rows
from lakewright.read.scan import FileScan
from lakewright.rows.moves import Moves
from lakewright.write.delta_at_hand import DeltaAtHand

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

log = logging.getLogger("lakewright")


@dataclass(frozen=True)
class RowContext:
    """The table as one row-level operation sees it."""

    spark: SparkSession
    state: TableState
    metadata: Metadata
    head: Snapshot | None
    options: Options
    mode: str
    write: WritePlan

    @property
    def table(self) -> str:
        return self.state.name

    @property
    def schema(self) -> Schema:
        return self.metadata.schema

    @property
    def has_row_ids(self) -> bool:
        return self.metadata.format_version >= 3


@dataclass(frozen=True)
class RowPlan:
    """whole: files that go with all their rows, unread. delta: the rest, None if there is none. read: the files the delta may touch.
    relies_on_matches: whether files with a match decide about other rows: a row that goes from them is one to insert. matches: the source
    rows that have one, where that is known. lookup: how an index came to `read`, as properties of the snapshot."""

    whole: tuple[FileScan, ...] = ()
    read: tuple[FileScan, ...] = ()
    delta: DataFrame | DeltaAtHand | None = None
    plan: DeltaPlan | None = None
    filter: BooleanExpression = field(default_factory=AlwaysTrue)
    located: DataFrame | None = None
    relies_on_matches: bool = False
    matches: DataFrame | None = None
    lookup: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Located:
    """The rows of the files an operation reads, with the number of each one's target."""

    files: tuple[FileScan, ...]
    targets: tuple[TargetFile, ...]
    rows: DataFrame
    names: Mapping[str, str]

    def numbered(self, spark: SparkSession, rows: DataFrame) -> DataFrame:
        return with_targets(spark, self.targets, self.names, rows)


def no_rows(context: RowContext) -> DataFrame:
    """The table's columns without a row: what is wrong with a statement is told by them where no file is read."""
    return context.spark.createDataFrame([], spark_struct(context.schema.as_struct(), nullable=True))


def locate(context: RowContext, files: Sequence[FileScan]) -> Located:
    rows, names = located_rows(context.spark, context.state.io, context.metadata, files, context.schema, row_ids=context.has_row_ids)
    return Located(tuple(files), targets_of(context, files), rows, names)


def targets_of(context: RowContext, files: Sequence[FileScan]) -> tuple[TargetFile, ...]:
    may_split = context.mode == COPY_ON_WRITE
    return plan_targets(context.state.io, context.metadata, files, context.schema, target_size=context.options[TARGET_FILE_SIZE], may_split=may_split)


def told_lookup(context: RowContext, files: Sequence[FileScan], seconds: float) -> Mapping[str, str]:
    """How long it took to find the files to read, and how many of the table's they are."""
    considered = context.head.summary.get("total-data-files") if context.head else "0"
    log.debug("%s: found %d of %s files to read in %.3f s", context.table, len(files), considered, seconds)
    return {LOOKUP_MS: milliseconds(seconds), FILES_READ: str(len(files)), **({FILES_CONSIDERED: considered} if considered is not None else {})}


def delta_plan(
    context: RowContext, files: Sequence[FileScan], targets: tuple[TargetFile, ...], *, values: Sequence[int], assigned: Sequence[int], once: bool, moves: Moves = Moves.NONE, inserts: bool = False, in_one_task: bool = False, together: bool = False
) -> DeltaPlan:
    """moves: which updated rows go to other files, with the columns that are not assigned as the old ones have them."""
    return DeltaPlan(
        write=context.write,
        read=arrow_read(context.metadata, files, context.schema),
        specs=context.metadata.specs,
        files=targets,
        mode=context.mode,
        format_version=context.metadata.format_version,
        values=tuple(values),
        assigned=() if moves is Moves.ALL else tuple(assigned),
        once=once,
        fetched=tuple(f.field_id for f in context.schema.fields if f.field_id not in assigned) if moves is not Moves.NONE else (),
        inserts=inserts,
        in_one_task=in_one_task,
        together=together,
    )


def delta_rows(context: RowContext, rows: DataFrame, action: str | int, clause: str | int, values: Mapping[int, Column], also: Sequence[str] = ()) -> DataFrame:
    """Numbered rows as those of a delta; only rows that move need their row id. action, clause: a column or a number for all. also: columns to keep beside."""
    from pyspark.sql import functions as F

    row_id = f"if({action} = {MOVE}, coalesce({STORED_ROW_ID}, {FIRST_ROW} + {POSITION}), null)" if context.has_row_ids else "null"
    # SQL text is one call for the driver where Columns are a dozen each.
    columns = {FILE: f"int({FILE})", POSITION: f"bigint({POSITION})", ACTION: f"int({action})", CLAUSE: f"int({clause})", ROW_ID: f"bigint({row_id})"}
    return rows.select(
        *(F.expr(f"{text} as {name}") for name, text in columns.items()),
        *(value.alias(value_column(field_id)) for field_id, value in values.items()),
        *also,
    )
