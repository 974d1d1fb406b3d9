"""The timeline and the verbs that go back in it, as a user has them: in Python, SQL and on the command line."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from lakewright.cli.main import app
from lakewright.commit.runs import RUNNING, Run, RunRecord, data_prefix, new_run_id
from lakewright.commit.updates import now_ms
from lakewright.errors import InvalidOption, NotAnAncestor, SavepointNotFound
from tests.commit.stores import Rival
from tests.trips import D1, ids, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakewright.lake import Lake
    from lakewright.table import Table


@pytest.fixture
def three(spark: SparkSession, lake: Lake) -> tuple[Table, list[Any]]:
    """Three commits of a row each, the second of them with a token."""
    table = lake.create_table("nyc.trips", "id bigint, region string, day date", format_version=3)
    commits = [table.append(rows(spark, (n, "eu", D1)).coalesce(1), token="two" if n == 2 else None) for n in (1, 2, 3)]
    return table, commits


def begun(table: Table, **fields: Any) -> RunRecord:
    run_id, now = new_run_id(), now_ms()
    record = RunRecord(run_id, table.name, "merge", RUNNING, data_prefix(table.location, run_id), "main", "t", now, now, 60)
    run = Run(table._state.io, table.location, replace(record, **fields))
    run.begin()
    return run.record


def shown(table: Table, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in table.timeline().select(*columns).collect()]


@pytest.mark.feature("H6", "H12")
def test_the_timeline_joins_snapshots_and_runs(spark: SparkSession, three: tuple[Table, list[Any]]) -> None:
    table, (first, second, third) = three
    table.savepoint("good", at=second)
    assert table.rollback(second).snapshot_id == second.snapshot_id and ids(table) == [1, 2]
    table.delete("id = 1")
    table.restore("good")
    with pytest.raises(Exception, match="broken row"):
        table.append(spark.sql("SELECT CAST(raise_error('broken row') AS bigint) AS id, 'eu' AS region, DATE'2024-05-01' AS day"))
    begun(table)
    writing = begun(table, started_ms=now_ms() + 1)  # not in the same millisecond
    file = Path(writing.prefix.removeprefix("file://"), "part.parquet")
    file.parent.mkdir(parents=True)
    file.touch()
    deleted = table.history().collect()[-1].snapshot_id
    assert shown(table, "action", "state", "snapshot_id", "rows", "deleted_rows", "files", "token") == [
        ("append", "completed", first.snapshot_id, 1, 0, 1, None),
        ("append", "completed", second.snapshot_id, 1, 0, 1, "two"),
        ("append", "rolled back", third.snapshot_id, 1, 0, 1, None),
        ("savepoint", "completed", second.snapshot_id, None, None, None, None),
        ("rollback", "completed", second.snapshot_id, None, None, None, None),
        ("delete", "rolled back", deleted, 0, 1, 0, None),
        ("restore", "completed", second.snapshot_id, None, None, None, None),
        ("append", "failed", None, None, None, None, None),
        ("merge", "requested", None, None, None, None, "t"),
        ("merge", "inflight", None, None, None, None, "t"),
    ]
    one = table.timeline().first()
    assert one is not None and (one.run_id, one.branch) == (first.run_id, "main") and one.bytes > 0 and one.duration_ms > 0
    assert one.instant == table.history().first().committed_at  # type: ignore[union-attr]


@pytest.mark.feature("H12")
def test_a_savepoint_survives_expiry_and_restores(spark: SparkSession, three: tuple[Table, list[Any]]) -> None:
    table, (first, second, third) = three
    table.savepoint("good", at=first)
    table.overwrite(rows(spark, (9, "us", D1)).coalesce(1))
    expired = table.expire_snapshots(older_than=now_ms() + 1000, retain_last=1)
    assert expired.snapshots == (second.snapshot_id, third.snapshot_id) and expired.counts["data"] == 2
    assert [(row.name, row.snapshot_id) for row in table.savepoints().collect()] == [("good", first.snapshot_id)]
    with pytest.raises(NotAnAncestor, match="restore"):
        table.rollback(first)
    assert table.restore("good").snapshot_id == first.snapshot_id and ids(table) == [1]
    with pytest.raises(SavepointNotFound, match="it has good"):
        table.restore("bad")
    table.drop_savepoint("good")
    assert table.savepoints().count() == 0 and table.append(rows(spark, (5, "eu", D1))).parent_id == first.snapshot_id


@pytest.mark.feature("H5")
@pytest.mark.parametrize("version", [2, 3])
def test_the_commit_of_a_row_is_null_once_it_has_expired(spark: SparkSession, lake: Lake, version: int) -> None:
    table = lake.create_table("nyc.trips", "id bigint, region string, day date", format_version=version)
    table.append(rows(spark, (1, "eu", D1), (2, "eu", D1)).coalesce(1))
    second = table.append(rows(spark, (3, "eu", D1)).coalesce(1))
    updated = table.update({"region": "'us'"}, where="id = 2")
    at = {row.snapshot_id: row.committed_at for row in table.history().collect()}
    table.expire_snapshots(older_than=at[second.snapshot_id].isoformat(), retain_last=1)
    found = {row.id: (row._commit_id, row._commit_time) for row in table.read(metadata=True).collect()}
    unchanged = (None, None) if version == 3 else (updated.snapshot_id, at[updated.snapshot_id])  # format 2 knows the file only, which was rewritten
    assert found == {1: unchanged, 2: (updated.snapshot_id, at[updated.snapshot_id]), 3: (second.snapshot_id, at[second.snapshot_id])}


@pytest.mark.feature("H6")
def test_an_update_whose_snapshot_is_rolled_back_meanwhile_is_planned_again(lake: Lake, three: tuple[Table, list[Any]]) -> None:
    table, (first, *_) = three
    other = lake.table(table.name)
    real = lake.store
    lake.__dict__["store"] = Rival(real, lambda: setattr(lake, "store", real) or other.rollback(first))
    table.update({"region": "'us'"})
    assert [tuple(row) for row in table.read().select("id", "region").collect()] == [(1, "us")]


@pytest.mark.feature("H6")
def test_commands(lake: Lake, three: tuple[Table, list[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    table, _ = three
    monkeypatch.setattr("lakewright.cli.output.console", Console(width=200))
    run = CliRunner().invoke
    told = run(app, ["timeline", table.name, "--lake", lake.location, "-n", "2"])
    assert told.exit_code == 0 and told.output.count("append") == 2 and "completed" in told.output
    when = (table.history().collect()[-1].committed_at + timedelta(days=1)).isoformat()
    would = run(app, ["expire", table.name, "--lake", lake.location, "--older-than", when, "--retain-last", "1", "--dry-run"])
    assert would.output.startswith("would expire 2 snapshots") and table.history().count() == 3
    assert run(app, ["expire", table.name, "--lake", lake.location, "--older-than", when]).output.startswith("expired 2 snapshots")
    assert table.history().count() == 1 and ids(table) == [1, 2, 3]


def test_a_time_that_is_none(three: tuple[Table, list[Any]]) -> None:
    with pytest.raises(InvalidOption, match="older_than is 'yesterday'"):
        three[0].expire_snapshots(older_than="yesterday")
