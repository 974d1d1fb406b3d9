"""EXPLAIN: what Lakewright would do, in front of what Spark would."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakewright.options import TARGET_FILE_SIZE, resolve
from lakewright.plan.distribution import choose_distribution
from lakewright.plan.filters import parse_where
from lakewright.plan.request import RowRequest
from lakewright.read.scan import plan_scan
from lakewright.read.timetravel import read_schema
from lakewright.read.timetravel import resolve as resolve_snapshot
from lakewright.rows.execute import ISOLATION
from lakewright.session import partition_overwrite_mode, session_options, time_zone
from lakewright.sql import statements as st
from lakewright.sql.changes import change
from lakewright.sql.errors import unsupported
from lakewright.sql.frames import Frames, Read
from lakewright.sql.inserts import inserted_rows
from lakewright.sql.lexer import tokens_of
from lakewright.sql.looks import written
from lakewright.sql.parse_rows import QUERIES
from lakewright.sql.targets import writable
from lakewright.write.delta_at_hand import DeltaAtHand
from lakewright.write.engine import choose_engine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakewright.table import Table


def explain(frames: Frames, statement: st.Explain) -> DataFrame:
    """One row with the whole plan, as Spark's EXPLAIN gives it."""
    explained = statement.explained
    match explained:
        case st.Query() if _only_reads(explained):
            rows = frames.query(explained.text)
            lines = list(_reads(frames))
            spark_plan = _spark_plan(rows, statement.style)
        case st.Query():
            rows = frames.query(explained.text, before=f"EXPLAIN {statement.style} ")
            lines = list(_reads(frames))
            spark_plan = str(rows.collect()[0][0])
        case st.Insert():
            lines, rows = _insert(frames, explained)
            spark_plan = _spark_plan(rows, statement.style)
        case st.Delete() | st.Update() | st.Merge() | st.Truncate():
            table, request = change(frames, explained)
            lines, delta = _row_change(table, request)
            lines += _reads(frames)
            spark_plan = "" if delta is None else _spark_plan(delta, statement.style)
        case _:
            raise unsupported("EXPLAIN shows queries, INSERT, DELETE, UPDATE, MERGE and TRUNCATE; this statement changes the catalog or a table's metadata and reads no rows.", frames.sql, explained.start)
    ours = "\n".join(["== Lakewright Plan ==", *lines, ""]) if lines else ""
    return frames.lake.spark.createDataFrame([("\n".join(part for part in (ours, spark_plan) if part),)], "plan string")


def _only_reads(query: st.Query) -> bool:
    """Whether asking Spark for the rows does nothing but plan them; commands, and WITH … INSERT, would run."""
    words = [token.word or token.text for token in tokens_of(query.text.text)]
    return words[0] in QUERIES and "INSERT" not in words


def _reads(frames: Frames) -> Iterator[str]:
    for read in frames.reads:
        scanned, total = files_read(frames, read)
        version = "".join(f" at {key} {value}" for key, value in read.travel.items())
        where = f", pruned by {read.where}" if read.where else ""
        yield f"Read {read.found.table.name}{version}: {scanned} of {total} files{where}"


def files_read(frames: Frames, read: Read) -> tuple[int, int]:
    """How many files of a table a read opens, and how many there are."""
    state, zone = read.found.table._state, time_zone(frames.lake.spark)
    snapshot = resolve_snapshot(state.metadata, time_zone=zone, **read.travel)
    schema = read_schema(state.metadata, snapshot, **read.travel)
    chosen = parse_where(read.where, schema, state.name, session_tz=zone)
    scanned = len(plan_scan(state.io, state.metadata, snapshot, chosen, schema=schema).files)
    return scanned, scanned if read.where is None else len(plan_scan(state.io, state.metadata, snapshot).files)


def _insert(frames: Frames, statement: st.Insert) -> tuple[list[str], DataFrame]:
    table, branch = writable(frames, statement.table)
    rows, static = inserted_rows(frames, table, statement)
    options = resolve({}, session_options(frames.lake.spark), table.properties)
    metadata = table._state.metadata
    engine = choose_engine(metadata.schema, options, metadata.location, frames.lake.spark)
    parts = ", ".join(written(f.transform, table.schema, f.source_id) for f in table.spec.fields) or "none"
    lines = [
        f"Insert into {table.name}, branch {branch}: {_how(frames, statement, static)}",
        f"Partitions: {parts}; distribution: {choose_distribution(table.spec, table.sort_order, options)}; writer: {engine}; target file size: {options[TARGET_FILE_SIZE]:,} bytes",
    ]
    return [*lines, *_reads(frames)], rows


def _how(frames: Frames, statement: st.Insert, static: list[str]) -> str:
    if statement.replace_where is not None:
        return f"replace the rows where {statement.replace_where.text}"
    if not statement.overwrite:
        return "upsert by key" if statement.upsert else "append"
    if partition_overwrite_mode(frames.lake.spark) == "dynamic":
        return "replace the partitions that get rows"
    return f"replace the rows where {' AND '.join(static)}" if static else "replace all rows"


def _row_change(table: Table, request: RowRequest) -> tuple[list[str], DataFrame | None]:
    context, plan = table.planned_rows(request)
    total = len(plan_scan(context.state.io, context.metadata, context.head).files)
    lines = [
        f"{request.command.value.capitalize()} of {table.name}, branch {request.branch}: {context.mode}, {context.options[ISOLATION[request.command]]}",
        f"Files: {len(plan.whole)} dropped whole by their metadata, {len(plan.read)} of {total} read for the delta",
    ]
    return lines, None if isinstance(plan.delta, DeltaAtHand) else plan.delta


def _spark_plan(rows: DataFrame, style: str) -> str:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        rows.explain(mode=style.lower() or "simple")
    return shown.getvalue().rstrip()
