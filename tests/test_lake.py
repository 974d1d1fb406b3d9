"""A lake: names, tables, and writes that make their table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright import making
from lakewright.errors import NamespaceExists, NamespaceNotEmpty, NamespaceNotFound, TableExists, TableNotFound
from lakewright.session import PARTITION_OVERWRITE_MODE, settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakewright.lake import Lake


@pytest.fixture
def df(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1, "eu"), (2, "us")], "id bigint, region string")


def ids(lake: Lake, name: str = "nyc.trips") -> list[int]:
    return sorted(row.id for row in lake.table(name).read().collect())


def test_import_does_not_start_spark() -> None:
    code = "import sys, lakewright; assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_folder_may_have_any_name(tmp_path: Path, spark: SparkSession) -> None:
    for name in ("a%20b", "a b", "é"):
        lake = lw.connect(tmp_path / name, spark=spark)
        lake.create_namespace("nyc")
        assert (tmp_path / name / "catalog.db").is_file()
    assert {folder.name for folder in tmp_path.iterdir()} == {"a%20b", "a b", "é"}


def test_a_folder_becomes_a_lake(tmp_path: Path, spark: SparkSession) -> None:
    lake = lw.connect(tmp_path / "here", spark=spark)
    assert (tmp_path / "here" / "catalog.db").exists()
    assert lake.location == f"file://{tmp_path}/here" and lake.spark is spark
    assert lake.namespaces() == [] and lake.tables() == []


def test_namespaces(lake: Lake) -> None:
    lake.create_namespace("nyc")
    lake.create_namespace("a.b")
    assert {"nyc", "a.b"} <= set(lake.namespaces())
    with pytest.raises(NamespaceExists, match="nyc"):
        lake.create_namespace("nyc")
    lake.create_table("nyc.t", "id bigint")
    with pytest.raises(NamespaceNotEmpty, match="nyc"):
        lake.drop_namespace("nyc")
    lake.drop_table("nyc.t")
    lake.drop_namespace("nyc")
    with pytest.raises(NamespaceNotFound, match="nyc"):
        lake.drop_namespace("nyc")
    lake.drop_namespace("nyc", if_exists=True)


@pytest.mark.parametrize("kind", ["ddl", "spark", "arrow"])
def test_create_table_from_any_schema(lake: Lake, df: DataFrame, kind: str) -> None:
    schema: Any = {"ddl": "id bigint, region string", "spark": df.schema, "arrow": pa.schema([("id", pa.int64()), ("region", pa.string())])}[kind]
    table = lake.create_table("nyc.trips", schema, partition_by=["region"], sort_by=["id desc"], properties={"a": 1, "b": True})
    assert [(f.name, str(f.field_type)) for f in table.schema.fields] == [("id", "long"), ("region", "string")]
    assert table.properties == {"a": "1", "b": "true"} and table.name == "nyc.trips"
    assert lake.tables() == lake.tables("nyc") == ["nyc.trips"] and lake.table_exists("nyc.trips")


def test_create_if_not_exists_and_replace(lake: Lake, df: DataFrame) -> None:
    lake.write(df, "nyc.trips")
    with pytest.raises(TableExists, match=r"nyc\.trips"):
        lake.create_table("nyc.trips", "x int")
    assert [f.name for f in lake.create_table("nyc.trips", "x int", if_not_exists=True).schema.fields] == ["id", "region"]
    old = lake.table("nyc.trips").iceberg.current_snapshot().snapshot_id
    table = lake.create_table("nyc.trips", "region string, fare double", partition_by=["region"], replace=True)
    assert table.read().count() == 0 and [f.name for f in table.spec.fields] == ["region"]
    assert table.read(snapshot_id=old).count() == 2
    table.append(df.selectExpr("region", "1.5D AS fare"))
    assert table.read().count() == 2


def test_rename_and_drop(lake: Lake, df: DataFrame) -> None:
    lake.write(df, "nyc.trips")
    moved = lake.rename_table("nyc.trips", "archive.trips")
    assert moved.read().count() == 2 and not lake.table_exists("nyc.trips")
    lake.write(df, "nyc.trips")
    with pytest.raises(TableExists, match=r"archive\.trips"):
        lake.rename_table("nyc.trips", "archive.trips")
    with pytest.raises(TableNotFound, match=r"nyc\.none"):
        lake.rename_table("nyc.none", "nyc.other")
    place = Path(moved.location.removeprefix("file://"))
    lake.drop_table("archive.trips", purge=True)
    assert not place.exists() and ids(lake) == [1, 2]
    with pytest.raises(TableNotFound, match=r"archive\.trips"):
        lake.drop_table("archive.trips")


def test_a_name_used_again_does_not_get_old_files(lake: Lake, df: DataFrame) -> None:
    lake.write(df, "nyc.trips")
    first = lake.table("nyc.trips").location
    lake.drop_table("nyc.trips")
    lake.write(df.limit(1), "nyc.trips")
    assert lake.table("nyc.trips").location != first and lake.table("nyc.trips").read().count() == 1


# Save modes


@pytest.mark.feature("P3")
def test_every_mode_makes_a_missing_table(lake: Lake, df: DataFrame) -> None:
    for mode in ("append", "overwrite", "ignore", "error"):
        commit = lake.write(df, f"nyc.{mode}", mode=mode, partition_by=["region"], properties={"p": "q"})
        assert commit.added_rows == 2 and ids(lake, f"nyc.{mode}") == [1, 2]
    table = lake.table("nyc.append")
    assert [f.name for f in table.spec.fields] == ["region"] and table.properties == {"p": "q"}
    assert table.iceberg.metadata_location.rsplit("/", 1)[-1].startswith("00000-")


@pytest.mark.feature("P3")
def test_modes_on_a_table_that_is_there(lake: Lake, df: DataFrame) -> None:
    lake.write(df, "nyc.trips")
    with pytest.raises(TableExists, match=r"nyc\.trips"):
        lake.write(df, "nyc.trips", mode="error")
    assert lake.write(df, "nyc.trips", mode="ignore").nothing_written
    assert ids(lake) == [1, 2]
    lake.write(df.limit(1), "nyc.trips", mode="append")
    assert len(ids(lake)) == 3
    lake.write(df, "nyc.trips", mode="overwrite")
    assert ids(lake) == [1, 2]


@pytest.mark.feature("P3", "I1")
def test_overwrite_is_dynamic_where_the_session_says_so(lake: Lake, spark: SparkSession, df: DataFrame) -> None:
    lake.write(df, "nyc.trips", partition_by=["region"])
    with settings(spark, {PARTITION_OVERWRITE_MODE: "dynamic"}):
        lake.write(df.filter("region = 'eu'").selectExpr("id + 10 AS id", "region"), "nyc.trips", mode="overwrite")
    assert ids(lake) == [2, 11]
    lake.write(df.filter("region = 'eu'"), "nyc.trips", mode="overwrite")
    assert ids(lake) == [1]


def test_a_first_write_that_fails_makes_no_table(lake: Lake, df: DataFrame) -> None:
    with pytest.raises(lw.errors.WriteFailed, match="boom"):
        lake.write(df.selectExpr("CAST(raise_error('boom') AS bigint) AS id"), "nyc.trips")
    assert not lake.table_exists("nyc.trips")
    root = Path(lake.location.removeprefix("file://"))
    assert [p for p in root.rglob("*") if p.is_file() and not p.name.startswith("catalog.db")] == []
    lake.write(df, "nyc.trips")
    assert lake.table("nyc.trips").location == f"{lake.location}/nyc/trips"


def test_a_first_write_of_nothing_makes_the_table(lake: Lake, df: DataFrame) -> None:
    assert lake.write(df.limit(0), "nyc.trips").nothing_written
    assert ids(lake) == []


def test_a_table_made_by_another_meanwhile_is_appended_to(lake: Lake, df: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    original = making.first_state
    rival = lw.connect(lake.location, spark=lake.spark)

    def overtaken(*args: Any) -> Any:
        state = original(*args)
        monkeypatch.setattr(making, "first_state", original)
        rival.write(df, "nyc.trips")
        return state

    monkeypatch.setattr(making, "first_state", overtaken)
    lake.write(df, "nyc.trips")
    assert ids(lake) == [1, 1, 2, 2]
    assert lake.table("nyc.trips").remove_orphans(older_than_hours=-1).files == ()


def test_a_catalog_object_can_be_handed_in(tmp_path: Path, spark: SparkSession, df: DataFrame) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("mine", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    lake = lw.connect(tmp_path / "w", spark=spark, catalog=catalog)
    lake.write(df, "nyc.trips")
    assert catalog.load_table("nyc.trips").scan().to_arrow().num_rows == 2
