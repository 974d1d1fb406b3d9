"""Rows of a table as a user has it: appended and overwritten."""

# ruff: noqa: PT012 - a transaction raises when its block ends
from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from lakewright.errors import CommitConflict, RowsOutsideFilter
from lakewright.session import settings
from tests.trips import D1, D2, SCHEMA, content, data_files, ids, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakewright.lake import Lake
    from lakewright.table import Table


# Appending


@pytest.mark.feature("D6", "I1", "I3")
def test_append(spark: SparkSession, trips: Table) -> None:
    commit = trips.append(rows(spark, (1, "eu", D1), (2, None, None), (3, "", D2)))
    assert content(trips) == [(1, "eu", D1), (2, None, None), (3, "", D2)]
    assert (commit.operation, commit.added_rows, commit.added_files, commit.parent_id) == ("append", 3, 3, None)
    assert commit.run_id in {row.run_id for row in trips.runs().filter("state = 'succeeded'").collect()}


def test_writing_nothing_says_so(spark: SparkSession, filled: Table) -> None:
    head = filled.history().count()
    commit = filled.append(rows(spark))
    assert commit.nothing_written and commit.added_rows == 0
    assert filled.history().count() == head and len(ids(filled)) == 4
    assert filled.iceberg.current_snapshot().snapshot_id == commit.snapshot_id


@pytest.mark.feature("I12")
def test_snapshot_properties(spark: SparkSession, trips: Table) -> None:
    commit = trips.append(rows(spark, (1, "eu", D1)), snapshot_properties={"job": "nightly"}, token="n-1")
    assert commit.summary["job"] == "nightly" and commit.token == "n-1"
    assert commit.summary["spark.app.id"] == spark.sparkContext.applicationId
    assert commit.summary["engine-name"] == "lakewright" and commit.summary["lakewright.run-id"] == commit.run_id


def test_the_same_token_commits_once(spark: SparkSession, trips: Table) -> None:
    first = trips.append(rows(spark, (1, "eu", D1)), token="x")
    again = trips.append(rows(spark, (1, "eu", D1)), token="x")
    assert again == first and ids(trips) == [1]
    assert len(data_files(trips)) == 1


@pytest.mark.feature("I20", "I24")
def test_options_win_over_the_session_and_that_over_properties(spark: SparkSession, trips: Table) -> None:
    def codec(**how: Any) -> str:
        commit = trips.append(rows(spark, (1, "eu", D1)), **how)
        [made] = [p for p in data_files(trips) if commit.run_id in str(p)]
        return str(pq.read_metadata(made).row_group(0).column(0).compression)

    assert codec() == "ZSTD"
    trips.set_properties({"write.parquet.compression-codec": "gzip"})
    assert codec() == "GZIP"
    with settings(spark, {"spark.lakewright.compression-codec": "snappy"}):
        assert codec() == "SNAPPY"
        assert codec(compression_codec="uncompressed") == "UNCOMPRESSED"


@pytest.mark.feature("I5", "I24")
def test_the_distribution_mode_can_be_set_on_the_session(spark: SparkSession, trips: Table) -> None:
    df = rows(spark, *[(n, "eu", D1) for n in range(4)]).repartition(2)
    with settings(spark, {"spark.lakewright.distribution-mode": "none"}):
        assert trips.append(df).added_files == 2
    assert trips.append(df).added_files == 1


# Overwriting


@pytest.mark.feature("P3", "I3")
def test_overwrite_replaces_everything(spark: SparkSession, filled: Table) -> None:
    commit = filled.overwrite(rows(spark, (9, "eu", D1)))
    assert ids(filled) == [9]
    assert (commit.operation, commit.added_rows, commit.deleted_rows, commit.removed_files) == ("overwrite", 1, 4, 3)
    assert len(ids(filled, snapshot_id=commit.parent_id)) == 4


def test_overwrite_with_nothing_empties_the_table(spark: SparkSession, filled: Table) -> None:
    assert filled.overwrite(rows(spark)).deleted_rows == 4
    assert ids(filled) == []


@pytest.mark.feature("P3", "I3")
def test_overwrite_by_filter_of_whole_files_rewrites_none(spark: SparkSession, filled: Table) -> None:
    commit = filled.overwrite(rows(spark, (9, "eu", D1)), where="region = 'eu'")
    assert ids(filled) == [3, 4, 9]
    assert (commit.removed_files, commit.added_rows, commit.deleted_rows) == (1, 1, 2)


@pytest.mark.feature("P3", "I3")
@pytest.mark.parametrize("kind", ["text", "column"])
def test_overwrite_by_filter_keeps_the_other_rows_of_a_file(spark: SparkSession, filled: Table, kind: str) -> None:
    where = "day < DATE'1970-01-01'" if kind == "text" else F.col("day") < date(1970, 1, 1)
    commit = filled.overwrite(rows(spark, (9, "asia", D2)), where=where)
    assert content(filled) == [(1, "eu", D1), (3, "us", D1), (4, None, D1), (9, "asia", D2)]
    assert commit.added_rows == commit.deleted_rows == (2 if kind == "text" else 4)  # a Column prunes no files


def test_overwrite_by_filter_keeps_rows_for_which_it_is_null(spark: SparkSession, filled: Table) -> None:
    filled.overwrite(rows(spark), where="NOT (region = 'eu')")
    assert ids(filled) == [1, 2, 4]


