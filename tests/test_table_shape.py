"""The shape of a table as a user has it: schema, layout, versions, branches, upkeep."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from lakewright.errors import NotABranch, SchemaError, UnsupportedFormat
from tests.trips import D1, SCHEMA, content, data_files, ids, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakewright.lake import Lake
    from lakewright.table import Table


def test_a_shape_is_one_text_several_or_none(lake: Lake) -> None:
    table = lake.create_table("nyc.one", "id bigint, region string, at int", partition_by="region", sort_by="at desc", key="id", ordering="at")
    assert [f.name for f in table.spec.fields] == ["region"] and len(table.sort_order.fields) == 1
    assert table.schema.identifier_field_names() == {"id"} and table.properties["lakewright.ordering"] == "at"
    plain = lake.create_table("nyc.none", "id bigint", partition_by=None, sort_by=None, key=None, ordering=None)
    assert not plain.spec.fields and not plain.sort_order.fields and not plain.schema.identifier_field_ids


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
