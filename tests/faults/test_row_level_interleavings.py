"""The verbs of a table on Spark, with another commit between their steps: planned again where docs/concurrency.md states a conflict."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakewright as lw
from lakewright import transaction
from lakewright.commit.publish import publish
from lakewright.errors import CommitConflict
from lakewright.plan.delta import COPY_ON_WRITE, MERGE_ON_READ
from tests.commit.stores import Rival
from tests.faults.interleave import CONFLICT, KINDS, ROW_LEVEL, Ground, Operation, run, serial, serial_results
from tests.faults.test_interleavings import LAYOUTS, LEVELS, stated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakewright.table import Table

SCHEMA = "id bigint, region string, day date"
UPDATED = "date_add(date'1970-01-01', 2 * datediff({}, date'1970-01-01') + 1)"
DICE = random.Random(5)
MET = [
    *((first, second, "same row") for first in ROW_LEVEL for second in KINDS),
    ("append", "delete", "same row"),
    ("overwrite", "delete", "same file"),
    ("overwrite", "update", "same partition"),
]
DELETE_AND_UPDATE = (("delete", "update"), ("update", "delete"))
DRAWN = [(*met, DICE.choice(LEVELS), *DICE.choice(LAYOUTS), DICE.choice(("write", "validate"))) for met in MET]


@pytest.fixture(scope="module")
def grounds(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Ground]:
    return {(mode, version): Ground(tmp_path_factory.mktemp("ground") / "lake", version, mode) for mode, version in LAYOUTS}


def table_of(ground: Ground, spark: SparkSession) -> Table:
    return lw.connect(ground.config.location, spark=spark, progress="off").table("db.t")


def ask(table: Table, operation: Operation, spark: SparkSession, **how: Any) -> None:
    """The operation as a user would write it."""
    where, level = f"id = {operation.key}", {f"{operation.kind}_isolation_level": operation.isolation}
    match operation.kind:
        case "append":
            table.append(spark.createDataFrame([operation.new(key) for key in operation.appended], SCHEMA), **how)
        case "overwrite":
            table.overwrite(spark.createDataFrame([operation.new(operation.key)], SCHEMA), where=where, isolation_level=operation.isolation, **how)
        case "delete":
            table.delete(where, **level, **how)
        case "update":
            table.update({"day": UPDATED.format("day")}, where=where, **level, **how)
        case "merge":
            source = spark.createDataFrame([operation.new(key) for key in operation.keys], SCHEMA)
            merge = table.merge(source, on="t.id = s.id", **level, **how)
            merge.when_matched_update({"day": UPDATED.format("t.day")}).when_not_matched_insert_all().execute()


def meeting(monkeypatch: pytest.MonkeyPatch, table: Table, stop: str, meanwhile: Callable[[], object], times: int = 1) -> list[int]:
    """Let something happen before a commit's validation, or between that and its publish; returns a list with an entry for each plan."""
    plans: list[int] = []

    def planned(*args: Any, **how: Any) -> Any:
        plans.append(len(plans))
        if stop == "write" and len(plans) <= times:
            meanwhile()
        return publish(*args, **how)

    monkeypatch.setattr(transaction, "publish", planned)
    if stop == "validate":
        monkeypatch.setattr(table._lake, "store", Rival(table._lake.store, meanwhile, times))
    return plans


@pytest.mark.feature("I13", "I17")
@pytest.mark.parametrize(("first", "second", "scope", "level", "mode", "version", "stop"), DRAWN)
def test_verbs_end_as_stated(
    grounds: dict[tuple[str, int], Ground], spark: SparkSession, monkeypatch: pytest.MonkeyPatch, first: str, second: str, scope: str, level: str, mode: str, version: int, stop: str
) -> None:
    ground = grounds[mode, version].reset()
    a, b, table = Operation(first, isolation=level), Operation(second, scope, 2, level), table_of(ground, spark)
    plans = meeting(monkeypatch, table, stop, lambda: run(ground, b))
    conflicts = stated()[first, second, scope, level] == CONFLICT
    if conflicts and first not in ROW_LEVEL:
        with pytest.raises(CommitConflict, match=f"This {first} of db.t .* since then the"):
            ask(table, a, spark)
        assert ground.rows() == serial(ground.before, b)
        return
    ask(table, a, spark)
    assert ground.rows() in ([serial(ground.before, b, a)] if conflicts else serial_results(ground.before, a, b))
    left_to_do = serial(ground.before, b, a) != serial(ground.before, b)
    assert len(plans) == (2 if conflicts and left_to_do else 1)


