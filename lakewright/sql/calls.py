"""CALL lakewright.<verb>(…) and ANALYZE: what a table's upkeep is in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakewright.maintain.rewrite import BYTES_BEFORE, FILES_AFTER, FILES_BEFORE, FILES_LEFT_OUT
from lakewright.plan.names import did_you_mean
from lakewright.sql.cursor import Name
from lakewright.sql.errors import sql_error
from lakewright.sql.frames import Frames
from lakewright.sql.names import require_table
from lakewright.sql.statements import Call
from lakewright.sql.timeline_calls import TIMELINE_PROCEDURES, call_timeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakewright.table import Table

# The arguments of each procedure after `table`, with the type that a value is taken as.
PROCEDURES: dict[str, dict[str, str]] = {
    "compact": {"where": "string", "branch": "string"},
    "rewrite_data_files": {"where": "string", "branch": "string"},
    "remove_orphans": {"older_than_hours": "double", "dry_run": "boolean"},
    "upgrade": {"format_version": "int"},
    **{name: procedure.arguments for name, procedure in TIMELINE_PROCEDURES.items()},
}


def call(frames: Frames, statement: Call) -> DataFrame:
    name = statement.procedure.text.lower().removeprefix("lakewright.")
    if name not in PROCEDURES:
        raise sql_error(f"There is no procedure {statement.procedure.text}. {did_you_mean(name, PROCEDURES)}", frames.sql, statement.procedure.start)
    given = _arguments(frames, statement, name)
    if "table" not in given:
        raise sql_error(f"{name} needs the table: CALL lakewright.{name}(table => 'nyc.trips').", frames.sql, statement.procedure.end)
    table = _table(frames, statement, str(given.pop("table")))
    if name in ("compact", "rewrite_data_files"):
        return _compacted(frames, table, given)
    if name in TIMELINE_PROCEDURES:
        return call_timeline(frames, statement, table, name, given)
    if name == "upgrade":
        if "format_version" not in given:
            raise sql_error("upgrade needs the version: format_version => 3.", frames.sql, statement.procedure.end)
        table.upgrade(given["format_version"])
        return frames.lake.spark.createDataFrame([(table.name, given["format_version"])], "table string, format_version int")
    removed = table.remove_orphans(**given)
    return frames.lake.spark.createDataFrame([(path,) for path in removed.files], "path string")


def _compacted(frames: Frames, table: Table, given: dict[str, Any]) -> DataFrame:
    """With the columns that Iceberg's procedure has."""
    summary = table.compact(**given).summary
    counts = [int(summary.get(key, "0")) for key in (FILES_BEFORE, FILES_AFTER, BYTES_BEFORE, FILES_LEFT_OUT, "removed-delete-files")]
    columns = "rewritten_data_files_count int, added_data_files_count int, rewritten_bytes_count bigint, failed_data_files_count int, removed_delete_files_count int"
    return frames.lake.spark.createDataFrame([tuple(counts)], columns)


def _arguments(frames: Frames, statement: Call, procedure: str) -> dict[str, Any]:
    kinds = {"table": "string", **PROCEDURES[procedure]}
    found: dict[str, Any] = {}
    for place, (named, value) in enumerate(statement.arguments):
        name = (named or "").lower() if named else next(iter(list(kinds)[place : place + 1]), "")
        if name not in kinds or name in found:
            what = f"{named!r} is given twice" if name in found else f"{procedure} has no argument {named!r}" if named else f"{procedure} takes {len(kinds)} arguments"
            raise sql_error(f"{what}; it takes {', '.join(kinds)}.", frames.sql, value.start)
        found[name] = frames.value(value, kinds[name])
        if found[name] is None:
            raise sql_error(f"{name} is NULL; {procedure} needs a value.", frames.sql, value.start)
    return found


def _table(frames: Frames, statement: Call, name: str) -> Table:
    at = statement.procedure.end
    return require_table(frames.lake, frames.sql, Name(tuple(name.split(".")), at, at))
