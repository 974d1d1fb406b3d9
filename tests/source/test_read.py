"""`spark.read.format("lakewright")`, through a real session."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import EqualTo, Filter

from lakewright.commit.result import Commit
from lakewright.plan.types import spark_struct
from lakewright.session import settings
from lakewright.source.options import load, place, read_options
from lakewright.source.reader import Files, LakeReader, pinned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakewright.lake import Lake
    from lakewright.table import Table

SCHEMA = "id bigint not null, region string, fare double, at timestamp, tags array<string>"
AT = datetime(2024, 5, 1, 12, tzinfo=UTC)


def rows(spark: SparkSession, *ids: int) -> DataFrame:
    df = spark.createDataFrame([(i, "eu" if i % 2 else "us", float(i), AT, ["a", None]) for i in ids], SCHEMA.replace(" not null", ""))
    return df.filter("id IS NOT NULL")


def loaded(spark: SparkSession, lake: Lake, **options: Any) -> DataFrame:
    return spark.read.format("lakewright").option("lake", lake.location).options(**{k.replace("_", "-"): v for k, v in options.items()}).load("nyc.trips")


def ids(df: DataFrame) -> list[int]:
    return sorted(row.id for row in df.collect())


@pytest.fixture
def trips(lake: Lake) -> Table:
    return lake.create_table("nyc.trips", SCHEMA, partition_by=["region"])


@pytest.fixture
def commits(spark: SparkSession, trips: Table) -> list[Commit]:
    return [trips.append(rows(spark, 1, 2), check_nullability=False), trips.append(rows(spark, 3), check_nullability=False)]


@pytest.mark.feature("H14")
def test_rows_are_those_of_the_table(spark: SparkSession, lake: Lake, trips: Table, commits: list[Commit]) -> None:
    assert sorted(loaded(spark, lake).collect()) == sorted(trips.refresh().read().collect())


@pytest.mark.feature("H14")
def test_an_empty_table(spark: SparkSession, lake: Lake, trips: Table) -> None:
    df = loaded(spark, lake)
    assert df.columns == ["id", "region", "fare", "at", "tags"] and df.collect() == []


@pytest.mark.feature("H14")
def test_time_travel(spark: SparkSession, lake: Lake, trips: Table, commits: list[Commit]) -> None:
    trips.refresh().create_tag("first", at=commits[0].snapshot_id)
    trips.create_branch("audit", at=commits[0].snapshot_id)
    first = trips.refresh().history().where(f"snapshot_id = {commits[0].snapshot_id}").collect()[0].committed_at
    for option in ({"snapshot_id": commits[0].snapshot_id}, {"tag": "first"}, {"branch": "audit"}):
        assert ids(loaded(spark, lake, **option)) == [1, 2]
    milliseconds = int(first.timestamp() * 1000)
    assert ids(loaded(spark, lake, as_of_timestamp=milliseconds)) == [1, 2]
    iso = datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()
    assert ids(loaded(spark, lake, as_of_timestamp=iso)) == [1, 2]


def test_an_older_snapshot_shows_its_own_columns(spark: SparkSession, lake: Lake, trips: Table, commits: list[Commit]) -> None:
    trips.refresh().evolve_schema(rename={"fare": "price"}, add={"note": "string"})
    assert loaded(spark, lake).columns == ["id", "region", "price", "at", "tags", "note"]
    assert loaded(spark, lake, snapshot_id=commits[0].snapshot_id).columns == ["id", "region", "fare", "at", "tags"]
    assert [row.price for row in loaded(spark, lake).where("id = 3").collect()] == [3.0]


@pytest.mark.feature("H14")
@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_filters_give_the_same_rows_with_and_without_pushdown(spark: SparkSession, lake: Lake, commits: list[Commit], pushdown: str) -> None:
    with settings(spark, {"spark.sql.python.filterPushdown.enabled": pushdown}):
        assert ids(loaded(spark, lake).where("region = 'us'")) == [2]
        assert ids(loaded(spark, lake).where("fare > 1.5 AND at = timestamp'2024-05-01 12:00:00'")) == [2, 3]
        assert ids(loaded(spark, lake).where("region IS NULL OR id IN (1, 3)")) == [1, 3]


def files_read(reader: LakeReader) -> int:
    return sum(len(partition.files) for partition in reader.partitions() if isinstance(partition, Files))


def test_pushed_filters_leave_files_out(lake: Lake, commits: list[Commit]) -> None:
    options = {"lake": lake.location, "path": "nyc.trips"}
    _, state = load(place(options))
    schema = spark_struct(pinned(state, read_options(options))[1].as_struct(), nullable=True)
    reader = LakeReader(state, read_options(options), schema)
    before = files_read(reader)
    asked: list[Filter] = [EqualTo(("region",), "us")]
    assert list(reader.pushFilters(asked)) == asked
    assert files_read(reader) < before


def test_a_schema_chooses_columns(spark: SparkSession, lake: Lake, commits: list[Commit]) -> None:
    chosen = spark.read.format("lakewright").option("lake", lake.location).schema("fare double, id bigint").load("nyc.trips")
    assert sorted(tuple(row) for row in chosen.collect()) == [(1.0, 1), (2.0, 2), (3.0, 3)]
    for schema, message in (("gone int", "no column 'gone'"), ("id string", "'id' .* bigint, not string")):
        with pytest.raises(PySparkException, match=message):
            spark.read.format("lakewright").option("lake", lake.location).schema(schema).load("nyc.trips").collect()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"snapshot_id": 5}, "Snapshot 5"),
        ({"branch": "nowhere"}, "nowhere"),
        ({"as_of_timestamp": "soon"}, "soon"),
        ({"snapshotid": 5}, "Did you mean snapshot-id"),
    ],
)
def test_what_is_not_there_is_named(spark: SparkSession, lake: Lake, commits: list[Commit], options: dict[str, Any], message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        loaded(spark, lake, **options)


def test_a_missing_table_is_named(spark: SparkSession, lake: Lake) -> None:
    with pytest.raises(PySparkException, match=r"no table nyc\.trips"):
        loaded(spark, lake)
