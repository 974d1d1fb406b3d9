"""Small batches that the driver looks up and writes itself: the same rows as by Spark's tasks, whatever the key is of, and Spark's tasks where they do better."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import cycle
from typing import Any

import pytest

from lakewright.commit.result import Commit
from lakewright.errors import DuplicateKey, NullInRequiredColumn, NullKey
from lakewright.keys.at_hand import merge
from lakewright.keys.at_hand import records as records_at_hand
from lakewright.lake import Lake
from lakewright.rows import execute
from lakewright.rows import merge as by_spark
from lakewright.table import Table
from lakewright.write import delta_here
from tests.keys.kit import keyed, records, rows

MODES = pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
IN_TASKS = {"driver_batch_size_bytes": 0}
COUNTED = tuple(f"lakewright.{what}" for what in ("records", "rows-deleted", "rows-updated", "rows-inserted", "clause"))
KEYS: dict[str, tuple[str, list[Any]]] = {
    "int": ("int", [-5, 0, 7, 2**31 - 1, 11, -(2**31)]),
    "bigint": ("bigint", [-5, 0, 2**62, 2**63 - 1, -(2**63), 11]),
    "text": ("string", ["", "a", "ä", "z" * 40, "z" * 41, "\U0001f600"]),
    "date": ("date", [date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31), date(1, 1, 1), date(2000, 1, 1)]),
    "time": ("timestamp", [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(2024, 1, 1, tzinfo=UTC), *(datetime(2024, 1, 1, 0, 0, n, n, UTC) for n in range(1, 5))]),
    "local time": ("timestamp_ntz", [datetime(1969, 12, 31), *(datetime(2024, 1, 1, 0, 0, n, n) for n in range(5))]),
    "decimal": ("decimal(30,2)", [Decimal(n) / 100 for n in (-1, 0, 1, 10**27, -(10**27), 5)]),
    "bytes": ("binary", [b"", b"\x00", b"\xff\x00", b"abc", b"abd", b"\x00\x00"]),
}


def told(commit: Commit) -> dict[str, str]:
    return {name: value for name, value in commit.summary.items() if name.startswith(COUNTED)}


def twins(lake: Lake, schema: str, **how: Any) -> tuple[Table, Table]:
    return keyed(lake, schema, **how), keyed(lake, schema, **how)


def both(tables: tuple[Table, Table], operation: str, lake: Lake, batch: list[tuple[Any, ...]], schema: str, **how: Any) -> None:
    """The same to both, to one of them at hand, to the other in tasks: they must be alike in rows and in what the commit counts."""
    here, there = (getattr(table, operation)(records(lake, *batch, schema=schema), **how, **where) for table, where in zip(tables, ({}, IN_TASKS), strict=True))
    assert told(here) == told(there)
    alike = [rows(table) for table in tables]
    assert alike[0] == alike[1]


@pytest.fixture
def at_hand(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was planned at hand, and what by Spark."""
    planned: list[str] = []
    for module, name, what in ((by_spark, "_joined_by_spark", "joined by Spark"), (execute, "materialise_here", "at hand"), (delta_here, "materialise", "written by tasks")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, real=real, what=what: planned.append(what) or real(*given))
    return planned


