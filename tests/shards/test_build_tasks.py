"""What one task does, and which of several attempts counts. No Spark."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewright.errors import LakewrightError, ShardAssignmentError, ShardError, ShardWriteError, StorageFull
from lakewright.shards import tasks
from lakewright.shards.backends.sqlite import SqliteWriter
from lakewright.shards.failures import TaskFailed, told, typed
from lakewright.shards.manifest import ShardEntry
from lakewright.shards.routing import HashRouting, shard_of
from lakewright.shards.tasks import ShardMessage, ShardTask, winners, write_shard
from lakewright.shards.values import ValueCodec

SHARDS = 4


@pytest.fixture
def task(tmp_path: Path) -> ShardTask:
    return ShardTask(
        url=str(tmp_path / "users"), storage={}, run_id="run", routing=HashRouting(SHARDS).to_json(), key="id", key_type="int", codec=ValueCodec("binary", ("payload",)), function=None,
        value_columns=("payload",), backend="sqlite", sort=True, duplicates="error", ordering=None, batch_rows=100, operations_per_second=None, bytes_per_second=None, sample_size=20,
    )  # fmt: skip


def rows(keys: list[int]) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(keys, pa.int64()), "payload": pa.array([str(key).encode() for key in keys], pa.binary())})


def own(shard: int, count: int = 500) -> list[int]:
    return [key for key in range(count) if shard_of(key, SHARDS) == shard]


def failure(task: ShardTask, batches: list[pa.RecordBatch], shard: int) -> LakewrightError:
    with pytest.raises(TaskFailed) as caught:
        write_shard(task, iter(batches), shard, 0, 7)
    error = typed(caught.value)
    assert error is not None
    return error


def files(task: ShardTask) -> list[Path]:
    return [path for path in Path(task.url).rglob("*") if path.is_file()]


@pytest.mark.feature("S9")
def test_rows_of_another_shard_are_noticed_before_anything_is_written(task: ShardTask) -> None:
    error = failure(task, [rows(own(1))], 2)
    assert isinstance(error, ShardAssignmentError) and error.shard_id == 2 and "sends it to shard 1" in str(error)
    assert isinstance(error.__cause__, ShardWriteError) and error.__cause__.rows_written == 0 and files(task) == []


@pytest.mark.feature("S9")
@pytest.mark.parametrize(("sample_size", "noticed"), [(20, True), (2, False), (0, False)])
def test_a_sample_is_looked_at(task: ShardTask, sample_size: int, noticed: bool) -> None:
    """One stray among the first twenty keys."""
    keys = sorted([*own(2)[:19], own(1)[3]])
    stray = keys.index(own(1)[3])
    assert stray not in (0, 10)  # what a sample of two looks at
    given = replace(task, sample_size=sample_size)
    if noticed:
        assert isinstance(failure(given, [rows(keys)], 2), ShardAssignmentError)
    else:
        assert write_shard(given, iter([rows(keys)]), 2, 0, 7).entry.rows == 20


def test_a_sample_goes_on_over_small_batches(task: ShardTask) -> None:
    batches = [*(rows([key]) for key in own(2)[:5]), rows([own(1)[-1]])]
    assert isinstance(failure(task, batches, 2), ShardAssignmentError)


def test_rows_out_of_order_are_refused(task: ShardTask) -> None:
    keys = own(2)
    for batches in ([rows(keys[5:]), rows(keys[:5])], [rows(keys[::-1])]):
        error = failure(task, batches, 2)
        assert type(error) is ShardError and "not in the order" in str(error)


@pytest.mark.feature("S7")
def test_attempts_do_not_share_a_path(task: ShardTask) -> None:
    """Nor those of a stage that Spark runs again, which count from 0 again."""
    paths = {write_shard(task, iter([rows(own(2))]), 2, attempt, task_id).entry.path for attempt, task_id in [(0, 7), (1, 9), (0, 12)]}
    assert paths == {f"shards/run_id=run/db=00002/attempt={n}" for n in ("00/task=7", "01/task=9", "00/task=12")}
    assert len(files(task)) == 3


@pytest.mark.feature("S7")
def test_a_failed_attempt_removes_its_own_files_only(task: ShardTask, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = write_shard(task, iter([rows(own(2))]), 2, 0, 7).entry

    def broken(self: SqliteWriter) -> Any:
        raise StorageFull("the disk is full")

    monkeypatch.setattr(SqliteWriter, "finish", broken)
    with pytest.raises(TaskFailed) as caught:
        write_shard(task, iter([rows(own(2))]), 2, 1, 8)
    error = typed(caught.value)
    assert isinstance(error, StorageFull) and isinstance(error.__cause__, ShardWriteError) and error.__cause__.rows_written == len(own(2))
    assert [str(path.relative_to(task.url)) for path in files(task)] == [f"{kept.path}/{kept.files[0].name}"]


def test_a_failed_upload_leaves_nothing(task: ShardTask, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any) -> Any:
        raise ConnectionError("the store is gone")

    monkeypatch.setattr(tasks, "upload_shard", broken)
    error = failure(task, [rows(own(2))], 2)
    assert isinstance(error, ShardWriteError) and "the store is gone" in str(error) and files(task) == []


@pytest.mark.feature("S5")
def test_the_winner_is_the_same_in_whatever_order_answers_arrive() -> None:
    def message(attempt: int, task_id: int, path: str) -> ShardMessage:
        return ShardMessage(attempt, task_id, ShardEntry(0, path=path))

    messages = [message(1, 3, "a"), message(0, 9, "b"), message(0, 5, "d"), message(0, 5, "c")]
    assert {winners(order)[0].path for order in permutations(messages)} == {"c"}


@pytest.mark.parametrize("key", [5, "k<ä>", b"\x00\xff"])
def test_a_message_comes_back_as_it_was(key: Any) -> None:
    entry = ShardEntry(3, "a/b", 10, 100, key, key, "sum", (), "run", 1)
    kind = {int: "int", str: "str", bytes: "bytes"}[type(key)]
    for message in (ShardMessage(1, 99, entry), ShardMessage(0, 4, ShardEntry(3))):
        assert ShardMessage.from_bytes(message.to_bytes(), kind) == message  # type: ignore[arg-type]


@pytest.mark.feature("S14")
def test_an_error_is_told_whatever_it_contains() -> None:
    nasty = 'quotes " and >> marks << and\nlines {"kind": 1}>>'
    error = typed(told(ValueError(nasty), url="s3://b/<x>", shard_id=3, attempt=2, rows_written=41))
    assert isinstance(error, ShardWriteError) and nasty in str(error)
    assert (error.shard_id, error.attempt, error.rows_written, error.url) == (3, 2, 41, "s3://b/<x>")
    assert "ValueError" in error.trace
