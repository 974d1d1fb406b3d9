"""A table as a user has it: writes, reads, shape, branches, upkeep."""

# ruff: noqa: PT012 - a transaction raises when its block ends
from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from lakewright.errors import CommitConflict, NotABranch, RowsOutsideFilter, SchemaError
from lakewright.session import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakewright.lake import Lake
    from lakewright.table import Table

SCHEMA = "id bigint, region string, day date"
D1, D2 = date(2024, 5, 1), date(1969, 12, 31)


def rows(spark: SparkSession, *values: tuple[Any, ...], schema: str = SCHEMA) -> DataFrame:
    return spark.createDataFrame(list(values), schema)


def content(table: Table, **how: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in table.read(**how).collect()), key=repr)


def ids(table: Table, **how: Any) -> list[int]:
    return sorted(row.id for row in table.read(**how).collect())


def data_files(table: Table) -> list[Path]:
    return sorted(p for p in Path(table.location.removeprefix("file://"), "data").rglob("*") if p.is_file())


@pytest.fixture
def trips(lake: Lake) -> Table:
    return lake.create_table("nyc.trips", SCHEMA, partition_by=["region"])


@pytest.fixture
def filled(spark: SparkSession, trips: Table) -> Table:
    """Two rows in eu, one in us, one without a region; one file each."""
    trips.append(rows(spark, (1, "eu", D1), (2, "eu", D2), (3, "us", D1), (4, None, D1)))
    return trips


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


# Schema


@pytest.mark.feature("P4", "I4", "I1")
def test_merge_schema_adds_columns_and_widens(spark: SparkSession, lake: Lake) -> None:
    table = lake.create_table("nyc.m", "id int, name string")
    table.append(rows(spark, (1, "a"), schema="id int, name string"))
    wide = rows(spark, (2**40, "b", 1.5), schema="id bigint, name string, tip double")
    with pytest.raises(SchemaError):
        table.append(wide)
    table.append(wide, merge_schema=True)
    assert content(table) == [(1, "a", None), (2**40, "b", 1.5)]
    assert [str(f.field_type) for f in table.schema.fields] == ["long", "string", "double"]


@pytest.mark.feature("P4")
def test_merge_schema_with_explicit_cast(spark: SparkSession, lake: Lake) -> None:
    table = lake.create_table("nyc.m", "id int, name string")
    table.append(rows(spark, ("7", "b"), schema="id string, name string"), merge_schema=True, merge_schema_explicit_cast=True)
    assert content(table) == [(7, "b")]
    with pytest.raises(SchemaError, match="id"):
        table.append(rows(spark, ("x", "b"), schema="id string, name string"), merge_schema=True, merge_schema_explicit_cast=True)
    assert content(table) == [(7, "b")]


@pytest.mark.feature("P4")
def test_a_failed_write_with_merge_schema_leaves_the_schema_alone(spark: SparkSession, trips: Table) -> None:
    failing = rows(spark, (1, "eu", D1)).selectExpr("*", "CAST(raise_error('boom') AS double) AS tip")
    with pytest.raises(Exception, match="boom"):
        trips.append(failing, merge_schema=True)
    assert [f.name for f in trips.refresh().schema.fields] == ["id", "region", "day"] and data_files(trips) == []


@pytest.mark.feature("I4", "I1")
def test_any_schema_order_and_nullability(spark: SparkSession, lake: Lake, trips: Table) -> None:
    trips.append(rows(spark, (1.5, "eu", 1), schema="extra double, region string, id bigint"), accept_any_schema=True)
    assert content(trips) == [(1, "eu", None)]
    with pytest.raises(SchemaError, match="order"):
        trips.append(rows(spark, ("eu", 1, D1), schema="region string, id bigint, day date"), check_ordering=True)
    strict = lake.create_table("nyc.strict", "id bigint NOT NULL")
    with pytest.raises(SchemaError, match="id"):
        strict.append(rows(spark, (1,), schema="id bigint"))
    strict.append(rows(spark, (1,), schema="id bigint"), check_nullability=False)
    assert ids(strict) == [1]


def test_evolved_schemas_read_by_field_id(spark: SparkSession, filled: Table) -> None:
    filled.evolve_schema(rename={"region": "area"}, add={"tip": "double"}, move={"tip": "first"})
    filled.evolve_schema(drop=["day"])
    filled.append(rows(spark, (0.5, 5, "us"), schema="tip double, id bigint, area string"))
    assert content(filled)[-1] == (None, 4, None) or (None, 4, None) in content(filled)
    assert (0.5, 5, "us") in content(filled) and len(content(filled)) == 5
    filled.evolve_schema(add={"day": "string"})
    assert {row.day for row in filled.read().collect()} == {None}


# Layout


