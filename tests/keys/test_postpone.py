"""The bucket mode postpone: records wait on a branch until a compaction takes them in, each once, whatever else is done to the table meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright import transaction
from lakewright.commit.updates import now_ms
from lakewright.errors import UnsupportedOperation
from lakewright.keys import run
from lakewright.keys.run import take_in
from lakewright.lake import Lake
from lakewright.table import Table
from tests.keys.kit import SCHEMA, before_the_next, keyed, records, rows

A, B, C = (1, "eu", 1.0, 10), (2, "us", 2.0, 10), (3, "eu", 3.0, 10)
WITH_OP = SCHEMA + ", op string"


def postponed(lake: Lake, **how: Any) -> Table:
    return keyed(lake, **{**how, "properties": {"lakewright.bucket-mode": "postpone", "lakewright.bucket": "2", **how.get("properties", {})}})


def delete(lake: Lake, table: Table, *given: tuple[Any, ...]) -> None:
    """Records with an operation; D deletes."""
    table.upsert(records(lake, *given, schema=WITH_OP), delete_when="op = 'D'")


READ, PUBLISHED = (run, "prepare"), (transaction, "publish")  # steps of taking records in; buckets are published before the records


@pytest.mark.feature("P5")
def test_postponed_records_wait_on_a_branch(lake: Lake) -> None:
    table = postponed(lake)
    table.upsert(records(lake, A, B))
    table.upsert(records(lake, (1, "us", 1.5, 11), C))
    assert rows(table) == [] and len(rows(table, ref="postponed")) == 4
    table.compact()
    assert rows(table) == [(1, "us", 1.5, 11), B, C]
    assert [str(f.transform) for f in table.spec.fields] == ["bucket[2]"]
    assert take_in(table) is None and "postponed" not in table.iceberg.metadata.refs
    deletions = lake.spark.createDataFrame([(1, None, None, 12, "D"), (9, "eu", 9.0, 1, "U")], SCHEMA + ", op string")
    table.upsert(deletions, delete_when="op = 'D'")
    table.upsert(records(lake, (2, "us", 0.0, 9)))
    assert len(rows(table)) == 3
    take_in(table)
    assert rows(table) == [B, C, (9, "eu", 9.0, 1)]


def test_what_lands_while_records_are_taken_in_waits_for_the_next(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = postponed(lake)
    other = lake.table(table.name)
    table.upsert(records(lake, A))
    before_the_next(monkeypatch, *READ, lambda: other.upsert(records(lake, B)))
    take_in(table)
    assert rows(table) == [A]
    take_in(table)
    assert rows(table) == [A, B] and take_in(table) is None


def test_a_token_of_what_was_taken_in_is_known(lake: Lake) -> None:
    """The branch that carried it is gone by then; the batch must not come twice."""
    properties = {"lakewright.merge-engine": "aggregate", "lakewright.merge.n": "sum"}
    table = postponed(lake, schema="id bigint, n bigint, at int", properties=properties)
    batch = records(lake, (1, 5, 1, "U"), (2, 7, 1, "U"), (2, None, 2, "D"), schema="id bigint, n bigint, at int, op string")
    for _ in range(2):
        table.upsert(batch, delete_when="op = 'D'", token="b1")
        take_in(table)
    again = table.upsert(batch, delete_when="op = 'D'", token="b1")
    assert rows(table) == [(1, 5, 1)] and take_in(table) is None and again.snapshot_id == table.history().collect()[-1].snapshot_id


def test_counts_of_postponed_records_are_kept(lake: Lake) -> None:
    properties = {"lakewright.merge-engine": "aggregate", "lakewright.merge.n": "count"}
    table = postponed(lake, schema="id bigint, n bigint, at int", properties=properties)
    table.upsert(records(lake, (1, None, 1), (1, None, 2), schema="id bigint, n bigint, at int"))
    table.upsert(records(lake, (1, None, 3), schema="id bigint, n bigint, at int"))
    take_in(table)
    assert rows(table) == [(1, 3, 3)]


@pytest.mark.feature("P5")
def test_a_batch_may_go_straight_to_its_buckets(lake: Lake) -> None:
    table = postponed(lake, properties={"lakewright.postpone.fixed-at-batch-write": "true"})
    table.upsert(records(lake, A, B))
    assert rows(table) == [A, B] and "postponed" not in table.iceberg.metadata.refs


@pytest.mark.parametrize(("step", "calls"), [(READ, 1), (PUBLISHED, 1), (PUBLISHED, 2)], ids=["read", "buckets", "records"])
@pytest.mark.parametrize("first", [A, (1, None, None, 10, "D")], ids=["record", "deletion of no row"])
def test_records_of_a_take_in_that_another_overtook_are_not_applied_again(lake: Lake, monkeypatch: pytest.MonkeyPatch, step: Any, calls: int, first: tuple[Any, ...]) -> None:
    table = postponed(lake)
    other = lake.table(table.name)
    delete(lake, table, (*first, "U")[:5])

    def overtake() -> None:
        delete(lake, other, (1, "eu", 1.0, 11, "D"), (*B, "U"))
        take_in(other)

    before_the_next(monkeypatch, *step, overtake, calls=calls)
    assert take_in(table) is None
    take_in(table)
    assert rows(table) == [B]


def test_a_take_in_that_another_overtook_goes_on_with_the_rest(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    properties = {"lakewright.merge-engine": "aggregate", "lakewright.merge.n": "sum"}
    table = postponed(lake, schema="id bigint, n bigint, at int", properties=properties)
    other = lake.table(table.name)

    def add(n: int) -> None:
        other.upsert(records(lake, (1, n, n), schema="id bigint, n bigint, at int"))

    def overtake() -> None:
        before_the_next(monkeypatch, *READ, lambda: add(100))
        take_in(other)

    add(1)
    before_the_next(monkeypatch, *READ, overtake)
    take_in(table)
    take_in(table)
    assert rows(table) == [(1, 101, 100)] and take_in(table) is None


@pytest.mark.feature("P5")
def test_expiry_keeps_what_waits(lake: Lake) -> None:
    table = postponed(lake, properties={"history.expire.max-ref-age-ms": "1"})
    table.upsert(records(lake, A))
    table.upsert(records(lake, B))
    table.expire_snapshots(older_than=now_ms() + 1000, retain_last=1)
    table.compact()
    assert rows(table) == [A, B]


def test_expiry_forgets_nothing_of_what_was_taken_in(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = postponed(lake)
    other = lake.table(table.name)
    table.upsert(records(lake, A))
    before_the_next(monkeypatch, *READ, lambda: other.upsert(records(lake, B)))
    take_in(table)
    table.delete_keys(records(lake, (1,), schema="id bigint"))
    table.expire_snapshots(older_than=now_ms() + 1000, retain_last=1)
    table.compact()
    assert rows(table) == [B], "A was taken in before, and deleted since"


def test_a_compaction_after_some_commits_takes_in_what_waits(lake: Lake) -> None:
    table = postponed(lake, properties={"lakewright.compact.after-commits": "2"})
    table.upsert(records(lake, A, B))
    assert rows(table) == []
    delete(lake, table, (1, None, None, 12, "D"))
    assert rows(table) == [B] and "postponed" not in table.iceberg.metadata.refs


def test_nothing_else_is_done_to_what_waits(lake: Lake) -> None:
    table = postponed(lake)
    table.upsert(records(lake, A))
    for attempt in (
        lambda: table.compact(branch="postponed"),
        lambda: table.upsert(records(lake, B), branch="postponed"),
        lambda: table.delete("id = 1", branch="postponed"),
    ):
        with pytest.raises(UnsupportedOperation, match="compact"):
            attempt()
    table.compact()
    assert rows(table) == [A]


def test_records_that_change_nothing_are_taken_in_all_the_same(lake: Lake) -> None:
    table = postponed(lake, ordering=None)
    table.insert(records(lake, B))
    delete(lake, table, (1, None, None, 1, "D"))
    table.compact()
    assert "postponed" not in table.iceberg.metadata.refs
    table.insert(records(lake, A))
    table.compact()
    assert rows(table) == [A, B]


@pytest.mark.feature("H6")
def test_postponed_records_are_completed_on_the_timeline(lake: Lake) -> None:
    table = postponed(lake)
    table.upsert(records(lake, A))
    table.compact()
    assert {row.state for row in table.timeline().collect()} == {"completed"}
