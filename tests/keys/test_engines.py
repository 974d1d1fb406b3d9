"""Merge engines: the row that comes of several records, in one batch or in many."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakewright.errors import ColumnNotFound, InvalidOption
from lakewright.lake import Lake
from lakewright.table import Table
from tests.keys.kit import keyed, records, rows

pytestmark = pytest.mark.usefixtures("compiled")

WIDE = "id bigint, at int, a int, b string, c boolean, tags array<string>"
AGGREGATES = {"lakewright.merge.a": "sum", "lakewright.merge.b": "max", "lakewright.merge.c": "bool_or", "lakewright.merge.tags": "collect"}


def table_with(lake: Lake, engine: str, schema: str = WIDE, **settings: str) -> Table:
    return keyed(lake, schema, properties={"lakewright.merge-engine": engine, **{key.replace("__", "."): value for key, value in settings.items()}})


def after(lake: Lake, table: Table, *given: tuple[Any, ...], at_once: bool) -> list[tuple[Any, ...]]:
    batches = [given] if at_once else [[record] for record in given]
    for batch in batches:
        table.upsert(records(lake, *batch, schema=WIDE))
    return rows(table)


AT_ONCE = pytest.mark.parametrize("at_once", [True, False], ids=["one batch", "one by one"])


@AT_ONCE
def test_first_row(lake: Lake, at_once: bool) -> None:
    found = after(lake, table_with(lake, "first-row"), (1, 5, 1, "x", None, None), (1, 6, 2, "y", None, None), (2, 5, 3, "z", None, None), at_once=at_once)
    assert found == [(1, 5, 1, "x", None, None), (2, 5, 3, "z", None, None)]


@AT_ONCE
def test_partial_update_keeps_what_a_null_would_overwrite(lake: Lake, at_once: bool) -> None:
    given = [(1, 5, 1, None, None, None), (1, 7, None, "y", True, None), (1, 6, 3, "late", None, ["t"])]
    assert after(lake, table_with(lake, "partial-update"), *given, at_once=at_once) == [(1, 7, 3 if at_once else 1, "y", True, ["t"])]


def test_partial_update_takes_records_with_few_columns(lake: Lake) -> None:
    table = table_with(lake, "partial-update")
    after(lake, table, (1, 5, 1, "x", True, None), at_once=True)
    table.upsert(lake.spark.createDataFrame([(1, 6, "new"), (2, 6, "other")], "id bigint, at int, b string"))
    assert rows(table) == [(1, 6, 1, "new", True, None), (2, 6, None, "other", None, None)]


@AT_ONCE
def test_column_groups_have_orderings_of_their_own(lake: Lake, at_once: bool) -> None:
    schema = "id bigint, g int, a int, h int, b int"
    table = keyed(lake, schema, ordering=(), properties={"lakewright.merge-engine": "partial-update", "lakewright.merge.group.g": "a", "lakewright.merge.group.h": "b"})
    given = [(1, 5, 50, 5, 500), (1, 6, 60, 4, 400), (1, None, 99, 7, 700)]
    for batch in [given] if at_once else [[record] for record in given]:
        table.upsert(records(lake, *batch, schema=schema))
    assert rows(table) == [(1, 6, 60, 7, 700)]


@AT_ONCE
def test_aggregates(lake: Lake, at_once: bool) -> None:
    table = keyed(lake, WIDE, properties={"lakewright.merge-engine": "aggregate", **AGGREGATES})
    given = [(1, 5, 1, "x", False, ["p"]), (1, 4, 10, "z", None, ["q"]), (1, 6, None, "y", True, None)]
    [(key, at, total, most, any_true, tags)] = after(lake, table, *given, at_once=at_once)
    assert (key, at, total, most, any_true, sorted(tags)) == (1, 6, 11, "z", True, ["p", "q"])


@AT_ONCE
def test_more_aggregates(lake: Lake, at_once: bool) -> None:
    schema = "id bigint, at int, n bigint, low int, first string, last string, every boolean"
    functions = {"n": "count", "low": "min", "first": "first", "last": "last", "every": "bool_and"}
    table = keyed(lake, schema, properties={"lakewright.merge-engine": "aggregate", **{f"lakewright.merge.{c}": f for c, f in functions.items()}})
    given = [(1, 1, None, 7, "a", "a", True), (1, 2, None, 3, "b", "b", None), (1, 3, None, 5, "c", None, False)]
    for batch in [given] if at_once else [[record] for record in given]:
        table.upsert(records(lake, *batch, schema=schema))
    assert rows(table) == [(1, 3, 3, 3, "a", "b", False)]


@pytest.mark.feature("H16")
@AT_ONCE
def test_expressions(lake: Lake, at_once: bool) -> None:
    settings = {"lakewright__merge__a": "old.a * 10 + new.a", "lakewright__merge__b": "concat(old.b, '-', new.b)"}
    found = after(lake, table_with(lake, "expression", **settings), (1, 1, 1, "x", None, None), (1, 2, 2, "y", True, None), (1, 3, 3, "z", None, None), at_once=at_once)
    assert found == [(1, 3, 123, "x-y-z", None, None)]


def longest(old: pa.RecordBatch, new: pa.RecordBatch) -> dict[str, pa.Array]:
    """The record's columns, with the longer text and the sum."""
    longer = pc.greater(pc.utf8_length(new.column("b")), pc.utf8_length(old.column("b")))
    merged = {name: new.column(name) for name in new.schema.names}
    return {**merged, "b": pc.if_else(longer, new.column("b"), old.column("b")), "a": pc.add(old.column("a"), new.column("a"))}


