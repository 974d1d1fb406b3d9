"""Bad input: a typed error that says what and where, and a table that is as before."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from lakewright.errors import (
    ColumnNotFound,
    DuplicateColumn,
    IllegalEvolution,
    InvalidFilter,
    InvalidOption,
    InvalidTransform,
    LakewrightError,
    NamespaceExists,
    NamespaceNotFound,
    NullInRequiredColumn,
    RefNotFound,
    SchemaError,
    SessionConflict,
    TableExists,
    TableNotFound,
    TypeMismatch,
    UnknownOption,
    UnsupportedOperation,
    UnsupportedType,
)
from lakewright.session import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakewright.lake import Lake
    from lakewright.table import Table

SCHEMA = "id bigint NOT NULL, region string, fare decimal(9,2), day date"
DAY = date(2024, 5, 1)


def rows(spark: SparkSession, *values: tuple[Any, ...], schema: str = SCHEMA) -> DataFrame:
    return spark.createDataFrame(list(values), schema)


def root(table: Table) -> Path:
    return Path(table.location.removeprefix("file://"))


def stored(table: Table) -> set[Path]:
    return {p for folder in ("data", "metadata") for p in (root(table) / folder).rglob("*") if p.is_file()}


@pytest.fixture
def untouched(lake: Lake, spark: SparkSession) -> Iterator[Table]:
    """A table with two rows in one file, which must be the same after the test."""
    table = lake.create_table("nyc.trips", SCHEMA)
    table.append(rows(spark, (1, "eu", None, DAY), (2, "us", None, None)))
    before = (table.iceberg.metadata_location, stored(table), table.schema)
    yield table
    table.refresh()
    assert (table.iceberg.metadata_location, stored(table), table.schema) == before


# Options, modes, names


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"target_file_size": 1}, UnknownOption, "target_file_size_bytes|target-file-size-bytes"),
        ({"nonsense": 1}, UnknownOption, "'nonsense'"),
        ({"target_file_size_bytes": "big"}, InvalidOption, "target-file-size-bytes is 'big'"),
        ({"target_file_size_bytes": -1}, InvalidOption, "above 0"),
        ({"distribution_mode": "random"}, InvalidOption, "none, hash, range"),
        ({"fanout_enabled": "yes"}, InvalidOption, "true or false"),
        ({"engine": "rust"}, InvalidOption, "auto, native, arrow"),
        ({"output_spec_id": 7}, InvalidOption, r"output-spec-id is 7, and nyc\.trips has the partition specs 0"),
        ({"branch": "adit"}, RefNotFound, r"nyc\.trips has no branch 'adit'"),
    ],
)
def test_options(untouched: Table, spark: SparkSession, options: dict[str, Any], error: type[LakewrightError], says: str) -> None:
    with pytest.raises(error, match=says):
        untouched.append(rows(spark, (3, "eu", None, None)), **options)


def test_a_bad_setting_of_the_session_names_its_key(untouched: Table, spark: SparkSession) -> None:
    with settings(spark, {"spark.lakewright.target-file-size-bytes": "x"}), pytest.raises(InvalidOption, match=r"spark\.lakewright\.target-file-size-bytes"):
        untouched.append(rows(spark, (3, "eu", None, None)))


def test_a_bad_table_property_names_its_key(lake: Lake, spark: SparkSession) -> None:
    with pytest.raises(InvalidOption, match=r"write\.target-file-size-bytes is 'x'"):
        lake.create_table("nyc.p", "id bigint", properties={"write.target-file-size-bytes": "x"})
    table = lake.create_table("nyc.p", "id bigint")
    with pytest.raises(InvalidOption, match=r"write\.target-file-size-bytes is 'x'"):
        table.set_properties({"write.target-file-size-bytes": "x"})
    table.append(rows(spark, (1,), schema="id bigint"))


def test_modes(untouched: Table, lake: Lake, spark: SparkSession) -> None:
    with pytest.raises(InvalidOption, match="'upsert'; it takes one of append, overwrite, ignore, error"):
        lake.write(rows(spark, (3, "eu", None, None)), "nyc.trips", mode="upsert")


@pytest.mark.parametrize("name", ["trips", "", "a..b", "nyc/trips.x", ".x", "a.b/../c", "nyc..", "nyc.\x00"])
def test_names(lake: Lake, name: str) -> None:
    with pytest.raises(InvalidOption, match="not a table name"):
        lake.create_table(name, "id bigint")


def test_missing_and_present(untouched: Table, lake: Lake) -> None:
    for call in (lambda: lake.table("nyc.trip"), lambda: lake.drop_table("nyc.trip")):
        with pytest.raises(TableNotFound, match=r"Did you mean nyc\.trips"):
            call()
    with pytest.raises(TableNotFound, match="namespace nowhere"):
        lake.table("nowhere.trips")
    with pytest.raises(NamespaceNotFound, match="nowhere"):
        lake.tables("nowhere")
    with pytest.raises(NamespaceNotFound, match="nowhere"):
        lake.drop_namespace("nowhere")
    with pytest.raises(NamespaceExists, match="nyc"):
        lake.create_namespace("nyc")
    with pytest.raises(TableExists, match=r"nyc\.trips"):
        lake.create_table("nyc.trips", "id bigint")


def test_a_dropped_table_is_missing_for_those_who_hold_it(lake: Lake, spark: SparkSession) -> None:
    table = lake.create_table("nyc.gone", "id bigint")
    lake.drop_table("nyc.gone", purge=True)
    with pytest.raises(TableNotFound, match=r"nyc\.gone"):
        table.append(rows(spark, (1,), schema="id bigint"))
    assert not root(table).exists()


def test_format_version(lake: Lake) -> None:
    with pytest.raises(UnsupportedOperation, match=r"nyc\.v9 asks for format version 9"):
        lake.create_table("nyc.v9", "id bigint", format_version=9)


# Columns and values


@pytest.mark.parametrize(
    ("transform", "error", "says"),
    [
        ("weekly(day)", InvalidTransform, "weekly"),
        ("bucket(0, id)", InvalidTransform, "bucket"),
        ("bucket(id)", InvalidTransform, "bucket"),
        ("day(id)", InvalidTransform, "id"),
        ("truncate(4, day)", InvalidTransform, "day"),
        ("hour(day)", InvalidTransform, "day"),
        ("day(", InvalidTransform, "day"),
        ("regoin", ColumnNotFound, "region"),
    ],
)
def test_transforms(lake: Lake, transform: str, error: type[LakewrightError], says: str) -> None:
    with pytest.raises(error, match=says):
        lake.create_table("nyc.x", SCHEMA, partition_by=[transform])
    assert not lake.table_exists("nyc.x")


@pytest.mark.parametrize("engine", ["native", "arrow"])
def test_null_in_a_required_column(untouched: Table, spark: SparkSession, engine: str) -> None:
    nullable = rows(spark, (3, "eu"), (None, "us"), schema="id bigint, region string")
    with pytest.raises(NullInRequiredColumn, match=r"'id' may hold nulls, but table nyc\.trips"):
        untouched.append(nullable, engine=engine)
    with pytest.raises(NullInRequiredColumn, match=r"null for 'id', which table nyc\.trips requires"):
        untouched.append(nullable, check_nullability=False, engine=engine)
    with pytest.raises(NullInRequiredColumn, match="'id', which the DataFrame does not have"):
        untouched.append(rows(spark, ("eu",), schema="region string"), engine=engine)


@pytest.mark.parametrize(
    ("schema", "error", "says"),
    [
        ("id string NOT NULL, region string", TypeMismatch, r"'id' is string, but long in table nyc\.trips"),
        ("id bigint NOT NULL, region int", TypeMismatch, "'region' is int, but string"),
        ("id bigint NOT NULL, fare decimal(10,3)", TypeMismatch, "'fare' is decimal"),
        ("id bigint NOT NULL, day timestamp", TypeMismatch, "'day' is timestamp"),
        ("id bigint NOT NULL, region struct<a: int>", TypeMismatch, "'region' is struct"),
        ("id bigint NOT NULL, regoin string", SchemaError, "no column 'regoin'. Did you mean region"),
        ("id bigint NOT NULL, Region string, REGION string", DuplicateColumn, "(?i)region"),
    ],
)
def test_schemas_that_do_not_fit(untouched: Table, spark: SparkSession, schema: str, error: type[LakewrightError], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        untouched.append(spark.createDataFrame([], schema))
    assert caught.value.table == "nyc.trips"


def test_names_that_differ_by_case_only(lake: Lake) -> None:
    with pytest.raises(DuplicateColumn, match=r"(?i)id"):
        lake.create_table("nyc.x", "id bigint, ID string")
    table = lake.create_table("nyc.y", "id bigint")
    with pytest.raises(IllegalEvolution, match="differ only by case"):
        table.evolve_schema(add={"Id": "string"})


def test_types_the_format_has_no_place_for(lake: Lake, spark: SparkSession) -> None:
    with pytest.raises(UnsupportedType, match="'span'"):
        lake.create_table("nyc.x", "id bigint, span interval day to second")
    with pytest.raises(UnsupportedType, match="'span'"):
        lake.write(spark.sql("SELECT INTERVAL '1' DAY AS span"), "nyc.x")
    assert not lake.table_exists("nyc.x")


@pytest.mark.parametrize(
    ("where", "error"),
    [("regoin = 'eu'", LakewrightError), ("region =", InvalidFilter), ("region + 1 / ", InvalidFilter), ("sum(id) > 1", InvalidFilter), ("id > rand()", InvalidFilter), ("id", InvalidFilter)],
)
def test_filters(untouched: Table, spark: SparkSession, where: str, error: type[LakewrightError]) -> None:
    with pytest.raises(error, match=re.escape(where.split()[0])) as caught:
        untouched.overwrite(rows(spark, (3, "eu", None, None)), where=where)
    assert caught.value.table == "nyc.trips"


def test_evolution(untouched: Table) -> None:
    for change in (
        {"drop": ["regoin"]},
        {"rename": {"region": "day"}},
        {"promote": {"fare": "decimal(11,3)"}},
        {"promote": {"region": "binary"}},
        {"add": {"region": "string"}},
        {"add": {"x": "nonsense"}},
    ):
        with pytest.raises(LakewrightError, match=r"regoin|day|fare|region|nonsense"):
            untouched.evolve_schema(**change)


def test_time_travel(untouched: Table) -> None:
    for how, says in (({"snapshot_id": 42}, "42"), ({"ref": "v9"}, "'v9'"), ({"as_of": 1}, "Nothing is kept from before"), ({"as_of": "yesterday"}, "yesterday"), ({"ref": "main", "snapshot_id": 1}, "one of")):
        with pytest.raises((RefNotFound, InvalidOption), match=says):
            untouched.read(**how)


# Entries that reach us without options


def test_save_as_table_and_write_to(untouched: Table, spark: SparkSession) -> None:
    df = rows(spark, (3, "eu", None, None))
    with pytest.raises(PySparkException, match="saveAsTable"):
        df.write.format("lakewright").mode("append").saveAsTable("bad_save")
    with pytest.raises(PySparkException, match=r"writeTo|saveAsTable"):
        df.writeTo("bad_write").using("lakewright").create()
    for name in ("bad_save", "bad_write"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")


# Two threads on one session


def test_threads_with_different_settings(untouched: Table, spark: SparkSession) -> None:
    """The second thread is refused while the first holds a value, and the session is put back afterwards."""
    key, held, release = "spark.sql.parquet.outputTimestampType", threading.Event(), threading.Event()
    before = spark.conf.get(key)

    def hold() -> None:
        with settings(spark, {key: "TIMESTAMP_MILLIS"}):
            held.set()
            release.wait(60)

    other = threading.Thread(target=hold)
    other.start()
    try:
        held.wait(60)
        with pytest.raises(SessionConflict, match=r"newSession\(\)"), settings(spark, {key: "TIMESTAMP_MICROS"}):
            pass
    finally:
        release.set()
        other.join()
    assert spark.conf.get(key) == before