def test_overwrite_by_filter_that_matches_nothing_appends(spark: SparkSession, filled: Table) -> None:
    filled.overwrite(rows(spark, (9, "mars", D1)), where="region = 'mars'")
    assert ids(filled) == [1, 2, 3, 4, 9]


def test_rows_outside_the_filter_are_refused(spark: SparkSession, filled: Table) -> None:
    files = data_files(filled)
    with pytest.raises(RowsOutsideFilter, match=r"nyc\.trips"):
        filled.overwrite(rows(spark, (9, "eu", D1), (8, "us", D1)), where="region = 'eu'")
    with pytest.raises(RowsOutsideFilter):
        filled.overwrite(rows(spark, (9, None, D1)), where="region = 'eu'")
    assert ids(filled) == [1, 2, 3, 4] and data_files(filled) == files


def test_a_table_can_be_overwritten_with_its_own_rows(spark: SparkSession, filled: Table) -> None:
    filled.overwrite(filled.read().withColumn("id", F.col("id") + 10))
    assert ids(filled) == [11, 12, 13, 14]
    filled.overwrite(filled.read(where="region = 'eu'").withColumn("id", F.col("id") + 10), where="region = 'eu'")
    assert ids(filled) == [13, 14, 21, 22]


@pytest.mark.feature("P3", "I3")
def test_overwrite_partitions_replaces_those_with_rows(spark: SparkSession, filled: Table) -> None:
    commit = filled.overwrite_partitions(rows(spark, (9, "eu", D1), (8, None, D2), (7, "asia", D1)))
    assert ids(filled) == [3, 7, 8, 9]
    assert commit.removed_files == 2
    assert filled.overwrite_partitions(rows(spark)).nothing_written


@pytest.mark.parametrize(
    "transform",
    ["bucket(4, id)", "truncate(1, region)", "year(day)", "month(day)", "day(day)", "day"],
)
@pytest.mark.feature("P3", "D1")
def test_overwrite_partitions_of_any_transform(spark: SparkSession, lake: Lake, transform: str) -> None:
    from pyiceberg.types import DateType, LongType, StringType

    table = lake.create_table("nyc.any", SCHEMA, partition_by=[transform])
    old = [(n, region, day) for n, (region, day) in enumerate([("eu", D1), ("euro", D2), ("us", date(2024, 5, 2)), ("us", None), (None, D2), ("us", date(2023, 5, 1))])]
    new = [(100, "eu", D1), (101, None, None)]
    table.append(rows(spark, *old))
    table.overwrite_partitions(rows(spark, *new))
    field = table.spec.fields[0]
    kind = {"id": LongType(), "region": StringType(), "day": DateType()}[table.schema.find_column_name(field.source_id)]

    def partition(row: tuple[Any, ...]) -> Any:
        value = row[{"id": 0, "region": 1, "day": 2}[table.schema.find_column_name(field.source_id)]]
        internal = (value - date(1970, 1, 1)).days if isinstance(value, date) else value
        return field.transform.transform(kind)(internal)

    hit = {partition(row) for row in new}
    assert content(table) == sorted([*new, *(row for row in old if partition(row) not in hit)], key=repr)


@pytest.mark.feature("P3", "D1")
def test_overwrite_partitions_over_an_evolved_spec(spark: SparkSession, filled: Table) -> None:
    """Files of the old spec hold rows of several new partitions: those of others are kept."""
    filled.evolve_partitions(add=["month(day)"], drop=["region"])
    filled.append(rows(spark, (5, "eu", D1), (6, "eu", D2)))
    filled.overwrite_partitions(rows(spark, (9, "us", D1)))
    assert content(filled) == [(2, "eu", D2), (6, "eu", D2), (9, "us", D1)]
    assert {f.spec_id for f in filled.files().collect()} == {1}


def test_overwrite_partitions_of_a_table_without_any_replaces_all(spark: SparkSession, lake: Lake) -> None:
    table = lake.create_table("nyc.plain", SCHEMA)
    table.append(rows(spark, (1, "eu", D1)))
    table.overwrite_partitions(rows(spark, (2, "us", D1)))
    assert ids(table) == [2]


def test_overwrite_with_a_new_schema(spark: SparkSession, filled: Table) -> None:
    commit = filled.overwrite(rows(spark, ("a", 1.5, "eu"), schema="id string, fare double, region string"), overwrite_schema=True)
    assert [f.name for f in filled.schema.fields] == ["id", "fare", "region"]
    assert content(filled) == [("a", 1.5, "eu")]
    assert content(filled, snapshot_id=commit.parent_id)[0] == (1, "eu", D1)


@pytest.mark.feature("I13")
def test_an_overwrite_of_what_changed_meanwhile_is_refused(spark: SparkSession, lake: Lake, filled: Table) -> None:
    other = lake.table("nyc.trips")
    files = len(data_files(filled))
    with pytest.raises(CommitConflict, match="added rows"), filled.transaction() as tx:
        tx.overwrite(rows(spark, (9, "eu", D1)), where="region = 'eu'")
        other.append(rows(spark, (5, "eu", D1)))
    assert ids(filled) == [1, 2, 3, 4, 5] and len(data_files(filled)) == files + 1
    with filled.transaction() as tx:
        tx.overwrite(rows(spark, (9, "eu", D1)), where="region = 'eu'", isolation_level="snapshot")
        other.append(rows(spark, (6, "eu", D1)))
    assert ids(filled) == [3, 4, 6, 9]
