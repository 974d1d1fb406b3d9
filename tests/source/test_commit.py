"""The end of a write through the Data Source, step by step, in one process and without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import lakewright.source.commit as source_commit
from lakewright.catalogs import open_catalog
from lakewright.commit.create import first_version
from lakewright.commit.publish import publish
from lakewright.commit.runs import FAILED, RUNNING, SUCCEEDED, Run, RunRecord, list_runs
from lakewright.commit.store import TableState, open_store
from lakewright.config import resolve_lake
from lakewright.errors import CommitConflict, CommitOutcomeUnknown
from lakewright.plan.partitioning import build_sort_order, build_spec
from lakewright.plan.types import schema_from
from lakewright.source.options import load, place, write_options
from lakewright.source.writer import AlreadyCommitted, LakeWriter, begin_write, renew

ROWS = pa.record_batch({"id": pa.array([1, 2], pa.int64())})
SCHEMA = StructType().add("id", "long")


# A task of a session with no settings of its own.
TASK = SimpleNamespace(partitionId=lambda: 0, attemptNumber=lambda: 0, taskAttemptId=lambda: 0, getLocalProperty=lambda key: None)


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr("lakewright.source.writer.TaskContext", SimpleNamespace(get=lambda: TASK))
    config = resolve_lake(tmp_path / "lake")
    catalog = open_catalog(config)
    catalog.create_namespace("nyc")
    schema = schema_from("id bigint")
    metadata = first_version(f"{config.location}/nyc/trips", schema, build_spec(schema, []), build_sort_order(schema, []), {}, 2)
    open_store(catalog).create(("nyc", "trips"), metadata, metadata.table_uuid)
    return {"lake": str(tmp_path / "lake"), "path": "nyc.trips"}


def begun(options: dict[str, str], overwrite: bool = False, **more: str) -> Any:
    request = write_options({**options, **more}, overwrite)
    return begin_write(request, *load(request.place), SCHEMA)


def written(writer: Any) -> tuple[Any, list[Any]]:
    """The writer as `commit()` gets it, and the messages of its one task."""
    return pickle.loads(pickle.dumps(writer)), [pickle.loads(pickle.dumps(writer.write(iter([ROWS]))))]


def table(options: dict[str, str]) -> TableState:
    return load(place(options))[1]


def snapshots(options: dict[str, str]) -> int:
    return len(list(table(options).metadata.snapshots()))


def data_files(options: dict[str, str]) -> int:
    return len([p for p in Path(options["lake"], "nyc", "trips", "data").rglob("*") if p.is_file()])


def last_run(options: dict[str, str]) -> RunRecord:
    state = table(options)
    return list_runs(state.io, state.metadata.location)[-1]


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


@pytest.mark.feature("P1")
def test_a_commit_ends_the_run(options: dict[str, str]) -> None:
    writer, messages = written(begun(options))
    assert last_run(options).state == RUNNING
    writer.commit(messages)
    run = last_run(options)
    assert (run.state, run.rows, run.files, run.snapshot_id) == (SUCCEEDED, 2, 1, table(options).metadata.raw["current-snapshot-id"])
    assert (snapshots(options), data_files(options)) == (1, 1)


def test_a_task_that_lost_is_not_committed(options: dict[str, str]) -> None:
    writer, messages = written(begun(options))
    again = writer.write(iter([ROWS]))
    writer.commit([*messages, again])
    assert table(options).metadata.head().summary["total-records"] == "2"  # type: ignore[union-attr]


def test_history_is_kept(options: dict[str, str]) -> None:
    for _ in range(3):
        writer, messages = written(begun(options))
        writer.commit(messages)
    assert snapshots(options) == 3
    assert len(table(options).metadata.raw["metadata-log"]) == 3


def test_a_refused_commit_leaves_no_files(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    writer, messages = written(begun(options))
    monkeypatch.setattr(source_commit, "publish", failing(CommitConflict("changed meanwhile")))
    with pytest.raises(CommitConflict):
        writer.commit(messages)
    assert "changed meanwhile" in str(last_run(options).error)
    writer.abort(messages)
    assert (last_run(options).state, data_files(options), snapshots(options)) == (FAILED, 0, 0)


def test_files_stay_while_the_outcome_is_not_known(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    writer, messages = written(begun(options))
    monkeypatch.setattr(source_commit, "publish", failing(CommitOutcomeUnknown("no answer")))
    with pytest.raises(CommitOutcomeUnknown):
        writer.commit(messages)
    writer.abort(messages)
    assert (last_run(options).state, data_files(options)) == (RUNNING, 1)


def test_files_of_a_commit_that_landed_stay(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The step died after the publish, before it could say so."""
    writer, messages = written(begun(options))

    def published_then_killed(*args: Any, **how: Any) -> Any:
        publish(*args, **how)
        raise OSError("killed")

    monkeypatch.setattr(source_commit, "publish", published_then_killed)
    with pytest.raises(OSError, match="killed"):
        writer.commit(messages)
    writer.abort(messages)
    assert (last_run(options).state, data_files(options), snapshots(options)) == (SUCCEEDED, 1, 1)


def test_a_commit_whose_record_cannot_be_written_still_counts(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    writer, messages = written(begun(options))
    monkeypatch.setattr(Run, "finish", failing(OSError("disk full")))
    writer.commit(messages)
    assert (snapshots(options), data_files(options)) == (1, 1)


def test_a_failed_job_leaves_nothing(options: dict[str, str]) -> None:
    writer, messages = written(begun(options))
    writer.abort([None, *messages])
    assert (last_run(options).state, data_files(options), snapshots(options)) == (FAILED, 0, 0)


def test_a_token_commits_once(options: dict[str, str]) -> None:
    first, second = written(begun(options, token="t")), written(begun(options, token="t"))
    first[0].commit(first[1])
    second[0].commit(second[1])
    assert (snapshots(options), data_files(options)) == (1, 1)
    assert isinstance(begun(options, token="t"), AlreadyCommitted)


def test_an_overwrite_conflicts_with_rows_added_meanwhile(options: dict[str, str]) -> None:
    overwriting, appending = written(begun(options, overwrite=True)), written(begun(options))
    appending[0].commit(appending[1])
    with pytest.raises(CommitConflict):
        overwriting[0].commit(overwriting[1])
    overwriting[0].abort(overwriting[1])
    assert (snapshots(options), data_files(options)) == (1, 1)


def test_a_lease_is_renewed_only_while_the_run_goes_on(options: dict[str, str]) -> None:
    writer: LakeWriter = begun(options)
    before = last_run(options).heartbeat_ms
    renew(writer.run)
    assert last_run(options).heartbeat_ms >= before
    state = table(options)
    Run(state.io, state.metadata.location, last_run(options)).finish(SUCCEEDED)
    renew(writer.run)
    assert last_run(options).state == SUCCEEDED


def test_tasks_are_not_sent_the_history(options: dict[str, str]) -> None:
    for _ in range(3):
        writer, messages = written(begun(options))
        writer.commit(messages)
    planned = begun(options).run.state
    assert len(planned.metadata.raw["snapshots"]) == 1 and planned.metadata_location == ""
