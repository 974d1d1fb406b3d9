"""Run records, leases, and the clean-up that relies on them."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from lakewright.commit.publish import publish
from lakewright.commit.runs import FAILED, ROLLED_BACK, RUNNING, SUCCEEDED, Run, RunRecord, list_runs, new_run_id, open_run, record_path, write_record
from lakewright.errors import CommitConflict, CommitOutcomeUnknown, CorruptFile
from lakewright.format.storage import local_path
from lakewright.maintain.orphans import remove_orphans
from tests.commit.kit import Kit
from tests.commit.stores import Wrapped

DAY = date(2024, 5, 1)


def running(kit: Kit, **fields: object) -> RunRecord:
    """The record of a run whose process died a minute ago."""
    run_id, then = new_run_id(), int(time.time() * 1000) - 60_000
    record = RunRecord(run_id, "db.t", "append", RUNNING, f"{kit.state.metadata.location}/data/{run_id}", "main", None, then, then, 1)
    record = replace(record, **fields)  # type: ignore[arg-type]
    write_record(kit.state.io, kit.state.metadata.location, record)
    return record


def runs(kit: Kit) -> dict[str, RunRecord]:
    return {record.run_id: record for record in list_runs(kit.state.io, kit.state.metadata.location)}


def opened(kit: Kit, lease_seconds: int = 60):  # type: ignore[no-untyped-def]
    return open_run(kit.state.io, table="db.t", table_location=kit.state.metadata.location, operation="append", branch="main", token="t", lease_seconds=lease_seconds)


def test_a_run_is_recorded_before_its_first_file_and_after_its_end(kit: Kit) -> None:
    with opened(kit) as run:
        assert runs(kit)[run.run_id].state == RUNNING and runs(kit)[run.run_id].alive
        run.finish(SUCCEEDED, snapshot_id=5, rows=1, files=1)
    record = runs(kit)[run.run_id]
    assert (record.state, record.snapshot_id, record.token, record.prefix) == (SUCCEEDED, 5, "t", run.prefix)
    assert not record.alive and record.finished_ms >= record.started_ms


def test_a_run_that_fails_says_why(kit: Kit) -> None:
    with pytest.raises(ValueError, match="boom"), opened(kit) as run:
        raise ValueError("boom")
    assert (runs(kit)[run.run_id].state, runs(kit)[run.run_id].error) == (FAILED, "ValueError: boom")


def test_a_run_whose_outcome_is_not_known_stays_running(kit: Kit) -> None:
    with pytest.raises(CommitOutcomeUnknown), opened(kit) as run:
        raise CommitOutcomeUnknown("?")
    assert runs(kit)[run.run_id].state == RUNNING


def test_the_lease_is_renewed_while_the_run_goes_on(kit: Kit) -> None:
    with opened(kit, lease_seconds=1) as run:
        time.sleep(1.5)
        assert runs(kit)[run.run_id].alive
        run.finish(SUCCEEDED)
    assert not [t for t in threading.enumerate() if run.run_id in t.name and t.is_alive()] or not runs(kit)[run.run_id].alive


def test_a_damaged_record_is_named(kit: Kit) -> None:
    record = running(kit)
    Path(local_path(record_path(kit.state.metadata.location, record.run_id)) or "").write_text("{")
    with pytest.raises(CorruptFile, match=record.run_id):
        runs(kit)


# Clean-up


@pytest.mark.feature("I22")
def test_files_of_a_dead_run_are_removed(kit: Kit) -> None:
    kit.append((1, "eu", DAY))
    dead = running(kit)
    kit.file([(2, "eu", DAY)], run_id=dead.run_id)
    removed = remove_orphans(kit.store, kit.state)
    assert removed.runs_rolled_back == (dead.run_id,) and len(removed.files) == 1
    assert kit.strays() == set() and kit.ids() == [1]
    assert runs(kit)[dead.run_id].state == ROLLED_BACK
    assert not Path(local_path(dead.prefix) or "").exists()


@pytest.mark.feature("I22")
def test_files_of_a_live_run_are_left_alone(kit: Kit) -> None:
    with opened(kit) as run:
        file = kit.file([(1, "eu", DAY)], run_id=run.run_id)
        assert remove_orphans(kit.store, kit.state, older_than_hours=0).files == ()
        kit.publish(kit.change(added=[file]), run_id=run.run_id)
        run.finish(SUCCEEDED)
    assert kit.ids() == [1]


@pytest.mark.feature("I22")
def test_a_run_that_died_after_its_publish_is_settled_as_succeeded(kit: Kit) -> None:
    dead = running(kit)
    commit = kit.publish(kit.change(added=[kit.file([(1, "eu", DAY)], run_id=dead.run_id)]), run_id=dead.run_id).commits[0]
    removed = remove_orphans(kit.store, kit.state)
    assert removed.files == () and removed.runs_rolled_back == ()
    assert (runs(kit)[dead.run_id].state, runs(kit)[dead.run_id].snapshot_id) == (SUCCEEDED, commit.snapshot_id)
    assert kit.ids() == [1]


@pytest.mark.feature("I22")
def test_a_run_taken_for_dead_cannot_commit_any_more(kit: Kit) -> None:
    """It only slept: its heartbeat comes back after the clean-up, and must not wipe out the verdict."""
    sleeper = Run(kit.state.io, kit.state.metadata.location, running(kit))
    change = kit.change(added=[kit.file([(1, "eu", DAY)], run_id=sleeper.run_id)])
    remove_orphans(kit.store, kit.state)
    sleeper.renew()
    with pytest.raises(CommitConflict, match="was rolled back"):
        publish(kit.store, kit.state, [change], run_id=sleeper.run_id, options=kit.options(), check_run=sleeper.require_alive)
    assert kit.ids() == []


@pytest.mark.feature("I22")
def test_a_run_taken_for_dead_between_its_check_and_its_swap_loses(kit: Kit) -> None:
    sleeper = Run(kit.state.io, kit.state.metadata.location, running(kit))
    change = kit.change(added=[kit.file([(1, "eu", DAY)], run_id=sleeper.run_id)])

    class Sleeps(Wrapped):
        def publish(self, *args):  # type: ignore[no-untyped-def]
            if not self.publishes:
                write_record(kit.state.io, kit.state.metadata.location, replace(sleeper.record, heartbeat_ms=0))
                remove_orphans(kit.store, kit.load())
            return super().publish(*args)

    with pytest.raises(CommitConflict, match="was rolled back"):
        publish(Sleeps(kit.store), kit.state, [change], run_id=sleeper.run_id, options=kit.options(), check_run=sleeper.require_alive)
    assert kit.ids() == [] and kit.strays() == set()


@pytest.mark.feature("I22")
def test_a_run_that_commits_while_files_are_listed_keeps_them(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is recorded as succeeded, and the version that says so is newer than the one the clean-up started from."""
    from lakewright.maintain import orphans

    before = kit.state
    listed = orphans.list_files

    def commit_first(*args):  # type: ignore[no-untyped-def]
        if not kit.metadata.raw["snapshots"]:
            with opened(kit) as run:
                kit.publish(kit.change(added=[kit.file([(1, "eu", DAY)], run_id=run.run_id)]), run_id=run.run_id)
                run.finish(SUCCEEDED)
        return listed(*args)

    monkeypatch.setattr(orphans, "list_files", commit_first)
    remove_orphans(kit.store, before)
    assert kit.ids() == [1]