def history(lake: Lake, mode: str, kind: str, **where: Any) -> list[Any]:
    """What each of some operations counts and leaves, keys named by letters, so that those of all types can be compared."""
    sql, keys = KEYS[kind]
    schema, letters = f"id {sql}, v int, at int, gone boolean", "abcdef"
    of, name = dict(zip(letters, keys, strict=True)), dict(zip(keys, letters, strict=True))
    table = keyed(lake, f"id {sql}, v int, at int", properties={"write.merge.mode": mode})
    steps: list[tuple[str, str, list[tuple[Any, ...]], dict[str, Any]]] = [
        ("upsert", schema, [("a", 1, 5, False), ("b", 1, 5, False), ("c", 1, None, False), ("d", 1, 5, False)], {"delete_when": "gone"}),
        ("upsert", schema, [("a", 2, 4, False), ("b", 2, 5, False), ("c", 2, 0, False), ("e", 2, 1, False), ("e", 3, 1, False), ("f", 2, 1, True), ("d", 9, 4, True)], {"delete_when": "gone"}),
        ("upsert", schema, [("a", 3, None, False), ("c", 3, None, False), ("d", 0, 5, True), ("f", 1, 1, False)], {"delete_when": "gone"}),
        ("delete_keys", f"id {sql}", [("e",), ("d",)], {}),
        ("insert", f"id {sql}, v int, at int", [("e", 7, 7), ("a", 7, 7)], {"drop_duplicates": True}),
    ]
    seen: list[Any] = []
    for operation, columns, batch, how in steps:
        commit = getattr(table, operation)(records(lake, *((of[letter], *rest) for letter, *rest in batch), schema=columns), **how, **where)
        seen.append((told(commit), {name[key.astimezone(UTC) if kind == "time" else key]: rest for key, *rest in rows(table)}))
    return seen


@pytest.fixture(scope="module")
def in_tasks(lake: Lake) -> dict[str, list[Any]]:
    return {mode: history(lake, mode, "bigint", **IN_TASKS) for mode in ("copy-on-write", "merge-on-read")}


@pytest.mark.feature("H2", "H4")
@pytest.mark.parametrize(("mode", "kind"), [*zip(cycle(["copy-on-write", "merge-on-read"]), KEYS), ("copy-on-write", "bigint")])
def test_keys_of_every_type_are_found_as_spark_finds_numbers(lake: Lake, in_tasks: dict[str, list[Any]], mode: str, kind: str) -> None:
    assert history(lake, mode, kind) == in_tasks[mode]


@pytest.mark.feature("H2")
@MODES
@pytest.mark.parametrize("partition_by", [["region"], ["bucket(4, id)"], ["day(seen)", "truncate(1, region)"]], ids=str)
def test_keys_of_several_columns_and_orders_of_several(lake: Lake, mode: str, partition_by: list[str]) -> None:
    schema = "id bigint, name string, region string, seen timestamp, x int, y string"
    tables = twins(lake, schema, key=["id", "name"], ordering=["x", "y"], partition_by=partition_by, properties={"write.merge.mode": mode})

    def row(n: int, region: str, x: int | None, y: str | None) -> tuple[Any, ...]:
        return (n, "ab"[n % 2], region, datetime(2024, 1, 1 + n % 3, tzinfo=UTC), x, y)

    both(tables, "upsert", lake, [row(n, "eu", 1, "m") for n in range(8)], schema)
    changes = [row(0, "us", 1, "a"), row(1, "us", 1, "z"), row(2, "us", None, "z"), row(3, "eu", 2, None), row(4, "eu", 1, None), row(5, "eu", 1, "m"), (6, "b", "eu", None, 1, "m"), row(9, "us", 1, "m")]
    both(tables, "upsert", lake, changes, schema)
    assert len(rows(tables[0])) == 10


@MODES
@pytest.mark.parametrize("version", [2, 3])
def test_rows_are_found_where_files_differ_from_the_table(lake: Lake, mode: str, version: int) -> None:
    """Keys of a narrower type and under an older name, deleted rows, and an ordering column that the first files do not have."""
    tables = twins(lake, "old int, v int", key=["old"], ordering=[], format_version=version, properties={"write.merge.mode": mode, "write.delete.mode": "merge-on-read"})
    both(tables, "upsert", lake, [(n, 1) for n in range(8)], "old int, v int")
    for table in tables:
        table.delete("old in (2, 5)")
        table.evolve_schema(promote={"old": "bigint"})
        table.evolve_schema(add={"at": "int"})
        table.set_properties({"lakewright.ordering": "at"})
    both(tables, "upsert", lake, [(1, 2, 1), (2, 2, 1), (3, 2, None), (2**40, 2, 1)], "old bigint, v int, at int")
    both(tables, "upsert", lake, [(1, 3, 0), (3, 3, 0), (2**40, 3, None)], "old bigint, v int, at int")
    both(tables, "delete_keys", lake, [(5,), (6,), (1,)], "old bigint")


