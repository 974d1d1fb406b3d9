"""Builds on a cluster of two hosts, with speculation, failing and dying tasks, and a driver that dies before the pointer is moved.

Whatever happens, readers see the old snapshot or the new one; what other attempts wrote is gone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import lakewright.shards as shards
from lakewright.commit.runs import RUNNING, SUCCEEDED
from lakewright.shards.build import write
from lakewright.shards.publish import required
from lakewright.shards.registry import runs
from lakewright.shards.removal import cleanup
from lakewright.shards.store import open_store
from tests.faults.shard_driver import (
    CASES,
    CLEANUP_FAILS,
    FAILURES,
    KILLED_DRIVER,
    KILLED_TASKS,
    NEW,
    OLD,
    ROWS,
    SHARDS,
    SLOW_SECONDS,
    SPECULATION,
    SPECULATION_STORED,
)
from tests.faults.spark_cluster import FAST, SLOW, cluster
from tests.shards.build_kit import Place, people

ROOT = Path(__file__).parents[2]
KEYS = list(range(0, ROWS, 7))


@dataclass
class Seen:
    """What a reader saw while a case went on: the words of each read, and the versions."""

    mixes: list[set[str]] = field(default_factory=list)
    words: set[str] = field(default_factory=set)
    errors: list[BaseException] = field(default_factory=list)
    reads: int = 0


@dataclass(frozen=True)
class Ran:
    folder: Path
    seen: dict[str, Seen]
    exit_code: int
    log: str

    def place(self, case: str) -> Place:
        return Place(str(self.folder / case / "users"))

    def attempts(self, case: str) -> list[dict[str, Any]]:
        return [json.loads(note.read_text()) for note in sorted((self.folder / case / "attempts").glob("*.json"))]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("builds")
    with cluster(folder) as master:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": FAST}
        command = [sys.executable, "-m", "tests.faults.shard_driver", master, str(folder), *CASES]
        with (folder / "driver.out").open("w") as out:
            driver = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, env=environment)
            seen = {case: watched(folder / case, driver) for case in CASES}
            code = driver.wait(120)
    return Ran(folder, seen, code, (folder / "driver.out").read_text() + (folder / "driver.log").read_text())


def watched(case: Path, driver: subprocess.Popen[bytes]) -> Seen:
    """Readers at work from the old snapshot until the case is over, one that refreshes and one that opens anew."""
    seen, over = Seen(), threading.Event()
    while not (case / "begun").exists() and driver.poll() is None:
        time.sleep(0.05)
    readers = [threading.Thread(target=kept_reading, args=(str(case / "users"), seen, over, anew)) for anew in (False, True)]
    for reader in readers:
        reader.start()
    while not (case / "done").exists() and driver.poll() is None:
        time.sleep(0.05)
    time.sleep(0.3)
    over.set()
    for reader in readers:
        reader.join()
    return seen


def kept_reading(url: str, seen: Seen, over: threading.Event, anew: bool) -> None:
    try:
        with shards.open(url) as reader:
            while not over.is_set():
                if anew:
                    with shards.open(url) as fresh:
                        note(fresh.multi_get(KEYS), seen)
                else:
                    reader.refresh()
                    note(reader.multi_get(KEYS), seen)
                time.sleep(0.02)
    except BaseException as error:
        seen.errors.append(error)


def note(values: Any, seen: Seen) -> None:
    found = values.values() if isinstance(values, dict) else values
    words = {value.decode().split("-")[0] if value is not None else "missing" for value in found}
    seen.words |= words
    seen.reads += 1
    if len(words) > 1:
        seen.mixes.append(words)


def content(word: str) -> dict[int, bytes]:
    return {key: f"{word}-{key}".encode() for key in range(ROWS)}


@pytest.mark.parametrize("case", CASES)
def test_readers_see_the_old_or_the_new_snapshot(ran: Ran, case: str) -> None:
    seen = ran.seen[case]
    assert seen.errors == [] and seen.mixes == [] and seen.reads > 2, ran.log[-3000:]
    assert seen.words == ({OLD} if case == KILLED_DRIVER else {OLD, NEW})


@pytest.mark.feature("S5", "S7")
@pytest.mark.parametrize("case", [SPECULATION, SPECULATION_STORED])
def test_of_speculative_attempts_one_wins_and_the_others_are_gone(ran: Ran, case: str) -> None:
    attempts, place = ran.attempts(case), ran.place(case)
    slow = {note["shard"] for note in attempts if note["attempt"] == 0 and note["host"] == SLOW}
    rescued = {note["shard"] for note in attempts if note["attempt"] == 1 and note["host"] == FAST} & slow
    assert rescued, "no slow task was run speculatively"
    assert all(place.manifest().shards[shard].attempt == 1 for shard in rescued)
    assert place.content() == content(NEW)
    new = place.manifest().run_id
    assert {name for name in place.files() if new in name} == {name for name in place.referenced() if new in name}
    assert not any(path.name == "attempt=00" for shard in rescued for path in Path(place.url).glob(f"shards/run_id={new}/db={shard:05d}/*"))


def test_a_slow_attempt_is_not_waited_for(ran: Ran) -> None:
    (record,) = [run for run in runs(open_store(ran.place(SPECULATION).url)) if run.run_id == ran.place(SPECULATION).manifest().run_id]
    assert record.finished_ms is not None and record.finished_ms - record.started_ms < SLOW_SECONDS * 1000


@pytest.mark.feature("S7")
@pytest.mark.parametrize(("case", "attempt"), [(FAILURES, 2), (KILLED_TASKS, 1)])
def test_tasks_that_fail_or_die_are_made_again(ran: Ran, case: str, attempt: int) -> None:
    place = ran.place(case)
    assert all((entry.attempt or 0) >= attempt for entry in place.manifest().shards if entry.shard_id % 2)
    assert place.content() == content(NEW)
    new = place.manifest().run_id
    assert {name for name in place.files() if new in name} == {name for name in place.referenced() if new in name}


@pytest.mark.feature("S7")
def test_a_clean_up_that_fails_fails_nothing_and_can_be_made_up_for(ran: Ran) -> None:
    place = ran.place(CLEANUP_FAILS)
    store, new = open_store(place.url), place.manifest().run_id
    left = {name for name in place.files() if new in name} - place.referenced()
    assert left and place.content() == content(NEW)
    assert "may not be deleted" in ran.log
    assert {run.state for run in runs(store)} == {SUCCEEDED}
    assert left <= set(cleanup(store).files) and left <= place.files()
    cleanup(store, dry_run=False)
    assert not left & place.files() and place.content() == content(NEW)


@pytest.mark.feature("S6", "S7")
def test_a_driver_killed_before_the_pointer_leaves_the_old_snapshot(ran: Ran, spark: Any) -> None:
    place = ran.place(KILLED_DRIVER)
    store = open_store(place.url)
    assert ran.exit_code == -9 and place.content() == content(OLD)
    dead = runs(store)[-1]
    assert dead.state == RUNNING and store.exists(dead.details["manifest_ref"]) and required(store).manifest_ref != dead.details["manifest_ref"]
    with wait_for_its_lease(dead):
        cleanup(store, dry_run=False)
    assert place.content() == content(OLD)
    for _ in range(2):
        write(people(spark, 50), place.config(num_shards=SHARDS), progress="off")
    assert place.manifest().rows == 50 and len(place.content()) == 50
    cleanup(store, keep=1, dry_run=False)
    assert place.files() == place.referenced() and len(place.content()) == 50


@contextmanager
def wait_for_its_lease(run: Any) -> Iterator[None]:
    while run.alive:
        time.sleep(0.1)
    yield