@pytest.mark.feature("I17")
@pytest.mark.parametrize(("mode", "version", "first", "second"), [(*layout, *order) for layout, order in zip(LAYOUTS, DELETE_AND_UPDATE * 2, strict=True)])
def test_a_row_deleted_and_updated_at_once_is_deleted(
    grounds: dict[tuple[str, int], Ground], spark: SparkSession, monkeypatch: pytest.MonkeyPatch, mode: str, version: int, first: str, second: str
) -> None:
    """Both by the verbs, at snapshot isolation, the one while the other is about to validate."""
    ground = grounds[mode, version].reset()
    a, b, other = Operation(first, isolation="snapshot"), Operation(second, isolation="snapshot"), table_of(ground, spark)
    table = table_of(ground, spark)
    plans = meeting(monkeypatch, table, "write", lambda: ask(other, b, spark))
    ask(table, a, spark)
    assert ground.rows() == serial(ground.before, Operation("delete"))
    assert len(plans) == (2 if second == "delete" else 3), "an update of a row that is gone commits nothing"


@pytest.mark.feature("I17")
def test_without_planning_again_it_is_a_conflict_that_names_both(grounds: dict[tuple[str, int], Ground], spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    ground = grounds[MERGE_ON_READ, 3].reset()
    table, other = table_of(ground, spark), Operation("update", "same file", 2)
    meeting(monkeypatch, table, "write", lambda: run(ground, other))
    with pytest.raises(CommitConflict, match=r"This merge of db\.t read snapshot \d+, and since then the update \d+ (replaced|deleted rows).* a file it changes"):
        ask(table, Operation("merge"), spark, row_level_replans=0)
    assert ground.rows() == serial(ground.before, other)


@pytest.mark.feature("I17", "I22")
def test_planning_again_has_an_end_and_leaves_nothing(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    ground = Ground(tmp_path / "lake", 2, COPY_ON_WRITE)
    table, other = table_of(ground, spark), Operation("update", "same file", 2)
    plans = meeting(monkeypatch, table, "write", lambda: run(ground, other), times=9)
    with pytest.raises(CommitConflict, match="This merge of db.t .* since then the update"):
        ask(table, Operation("merge"), spark, row_level_replans=2)
    assert len(plans) == 3 and ground.rows() == serial(ground.before, other, other, other) and ground.strays() == set()
    assert [row.state for row in table.runs().collect()] == ["failed"] * 3


def test_a_merge_planned_again_does_not_read_its_source_again(
    grounds: dict[tuple[str, int], Ground], spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ground = grounds[COPY_ON_WRITE, 3].reset()
    table, other, folder = table_of(ground, spark), Operation("update", "same file", 2), str(tmp_path / "source")
    merge = Operation("merge")
    spark.createDataFrame([merge.new(key) for key in merge.keys], SCHEMA).write.parquet(folder)
    plans = meeting(monkeypatch, table, "write", lambda: (shutil.rmtree(folder), run(ground, other)))
    table.merge(spark.read.parquet(folder), on="t.id = s.id").when_matched_update({"day": UPDATED.format("t.day")}).when_not_matched_insert_all().execute()
    assert len(plans) == 2 and ground.rows() == serial(ground.before, other, merge)


@pytest.mark.feature("I17")
@pytest.mark.parametrize(("level", "planned"), [("serializable", 2), ("snapshot", 1)])
def test_a_row_that_kept_a_merge_from_inserting_is_watched(
    grounds: dict[tuple[str, int], Ground], spark: SparkSession, monkeypatch: pytest.MonkeyPatch, level: str, planned: int
) -> None:
    """The merge changes no row of the file that has the match; the row goes before it commits."""
    ground = grounds[MERGE_ON_READ, 3].reset()
    table, delete = table_of(ground, spark), Operation("delete")
    plans = meeting(monkeypatch, table, "write", lambda: run(ground, delete))
    new = [delete.new(delete.key), delete.new(9_999)]
    merge = table.merge(spark.createDataFrame(new, SCHEMA), on="t.id = s.id", merge_isolation_level=level)
    merge.when_not_matched_insert_all().execute()
    inserted = new if level == "serializable" else new[1:]
    assert len(plans) == planned and ground.rows() == serial(ground.before, delete) + Counter(inserted)