@pytest.mark.feature("H2")
@MODES
def test_rows_keep_their_ids(lake: Lake, mode: str) -> None:
    table = keyed(lake, partition_by=["region"], properties={"write.merge.mode": mode})
    known: dict[int, int] = {}
    for n, region in enumerate(("eu", "us", "eu", "us")):
        table.upsert(records(lake, *((i, region, float(n), n) for i in range(n, n + 4))))
        found = {row["id"]: row["_row_id"] for row in table.read(metadata=True).collect()}
        assert {i: found[i] for i in known} == known and len(set(found.values())) == n + 4
        known = found


@MODES
def test_no_task_is_needed(lake: Lake, at_hand: list[str], mode: str) -> None:
    table = keyed(lake, properties={"write.merge.mode": mode})
    table.upsert(records(lake, (1, "eu", 1.0, 1), (2, "us", 2.0, 1)))
    table.upsert(lake.spark.sql("select 2L as id, 'eu' as region, 3.0D as fare, 2 as at"))
    assert rows(table) == [(1, "eu", 1.0, 1), (2, "eu", 3.0, 2)] and at_hand == ["at hand"]


@MODES
@pytest.mark.parametrize(
    ("module", "name", "then"),
    [(merge, "MOST_KEY_BYTES", ["joined by Spark"]), (records_at_hand, "MOST_GROWTH", ["joined by Spark"]), (delta_here, "MOST_REWRITTEN", ["at hand", "written by tasks"])],
    ids=["many keys to read", "more bytes than estimated", "large files to rewrite"],
)
def test_what_is_much_is_left_to_tasks(lake: Lake, monkeypatch: pytest.MonkeyPatch, at_hand: list[str], mode: str, module: Any, name: str, then: list[str]) -> None:
    table = keyed(lake, key=["id", "region"], properties={"write.merge.mode": mode})
    table.upsert(records(lake, (1, "eu", 1.0, 1), (2, "us", 2.0, 1)))
    monkeypatch.setattr(module, name, 0)
    table.upsert(records(lake, (2, "us", 3.0, 2), (2, "us", 4.0, 3), (3, "eu", 3.0, 1)))
    assert rows(table) == [(1, "eu", 1.0, 1), (2, "us", 4.0, 3), (3, "eu", 3.0, 1)]
    assert at_hand == (["at hand"] if name == "MOST_REWRITTEN" and mode == "merge-on-read" else then)


def test_a_batch_that_is_larger_than_it_seemed_is_left_to_tasks(lake: Lake, monkeypatch: pytest.MonkeyPatch, at_hand: list[str]) -> None:
    table = keyed(lake)
    table.upsert(records(lake, (1, "eu", 1.0, 1)))
    batch = records(lake, (1, "eu", 2.0, 2), (2, "us", 2.0, 1))

    def refused(*_: Any) -> Any:
        raise RuntimeError("Total size of serialized results of 3 tasks is bigger than spark.driver.maxResultSize")

    with monkeypatch.context() as patched:
        patched.setattr(type(batch), "toArrow", refused)
        table.upsert(batch)
    assert rows(table) == [(1, "eu", 2.0, 2), (2, "us", 2.0, 1)] and at_hand == ["joined by Spark"]


