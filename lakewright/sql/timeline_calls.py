"""CALL lakewright.rollback, savepoint, restore, drop_savepoint and expire_snapshots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakewright.maintain.expiry import KINDS
from lakewright.sql.errors import sql_error
from lakewright.sql.frames import Frames
from lakewright.sql.statements import Call

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakewright.table import Table

EXPIRED = [f"deleted_{name}_count" for name in ("data_files", "position_delete_files", "equality_delete_files", "manifest_files", "manifest_lists", "statistics_files")]
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Procedure:
    """Arguments after `table` with their types, those that must be given, and the columns of the answer."""

    arguments: dict[str, str]
    required: tuple[str, ...]
    answer: str
    run: Callable[[Table, Mapping[str, Any]], Row]


def _rollback(table: Table, given: Mapping[str, Any]) -> Row:
    branch = given.get("branch", "main")
    return branch, table.rollback(given["snapshot_id"], branch=branch).snapshot_id


def _savepoint(table: Table, given: Mapping[str, Any]) -> Row:
    return given["name"], table.savepoint(given["name"], at=given.get("snapshot_id")).snapshot_id


def _restore(table: Table, given: Mapping[str, Any]) -> Row:
    branch = given.get("branch", "main")
    return branch, table.restore(given["name"], branch=branch).snapshot_id


def _drop_savepoint(table: Table, given: Mapping[str, Any]) -> Row:
    table.drop_savepoint(given["name"])
    return (given["name"],)


def _expire(table: Table, given: Mapping[str, Any]) -> Row:
    expired = table.expire_snapshots(**given)
    return len(expired.snapshots), *(expired.counts[kind] for kind in KINDS)


TIMELINE_PROCEDURES = {
    "rollback": Procedure({"snapshot_id": "bigint", "branch": "string"}, ("snapshot_id",), "branch string, snapshot_id bigint", _rollback),
    "savepoint": Procedure({"name": "string", "snapshot_id": "bigint"}, ("name",), "name string, snapshot_id bigint", _savepoint),
    "restore": Procedure({"name": "string", "branch": "string"}, ("name",), "branch string, snapshot_id bigint", _restore),
    "drop_savepoint": Procedure({"name": "string"}, ("name",), "name string", _drop_savepoint),
    "expire_snapshots": Procedure(
        {"older_than": "string", "retain_last": "int", "dry_run": "boolean"},
        (),
        ", ".join(["expired_snapshots_count bigint", *(f"{name} bigint" for name in EXPIRED)]),
        _expire,
    ),
}


def call_timeline(frames: Frames, statement: Call, table: Table, name: str, given: Mapping[str, Any]) -> DataFrame:
    procedure = TIMELINE_PROCEDURES[name]
    for argument in procedure.required:
        if argument not in given:
            raise sql_error(f"{name} needs {argument}: CALL lakewright.{name}(table => {table.name!r}, {argument} => …).", frames.sql, statement.procedure.end)
    return frames.lake.spark.createDataFrame([procedure.run(table, given)], procedure.answer)
