"""Changed rows of a rewritten file in a row group of their own: when they are, what the footer then says, and that no row is lost."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.format.lineage import ROW_SEQUENCE_NAME
from lakewright.plan.delta import DELETE, UPDATE
from lakewright.plan.write_plan import WritePlan
from lakewright.write import rows_apart
from lakewright.write.arrow_rows import file_schema
from tests.write.delta_kit import OLD_SEQUENCE, Change, Kit, local
from tests.write.test_copy_on_write import SCHEMA, check, rows

MakePlan = Callable[..., WritePlan]
WHOLE = ("t", "x", "n")


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_apart, "LEAST_ROWS", 50)


def updated(*places: int) -> list[Change]:
    return [Change(UPDATE, 0, at, {"t": f"new {at}", "x": math.nan if at % 2 else 0.5, "n": at % 7}) for at in places]


def groups_of(message: Any) -> list[tuple[int, int, int | None]]:
    """Of the one file written: rows of each row group, how many of them this commit changed, and the latest commit that changed others."""
    (file,) = message.files
    footer = pq.read_metadata(local(file.file_path))
    found = []
    for group in (footer.row_group(g) for g in range(footer.num_row_groups)):
        (said,) = [c.statistics for c in map(group.column, range(group.num_columns)) if c.path_in_schema == ROW_SEQUENCE_NAME]
        found.append((group.num_rows, said.null_count, said.max if said.has_min_max else None))
    return found


@pytest.mark.feature("H7")
def test_changed_rows_stand_behind_the_others_and_statistics_say_which_are_old(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA), assigned=WHOLE)
    kit.add(rows(0, 200))
    message = check(kit, *updated(3, 50, 99, 130))
    # Both row groups are tiny, and so are joined.
    assert groups_of(message) == [(196, 0, OLD_SEQUENCE), (4, 4, None)]
    assert message.copied == 196 and message.counts == {0: 4}


def test_rows_may_be_removed_meanwhile(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA), assigned=WHOLE)
    kit.add(rows(0, 200), vector=[0, 60])
    message = check(kit, *updated(7, 120), Change(DELETE, 0, 8), Change(DELETE, 0, 199))
    assert groups_of(message) == [(194, 0, OLD_SEQUENCE), (2, 2, None)]


def test_metrics_count_rows_of_both(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA), assigned=WHOLE)
    kit.add(rows(0, 200))
    (file,) = check(kit, *updated(7, 9, 10)).files
    stored = pq.read_table(local(file.file_path))
    assert file.record_count == 200
    assert file.nan_value_counts[3] == sum(math.isnan(v) for v in stored.column("x").to_pylist())
    assert file.null_value_counts[4] == stored.column("n").null_count
    assert file.upper_bounds[2] == max(stored.column("t").to_pylist())[:16].encode()


def test_changed_rows_that_take_much_room_are_written_as_they_come(make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_apart, "MOST_WAITING", 1)
    monkeypatch.setattr("lakewright.write.copy_on_write.TINY_ROWS", 10)
    kit = Kit(make_plan(SCHEMA), assigned=WHOLE)
    kit.add(rows(0, 300))
    message = check(kit, *updated(3, 50, 150, 250, 251))
    assert groups_of(message) == [(98, 0, OLD_SEQUENCE), (2, 2, None), (99, 0, OLD_SEQUENCE), (1, 1, None), (98, 0, OLD_SEQUENCE), (2, 2, None)]


def test_a_tiny_row_group_joins_its_neighbour_so_that_changes_do_not_pile_up(make_plan: MakePlan) -> None:
    """As a file is after an earlier change: a large row group and a small one behind it."""
    kit = Kit(make_plan(SCHEMA), assigned=WHOLE)
    kit.add(rows(0, 220), group_rows=200)
    assert groups_of(check(kit, *updated(3, 50))) == [(218, 0, OLD_SEQUENCE), (2, 2, None)]


@pytest.mark.parametrize("nulls_in", [[3], [150], [3, 150]])
@pytest.mark.parametrize("most_waiting", [1, 64 << 20])
def test_a_null_that_the_old_file_has_no_place_for_neither_fails_nor_doubles_rows(make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch, nulls_in: list[int], most_waiting: int) -> None:
    """The column was required when the file was written. Row groups that got in before stay grafted; the others are streamed into a file beside it."""
    monkeypatch.setattr(rows_apart, "MOST_WAITING", most_waiting)
    monkeypatch.setattr("lakewright.write.copy_on_write.TINY_ROWS", 10)
    kit = Kit(make_plan(SCHEMA), assigned=WHOLE)
    arrow = file_schema(kit.schema)
    required = arrow.set(1, arrow.field("t").with_nullable(False))
    kit.add(pa.Table.from_pylist(rows(0, 300), schema=required))
    message = check(kit, *(Change(UPDATE, 0, at, {"t": None if at in nulls_in else "new", "x": 1.0, "n": 2}) for at in (3, 150, 250)))
    assert sum(file.record_count for file in message.files) == 300


@pytest.mark.parametrize(("rewritten", "why"), [
    ({"assigned": ("n",)}, "most bytes are copied"),
    ({"assigned": WHOLE, "changed": range(60)}, "many rows changed"),
    ({"assigned": WHOLE, "least": 1_000}, "the file is small"),
    ({"assigned": ("x", "n"), "sort_by": ["id"]}, "the file is sorted"),
])  # fmt: skip
def test_else_rows_stay_where_they_are(make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch, rewritten: dict[str, Any], why: str) -> None:
    monkeypatch.setattr(rows_apart, "LEAST_ROWS", rewritten.get("least", 50))
    monkeypatch.setattr(rows_apart, "LEAST_ENCODED", 0.1 if "sort_by" in rewritten else 0.5)
    plan = make_plan(SCHEMA, sort_by=rewritten.get("sort_by"))
    kit = Kit(plan, assigned=rewritten["assigned"])
    kit.add(rows(0, 200), sort_order_id=plan.sort_order.order_id)
    changes = updated(*rewritten.get("changed", (5,)))
    message = check(kit, *changes)
    assert all(new < rows for rows, new, _ in groups_of(message)), why
    (file,) = message.files
    assert pq.read_table(local(file.file_path)).column("id").to_pylist() == list(range(200))


def test_before_row_lineage_there_is_nothing_to_tell_them_by(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA), version=2, assigned=WHOLE)
    kit.add(rows(0, 200))
    (file,) = check(kit, *updated(5)).files
    assert pq.read_table(local(file.file_path)).column("id").to_pylist() == list(range(200))