@pytest.mark.feature("H16")
@AT_ONCE
def test_a_function_of_the_users_own(lake: Lake, at_once: bool) -> None:
    given = [(1, 1, 1, "long", None, None), (2, 1, 7, "s", None, None), (1, 2, 2, "y", True, None), (1, 3, 3, "longer", None, None)]
    found = after(lake, table_with(lake, f"python:{__name__}:longest"), *given, at_once=at_once)
    assert found == [(1, 3, 6, "longer", None, None), (2, 1, 7, "s", None, None)]


@pytest.mark.feature("H16")
def test_a_function_for_one_upsert(lake: Lake) -> None:
    table = table_with(lake, "latest")
    after(lake, table, (1, 1, 1, "long", None, None), at_once=True)
    table.upsert(records(lake, (1, 2, 2, "y", None, None), schema=WIDE), merge=longest)
    assert rows(table) == [(1, 2, 3, "long", None, None)]


def test_a_deletion_in_the_batch_leaves_nothing_of_the_row(lake: Lake) -> None:
    table = keyed(lake, WIDE, properties={"lakewright.merge-engine": "aggregate", **AGGREGATES})
    after(lake, table, (1, 1, 100, "x", None, None), (2, 1, 100, "x", None, None), (3, 1, 100, "x", None, None), at_once=True)
    batch = [(1, 2, 1, "a", None, None, "U"), (1, 3, None, None, None, None, "D"), (1, 4, 5, "b", None, None, "U"), (1, 5, 6, "c", None, None, "U"), (2, 2, None, None, None, None, "D"), (3, 2, 1, "a", None, None, "U")]
    table.upsert(records(lake, *batch, schema=WIDE + ", op string"), delete_when="op = 'D'")
    assert rows(table) == [(1, 5, 11, "c", None, None), (3, 2, 101, "x", None, None)]


def test_the_first_row_after_a_deletion_is_a_new_first(lake: Lake) -> None:
    table = table_with(lake, "first-row")
    after(lake, table, (1, 1, 1, "x", None, None), (2, 1, 1, "x", None, None), at_once=True)
    batch = [(1, 3, None, None, None, None, "D"), (1, 4, 7, "y", None, None, "U"), (1, 5, 8, "z", None, None, "U"), (2, 4, 9, "z", None, None, "U")]
    table.upsert(records(lake, *batch, schema=WIDE + ", op string"), delete_when="op = 'D'")
    assert rows(table) == [(1, 4, 7, "y", None, None), (2, 1, 1, "x", None, None)]


@pytest.mark.parametrize(
    ("properties", "error", "told"),
    [
        ({"lakewright.merge-engine": "newest"}, InvalidOption, "'newest'; it takes one of latest"),
        ({"lakewright.merge-engine": "python:no.such:thing"}, InvalidOption, "cannot be imported"),
        ({"lakewright.merge-engine": "aggregate", "lakewright.merge.a": "average"}, InvalidOption, "'average'; .* takes one of sum"),
        ({"lakewright.merge-engine": "aggregate", "lakewright.merge.a": "collect"}, InvalidOption, "gathers values in a list"),
        ({"lakewright.merge-engine": "aggregate", "lakewright.merge.nope": "sum"}, ColumnNotFound, "'nope'"),
        ({"lakewright.merge-engine": "expression", "lakewright.merge.a": "a + 1"}, ColumnNotFound, "old.<column>"),
        ({"lakewright.merge-engine": "expression", "lakewright.merge.a": "old.a +"}, InvalidOption, "cannot be read"),
        ({"lakewright.merge-engine": "expression", "lakewright.merge.a": "(SELECT max(old.a))"}, InvalidOption, "one row"),
        ({"lakewright.merge.a": "sum"}, InvalidOption, "its engine is latest"),
        ({"lakewright.merge-engine": "partial-update", "lakewright.merge.group.at": "a", "lakewright.merge.group.b": "a"}, InvalidOption, "one group"),
    ],
)
def test_settings_that_cannot_be(lake: Lake, properties: dict[str, str], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        keyed(lake, WIDE, properties=properties)
