"""Format 3 through the public surface: made, written, replaced, upgraded."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakewright import Lake, connect
from lakewright.errors import IllegalEvolution, UnsupportedOperation
from lakewright.table import Table


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Lake:
    return connect(tmp_path / "lake", spark=spark)


def lineage(table: Table) -> list[tuple[int, int | None, int]]:
    """id, row id and the sequence number of the commit that last changed the row, by id."""
    found = table.read(metadata=True).orderBy("id").select("id", "_row_id", "_last_updated_sequence_number").collect()
    return [tuple(row) for row in found]


def version(table: Table) -> int:
    return table.iceberg.metadata.format_version


@pytest.mark.parametrize("asked", [None, 2, 3])
def test_tables_are_made_in_the_version_asked_for(lake: Lake, asked: int | None) -> None:
    assert version(lake.create_table("nyc.trips", "id bigint", format_version=asked)) == (asked or 2)


@pytest.mark.feature("I25")
def test_rows_of_format_3_have_ids(lake: Lake, spark: SparkSession) -> None:
    table = lake.create_table("nyc.trips", "id bigint", format_version=3)
    table.append(spark.range(0, 3).coalesce(1))
    table.append(spark.range(3, 5).coalesce(1))
    assert lineage(table) == [(0, 0, 1), (1, 1, 1), (2, 2, 1), (3, 3, 2), (4, 4, 2)]


def test_a_first_write_makes_a_table_of_format_3(lake: Lake, spark: SparkSession) -> None:
    lake.write(spark.range(0, 2).coalesce(1), "nyc.trips", format_version=3)
    assert lineage(lake.table("nyc.trips")) == [(0, 0, 1), (1, 1, 1)]


@pytest.mark.feature("I25")
def test_an_upgrade_gives_ids_with_the_next_commit(lake: Lake, spark: SparkSession) -> None:
    table = lake.create_table("nyc.trips", "id bigint")
    table.append(spark.range(0, 2).coalesce(1))
    assert version(table.upgrade(3)) == 3
    assert lineage(table) == [(0, None, 1), (1, None, 1)]
    table.append(spark.range(2, 3))
    assert lineage(table) == [(0, 1, 1), (1, 2, 1), (2, 0, 2)]


def test_an_upgrade_and_rows_in_one_commit(lake: Lake, spark: SparkSession) -> None:
    table = lake.create_table("nyc.trips", "id bigint")
    with table.transaction() as tx:
        tx.upgrade(3)
        tx.evolve_schema(add={"stars": "int"}, defaults={"stars": 5})
        tx.append(spark.range(0, 1).selectExpr("id", "1 AS stars"))
    assert version(table) == 3 and lineage(table) == [(0, 0, 1)]


def test_there_is_no_way_back(lake: Lake) -> None:
    table = lake.create_table("nyc.trips", "id bigint", format_version=3)
    with pytest.raises(UnsupportedOperation, match=r"nyc\.trips has format version 3, which cannot become 2 again"):
        table.upgrade(2)
    with pytest.raises(UnsupportedOperation, match="cannot become 2 again"):
        lake.create_table("nyc.trips", "id bigint", format_version=2, replace=True)
    with pytest.raises(UnsupportedOperation, match="format version 9"):
        table.upgrade(9)


def test_a_replaced_table_may_take_a_newer_version(lake: Lake, spark: SparkSession) -> None:
    lake.write(spark.range(0, 2), "nyc.trips")
    table = lake.create_table("nyc.trips", "id bigint", format_version=3, replace=True)
    table.append(spark.range(5, 6))
    assert version(table) == 3 and lineage(table) == [(5, 0, 2)]
    kept = lake.create_table("nyc.trips", "id bigint", replace=True)
    assert version(kept) == 3


def test_columns_with_defaults_need_format_3(lake: Lake, spark: SparkSession) -> None:
    table = lake.create_table("nyc.trips", "id bigint")
    table.append(spark.range(0, 1))
    with pytest.raises(IllegalEvolution, match=r"upgrade\(3\)"):
        table.evolve_schema(add={"stars": "int"}, defaults={"stars": 5})
    table.upgrade(3).evolve_schema(add={"stars": "int"}, defaults={"stars": 5})
    assert [tuple(row) for row in table.read().collect()] == [(0, 5)]


@pytest.mark.parametrize("purge", [False, True])
def test_tables_of_format_3_are_renamed_and_dropped(lake: Lake, spark: SparkSession, purge: bool) -> None:
    lake.write(spark.range(0, 2), "nyc.trips", format_version=3)
    assert lake.rename_table("nyc.trips", "nyc.rides").read().count() == 2
    lake.drop_table("nyc.rides", purge=purge)
    assert not lake.table_exists("nyc.rides")
