"""`df.write.format("lakewright")`: what users type, through a real session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Row

from lakewright.session import PARTITION_OVERWRITE_MODE, settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakewright.lake import Lake
    from lakewright.table import Table

SCHEMA = "id bigint, region string, fare double"


def rows(spark: SparkSession, *values: tuple[Any, ...], schema: str = SCHEMA) -> DataFrame:
    return spark.createDataFrame(list(values), schema)


def save(df: DataFrame, lake: Lake, mode: str = "append", **options: str) -> None:
    named = {key.replace("_", "-"): value for key, value in options.items()}
    df.write.format("lakewright").mode(mode).option("lake", lake.location).options(**named).save("nyc.trips")


def content(table: Table, **how: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in table.refresh().read(**how).collect()), key=repr)


def data_files(table: Table) -> set[str]:
    return {str(p) for p in Path(table.location.removeprefix("file://"), "data").rglob("*") if p.is_file()}


@pytest.fixture
def trips(lake: Lake) -> Table:
    return lake.create_table("nyc.trips", SCHEMA, partition_by=["region"])


@pytest.fixture
def filled(spark: SparkSession, lake: Lake, trips: Table) -> Table:
    save(rows(spark, (1, "eu", 1.0), (2, "us", 2.0)), lake)
    return trips.refresh()


@pytest.mark.feature("P1")
def test_append(spark: SparkSession, lake: Lake, trips: Table) -> None:
    save(rows(spark, (1, "eu", 1.0), (2, None, None)), lake)
    save(rows(spark, (3, "", 3.0)), lake)
    assert content(trips) == [(1, "eu", 1.0), (2, None, None), (3, "", 3.0)]
    assert [row.operation for row in trips.history().collect()] == ["append", "append"]


def test_every_task_writes_its_own_files(spark: SparkSession, lake: Lake, trips: Table) -> None:
    df = spark.range(1000).selectExpr("id", "if(id % 2 = 0, 'eu', 'us') AS region", "CAST(id AS double) AS fare").repartition(3)
    save(df, lake)
    assert trips.refresh().read().count() == 1000
    assert len(data_files(trips)) == 6


@pytest.mark.feature("P3")
def test_overwrite_replaces_all(spark: SparkSession, lake: Lake, filled: Table) -> None:
    save(rows(spark, (9, "eu", 9.0)), lake, "overwrite")
    assert content(filled) == [(9, "eu", 9.0)]


@pytest.mark.feature("P3")
def test_overwrite_with_nothing_empties_the_table(spark: SparkSession, lake: Lake, filled: Table) -> None:
    save(rows(spark), lake, "overwrite")
    assert content(filled) == []


@pytest.mark.feature("P3")
@pytest.mark.parametrize("by", ["option", "session"])
def test_dynamic_overwrite_replaces_the_partitions_it_touches(spark: SparkSession, lake: Lake, filled: Table, by: str) -> None:
    df = rows(spark, (9, "eu", 9.0))
    if by == "option":
        save(df, lake, "overwrite", overwrite_mode="dynamic")
    else:
        with settings(spark, {PARTITION_OVERWRITE_MODE: "dynamic"}):
            save(df, lake, "overwrite")
    assert content(filled) == [(2, "us", 2.0), (9, "eu", 9.0)]


@pytest.mark.feature("I20")
def test_the_write_option_goes_before_the_session(spark: SparkSession, lake: Lake, filled: Table) -> None:
    with settings(spark, {PARTITION_OVERWRITE_MODE: "dynamic"}):
        save(rows(spark, (9, "eu", 9.0)), lake, "overwrite", overwrite_mode="static")
    assert content(filled) == [(9, "eu", 9.0)]


@pytest.mark.feature("P3")
def test_overwrite_by_filter(spark: SparkSession, lake: Lake, filled: Table) -> None:
    save(rows(spark, (9, "us", 9.0)), lake, "overwrite", overwrite_filter="region = 'us'")
    assert content(filled) == [(1, "eu", 1.0), (9, "us", 9.0)]


@pytest.mark.parametrize(
    ("row", "where", "message"),
    [
        ((9, "eu", 9.0), "region = 'us'", "RowsOutsideFilter"),
        ((9, None, 9.0), "region = 'us'", "RowsOutsideFilter"),
        ((9, "eu", 1.0), "region = 'eu' AND fare < 1.5", None),
        ((9, "eu", 1.0), "length(region) = 2", r"t\.overwrite"),
        ((9, "eu", 1.0), "regoin = 'eu'", "regoin"),
    ],
)
def test_filters_that_do_not_cover(spark: SparkSession, lake: Lake, filled: Table, row: tuple[Any, ...], where: str, message: str | None) -> None:
    before = content(filled)
    if message is None:
        save(rows(spark, row), lake, "overwrite", overwrite_filter=where)
        return
    with pytest.raises(PySparkException, match=message):
        save(rows(spark, row), lake, "overwrite", overwrite_filter=where)
    assert content(filled) == before


def test_a_file_that_matches_in_part_is_refused(spark: SparkSession, lake: Lake, trips: Table) -> None:
    save(rows(spark, (1, "eu", 1.0), (2, "eu", 2.0)).coalesce(1), lake)
    files = data_files(trips)
    with pytest.raises(PySparkException, match=r"t\.overwrite\(df, where='fare < 1\.5'\)"):
        save(rows(spark, (9, "eu", 1.0)), lake, "overwrite", overwrite_filter="fare < 1.5")
    assert content(trips) == [(1, "eu", 1.0), (2, "eu", 2.0)]
    assert data_files(trips) == files


@pytest.mark.feature("I24", "I20")
def test_session_settings_reach_the_tasks(spark: SparkSession, lake: Lake, trips: Table) -> None:
    df = rows(spark, (1, "eu", 1.0), (2, "us", 2.0))
    with settings(spark, {"spark.lakewright.distribution-mode": "range"}), pytest.raises(PySparkException, match=r"distribution-mode range.*t\.append"):
        save(df, lake)
    with settings(spark, {"spark.lakewright.distribution-mode": "range"}):
        save(df, lake, distribution_mode="none")
    assert len(content(trips)) == 2


@pytest.mark.feature("I20")
def test_precedence_of_write_option_session_and_property(spark: SparkSession, lake: Lake, trips: Table) -> None:
    import pyarrow.parquet as pq

    def codec() -> str:
        before = data_files(trips)
        save(rows(spark, (1, "eu", 1.0)), lake, **given)
        return str(pq.read_metadata((data_files(trips) - before).pop()).row_group(0).column(0).compression).lower()

    given: dict[str, str] = {}
    trips.set_properties({"write.parquet.compression-codec": "gzip"})
    assert codec() == "gzip"
    with settings(spark, {"spark.lakewright.compression-codec": "snappy"}):
        assert codec() == "snappy"
        given["compression_codec"] = "zstd"
        assert codec() == "zstd"


def test_merge_schema_adds_columns_in_the_same_commit(spark: SparkSession, lake: Lake, filled: Table) -> None:
    wider = rows(spark, (3, "eu", 3.0, "x"), schema=f"{SCHEMA}, note string")
    with pytest.raises(PySparkException, match="note"):
        save(wider, lake)
    with settings(spark, {"spark.lakewright.merge-schema": "true"}):
        save(wider, lake)
    assert content(filled) == [(1, "eu", 1.0, None), (2, "us", 2.0, None), (3, "eu", 3.0, "x")]


def test_a_branch_a_token_and_properties(spark: SparkSession, lake: Lake, filled: Table) -> None:
    filled.create_branch("audit")
    for _ in range(2):
        df = rows(spark, (3, "eu", 3.0))
        df.write.format("lakewright").mode("append").option("lake", lake.location).option("branch", "audit").option("token", "t1").option(
            "snapshot-property.job", "7"
        ).save("nyc.trips")
    assert len(content(filled)) == 2
    assert len(content(filled, ref="audit")) == 3
    head = filled.history().where("summary['lakewright.token'] = 't1'").collect()
    assert len(head) == 1 and head[0].summary["job"] == "7"


def test_writing_nothing_makes_no_snapshot(spark: SparkSession, lake: Lake, filled: Table) -> None:
    before = filled.history().count()
    save(rows(spark), lake)
    assert filled.refresh().history().count() == before
    assert [r.state for r in filled.runs().collect()].count("succeeded") == 2


def test_a_failing_task_leaves_the_table_and_no_files(spark: SparkSession, lake: Lake, filled: Table) -> None:
    before, files = content(filled), data_files(filled)
    broken = spark.range(0, 100, 1, 2).selectExpr("id", "if(id = 70, raise_error('boom'), 'eu') AS region", "1.0D AS fare")
    with pytest.raises(PySparkException, match="boom"):
        save(broken, lake)
    assert content(filled) == before
    assert data_files(filled) == files
    assert "failed" in {r.state for r in filled.runs().collect()}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mergeschema": "true"}, "Did you mean merge-schema"),
        ({"branch": "nowhere"}, "no branch 'nowhere'"),
        ({"target_file_size_bytes": "many"}, "whole number"),
    ],
)
def test_bad_options_are_named(spark: SparkSession, lake: Lake, filled: Table, options: dict[str, str], message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        save(rows(spark, (3, "eu", 3.0)), lake, **options)
    assert len(content(filled)) == 2


def test_a_missing_table_or_lake_is_named(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match=r"no table nyc\.trips"):
        save(rows(spark, (3, "eu", 3.0)), lake)
    with pytest.raises(PySparkException, match="no lake at"):
        rows(spark, (3, "eu", 3.0)).write.format("lakewright").mode("append").option("lake", str(tmp_path / "lkae")).save("nyc.trips")
    assert not (tmp_path / "lkae").exists()


def test_save_as_table_and_write_to_are_refused_by_name(spark: SparkSession, lake: Lake, filled: Table) -> None:
    df = rows(spark, (3, "eu", 3.0))
    named = r"saveAsTable.*writeTo.*lake\.write"
    with pytest.raises(PySparkException, match=named):
        df.write.format("lakewright").mode("append").option("lake", lake.location).saveAsTable("refused_trips")
    with pytest.raises(PySparkException, match=named):
        df.writeTo("refused_trips").using("lakewright").option("lake", lake.location).createOrReplace()
    assert not spark.catalog.tableExists("refused_trips")


def test_a_sorted_table_is_refused_unless_told_to_leave_it_unsorted(spark: SparkSession, lake: Lake) -> None:
    table = lake.create_table("nyc.trips", SCHEMA, sort_by=["id"])
    df = rows(spark, (3, "eu", 3.0))
    with pytest.raises(PySparkException, match=r"sort order.*t\.append"):
        save(df, lake)
    save(df, lake, distribution_mode="none")
    assert content(table) == [(3, "eu", 3.0)]


def test_a_null_for_a_required_column_is_refused(spark: SparkSession, lake: Lake) -> None:
    table = lake.create_table("nyc.trips", "id bigint not null, region string, fare double")
    with pytest.raises(PySparkException, match="NullInRequiredColumn"):
        save(rows(spark, (None, "eu", 3.0)), lake, check_nullability="false")
    assert content(table) == []


@pytest.mark.feature("P1")
def test_sql_inserts_through_a_temporary_view(spark: SparkSession, lake: Lake, filled: Table) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW trips_sink USING lakewright OPTIONS (lake '{lake.location}', path 'nyc.trips')")
    spark.sql("INSERT INTO trips_sink VALUES (7, 'eu', 7.0D)")
    assert Row(id=7, region="eu", fare=7.0) in filled.refresh().read().collect()


def test_modes_spark_refuses(spark: SparkSession, lake: Lake, filled: Table) -> None:
    for mode in ("error", "ignore"):
        with pytest.raises(AnalysisException):
            save(rows(spark, (3, "eu", 3.0)), lake, mode)
