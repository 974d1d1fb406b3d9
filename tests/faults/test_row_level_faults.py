"""Changes of rows that fail, are killed or race: the table is as before or as after, the same token commits once, nothing is left."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import lakewright as lw
from lakewright.commit.change import MetadataChange
from lakewright.commit.runs import list_runs
from lakewright.errors import CorruptFile, LakewrightError, MultipleMatches
from lakewright.format.data_file import DATA
from lakewright.format.storage import local_path
from lakewright.maintain.orphans import remove_orphans
from lakewright.plan.delta import COPY_ON_WRITE, MERGE_ON_READ
from tests.commit.kit import EPOCH
from tests.faults.interleave import Ground, Rows, day
from tests.faults.killed_rows import DRIVERS, LAYOUTS, MID_TASK, RACED_KEYS, RACES, STEPS, TABLE, TOKEN, merge
from tests.faults.same_spark import run_child

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakewright.table import Table

SIGKILLED = -9
MODES = pytest.mark.parametrize(("mode", "version"), [(COPY_ON_WRITE, 2), (COPY_ON_WRITE, 3), (MERGE_ON_READ, 2), (MERGE_ON_READ, 3)])
SHORT_LEASE = {"lakewright.run-lease-seconds": "1"}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ground]:
    """By the name of their folder: one that both processes merge into for each layout, and one for each step of each layout."""
    folder = tmp_path_factory.mktemp("killed-rows")
    names = {f"{layout}-{step}": layout for layout in LAYOUTS for step in STEPS} | {f"race-{layout}": layout for layout in LAYOUTS}
    return {name: Ground(folder / name, LAYOUTS[layout][1], LAYOUTS[layout][0], SHORT_LEASE) for name, layout in names.items()}


@pytest.fixture(scope="module")
def children(tables: dict[str, Ground], spark: SparkSession) -> Iterator[dict[tuple[str, str], Future[Any]]]:
    """By layout and part; the drivers of all layouts are there at once, since they race."""
    folder = Path(local_path(tables["race-copied"].config.location) or "").parent
    parts = [(layout, part) for part in (DRIVERS, MID_TASK) for layout in LAYOUTS]
    with ThreadPoolExecutor(len(LAYOUTS)) as pool:
        yield {part: pool.submit(run_child, "-m", "tests.faults.killed_rows", str(folder), *part, spark=spark if part[1] == DRIVERS else None) for part in parts}


def opened(ground: Ground, spark: SparkSession) -> Table:
    return lw.connect(ground.config.location, spark=spark, progress="off").table(TABLE)


def merged(rows: Rows) -> Rows:
    """What killed_rows.merge makes of the rows."""
    kept = Counter((number, region, day((value - EPOCH).days + (number % 20 == 10))) for number, region, value in rows if number != 30)
    return kept + Counter([(11, "eu", EPOCH), (91, "us", EPOCH)])


def runs(ground: Ground) -> list[Any]:
    return sorted(list_runs(ground.load().io, ground.metadata.location), key=lambda run: run.started_ms)


@pytest.mark.feature("I22")
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_kill(children: dict[tuple[str, str], Future[Any]], tables: dict[str, Ground], spark: SparkSession, layout: str, step: str) -> None:
    done, ground = children[layout, MID_TASK if step == MID_TASK else DRIVERS].result(), tables[f"{layout}-{step}"]
    if step == MID_TASK:
        assert done.returncode == SIGKILLED, done.stderr[-3000:]
    else:
        assert f"{step} {SIGKILLED}\n" in done.stdout, done.stderr[-3000:]
    after = merged(ground.before)
    assert ground.rows() == (after if step == "after-publish" else ground.before)
    left = {name.rsplit(".", 1)[-1] for name in ground.strays() if name.startswith("data/")}
    if step in ("after-planning", "after-publish"):
        assert left == set()
    elif step != MID_TASK:
        assert left == ({"parquet", "puffin"} if layout == "merged" else {"parquet"})

    while any(run.alive for run in runs(ground) if run.state == "running"):
        time.sleep(0.05)
    commit = merge(opened(ground, spark))
    assert ground.rows() == after
    assert [s.summary.get("lakewright.token") for s in ground.metadata.snapshots()].count(TOKEN) == 1 and commit.token == TOKEN

    remove_orphans(ground.store, ground.load())
    assert ground.strays() == set() and ground.rows() == after
    assert [run.state for run in runs(ground)] == (["succeeded"] if step == "after-publish" else ["rolled back", "succeeded"])


@pytest.mark.feature("I17")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_processes_that_merge_one_key_at_once(children: dict[tuple[str, str], Future[Any]], tables: dict[str, Ground], layout: str) -> None:
    """Each merge counted once, and the row that was not there inserted once."""
    for (_, part), child in children.items():
        assert part != DRIVERS or "raced\n" in child.result().stdout, child.result().stderr[-3000:]
    ground, times = tables[f"race-{layout}"], len(LAYOUTS) * RACES
    others = Counter({row: count for row, count in ground.before.items() if row[0] not in RACED_KEYS})
    assert ground.rows() == others + Counter([(10, "eu", day(10 + times)), (11, "eu", day(times))])
    assert [command for s in ground.metadata.snapshots() if (command := s.summary.get("lakewright.command"))] == ["merge"] * times
    assert ground.strays() == set()


# A task that fails


def check_nothing_left(ground: Ground, table: Table, change: Any, error: type[LakewrightError]) -> str:
    before, stored = ground.load().metadata_location, ground.stored()
    with pytest.raises(error) as raised:
        change(table)
    assert ground.load().metadata_location == before
    assert ground.stored() == stored
    assert [run.state for run in runs(ground)] == ["failed"]
    return str(raised.value)


@MODES
@pytest.mark.feature("I22")
def test_a_task_that_meets_a_row_twice_leaves_nothing(tmp_path: Path, spark: SparkSession, mode: str, version: int) -> None:
    ground = Ground(tmp_path / "lake", version, mode)
    source = spark.createDataFrame([(key,) for key in (10, 30, 50, 70, 90, 110, 110)], "id bigint")
    change = lambda table: table.merge(source, on="t.id = s.id").when_matched_update({"day": "date_add(t.day, 1)"}).execute()  # noqa: E731
    assert "110" in check_nothing_left(ground, opened(ground, spark), change, MultipleMatches)
    assert ground.rows() == ground.before


@pytest.mark.feature("I22")
@pytest.mark.parametrize("version", [2, 3])
def test_a_task_that_cannot_read_a_column_leaves_nothing(tmp_path: Path, spark: SparkSession, version: int) -> None:
    """The condition does not need the column, so only the task that rewrites the file finds out."""
    ground = Ground(tmp_path / "lake", version, COPY_ON_WRITE)
    damaged = next(f.file_path for f in ground.live() if f.content == DATA and f.partition == ("us",))
    local = Path(local_path(damaged) or "")
    column = pq.read_metadata(local).row_group(0).column(2)
    start = column.dictionary_page_offset or column.data_page_offset
    content = local.read_bytes()
    local.write_bytes(content[:start] + bytes(column.total_compressed_size) + content[start + column.total_compressed_size :])
    message = check_nothing_left(ground, opened(ground, spark), lambda table: table.delete("id in (10, 30, 50, 70, 90, 110)"), CorruptFile)
    assert local.name in message
    local.write_bytes(content)
    assert ground.rows() == ground.before


# Clean-up


@pytest.mark.feature("I22")
def test_a_puffin_file_stays_as_long_as_one_of_its_vectors_is_in_use(tmp_path: Path) -> None:
    ground = Ground(tmp_path / "lake", 3, MERGE_ON_READ)
    first, second = [f for f in ground.live() if f.content == DATA and f.partition == ("eu",) and f.record_count == 2]
    shared = ground.vectors(first, second)[0].file_path
    two = ground.vectors(first, second)
    ground.publish(ground.delta(*two, touched=[first, second]))
    name = "data/" + two[0].file_path.split("/data/")[1]
    assert "data/" + shared.split("/data/")[1] in ground.strays() and name not in ground.strays()
    for file, in_use in ((first, True), (second, False)):
        ground.publish(ground.delta(*ground.vectors(file, positions=[1]), touched=[file], removed_vectors=frozenset({file.file_path})))
        forget_the_past(ground)
        rows = ground.rows()
        remove_orphans(ground.store, ground.load(), older_than_hours=-1)
        assert (name in ground.stored()) == in_use and ground.strays() == set() and ground.rows() == rows


def forget_the_past(ground: Ground) -> None:
    """Leave only the newest snapshot, as expiry will."""
    head = ground.metadata.head()
    assert head is not None
    old = [s.snapshot_id for s in ground.metadata.snapshots() if s.snapshot_id != head.snapshot_id]
    ground.publish(MetadataChange("expire", lambda metadata: [{"action": "remove-snapshots", "snapshot-ids": old}]))
