"""A delta through Spark: rows meet the task that has their file, and messages become one result."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lakewright.errors import CorruptFile, MultipleMatches
from lakewright.plan.delta import (
    ACTION,
    CLAUSE,
    COPY_ON_WRITE,
    DELETE,
    FILE,
    INSERT,
    MATCH,
    MERGE_ON_READ,
    MOVE,
    POSITION,
    ROW_ID,
    UPDATE,
    value_column,
)
from lakewright.plan.types import iceberg_to_spark
from lakewright.plan.write_plan import WritePlan
from lakewright.write.delta_messages import DeltaMessage, Materialised, place_of_match
from lakewright.write.delta_write import materialise, tasks_of_files
from tests.write.delta_kit import Change, Kit, local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MakePlan = Callable[..., WritePlan]
SCHEMA = "id bigint, p int, t string, x double"


def rows(start: int, count: int) -> list[dict[str, Any]]:
    return [{"id": i, "p": 1, "t": f"t{i}", "x": i / 2} for i in range(start, start + count)]


def delta(spark: SparkSession, kit: Kit, *changes: Change) -> DataFrame:
    """The changes in no order, over several partitions."""
    types = iceberg_to_spark(kit.schema)
    columns = ", ".join(f"{value_column(f.field_id)} {types[f.name].dataType.simpleString()}" for f in kit.schema.fields)
    shape = f"{FILE} int, {POSITION} bigint, {ACTION} int, {CLAUSE} int, {ROW_ID} bigint, {columns}"
    made = [(c.file, c.position, c.action, c.clause, kit._row_id(c), *(c.values.get(f.name) for f in kit.schema.fields)) for c in reversed(changes)]
    return spark.createDataFrame(made, shape).repartition(3)


def as_message(made: Materialised) -> DeltaMessage:
    return DeltaMessage(0, 0, 0, made.added, deletes=made.deletes, replaced=made.replaced, superseded_vectors=made.superseded_vectors, superseded_deletes=made.superseded_deletes)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", [COPY_ON_WRITE, MERGE_ON_READ])
@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.feature("I15", "I16")
def test_a_delta_of_every_action(spark: SparkSession, make_plan: MakePlan, on_disk: Any, mode: str, version: int, partitioned: bool) -> None:
    kit = Kit(make_plan(SCHEMA, ["p"] if partitioned else None), mode, version, assigned=("x",))
    for number in range(6):
        kit.add(rows(400 * number, 400), partition=(1,) if partitioned else ())
    old = on_disk()
    in_place = UPDATE if mode == COPY_ON_WRITE else MOVE
    changes = [Change(in_place, 0, at, {"id": at, "p": 1, "t": f"t{at}", "x": -1.0}, clause=0) for at in range(0, 400, 3)]
    changes += [Change(DELETE, 1, at, clause=1) for at in range(400)]
    changes += [Change(MATCH, 2, at) for at in range(10)]
    changes += [Change(MOVE, 4, at, {"id": 1600 + at, "p": at % 3, "t": "moved", "x": 0.0}, clause=2) for at in (1, 2, 3)]
    changes += [Change(INSERT, values={"id": 9000 + n, "p": n % 5, "t": "new"}, clause=3) for n in range(50)]
    expected = kit.expected(*changes)
    made = materialise(kit.plan(), delta(spark, kit, *changes))
    assert kit.live(as_message(made)) == expected
    assert made.counts == {0: 134, 1: 400, 2: 3, 3: 50}
    paths = [target.file.scan.data_file.file_path for target in kit.targets]
    assert made.touched == {paths[0], paths[1], paths[4]}
    assert made.replaced == (made.touched if mode == COPY_ON_WRITE else {paths[1]})
    assert made.copied == (266 + 397 if mode == COPY_ON_WRITE else 0)
    assert on_disk() - old == {f.file_path for f in (*made.added, *made.deletes)}
    if partitioned:
        inserted = [f.partition for f in made.added if f.partition != (1,) and f.record_count >= 10]
        assert len(inserted) == len(set(inserted)) == 4, "inserts of a partition meet in one task"


def test_parts_without_changes_of_a_file_that_is_replaced_are_copied(spark: SparkSession, make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA), assigned=("x",))
    kit.add(rows(0, 400), parts=[(0, 1), (1, 2), (2, 4)])
    kit.add(rows(400, 400), parts=[(0, 2), (2, 4)])
    change = Change(UPDATE, 1, 150, {"x": -1.0})
    expected = kit.expected(replace(change, file=0))
    made = materialise(kit.plan(), delta(spark, kit, change, Change(MATCH, 3, 5)))
    assert kit.live(as_message(made)) == expected
    assert sorted(f.record_count for f in made.added) == [100, 100, 200] and made.copied == 399
    assert made.touched == made.replaced == {kit.targets[0].file.scan.data_file.file_path}


def test_an_empty_delta(spark: SparkSession, make_plan: MakePlan, on_disk: Any) -> None:
    kit = Kit(make_plan(SCHEMA))
    assert materialise(kit.plan(), delta(spark, kit, Change(INSERT)).limit(0)) == Materialised((), (), frozenset(), frozenset(), frozenset(), frozenset(), {}, 0)
    assert not on_disk()


@pytest.mark.feature("I22")
def test_a_row_matched_twice_leaves_nothing(spark: SparkSession, make_plan: MakePlan, on_disk: Any) -> None:
    kit = Kit(make_plan(SCHEMA), assigned=("x",))
    for number in range(4):
        kit.add(rows(100 * number, 100))
    old = on_disk()
    updates = [Change(UPDATE, file, at, {"x": 0.0}) for file in range(4) for at in range(50)]
    with pytest.raises(MultipleMatches) as raised:
        materialise(kit.plan(), delta(spark, kit, *updates, Change(MATCH, 2, 7)))
    assert place_of_match(str(raised.value)) == (kit.targets[2].file.scan.data_file.file_path, 7) and raised.value.table == "db.t"
    assert on_disk() == old


def test_a_file_that_vanished(spark: SparkSession, make_plan: MakePlan, on_disk: Any) -> None:
    kit = Kit(make_plan(SCHEMA), assigned=("x",))
    kit.add(rows(0, 100))
    frame = delta(spark, kit, Change(UPDATE, 0, 3, {"x": 0.0}), Change(INSERT, values={"id": 1000}))
    os.unlink(local(kit.targets[0].file.scan.data_file.file_path))
    old = on_disk()
    with pytest.raises(CorruptFile, match="is missing"):
        materialise(kit.plan(), frame)
    assert on_disk() == old


def test_files_are_spread_over_tasks_by_size(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA))
    for count in (10, 4000, 10, 10, 10, 10):
        kit.add(rows(0, count), group_rows=10_000)
    tasks = tasks_of_files(replace(kit.plan()), cores=1)
    assert len(set(tasks)) == 4 and tasks.count(tasks[1]) == 1
    assert tasks_of_files(replace(kit.plan(), files=()), cores=2) == []


def test_what_shares_a_delete_file_shares_a_task(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA), MERGE_ON_READ)
    for _ in range(4):
        kit.add(rows(0, 200), parts=[(0, 1), (1, 2)])
    tasks = tasks_of_files(kit.plan(), cores=4)
    assert tasks[::2] == tasks[1::2] and len(set(tasks)) == 4
    by_partition = Kit(make_plan(SCHEMA, ["p"], delete_granularity="partition"), MERGE_ON_READ, 2)
    for partition in (1, 2, 1, 2):
        by_partition.add(rows(0, 100), partition=(partition,))
    first, second, *rest = tasks_of_files(by_partition.plan(), cores=4)
    assert rest == [first, second] and first != second
