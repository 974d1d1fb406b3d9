"""`changes(…)` in the FROM of a query."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import lakewright as lw
from lakewright.errors import InvalidOption, LakewrightError, RangeNotFound, SqlError, TableNotFound, UnsupportedStatement
from lakewright.session import settings
from tests.read.changes_kit import SMALL, left_to_spark
from tests.trips import D1, SCHEMA, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakewright.commit.result import Commit

CALL = "SELECT id, _change_type FROM changes('nyc.trips', since => {since}, log => true) ORDER BY id, _change_type"


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with settings(spark, SMALL):
        yield lw.connect(str(tmp_path_factory.mktemp("sql") / "lake"), spark=spark, progress="off")


@pytest.fixture(scope="module")
def commits(lake: Any, spark: SparkSession) -> list[Commit]:
    table = lake.create_table("nyc.trips", SCHEMA, format_version=3, partition_by=["region"])
    made = [table.append(rows(spark, (1, "eu", D1), (2, "us", D1)).coalesce(1))]
    made += [table.update({"region": "'eu'"}, "id = 2"), table.append(rows(spark, (3, "us", D1), (4, "eu", D1)).coalesce(1))]
    table.create_branch("audit", at=made[1])
    return made


def answer(lake: Any, query: str, args: Any = None, **frames: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in lake.sql(query, args, **frames).collect()]


@pytest.mark.feature("H7")
def test_changes_are_a_table_in_a_query(lake: Any, commits: list[Commit]) -> None:
    logged = [(2, "update_after"), (2, "update_before"), (3, "insert"), (4, "insert")]
    assert answer(lake, CALL.format(since=commits[0].snapshot_id)) == logged
    assert answer(lake, CALL.format(since=":since"), {"since": commits[0].snapshot_id}) == logged
    assert answer(lake, CALL.format(since="?"), [commits[0].snapshot_id]) == logged
    a, b = commits[0].snapshot_id, commits[1].snapshot_id
    assert answer(lake, f"SELECT id FROM changes('nyc.trips', {a}, {b})") == [(2,)]
    assert answer(lake, f"SELECT c.id FROM changes('`nyc`.trips', {b}, until => null, where => 'id > 3', path_glob => '*') AS c") == [(4,)]
    assert answer(lake, f"SELECT changes.id FROM Changes ( 'nyc.trips.branch_audit', {a} )") == [(2,)]
    assert answer(lake, f"SELECT id FROM changes('nyc.trips', since => {a}, ref => 'audit')") == [(2,)]
    assert answer(lake, "SELECT count(*) FROM changes('nyc.trips')") == [(4,)]


def test_times_and_joins(lake: Any, commits: list[Commit]) -> None:
    at = answer(lake, f"SELECT committed_at FROM nyc.trips.history WHERE snapshot_id = {commits[1].snapshot_id}")[0][0]
    assert answer(lake, "SELECT count(*) FROM changes('nyc.trips', since => :at)", {"at": at}) == [(2,)]
    joined = "SELECT t.id, f.n FROM nyc.trips t JOIN changes('nyc.trips', :b) c ON c.id = t.id JOIN f ON f.n = t.id WHERE t.region = 'eu'"
    assert answer(lake, joined, {"b": commits[1].snapshot_id}, f=lake.spark.sql("select 4L as n")) == [(4, 4)]
    both = "WITH changes AS (SELECT 1 AS one) SELECT (SELECT count(*) FROM changes), (SELECT count(*) FROM changes('nyc.trips', :b))"
    assert answer(lake, both, {"b": commits[1].snapshot_id}) == [(1, 2)]


def test_a_condition_chooses_files(lake: Any, commits: list[Commit]) -> None:
    with left_to_spark():
        found = lake.sql("SELECT id FROM changes('nyc.trips', :b) WHERE region = 'us'", {"b": commits[1].snapshot_id})
    assert len(found.inputFiles()) == 1 and [row.id for row in found.collect()] == [3]


def test_changes_are_a_source_of_writes(lake: Any, commits: list[Commit]) -> None:
    lake.sql(f"CREATE TABLE nyc.copied AS SELECT * FROM changes('nyc.trips', since => {commits[1].snapshot_id})")
    lake.sql(f"INSERT INTO nyc.copied SELECT * FROM changes('nyc.trips', {commits[0].snapshot_id}, {commits[1].snapshot_id})")
    assert sorted(answer(lake, "SELECT id FROM nyc.copied")) == [(2,), (3,), (4,)]


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("SELECT * FROM changes('nyc.trips', since => «5)", RangeNotFound, "earliest usable commit"),
        ("SELECT * FROM changes('nyc.trips', since => «'soon')", InvalidOption, "soon"),
        ("SELECT * FROM changes(«'nyc.tripz')", TableNotFound, r"Did you mean nyc\.trips"),
        ("SELECT * FROM changes(«'nyc trips')", SqlError, "no name of a table"),
        ("SELECT * FROM changes(«'nyc.trips.files')", UnsupportedStatement, "name the table itself"),
        ("SELECT * FROM changes('nyc.trips', «after => 5)", SqlError, "and no after"),
        ("SELECT * FROM changes('nyc.trips', 5, «since => 6)", SqlError, "since is given twice"),
        ("SELECT * FROM changes('nyc.trips', since => 5, «6)", SqlError, "by their places"),
        ("SELECT * FROM changes('nyc.trips', log => «'yes')", SqlError, "true or false"),
        ("SELECT * FROM changes('nyc.trips', since =>«)", SqlError, "Syntax error"),
        ("SELECT * FROM «changes()", SqlError, "name of a table first"),
    ],
)
def test_what_is_wrong_has_its_place(lake: Any, commits: list[Commit], query: str, error: type[LakewrightError], message: str) -> None:
    at = query.index("«") + 1
    with pytest.raises(error, match=message) as found:
        lake.sql(query.replace("«", ""))
    assert (found.value.line, found.value.position) == (1, at)
