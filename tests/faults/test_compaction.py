"""Compaction beside writers: it commits what they left alone, fails none of them, and killed at any step it changes nothing."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakewright import transaction
from lakewright.maintain import rewrite
from lakewright.plan.delta import COPY_ON_WRITE, MERGE_ON_READ
from lakewright.write.combined_file import CombinedFile
from tests.commit.stores import Rival
from tests.faults.interleave import Ground, Operation, run, serial
from tests.faults.test_row_level_interleavings import ask, meeting, table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAYOUTS = [(COPY_ON_WRITE, 2), (MERGE_ON_READ, 2), (MERGE_ON_READ, 3)]
LEASE_SECONDS = 1
STEPS = ("planned", "file written", "before publish", "after publish")
BINS, LEFT_OUT = "lakewright.compact.bins", "lakewright.compact.bins-left-out"


@pytest.fixture(scope="module")
def grounds(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Ground]:
    return {(mode, version): Ground(tmp_path_factory.mktemp("ground") / "lake", version, mode) for mode, version in LAYOUTS}


@pytest.mark.feature("H4")
@pytest.mark.parametrize(("mode", "version"), LAYOUTS)
@pytest.mark.parametrize("stop", ["write", "validate"])
@pytest.mark.parametrize("kind", ["append", "delete", "update", "rewrite"])
def test_what_others_did_not_touch_is_compacted(
    grounds: dict[tuple[str, int], Ground], spark: SparkSession, monkeypatch: pytest.MonkeyPatch, mode: str, version: int, stop: str, kind: str
) -> None:
    """The partition eu is one bin and us another; the other commit is about eu."""
    ground, other = grounds[mode, version].reset(), Operation(kind, "same partition", 2)
    table = table_of(ground, spark)
    meeting(monkeypatch, table, stop, lambda: run(ground, other))
    commit = table.compact()
    assert ground.rows() == serial(ground.before, other)
    assert (commit.summary[BINS], commit.summary[LEFT_OUT]) == (("2", "0") if kind == "append" else ("1", "1"))
    assert not any(commit.run_id in path for path in ground.strays()), "files of bins that were left out are deleted"


@pytest.mark.feature("H4")
@pytest.mark.parametrize(("mode", "version"), [(MERGE_ON_READ, 2), (MERGE_ON_READ, 3)])
def test_a_compaction_that_lost_everything_is_planned_again(
    grounds: dict[tuple[str, int], Ground], spark: SparkSession, monkeypatch: pytest.MonkeyPatch, mode: str, version: int
) -> None:
    ground, others = grounds[mode, version].reset(), (Operation("delete", "same row"), Operation("update", "disjoint", 2))
    table = table_of(ground, spark)
    plans = meeting(monkeypatch, table, "write", lambda: [run(ground, other) for other in others])
    commit = table.compact()
    assert len(plans) == 2 and commit.summary[BINS] == "2" and ground.rows() == serial(ground.before, *others)
    assert {row.state for row in table.runs().collect()} == {"succeeded"}


@pytest.mark.feature("H4")
def test_a_compaction_that_never_gets_through_says_so_and_leaves_nothing(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    ground = Ground(tmp_path / "lake", 3, COPY_ON_WRITE)
    table, others = table_of(ground, spark), (Operation("update", "same partition", 2), Operation("update", "disjoint", 2))
    plans = meeting(monkeypatch, table, "write", lambda: [run(ground, other) for other in others], times=9)
    commit = table.compact(row_level_replans=1)
    assert commit.nothing_written and len(plans) == 2 and "wrote nothing" in caplog.text
    assert ground.rows() == serial(ground.before, *others, *others) and ground.strays() == set()


@pytest.mark.feature("H4", "I17")
@pytest.mark.parametrize("kind", ["delete", "overwrite"])
def test_a_stream_of_rewrites_does_not_starve_a_writer(grounds: dict[tuple[str, int], Ground], spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    ground, rewrites = grounds[COPY_ON_WRITE, 2].reset(), 3
    table, writer = table_of(ground, spark), Operation(kind)
    plans = meeting(monkeypatch, table, "write", lambda: run(ground, Operation("rewrite", writer=2)), times=rewrites)
    ask(table, writer, spark, row_level_replans=0)
    assert len(plans) == rewrites + 1 and ground.rows() == serial(ground.before, writer)


@pytest.mark.feature("H4")
def test_a_compaction_during_a_merge_is_met_once(grounds: dict[tuple[str, int], Ground], spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    ground = grounds[MERGE_ON_READ, 3].reset()
    table, other, merge = table_of(ground, spark), table_of(ground, spark), Operation("merge")
    real = table._lake.store
    monkeypatch.setattr(table._lake, "store", Rival(real, other.compact))
    ask(table, merge, spark, row_level_replans=0)
    assert ground.rows() == serial(ground.before, merge)
    assert [row.summary.get("lakewright.command") for row in table.history().collect()][-2:] == ["compact", "merge"]


@pytest.mark.feature("I22", "H4")
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_it_changes_no_row(tmp_path: Path, spark: SparkSession, step: str) -> None:
    ground = Ground(tmp_path / "lake", 3, MERGE_ON_READ, {"lakewright.run-lease-seconds": str(LEASE_SECONDS)})
    table = table_of(ground, spark)
    head = table._state.metadata.head()
    child = os.fork()
    if child == 0:
        _die_at(step, table)
        table.compact()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    table.refresh()
    assert ground.rows() == ground.before
    assert (table._state.metadata.head() == head) is (step != "after publish")
    assert table.compact().nothing_written is (step == "after publish")
    time.sleep(LEASE_SECONDS)
    table.remove_orphans()
    assert ground.rows() == ground.before and ground.strays() == set()


def _die_at(step: str, table: Any) -> None:
    """In the child: the real thing up to a step, and then nothing at all."""

    def kill(*_: Any, **__: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    publish = transaction.publish
    if step == "planned":
        rewrite.combine = kill  # type: ignore[assignment]
    elif step == "file written":
        close = CombinedFile.close
        CombinedFile.close = lambda self: (close(self), kill())  # type: ignore[assignment, method-assign, func-returns-value]
    elif step == "before publish":
        transaction.publish = kill  # type: ignore[assignment]
    else:
        transaction.publish = lambda *args, **how: (publish(*args, **how), kill())[0]  # type: ignore[assignment]

