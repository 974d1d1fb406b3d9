"""Merge-on-read of one task: deletes beside the old files, new rows in new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField

from lakewright.errors import CorruptFile, MultipleMatches
from lakewright.format.puffin import PUFFIN
from lakewright.plan.delta import ACTION, CLAUSE, DELETE, FILE, INSERT, MATCH, MERGE_ON_READ, MOVE, POSITION, ROW_ID
from lakewright.plan.types import schema_from
from lakewright.plan.write_plan import WritePlan
from lakewright.write.delta_messages import place_of_match
from lakewright.write.delta_task import materialise_batches
from tests.write.delta_kit import Change, Kit, local

MakePlan = Callable[..., WritePlan]
VERSIONS = pytest.mark.parametrize("version", [2, 3])
SCHEMA = "id bigint, p int, t string"


def rows(start: int, count: int) -> list[dict[str, Any]]:
    return [{"id": i, "p": 1, "t": f"t{i}"} for i in range(start, start + count)]


def path(kit: Kit, number: int) -> str:
    return kit.targets[number].file.scan.data_file.file_path


@VERSIONS
@pytest.mark.feature("I16")
def test_deletes_moves_and_inserts(make_plan: MakePlan, version: int) -> None:
    kit = Kit(make_plan(SCHEMA, ["p"]), MERGE_ON_READ, version)
    for number in range(3):
        kit.add(rows(300 * number, 300), partition=(1,))
    moved = [Change(MOVE, 2, at, {"id": 600 + at, "p": at % 2, "t": "moved"}, clause=1) for at in (3, 4, 200)]
    changes = [*(Change(DELETE, 0, at) for at in range(0, 300, 7)), *moved, Change(MATCH, 1, 5), Change(INSERT, values={"id": 5000, "p": 1}, clause=2)]
    expected = kit.expected(*changes)
    message = kit.run(*changes)
    assert kit.live(message) == expected
    assert message.touched == {path(kit, 0), path(kit, 2)} and not message.replaced and message.copied == 0
    assert message.counts == {0: 43, 1: 3, 2: 1}
    assert {d.file_format for d in message.deletes} == {PUFFIN if version == 3 else "PARQUET"}
    assert {(d.referenced_data_file, d.record_count, d.partition) for d in message.deletes} == {(path(kit, 0), 43, (1,)), (path(kit, 2), 3, (1,))}
    assert len({d.file_path for d in message.deletes}) == (1 if version == 3 else 2)


def test_only_files_of_moved_rows_have_lineage_columns(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA), MERGE_ON_READ)
    kit.add(rows(0, 100))
    message = kit.run(Change(MOVE, 0, 5, {"id": 5}), Change(INSERT, values={"id": 500}))
    found = {tuple(pq.read_table(local(f.file_path)).column("id").to_pylist()): pq.read_table(local(f.file_path)).schema.names for f in message.files}
    assert found == {(5,): ["id", "p", "t", "_row_id", "_last_updated_sequence_number"], (500,): ["id", "p", "t"]}


def test_a_vector_takes_in_what_was_deleted_before(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA), MERGE_ON_READ)
    kit.add(rows(0, 300), vector=[1, 2, 299])
    kit.add(rows(300, 300), deleted=[4])
    changes = [Change(DELETE, 0, 7), Change(DELETE, 1, 8)]
    expected = kit.expected(*changes)
    message = kit.run(*changes)
    assert kit.live(message) == expected
    assert sorted(d.record_count for d in message.deletes) == [2, 4]
    assert message.superseded_vectors == {path(kit, 0)} and message.superseded_deletes == {kit.targets[1].file.scan.deletes[0].path}


def test_position_deletes_of_format_2_stand_beside_earlier_ones(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA), MERGE_ON_READ, 2)
    kit.add(rows(0, 300), deleted=[1, 2, 299])
    expected = kit.expected(Change(DELETE, 0, 7))
    message = kit.run(Change(DELETE, 0, 7))
    assert kit.live(message) == expected and [d.record_count for d in message.deletes] == [1]
    assert not message.superseded_deletes


@VERSIONS
@pytest.mark.feature("I16")
def test_a_file_that_loses_its_last_row_is_dropped(make_plan: MakePlan, version: int) -> None:
    kit = Kit(make_plan(SCHEMA), MERGE_ON_READ, version)
    kit.add(rows(0, 100), vector=range(50) if version == 3 else (), deleted=range(50) if version == 2 else ())
    message = kit.run(*(Change(DELETE, 0, at) for at in range(50, 100)))
    assert kit.live(message) == [] and not message.deletes and message.replaced == message.touched == {path(kit, 0)}
    assert message.superseded_vectors == ({path(kit, 0)} if version == 3 else set())
    assert message.superseded_deletes == ({kit.targets[0].file.scan.deletes[0].path} if version == 2 else set())


@pytest.mark.feature("I16")
def test_one_delete_file_for_a_partition(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA, ["p"], delete_granularity="partition"), MERGE_ON_READ, 2)
    for number, partition in enumerate((1, 1, 2)):
        kit.add([{**row, "p": partition} for row in rows(100 * number, 100)], partition=(partition,))
    changes = [Change(DELETE, file, at) for file in range(3) for at in (3, 9)]
    expected = kit.expected(*changes)
    message = kit.run(*changes)
    assert kit.live(message) == expected
    assert {d.partition: (d.record_count, d.referenced_data_file) for d in message.deletes} == {(1,): (4, None), (2,): (2, path(kit, 2))}


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_delete_files_have_a_target_size(make_plan: MakePlan, granularity: str) -> None:
    kit = Kit(make_plan(SCHEMA, delete_granularity=granularity, delete_target_file_size_bytes=300), MERGE_ON_READ, 2)
    kit.add(rows(0, 400))
    kit.add(rows(400, 400))
    changes = [Change(DELETE, file, at) for file in range(2) for at in range(0, 260, 2)]
    expected = kit.expected(*changes)
    message = kit.run(*changes)
    assert kit.live(message) == expected
    assert [d.record_count for d in message.deletes] == ([100, 30, 100, 30] if granularity == "file" else [100, 100, 60])


@VERSIONS
def test_a_row_matched_twice_across_batches(make_plan: MakePlan, on_disk: Any, version: int) -> None:
    kit = Kit(make_plan(SCHEMA), MERGE_ON_READ, version)
    kit.add(rows(0, 100))
    old, twice = on_disk(), [Change(MOVE, 0, 3, {"id": 3}), Change(DELETE, 0, 5), Change(DELETE, 0, 5), Change(DELETE, 0, 5)]
    with pytest.raises(MultipleMatches) as raised:
        kit.run(*twice, batch_rows=2)
    assert place_of_match(str(raised.value)) == (path(kit, 0), 5) and on_disk() == old
    kit.once = False
    assert kit.run(*twice, batch_rows=2).counts == {0: 2}


def test_parts_of_a_file_share_its_vector(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA), MERGE_ON_READ)
    kit.add(rows(0, 300), parts=[(0, 2), (2, 3)])
    (vector,) = kit.run(Change(DELETE, 0, 3), Change(DELETE, 1, 250)).deletes
    assert vector.record_count == 2


FETCHED = "id bigint, p int, t string, word string, place struct<x: bigint, y: string>, tags array<string>"


def wide_rows(count: int) -> list[dict[str, Any]]:
    """Texts that are all in a dictionary and texts that are not, nulls, and nested values."""
    return [
        {"id": i, "p": i % 3, "t": None if i % 11 == 0 else f"t{i}", "word": f"w{i % 4}", "place": None if i % 5 == 0 else {"x": i, "y": f"y{i % 2}"}, "tags": ["a"] * (i % 3)}
        for i in range(count)
    ]


@VERSIONS
@pytest.mark.feature("I16")
@pytest.mark.parametrize("writer", [{"version": "1.0"}, {"version": "2.6", "use_dictionary": ["word"]}, {"use_dictionary": False}], ids=["v1", "v2.6", "plain"])
def test_moved_rows_keep_what_the_delta_does_not_say(make_plan: MakePlan, version: int, writer: dict[str, Any]) -> None:
    """Rows of several row groups, one without any, the others with their first and last."""
    kit = Kit(make_plan(FETCHED), MERGE_ON_READ, version, fetched=("id", "t", "word", "place", "tags"))
    kit.add(wide_rows(1000), group_rows=250, parquet=writer)
    changes = [Change(MOVE, 0, at, {"p": -at}) for at in (0, 1, 249, 250, 499, 750, 751, 999)] + [Change(DELETE, 0, 300), Change(MATCH, 0, 301)]
    expected = kit.expected(*changes)
    message = kit.run(*changes, batch_rows=3)
    assert kit.live(message) == expected
    assert [row["id"] for row in expected if row["p"] < 0] == [1, 249, 250, 499, 750, 751, 999]


@pytest.mark.feature("I16", "I6")
def test_moved_rows_of_older_files_get_what_a_reader_sees_there(make_plan: MakePlan) -> None:
    """A column that the file does not have yet, and one that it has under another name and as int."""
    new = schema_from("id bigint, p bigint, t string")
    old = Schema(new.find_field("id"), NestedField(2, "before", IntegerType(), required=False))
    kit = Kit(make_plan(new), MERGE_ON_READ, fetched=("p", "t"))
    kit.add([{"id": i, "before": i * 2} for i in range(300)], schema=old)
    message = kit.run(Change(MOVE, 0, 7, {"id": 1007}), Change(MOVE, 0, 250, {"id": 1250}))
    (made,) = message.files
    assert pq.read_table(local(made.file_path)).select(["id", "p", "t"]).to_pylist() == [{"id": 1007, "p": 14, "t": None}, {"id": 1250, "p": 500, "t": None}]


def test_a_file_that_got_shorter_is_told(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA), MERGE_ON_READ, fetched=("p", "t"))
    kit.add(rows(0, 100))
    pq.write_table(pq.read_table(local(path(kit, 0))).slice(0, 50), local(path(kit, 0)))
    plan, batches = kit.plan(), [pa.RecordBatch.from_pydict({FILE: pa.array([0], pa.int32()), POSITION: [70], ACTION: pa.array([MOVE], pa.int32()), CLAUSE: pa.array([0], pa.int32()), ROW_ID: [1]})]
    with pytest.raises(CorruptFile, match="has no row 70"):
        materialise_batches(plan, iter(batches), 0, 0, 0)