@pytest.mark.feature("I22")
def test_a_slow_clean_up_does_not_take_live_runs_for_dead(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakewright.maintain import orphans

    reached = orphans.reachable

    def slowly(state):  # type: ignore[no-untyped-def]
        time.sleep(1.2)
        return reached(state)

    monkeypatch.setattr(orphans, "reachable", slowly)
    with opened(kit, lease_seconds=1) as run:
        file = kit.file([(1, "eu", DAY)], run_id=run.run_id)
        remove_orphans(kit.store, kit.state, older_than_hours=0)
        kit.publish(kit.change(added=[file]), run_id=run.run_id)
        run.finish(SUCCEEDED)
    assert kit.ids() == [1]


@pytest.mark.feature("I22")
def test_strays_without_a_record_go_by_age(kit: Kit) -> None:
    kit.append((1, "eu", DAY))
    kit.file([(2, "eu", DAY)])
    assert remove_orphans(kit.store, kit.state).files == ()
    time.sleep(0.01)
    assert len(remove_orphans(kit.store, kit.state, older_than_hours=0).files) == 1
    assert kit.strays() == set() and kit.ids() == [1]


def test_a_dry_run_changes_nothing(kit: Kit) -> None:
    dead = running(kit)
    kit.file([(2, "eu", DAY)], run_id=dead.run_id)
    before = kit.load().metadata_location
    removed = remove_orphans(kit.store, kit.state, dry_run=True)
    assert len(removed.files) == 1 and "would delete 1 files" in str(removed)
    assert kit.load().metadata_location == before and len(kit.strays()) == 1 and runs(kit)[dead.run_id] == dead


def test_files_of_old_snapshots_and_branches_are_kept(kit: Kit) -> None:
    from lakewright.commit.refs import create

    kit.append((1, "eu", DAY))
    kit.publish(create("db.t", "audit", None, "branch"))
    kit.append((2, "eu", DAY), branch="audit")
    kit.overwrite([e.data_file for e in kit.entries()], kit.file([(3, "eu", DAY)]))
    assert remove_orphans(kit.store, kit.state, older_than_hours=0).files == ()
    assert kit.ids("audit") == [1, 2] and kit.ids() == [3]