@MODES
def test_a_default_of_the_ordering_column_counts_for_rows_before_it(lake: Lake, mode: str) -> None:
    tables = twins(lake, "id bigint, v int", ordering=[], properties={"write.merge.mode": mode})
    both(tables, "upsert", lake, [(n, 1) for n in range(4)], "id bigint, v int")
    for table in tables:
        table.evolve_schema(add={"ver": "int"}, defaults={"ver": 5})
        table.set_properties({"lakewright.ordering": "ver"})
    both(tables, "upsert", lake, [(1, 2, 3), (2, 2, 5), (3, 2, None)], "id bigint, v int, ver int")
    assert [row[:2] for row in rows(tables[0])] == [(0, 1), (1, 1), (2, 2), (3, 1)]


def test_times_without_a_zone_stay_what_they_are_on_their_way_to_tasks(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    noon = datetime(2024, 7, 1, 12)
    table = keyed(lake, "id bigint, t timestamp_ntz, at int", properties={"write.merge.mode": "copy-on-write"})
    table.upsert(records(lake, (1, noon, 1), schema="id bigint, t timestamp_ntz, at int"))
    monkeypatch.setattr(delta_here, "MOST_REWRITTEN", 0)
    before = lake.spark.conf.get("spark.sql.session.timeZone")
    lake.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        table.upsert(records(lake, (1, noon, 2), (2, datetime(2024, 3, 10, 2, 30), 2), schema="id bigint, t timestamp_ntz, at int"))
        assert rows(table) == [(1, noon, 2), (2, datetime(2024, 3, 10, 2, 30), 2)]
    finally:
        lake.spark.conf.set("spark.sql.session.timeZone", before)


@MODES
@pytest.mark.parametrize("inner", ["", " not null"])
def test_structs_that_are_null_of_fields_that_cannot_be(lake: Lake, mode: str, inner: str) -> None:
    """PySpark hands over a struct of required fields to Arrow only where it is there."""
    tables = twins(lake, f"id bigint, who struct<name: string{inner}, ages: array<int>{inner}>, at int", properties={"write.merge.mode": mode})
    for first in (0, 2):
        batch = lake.spark.sql(f"SELECT id, IF(id % 2 = 1, NULL, named_struct('name', 'x', 'ages', array(cast(id AS int)))) AS who, {first} AS at FROM range({first}, {first + 4})")
        assert not batch.schema["who"].dataType["name"].nullable
        for table, where in zip(tables, ({}, IN_TASKS), strict=True):
            table.upsert(batch, **where)
    assert rows(tables[0]) == rows(tables[1]) == [(n, None if n % 2 else ("x", [n]), 2 * (n > 1)) for n in range(6)]


@pytest.mark.parametrize("where", [{}, IN_TASKS], ids=["at hand", "in tasks"])
def test_bad_records_are_told_alike(lake: Lake, where: dict[str, int]) -> None:
    table = keyed(lake, "id bigint, v int not null, at int")
    table.upsert(records(lake, (1, 1, 1), schema="id bigint, v int, at int"))
    for error, batch, operation, how in (
        (NullKey, [(None, 1, 1)], "upsert", {}),
        (NullInRequiredColumn, [(2, None, 1)], "upsert", {}),
        (NullInRequiredColumn, [(1, None, 2)], "upsert", {}),
        (DuplicateKey, [(1, 5, 5)], "insert", {}),
        (DuplicateKey, [(2, 5, 5), (2, 6, 6)], "upsert", {"combine_before": False}),
    ):
        with pytest.raises(error) as caught:
            getattr(table, operation)(records(lake, *batch, schema="id bigint, v int, at int"), **how, **where)
        assert caught.value.table == table.name
    assert rows(table) == [(1, 1, 1)] and len(table.history().collect()) == 1


def test_a_batch_without_records_changes_nothing(lake: Lake) -> None:
    table = keyed(lake)
    table.upsert(records(lake, (1, "eu", 1.0, 1)))
    assert table.upsert(records(lake, schema="id bigint, region string, fare double, at int")).nothing_written
    assert rows(table) == [(1, "eu", 1.0, 1)]
