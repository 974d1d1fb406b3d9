"""Copy-on-write of one task, against a plain-Python model."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakewright.errors import CorruptFile, MultipleMatches, NullInRequiredColumn
from lakewright.format.graft import GraftWriter, NotGraftable
from lakewright.plan.delta import DELETE, INSERT, MATCH, MOVE, UPDATE, TargetFile
from lakewright.plan.write_plan import WritePlan
from lakewright.read.arrow_scan import ArrowFile
from lakewright.read.scan import FileScan
from lakewright.write import copy_on_write
from lakewright.write.delta_messages import place_of_match
from lakewright.write.delta_task import materialise_batches
from tests.write.delta_kit import NEW_SEQUENCE, Change, Kit, local

MakePlan = Callable[..., WritePlan]
VERSIONS = pytest.mark.parametrize("version", [2, 3])
SCHEMA = "id bigint, t string, x double, n int"


def rows(start: int, count: int) -> list[dict[str, Any]]:
    return [{"id": i, "t": f"t{i}", "x": math.nan if i % 40 == 7 else i / 2, "n": None if i % 9 == 0 else i % 5} for i in range(start, start + count)]


def comparable(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: "NaN" if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()} for row in found]


def check(kit: Kit, *changes: Change) -> Any:
    expected = kit.expected(*changes)
    message = kit.run(*changes)
    assert comparable(kit.live(message)) == comparable(expected)
    return message


def old_chunks(kit: Kit, number: int) -> list[bytes]:
    """The bytes of each column chunk of a file."""
    path = local(kit.targets[number].file.scan.data_file.file_path)
    return chunks(path)


def chunks(path: str) -> list[bytes]:
    data, footer = Path(path).read_bytes(), pq.read_metadata(path)
    found = []
    for g in range(footer.num_row_groups):
        for c in range(footer.num_columns):
            chunk = footer.row_group(g).column(c)
            at = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
            found.append(data[at : at + chunk.total_compressed_size])
    return found


@VERSIONS
@pytest.mark.feature("I15")
def test_an_update_encodes_only_the_assigned_column_of_changed_row_groups(make_plan: MakePlan, version: int) -> None:
    kit = Kit(make_plan(SCHEMA), version=version, assigned=("n",))
    kit.add(rows(0, 300))
    message = check(kit, Change(UPDATE, 0, 5, {"n": 77}), Change(UPDATE, 0, 150, {"n": None}))
    (file,) = message.files
    assert message.counts == {0: 2} and message.copied == 298
    assert message.replaced == message.touched == {kit.targets[0].file.scan.data_file.file_path}
    before, after = chunks(local(kit.targets[0].file.scan.data_file.file_path)), chunks(local(file.file_path))
    per_group = 4 if version == 2 else 6
    changed = [at for at in range(12) if before[at] != after[at // 4 * per_group + at % 4]]
    assert changed == [3, 7], "the column n of the first two row groups"


@VERSIONS
def test_metrics_of_a_grafted_file_are_those_of_its_rows(make_plan: MakePlan, version: int) -> None:
    kit = Kit(make_plan(SCHEMA), version=version, assigned=("x", "n"))
    kit.add(rows(0, 300))
    (file,) = check(kit, Change(UPDATE, 0, 5, {"x": math.nan, "n": 9}), Change(UPDATE, 0, 7, {"x": 3.0}), Change(DELETE, 0, 207)).files
    stored = pq.read_table(local(file.file_path))
    assert file.record_count == 299 and file.nan_value_counts[3] == sum(math.isnan(v) for v in stored.column("x").to_pylist()) == 7
    assert file.null_value_counts[4] == stored.column("n").null_count
    assert file.upper_bounds[4] == (9).to_bytes(4, "little") and file.lower_bounds[1] == bytes(8)
    assert file.file_size_in_bytes == kit.size(file.file_path)


@pytest.mark.parametrize("known", [True, False])
def test_nans_are_counted_whatever_the_manifest_knows(make_plan: MakePlan, known: bool) -> None:
    kit = Kit(make_plan(SCHEMA), assigned=("n",))
    kit.add(rows(0, 300), with_nans=known)
    dropped = [Change(DELETE, 0, at) for at in range(100)]
    (file,) = check(kit, *dropped, Change(DELETE, 0, 127), Change(UPDATE, 0, 210, {"n": 1})).files
    assert file.nan_value_counts == {3: 4}


@VERSIONS
@pytest.mark.feature("I15")
def test_row_groups_that_lose_rows_are_encoded_and_the_others_copied(make_plan: MakePlan, version: int) -> None:
    kit = Kit(make_plan(SCHEMA), version=version)
    kit.add(rows(0, 300))
    message = check(kit, *(Change(DELETE, 0, at) for at in range(110, 190, 2)))
    (file,) = message.files
    assert file.record_count == message.copied == 260
    footer = pq.read_metadata(local(file.file_path))
    assert [footer.row_group(g).num_rows for g in range(footer.num_row_groups)] == [100, 60, 100]
    before, after = old_chunks(kit, 0), chunks(local(file.file_path))
    per_group = len(after) // 3
    assert before[:4] == after[:4] and before[8:12] == after[2 * per_group : 2 * per_group + 4]


@VERSIONS
def test_a_row_group_without_rows_is_left_out_and_a_file_without_rows_dropped(make_plan: MakePlan, on_disk: Any, version: int) -> None:
    kit = Kit(make_plan(SCHEMA), version=version)
    kit.add(rows(0, 300))
    kit.add(rows(300, 100), vector=[0, 1] if version == 3 else (), deleted=[0, 1] if version == 2 else ())
    old = on_disk()
    message = check(kit, *(Change(DELETE, 0, at) for at in range(100, 200)), *(Change(DELETE, 1, at) for at in range(2, 100)))
    (file,) = message.files
    assert pq.read_metadata(local(file.file_path)).num_row_groups == 2
    assert on_disk() - old == {file.file_path}
    assert len(message.replaced) == 2 and message.copied == 200
    second = kit.targets[1].file.scan
    assert message.superseded_vectors == ({second.data_file.file_path} if version == 3 else set())
    assert message.superseded_deletes == ({second.deletes[0].path} if version == 2 else set())


@VERSIONS
def test_rows_deleted_before_stay_deleted(make_plan: MakePlan, version: int) -> None:
    kit = Kit(make_plan(SCHEMA), version=version, assigned=("t",))
    kit.add(rows(0, 300), vector=[3, 120] if version == 3 else (), deleted=[3, 120] if version == 2 else (), equality=("id", [7, 250]))
    message = check(kit, Change(UPDATE, 0, 150, {"t": "new"}))
    assert message.copied == 295 and sum(f.record_count for f in message.files) == 296


@VERSIONS
@pytest.mark.feature("I15")
def test_moved_rows_go_to_the_file_of_their_partition(make_plan: MakePlan, version: int) -> None:
    kit = Kit(make_plan(SCHEMA, ["n"]), version=version)
    kit.add([{**row, "n": 1} for row in rows(0, 200)], partition=(1,))
    moved = [Change(MOVE, 0, at, {"id": at, "t": "moved", "x": 0.5, "n": 2 + at % 2}, clause=1) for at in (3, 4, 150)]
    message = check(kit, *moved, Change(DELETE, 0, 9), Change(INSERT, values={"id": 999, "n": 1}, clause=2))
    assert {f.partition: f.record_count for f in message.files if f.partition != (1,)} == {(2,): 2, (3,): 1}
    assert message.counts == {0: 1, 1: 3, 2: 1} and message.copied == 196


def test_inserts_alone_need_no_lineage_columns(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA))
    message = check(kit, *(Change(INSERT, values=row) for row in rows(0, 130)))
    (file,) = message.files
    assert pq.read_schema(local(file.file_path)).names == ["id", "t", "x", "n"] and message.copied == 0 and not message.touched


def test_matches_that_change_nothing_leave_the_file_alone(make_plan: MakePlan, on_disk: Any) -> None:
    kit = Kit(make_plan(SCHEMA))
    kit.add(rows(0, 300))
    old = on_disk()
    message = kit.run(*(Change(MATCH, 0, at) for at in range(0, 300, 3)))
    assert on_disk() == old and not message.touched and not message.counts and not message.replaced


def test_lineage_of_a_file_that_has_it_is_kept(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA), assigned=("n",))
    kit.add(rows(0, 300))
    (file,) = check(kit, Change(UPDATE, 0, 5, {"n": 1}), Change(DELETE, 0, 110)).files
    kit.targets = [TargetFile(ArrowFile(FileScan(replace(file, first_row_id=5000), NEW_SEQUENCE, 2), {}))]
    before = chunks(local(file.file_path))
    (made,) = check(kit, Change(UPDATE, 0, 250, {"n": 2})).files
    after = chunks(local(made.file_path))
    inherited = [5]  # of the row that the first change left to the commit
    changed = [at for at in range(18) if before[at] != after[at]]
    assert [at for at in changed if at < 12] == inherited and 15 in changed and 17 in changed and not {12, 13, 14} & set(changed)


def test_rows_from_before_row_lineage_get_their_ids_from_this_commit(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA), assigned=("n",))
    kit.add(rows(0, 200), first_row_id=None)
    (file,) = kit.run(Change(UPDATE, 0, 5, {"n": 1}), Change(DELETE, 0, 150)).files
    stored = pq.read_table(local(file.file_path))
    assert stored.column("_row_id").null_count == stored.column("_last_updated_sequence_number").null_count == 199


def group_rows(location: str) -> list[int]:
    footer = pq.read_metadata(local(location))
    return [footer.row_group(g).num_rows for g in range(footer.num_row_groups)]


def test_row_groups_that_become_tiny_are_merged_with_their_neighbours(make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_on_write, "TINY_ROWS", 10)
    kit = Kit(make_plan(SCHEMA))
    kit.add(rows(0, 800))
    emptied = [Change(DELETE, 0, at) for group in (1, 2, 3, 5) for at in range(100 * group, 100 * group + 90)]
    (file,) = check(kit, *emptied, Change(DELETE, 0, 601)).files
    assert group_rows(file.file_path) == [100, 30, 100, 109, 100], "groups 1 to 3 are one, 5 and 6 are one as 5 alone would be tiny"


@pytest.mark.feature("I15")
def test_a_part_of_a_large_file(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA), assigned=("n",))
    kit.add(rows(0, 400), parts=[(0, 2), (2, 3), (3, 4)])
    changes = [Change(UPDATE, 0, 150, {"n": 1}), Change(DELETE, 2, 307)]
    expected = kit.expected(*(replace(change, file=0) for change in changes))
    message = kit.run(*changes)
    assert message.rewritten == {0, 2} and len(message.files) == 2
    rest = kit.copy(1)
    assert comparable(kit.live(message, rest)) == comparable(expected)
    assert sorted(f.record_count for f in (*message.files, *rest.files)) == [99, 100, 200] and message.copied + rest.copied == 398
    assert [f.nan_value_counts[3] for f in (*message.files, *rest.files)] == [5, 2, 3]


@pytest.mark.parametrize(("assigned", "kept"), [("n", True), ("t", False)])
def test_a_sort_order_is_claimed_as_long_as_it_holds(make_plan: MakePlan, assigned: str, kept: bool) -> None:
    plan = make_plan(SCHEMA, sort_by=["t"])
    kit = Kit(plan, assigned=(assigned,))
    kit.add(rows(0, 200), sort_order_id=plan.sort_order.order_id)
    message = check(kit, Change(UPDATE, 0, 3, {assigned: None}), Change(INSERT, values={"id": 999}))
    orders = {f.record_count: f.sort_order_id for f in message.files}
    assert orders == {200: plan.sort_order.order_id if kept else None, 1: 0}


def test_one_row_matched_twice_is_an_error_that_names_it(make_plan: MakePlan, on_disk: Any) -> None:
    kit = Kit(make_plan(SCHEMA), assigned=("n",))
    kit.add(rows(0, 300))
    old = on_disk()
    with pytest.raises(MultipleMatches) as raised:
        kit.run(Change(UPDATE, 0, 5, {"n": 1}), Change(MATCH, 0, 149), Change(UPDATE, 0, 149, {"n": 2}), batch_rows=2)
    assert place_of_match(str(raised.value)) == (kit.targets[0].file.scan.data_file.file_path, 149)
    assert on_disk() == old, "what was written before is deleted"


def test_one_deletion_said_twice_is_one(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA), once=False)
    kit.add(rows(0, 300))
    message = kit.run(*(Change(DELETE, 0, at) for at in (5, 149, 149, 149, 150)), batch_rows=2)
    assert message.counts == {0: 3} and message.copied == 297


def test_a_file_that_vanished_or_became_shorter(make_plan: MakePlan, on_disk: Any) -> None:
    kit = Kit(make_plan(SCHEMA))
    kit.add(rows(0, 300))
    old = on_disk()
    with pytest.raises(CorruptFile, match="has no row 300"):
        kit.run(Change(DELETE, 0, 5), Change(DELETE, 0, 300))
    assert on_disk() == old
    os.unlink(local(kit.targets[0].file.scan.data_file.file_path))
    with pytest.raises(CorruptFile, match="is missing"):
        materialise_batches(kit.plan(), kit.batches([Change(DELETE, 0, 5)]), 0, 0, 0)


def test_null_for_a_required_column_is_refused(make_plan: MakePlan, on_disk: Any) -> None:
    kit = Kit(make_plan("id bigint not null, n int not null"), assigned=("n",))
    kit.add([{"id": i, "n": 1} for i in range(300)])
    old = on_disk()
    with pytest.raises(NullInRequiredColumn, match="'n'"):
        kit.run(Change(UPDATE, 0, 5, {"n": 2}), Change(UPDATE, 0, 205, {"n": None}))
    assert on_disk() == old


def test_files_are_named_by_task_and_attempt(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA), assigned=("n",))
    kit.add(rows(0, 100))
    message = materialise_batches(kit.plan(), kit.batches([Change(UPDATE, 0, 5, {"n": 2})]), 12, 3, 456)
    assert [f.file_path.rsplit("/", 1)[1] for f in message.files] == ["00012-3-456-00000.parquet"]


@pytest.mark.parametrize("method", ["copy_group", "encode_columns"])
def test_a_file_that_turns_out_not_to_be_graftable_midway(make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    kit = Kit(make_plan(SCHEMA), assigned=("x",))
    kit.add(rows(0, 500))
    whole, calls = getattr(GraftWriter, method), []

    def failing(self: GraftWriter, *args: Any) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise NotGraftable("made up")
        whole(self, *args)

    monkeypatch.setattr(GraftWriter, method, failing)
    monkeypatch.setattr(copy_on_write, "TINY_ROWS", 1)
    message = check(kit, *(Change(UPDATE, 0, at, {"x": math.nan}) for at in (5, 250, 450)), Change(DELETE, 0, 110), Change(DELETE, 0, 310))
    assert len(message.files) == 2 and sum(f.record_count for f in message.files) == 498
    for file in message.files:
        assert file.nan_value_counts[3] == sum(math.isnan(x) for x in pq.read_table(local(file.file_path)).column("x").to_pylist())