@pytest.mark.feature("I5")
@pytest.mark.parametrize("engine", ["native", "arrow"])
def test_the_sort_order_is_applied_and_recorded(spark: SparkSession, lake: Lake, engine: str) -> None:
    table = lake.create_table("nyc.sorted", SCHEMA, partition_by=["region"], sort_by=["id desc"])
    table.append(rows(spark, *[(n, "eu", D1) for n in (3, 1, 4, 1, 5, 9, 2, 6)], (7, "us", None)), engine=engine)
    for path in data_files(table):
        values = pq.read_table(path, partitioning=None)["id"].to_pylist()
        assert values == sorted(values, reverse=True)
    assert {f.sort_order_id for f in table.files().collect()} == {1}
    assert table.iceberg.sort_order().order_id == 1


@pytest.mark.feature("I21", "D1")
def test_output_spec_id(spark: SparkSession, filled: Table) -> None:
    filled.evolve_partitions(add=["day(day)"], drop=["region"])
    filled.append(rows(spark, (5, "eu", D1)), output_spec_id=0)
    filled.append(rows(spark, (6, "eu", D1)))
    made = {f.spec_id: f.partition for f in filled.files().filter("record_count = 1").collect() if f.spec_id == 1 or "eu" in str(f.partition)}
    assert set(made) == {0, 1}
    assert ids(filled) == [1, 2, 3, 4, 5, 6]


def test_partitions_evolve_and_old_files_stay(spark: SparkSession, filled: Table) -> None:
    before = data_files(filled)
    filled.evolve_partitions(add=["bucket(4, id)"])
    filled.append(rows(spark, (5, "eu", D1)))
    assert set(before) < set(data_files(filled)) and ids(filled, where="region = 'eu'") == [1, 2, 5]
    filled.evolve_partitions(drop=["region", "bucket(4, id)"])
    filled.append(rows(spark, (6, "eu", D1)))
    assert ids(filled, where="id >= 5") == [5, 6]


def test_formats_other_than_parquet_are_refused(spark: SparkSession, trips: Table) -> None:
    from lakewright.errors import UnsupportedFormat

    trips.set_properties({"write.format.default": "orc"})
    with pytest.raises(UnsupportedFormat, match=r"nyc\.trips asks for orc"):
        trips.append(rows(spark, (1, "eu", D1)))


# Reading


def test_time_travel(spark: SparkSession, filled: Table) -> None:
    first = filled.history().collect()[0]
    filled.create_tag("v1")
    second = filled.append(rows(spark, (5, "us", D1)))
    assert ids(filled, snapshot_id=first.snapshot_id) == ids(filled, ref="v1") == [1, 2, 3, 4]
    assert ids(filled, snapshot_id=second) == ids(filled, as_of=datetime.now()) == [1, 2, 3, 4, 5]
    assert ids(filled, as_of=filled.iceberg.history()[0].timestamp_ms) == [1, 2, 3, 4]


@pytest.mark.feature("I25")
def test_metadata_columns(spark: SparkSession, filled: Table) -> None:
    filled.append(rows(spark, (5, "eu", D1)))
    found = {row.id: row for row in filled.read(metadata=True).collect()}
    assert found[1]._spec_id == 0 and found[5]._last_updated_sequence_number == 2 and found[1]._last_updated_sequence_number == 1
    assert {Path(row._file.removeprefix("file:")).name for row in found.values()} == {p.name for p in data_files(filled)}
    assert {found[1]._pos, found[2]._pos} == {0, 1}
    assert found[1]._commit_id == filled.history().collect()[0].snapshot_id


def test_metadata_tables(spark: SparkSession, filled: Table) -> None:
    assert filled.files().agg(F.sum("record_count")).first()[0] == 4
    assert filled.partitions().count() == 3
    assert filled.manifests().select("added_files_count").first()[0] == 3
    assert [r.name for r in filled.refs().collect()] == ["main"]


# Branches


@pytest.mark.feature("I11", "I2")
def test_branches(spark: SparkSession, filled: Table) -> None:
    filled.create_branch("audit")
    filled.append(rows(spark, (5, "us", D1)), branch="audit")
    filled.overwrite(rows(spark, (6, "eu", D1)), where="region = 'eu'", branch="audit")
    filled.append(rows(spark, (7, "us", D1)))
    assert ids(filled) == [1, 2, 3, 4, 7] and ids(filled, ref="audit") == [3, 4, 5, 6]
    filled.create_tag("v1", at="audit")
    for target in ("v1", str(filled.history().collect()[0].snapshot_id)):
        with pytest.raises(NotABranch):
            filled.append(rows(spark, (8, "us", D1)), branch=target)
    filled.drop_ref("audit")
    assert ids(filled, ref="v1") == [3, 4, 5, 6]


# Upkeep


@pytest.mark.feature("I22")
def test_remove_orphans(spark: SparkSession, filled: Table) -> None:
    stray = Path(filled.location.removeprefix("file://"), "data", "stray.parquet")
    stray.write_bytes(b"x")
    assert filled.remove_orphans().files == ()
    assert len(filled.remove_orphans(older_than_hours=-1).files) == 1 and not stray.exists()
    assert ids(filled) == [1, 2, 3, 4]
