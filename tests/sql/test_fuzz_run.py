"""Whatever statement is run: it ends in rows or in an error of a type that is known, and one that failed has changed nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException

import lakewright as lw
from lakewright.errors import LakewrightError, SqlError
from lakewright.sql.parser import parse
from tests.sql.generated import mutated, statements
from tests.trips import D1, D2, SCHEMA, content, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
TABLES = ["nyc.trips", "nyc.zones"]
STATEMENTS = statements(TABLES, ["id", "region", "day"])
ARGS = st.sampled_from([{"a": 1}, {"a": "it's; --"}, {"a": None}, [1], ["x", "y"], None])
Args = Mapping[str, Any] | Sequence[Any] | None


@pytest.fixture(scope="module")
def lake(compiled: None, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    before = spark.conf.get(SHUFFLE_PARTITIONS)
    spark.conf.set(SHUFFLE_PARTITIONS, "2")
    yield lw.connect(str(tmp_path_factory.mktemp("fuzz") / "lake"), spark=spark, progress="off")
    spark.conf.set(SHUFFLE_PARTITIONS, str(before))
    for view in spark.catalog.listTables():
        if view.isTemporary:
            spark.catalog.dropTempView(view.name)


@given(sql=STATEMENTS, args=ARGS)
def test_statements_of_the_grammar(lake: Any, sql: str, args: Args) -> None:
    check(lake, sql, args)


@given(sql=mutated(STATEMENTS), args=ARGS)
def test_statements_gone_wrong(lake: Any, sql: str, args: Args) -> None:
    check(lake, sql, args)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + "(" * 20_000 + "1" + ")" * 20_000,
        "SELECT id FROM nyc.trips WHERE " + "(" * 190 + "id = 7" + ")" * 190,
        "SELECT " + "- " * 2_000 + "1",
        "DELETE FROM nyc.trips WHERE " + "(" * 190 + "id = 7" + ")" * 190,
        "DELETE FROM nyc.trips WHERE " + "NOT " * 500 + "id = 7",
        "DELETE FROM nyc.trips WHERE " + " OR ".join(f"id = {n}" for n in range(10, 2_000)),
        "MERGE INTO nyc.trips t USING nyc.zones s ON " + "(" * 190 + "t.id = s.id" + ")" * 190 + " WHEN MATCHED AND false THEN DELETE",
        "CREATE TABLE nyc.deep (a " + "array<" * 20_000 + "int" + ">" * 20_000 + ")",
        "SELECT '" + "x" * 100_000 + "' FROM nyc.trips",
    ],
    ids=lambda sql: f"{sql[:32]}… of {len(sql)}",
)
def test_long_and_deep_statements(lake: Any, sql: str) -> None:
    check(lake, sql, None)


def check(lake: Any, sql: str, args: Args) -> None:
    if not is_fit(lake):
        make_tables(lake)
    before = state(lake)
    try:
        lake.sql(sql, args).collect()
    except (LakewrightError, PySparkException):
        if how_many(sql) == 1:
            assert state(lake) == before
            assert all(content(lake.table(name)) for name in TABLES)


def is_fit(lake: Any) -> bool:
    """Whether statements can still be about the tables: none was dropped, renamed, altered or emptied."""
    names = lake.tables()
    if not set(TABLES) <= set(names) or len(names) > 9:
        return False
    metadata = [lake.table(name)._state.metadata for name in TABLES]
    return all(m.schema.column_names == ["id", "region", "day"] and len(m.refs) == 3 and 0 < int(m.head().summary["total-records"]) < 100 for m in metadata)


def make_tables(lake: Any) -> None:
    lake.views.clear()
    for name in lake.tables():
        lake.drop_table(name)
    for name in TABLES:
        table = lake.create_table(name, SCHEMA, partition_by=["region"] if name == "nyc.trips" else ())
        table.append(rows(lake.spark, (1, "eu", D1), (2, "us", D2)).coalesce(1))
        table.create_branch("b")
        table.create_tag("v")


def state(lake: Any) -> Any:
    """Every change of a table has a metadata file of its own."""
    return lake.namespaces(), sorted(lake.views), {name: lake.table(name).iceberg.metadata_location for name in lake.tables()}


def how_many(sql: str) -> int:
    try:
        return len(parse(sql))
    except SqlError:
        return 1
