"""Incremental queries through `format("lakewright")`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StructType

from lakewright.errors import ColumnNotFound, InvalidOption, LakewrightError, RangeNotFound
from lakewright.source import DefaultSource
from tests.read.changes_kit import bag, by_source, rolled_back

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakewright.commit.result import Commit
    from lakewright.lake import Lake
    from lakewright.table import Table

SCHEMA = "id bigint not null, region string, fare double, tags map<string, int>"


def rows(spark: SparkSession, *values: tuple[int, str, float]) -> DataFrame:
    return spark.createDataFrame([(*value, {"a": 1, "b": 2}) for value in values], SCHEMA.replace(" not null", "")).coalesce(1)


@pytest.fixture
def trips(spark: SparkSession, lake: Lake) -> tuple[Table, list[Commit]]:
    table = lake.create_table("nyc.trips", SCHEMA, key=["id"], partition_by=["region"], format_version=3)
    commits = [table.append(rows(spark, (1, "eu", 1.0), (2, "us", 2.0)), check_nullability=False)]
    commits += [table.update({"fare": "5"}, "id = 1"), table.append(rows(spark, (3, "us", 3.0)), check_nullability=False)]
    return table, commits


def loaded(spark: SparkSession, lake: Lake, **options: Any) -> DataFrame:
    given = {"query-type": "incremental", **{k.replace("_", "-"): v for k, v in options.items()}}
    return spark.read.format("lakewright").option("lake", lake.location).options(**given).load("nyc.trips")


def plain(found: DataFrame) -> list[str]:
    return sorted(map(repr, found.collect()))


@pytest.mark.feature("H7", "H19")
def test_rows_are_those_of_the_table(spark: SparkSession, lake: Lake, trips: tuple[Table, list[Commit]]) -> None:
    table, commits = trips
    begin = commits[0].snapshot_id
    for options, how in (({"begin": begin}, {"since": commits[0]}), ({"begin": begin, "end": commits[1].snapshot_id, "log": "TRUE"}, {"since": commits[0], "until": commits[1], "log": True})):
        found, expected = loaded(spark, lake, **options), table.changes(**how)
        assert found.dtypes == expected.dtypes and plain(found) == plain(expected) and found.count() == 2
    empty = loaded(spark, lake, begin=commits[2].snapshot_id, log="true")
    assert empty.columns[-3:] == ["_change_type", "_change_ordinal", "_commit_snapshot_id"] and empty.collect() == []
    assert [row.id for row in loaded(spark, lake, begin=begin, path_glob="*region=us*").collect()] == [3]


def test_columns_may_be_chosen(spark: SparkSession, lake: Lake, trips: tuple[Table, list[Commit]]) -> None:
    reader = spark.read.format("lakewright").option("lake", lake.location).option("query-type", "incremental").option("log", "true")
    assert sorted(map(tuple, reader.schema("_change_type string, id bigint").load("nyc.trips").where("id = 1").collect())) == [("insert", 1), ("update_after", 1), ("update_before", 1)]


def test_ways_back_and_tables_without_lineage(spark: SparkSession, lake: Lake) -> None:
    for name, how in (("keyed", {"key": ["id"], "format_version": 2}), ("plain", {"format_version": 2}), ("ids", {"format_version": 3})):
        table = lake.create_table(f"nyc.{name}", SCHEMA, **how)
        first = table.append(rows(spark, (1, "eu", float("nan")), (2, "us", 2.0), (3, "us", 3.0)), check_nullability=False)
        second = table.update({"fare": "5"}, "id = 2")
        third = table.delete("id = 1")
        for since, until in ((first, None), (None, second), (first, third)):
            for log in (False, True):
                ends = [None if end is None else end.snapshot_id for end in (since, until)]
                expected = sorted(repr({**row.asDict(), "tags": None}) for row in table.changes(*ends, log=log).collect())
                names = table.changes(*ends, log=log).columns
                found = [dict(zip(names, row, strict=True)) for row in by_source(table, *ends, log=log)]
                assert sorted(repr({**row, "tags": None}) for row in found) == expected, (name, ends, log)
        rolled_back(table, first.snapshot_id or 0)
        kinds = {row[4:6] for row in by_source(table, third.snapshot_id, None, log=True)}
        assert kinds == {("insert", 0), *([("delete", 1), ("insert", 1)] if name == "plain" else [("update_after", 1), ("update_before", 1)])}


def schema_of(lake: Lake, **options: str) -> Any:
    return DefaultSource({"lake": lake.location, "path": "nyc.trips", **{k.replace("_", "-"): v for k, v in options.items()}}).schema()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"query_type": "incremental", "begin": "5000000000000000"}, RangeNotFound, r"nyc\.trips .* since is snapshot 5000000000000000.*earliest usable commit"),
        ({"query_type": "incremental", "begin": "2001-01-01"}, RangeNotFound, "earliest usable commit is snapshot"),
        ({"query_type": "incremental", "begin": "soon"}, InvalidOption, "since is 'soon'"),
        ({"query_type": "incremental", "log": "maybe"}, InvalidOption, "true or false"),
        ({"query_type": "incremental", "snapshot_id": "5"}, InvalidOption, "between begin and end"),
        ({"query_type": "streaming"}, InvalidOption, "snapshot or incremental"),
        ({"begin": "5"}, InvalidOption, "begin goes with"),
    ],
)
def test_what_is_wrong_is_named(lake: Lake, spark: SparkSession, options: dict[str, str], error: type[LakewrightError], message: str) -> None:
    table = lake.create_table("nyc.trips", SCHEMA)
    table.append(rows(spark, (1, "eu", 1.0)), check_nullability=False)
    with pytest.raises(error, match=message):
        schema_of(lake, **options)


def test_errors_reach_the_session(spark: SparkSession, lake: Lake, trips: tuple[Table, list[Commit]]) -> None:
    with pytest.raises(PySparkException, match="earliest usable commit"):
        loaded(spark, lake, begin=5000000000000000)
    options = {"lake": lake.location, "path": "nyc.trips", "query-type": "incremental"}
    with pytest.raises(ColumnNotFound, match="gone"):
        DefaultSource(options).reader(StructType().add("gone", LongType()))
    assert bag(by_source(trips[0], trips[1][2].snapshot_id, None)) == bag([])
