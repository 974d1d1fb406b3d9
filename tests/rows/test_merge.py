"""MERGE: which rows match, which clause applies, and a source that is read once."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright.errors import MultipleMatches
from tests.rows.expressions import Both, Col, Compare, Expression, Literal, Plus
from tests.rows.kit import GRAFTED, MERGE_ON_READ, STREAMED, Layout, Trial
from tests.rows.model import BY_SOURCE, MATCHED, NOT_MATCHED, Clause
from tests.rows.test_delete import ROWS, some
from tests.trips import content

pytestmark = pytest.mark.usefixtures("compiled")

EACH_WAY = some((GRAFTED, 3, False, False), (STREAMED, 2, True, False), (MERGE_ON_READ, 3, True, False), (MERGE_ON_READ, 2, False, False))
TWO_WAYS = some((GRAFTED, 2, True, False), (MERGE_ON_READ, 3, False, False))
SOURCE = [
    {"id": 1, "p": "eu", "n": 10, "x": 0.5, "t": "s1"},
    {"id": 2, "p": "ap", "n": 20, "x": float("nan"), "t": "s2"},
    {"id": None, "p": None, "n": 30, "x": None, "t": "s3"},
    {"id": 9, "p": "us", "n": 40, "x": 0.0, "t": "s4"},
]


def t(name: str) -> Expression:
    return Col((name,), "t")


def s(name: str) -> Expression:
    return Col((name,), "s")


def same(name: str, operator: str = "=") -> Compare:
    return Compare(Col((name,), "t"), operator, Col((name,), "s"))


def above(column: Expression, value: int) -> Expression:
    return Compare(column, ">", Literal(str(value), value))


DELETE_MATCHED = Clause(MATCHED, "delete")
UPDATE_ALL, INSERT_ALL = Clause(MATCHED, "update"), Clause(NOT_MATCHED, "insert")


@pytest.fixture
def filled(lake: Any, layout: Layout) -> Trial:
    trial = Trial(lake, layout)
    trial.append(ROWS)
    return trial


@pytest.mark.feature("I14", "I15", "I16", "I6")
@pytest.mark.parametrize("layout", EACH_WAY, ids=str)
def test_every_kind_of_clause_at_once(filled: Trial) -> None:
    """The first clause of its kind whose condition holds applies; a row that matches without one is neither changed nor inserted."""
    commit = filled.merge(
        [*SOURCE, {"id": 3, "p": "us", "n": 50, "x": 1.0, "t": "s5"}],
        same("id"),
        Clause(NOT_MATCHED, "insert", above(s("n"), 35), {("id",): s("id"), ("t",): Literal("'first'", "first")}),
        Clause(MATCHED, "delete", above(s("n"), 45)),
        Clause(BY_SOURCE, "update", above(t("n"), 3), {("n",): Literal("-4", -4), ("p",): Literal("'left'", "left")}),
        Clause(MATCHED, "update", above(s("n"), 15), {("n",): Plus(t("id"), s("n")), ("p",): s("p")}),
        Clause(NOT_MATCHED, "insert"),
        Clause(BY_SOURCE, "delete"),
    )
    assert commit is not None and (commit.deleted_rows, commit.added_rows) == (3, 4)


@pytest.mark.feature("I14")
@pytest.mark.parametrize("layout", EACH_WAY, ids=str)
def test_null_keys_never_match_and_nan_does(filled: Trial) -> None:
    filled.merge(SOURCE, same("x"), Clause(MATCHED, "update", None, {("n",): s("n")}), INSERT_ALL)
    assert filled.table.read("isnan(x)").select("n").collect() == [(20,)]


@pytest.mark.feature("I14")
@pytest.mark.parametrize("layout", TWO_WAYS, ids=str)
def test_null_keys_match_where_the_condition_says_so(filled: Trial) -> None:
    commit = filled.merge(SOURCE, same("id", "<=>"), UPDATE_ALL)
    assert commit is not None and commit.deleted_rows == 3


@pytest.mark.feature("I14")
@pytest.mark.parametrize("layout", TWO_WAYS, ids=str)
def test_several_source_rows_for_one_row(filled: Trial) -> None:
    """An error that shows the key, unless all they do is delete it; also where a condition would choose among them."""
    twice = [*SOURCE, {**SOURCE[1], "n": 21}]
    assert filled.merge(twice, same("id"), Clause(MATCHED, "update", above(s("n"), 20), {("n",): s("n")})) is None
    assert filled.merge(twice, Both(same("id"), above(s("n"), 20)), Clause(MATCHED, "update", None, {("n",): s("n")})) is not None
    assert filled.merge(twice, same("id"), INSERT_ALL) is not None
    commit = filled.merge(twice, same("id"), Clause(BY_SOURCE, "delete", above(t("n"), 3)), DELETE_MATCHED)
    assert commit is not None and commit.summary["lakewright.clause-2-rows"] == "3"


@pytest.mark.feature("I14")
@pytest.mark.parametrize("as_column", [False, True], ids=["text", "column"])
def test_the_error_of_several_matches_shows_the_key(lake: Any, as_column: bool) -> None:
    from pyspark.sql import functions as F

    trial = Trial(lake, Layout(GRAFTED, 2, False, False))
    trial.append(ROWS)
    source = trial.frame([SOURCE[1], SOURCE[1]])
    on = F.col("t.id") == F.col("s.id") if as_column else "T.ID = s.Id"
    with pytest.raises(MultipleMatches, match="id = 2"):
        trial.table.merge(source, on).when_matched_update_all().execute()


@pytest.mark.feature("I14")
@pytest.mark.parametrize("layout", TWO_WAYS, ids=str)
def test_nothing_on_either_side(lake: Any, layout: Layout) -> None:
    trial = Trial(lake, layout)
    by_source = Clause(BY_SOURCE, "update", above(t("n"), 2), {("t",): Literal("'gone'", "gone")})
    assert trial.merge([], same("id"), UPDATE_ALL, INSERT_ALL) is not None
    assert trial.merge(SOURCE, same("id"), UPDATE_ALL, by_source) is not None
    commit = trial.merge(SOURCE, same("id"), UPDATE_ALL, INSERT_ALL, by_source)
    assert commit is not None and commit.added_rows == 4
    commit = trial.merge([], same("id"), UPDATE_ALL, INSERT_ALL, by_source)
    assert commit is not None and commit.added_rows == 4
    commit = trial.merge([], same("id"), UPDATE_ALL, Clause(BY_SOURCE, "delete"))
    assert commit is not None and commit.deleted_rows == 4


@pytest.mark.feature("I14")
@pytest.mark.parametrize("layout", TWO_WAYS, ids=str)
def test_a_source_that_is_never_the_same_is_read_once(lake: Any, layout: Layout) -> None:
    """Each source row is either matched or inserted, with one and the same token."""
    spark, trial = lake.spark, Trial(lake, layout)
    trial.table.append(spark.range(60).selectExpr("id", "'eu' as p", "0 as n", "0D as x", "'old' as t"))
    source = spark.range(0, 60, 1, 3).selectExpr("if(rand() < 0.5, id, id + 1000) as id", "'eu' as p", "1 as n", "rand() as x", "uuid() as t")
    commit = trial.table.merge(source, "t.id = s.id").when_matched_update({"t": "s.t", "x": "s.x"}).when_not_matched_insert_all().execute()
    assert commit.added_rows == 60
    rows = trial.table.read("t <> 'old'").collect()
    assert len(rows) == len({row.t for row in rows}) == len({row.x for row in rows}) == len({row.id % 1000 for row in rows}) == 60
    assert commit.deleted_rows == sum(row.id < 1000 for row in rows) > 0


@pytest.mark.feature("I14")
@pytest.mark.parametrize("layout", TWO_WAYS, ids=str)
def test_the_table_itself_as_the_source(filled: Trial) -> None:
    table = filled.table
    commit = table.merge(table.read("id < 3"), "old.id = new.id + 1", target_alias="old", source_alias="new").when_matched_update(
        {"t": "concat(new.t, coalesce(old.t, '-'))"}
    ).execute()
    assert commit.added_rows == 2
    assert sorted((row.id, row.t) for row in table.read("id is not null").collect()) == [(1, "a"), (2, "ab"), (3, "b-")]


@pytest.mark.feature("I14", "I6")
@pytest.mark.parametrize("layout", TWO_WAYS, ids=str)
def test_new_columns_of_the_source(filled: Trial) -> None:
    source = filled.frame(SOURCE).selectExpr("ID", "P", "n", "x", "t", "n * 2 as twice")
    filled.table.merge(source, "t.id = s.id", merge_schema=True).when_matched_update_all().when_not_matched_insert_all().execute()
    assert sorted((row.t or "", row.twice) for row in filled.table.read().collect()) == [("", None), ("", None), ("s1", 20), ("s2", 40), ("s3", 60), ("s4", 80)]


@pytest.mark.feature("I14")
@pytest.mark.parametrize("layout", some((GRAFTED, 3, False, True)), ids=str)
def test_inserted_fields_of_structs(filled: Trial) -> None:
    filled.merge([{**row, "s": {"a": row["n"], "b": None}, "l": None} for row in SOURCE], same("id"), Clause(NOT_MATCHED, "insert", None, {("id",): s("id"), ("s", "a"): Col(("s", "a"), "s")}))
    assert filled.table.read("id = 9").select("s").collect() == [((40, None),)]


@pytest.mark.feature("I14")
@pytest.mark.parametrize("layout", some((GRAFTED, 2, False, False)), ids=str)
def test_a_column_named_as_the_other_alias(lake: Any, layout: Layout) -> None:
    """`s.n` is the source's n, as in SQL, though the table has a struct s."""
    spark = lake.spark
    table = lake.create_table("rows.alias_names", "id bigint, s struct<n: int>, t int")
    table.append(spark.createDataFrame([(1, (5,), 7), (2, None, 8)], "id bigint, s struct<n: int>, t int"))
    source = spark.createDataFrame([(1, 50), (2, 60)], "id bigint, n int")
    table.merge(source, "t.id = s.id").when_matched_update({"s.n": "s.n", "t": "t.t + 1"}).execute()
    assert content(table) == [(1, (50,), 8), (2, (60,), 9)]
