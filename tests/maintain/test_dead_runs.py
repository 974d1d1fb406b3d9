"""The next writer rolls back what a crashed run left, and leaves alone what may still be committed."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from lakewright.commit import runs as run_records
from lakewright.commit.publish import publish
from lakewright.commit.runs import (
    BEATS,
    BY_TASKS,
    LAST_RUN,
    ROLLED_BACK,
    RUNNING,
    SUCCEEDED,
    Run,
    RunRecord,
    data_prefix,
    list_runs,
    new_run_id,
    open_run,
    record_path,
    running_path,
    running_runs,
)
from lakewright.commit.updates import now_ms
from lakewright.errors import CommitConflict
from lakewright.format.storage import local_path
from lakewright.maintain import dead_runs
from lakewright.maintain.dead_runs import roll_back_dead_runs
from lakewright.maintain.expiry import expire_snapshots
from lakewright.maintain.orphans import remove_orphans
from lakewright.maintain.rollback import rollback
from tests.commit.kit import Kit

DAY = date(2024, 5, 1)
pytestmark = pytest.mark.feature("H6")


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path / "lake")


def died(kit: Kit, seconds_ago: float = 60, **fields: object) -> Run:
    """A run whose process is gone."""
    run_id, then, location = new_run_id(), now_ms() - int(seconds_ago * 1000), kit.state.metadata.location
    record = RunRecord(run_id, "db.t", "append", RUNNING, data_prefix(location, run_id), "main", None, then, then, 1)
    run = Run(kit.state.io, location, replace(record, **fields))  # type: ignore[arg-type]
    run.begin()
    return run


def records(kit: Kit) -> dict[str, RunRecord]:
    return {record.run_id: record for record in list_runs(kit.state.io, kit.state.metadata.location)}


def markers(kit: Kit) -> list[str]:
    folder = Path(local_path(kit.state.metadata.location) or "", "runs", "running")
    return sorted(os.listdir(folder)) if folder.exists() else []


def test_a_run_is_marked_while_it_goes_on(kit: Kit) -> None:
    with open_run(kit.state.io, table="db.t", table_location=kit.state.metadata.location, operation="append", branch="main", token=None, lease_seconds=60) as run:
        assert markers(kit) == [run.run_id]
        assert [r.run_id for r in running_runs(kit.state.io, kit.state.metadata.location)] == [run.run_id]
        run.finish(SUCCEEDED)
    assert markers(kit) == [] and list(records(kit)) == [run.run_id]


def test_files_of_a_dead_run_are_deleted_and_its_state_says_so(kit: Kit) -> None:
    kit.append((1, "eu", DAY))
    run = died(kit)
    kit.file([(2, "eu", DAY)], run_id=run.run_id)
    stray = Path(local_path(kit.state.metadata.location) or "", "metadata", f"{run.run_id}-m0.avro")
    stray.write_bytes(b"")
    roll_back_dead_runs(kit.store, kit.state)
    assert kit.strays() == set() and kit.ids() == [1] and markers(kit) == []
    assert records(kit)[run.run_id].state == ROLLED_BACK and not Path(local_path(run.prefix) or "").exists()


def test_it_costs_one_listing_of_the_running_ones(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        with open_run(kit.state.io, table="db.t", table_location=kit.state.metadata.location, operation="append", branch="main", token=None, lease_seconds=60) as run:
            run.finish(SUCCEEDED)
    listed: list[str] = []
    real = run_records.list_files
    for module in (run_records, dead_runs):
        monkeypatch.setattr(module, "list_files", lambda io, location: listed.append(location) or real(io, location))
    monkeypatch.setattr(run_records, "read_bytes", lambda *args: pytest.fail("a record was read"))
    roll_back_dead_runs(kit.store, kit.state)
    assert listed == [f"{kit.state.metadata.location}/runs/running"]


def test_a_live_run_is_left_alone(kit: Kit) -> None:
    run = died(kit, seconds_ago=0, lease_seconds=60)
    kit.file([(2, "eu", DAY)], run_id=run.run_id)
    before = kit.load().metadata_location
    roll_back_dead_runs(kit.store, kit.state)
    assert kit.load().metadata_location == before and len(kit.strays()) == 1 and markers(kit) == [run.run_id]


def test_a_run_that_died_after_its_publish_has_succeeded(kit: Kit) -> None:
    run = died(kit)
    commit = kit.publish(kit.change(added=[kit.file([(1, "eu", DAY)], run_id=run.run_id)]), run_id=run.run_id).commits[0]
    roll_back_dead_runs(kit.store, kit.load())
    assert (records(kit)[run.run_id].state, records(kit)[run.run_id].snapshot_id) == (SUCCEEDED, commit.snapshot_id)
    assert kit.ids() == [1] and markers(kit) == []


def test_files_of_a_commit_that_has_expired_since_are_kept(kit: Kit) -> None:
    """Another engine may expire the snapshot that says whose commit it was; later ones still have its files."""
    run = died(kit, seconds_ago=0, lease_seconds=3600)
    kit.publish(kit.change(added=[kit.file([(1, "eu", DAY)], run_id=run.run_id)]), run_id=run.run_id)
    kit.append((2, "eu", DAY))
    expired = expire_snapshots(kit.store, kit.load(), kit.options(), older_than_ms=now_ms() + 1000, retain_last=1, dry_run=False)
    assert len(expired.snapshots) == 1
    run.record = replace(run.record, heartbeat_ms=0)
    run.begin()
    roll_back_dead_runs(kit.store, kit.load())
    assert kit.ids() == [1, 2] and records(kit)[run.run_id].state == SUCCEEDED


def test_a_run_that_only_slept_cannot_commit(kit: Kit) -> None:
    sleeper = died(kit)
    change = kit.change(added=[kit.file([(1, "eu", DAY)], run_id=sleeper.run_id)])
    roll_back_dead_runs(kit.store, kit.state)
    sleeper.renew()
    with pytest.raises(CommitConflict, match="was rolled back"):
        publish(kit.store, kit.state, [change], run_id=sleeper.run_id, options=kit.options(), check_run=sleeper.require_alive)
    assert kit.ids() == []


@pytest.mark.parametrize("clean_up", [lambda kit: roll_back_dead_runs(kit.store, kit.state), lambda kit: remove_orphans(kit.store, kit.state)], ids=["next-writer", "orphans"])
def test_a_run_that_tasks_renew_may_be_silent_for_long(kit: Kit, clean_up: Callable[[Kit], object]) -> None:
    """Its tasks may not even have begun; a record without files has nothing to roll back."""
    waiting = died(kit, seconds_ago=10_000, details={BEATS: BY_TASKS})
    slow = died(kit, seconds_ago=30, details={BEATS: BY_TASKS})
    silent = died(kit, seconds_ago=100, details={BEATS: BY_TASKS})
    for run in (slow, silent):
        kit.file([(1, "eu", DAY)], run_id=run.run_id)
    clean_up(kit)
    assert {i: records(kit)[i].state for i in (waiting.run_id, slow.run_id, silent.run_id)} == {
        waiting.run_id: RUNNING,
        slow.run_id: RUNNING,
        silent.run_id: ROLLED_BACK,
    }


def test_a_change_of_metadata_that_died_before_it_said_so(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kit.append((1, "eu", DAY))
    kit.append((2, "eu", DAY))
    monkeypatch.setattr(Run, "finish", lambda self, *args, **how: None)
    rollback(kit.store, kit.load(), first, "main")
    not_done = died(kit, operation="rollback")
    (unsaid,) = [r for r in records(kit).values() if r.run_id != not_done.run_id]
    assert kit.metadata.properties[LAST_RUN] == unsaid.run_id
    Run(kit.state.io, kit.state.metadata.location, replace(unsaid, heartbeat_ms=0)).begin()
    roll_back_dead_runs(kit.store, kit.load())
    assert records(kit)[unsaid.run_id].state == SUCCEEDED and records(kit)[not_done.run_id].state == ROLLED_BACK


def test_markers_without_a_record(kit: Kit) -> None:
    """The process died between the two, or is just there."""
    location = kit.state.metadata.location
    for run_id, age in (("old", 7200), ("young", 0)):
        path = Path(local_path(running_path(location, run_id)) or "")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (path.stat().st_mtime - age,) * 2)
    roll_back_dead_runs(kit.store, kit.state)
    assert markers(kit) == ["young"]


def test_a_damaged_record_is_named_and_keeps_no_other_from_being_rolled_back(kit: Kit, caplog: pytest.LogCaptureFixture) -> None:
    damaged, dead = died(kit), died(kit)
    path = Path(local_path(record_path(kit.state.metadata.location, damaged.run_id)) or "")
    path.write_text("{")
    with caplog.at_level(logging.WARNING, "lakewright"):
        roll_back_dead_runs(kit.store, kit.state)
    assert damaged.run_id in caplog.text and markers(kit) == [damaged.run_id]
    path.unlink()
    assert records(kit)[dead.run_id].state == ROLLED_BACK


def test_a_failure_here_fails_no_write(kit: Kit, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    died(kit)
    monkeypatch.setattr(dead_runs, "fence_off", lambda *args: 1 / 0)
    with caplog.at_level(logging.WARNING, "lakewright"):
        roll_back_dead_runs(kit.store, kit.state)
    assert "the next write tries again: division by zero" in caplog.text
