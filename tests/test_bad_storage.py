"""Files, catalogs and folders that are damaged, missing or closed: a typed error that says what and where, and a table that is as before."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakewright as lw
from lakewright.errors import CatalogUnavailable, CorruptFile, LakewrightError, PermissionRefused

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


# Files


def damaged(path: Path, how: str) -> None:
    if how == "missing":
        path.unlink()
    elif how == "truncated":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    else:
        path.write_bytes(b"\x00" * path.stat().st_size)


@pytest.mark.parametrize("how", ["missing", "truncated", "garbage"])
@pytest.mark.parametrize("what", ["-m0.avro", "snap-", ".metadata.json", ".parquet"])
def test_damaged_files(lake: Lake, spark: SparkSession, what: str, how: str) -> None:
    table = lake.create_table("nyc.trips", SCHEMA)
    table.append(rows(spark, (1, "eu", None, DAY), (2, "us", None, None)).coalesce(1))
    pointer = table.iceberg.metadata_location
    hit = max(p for p in stored(table) if what in p.name)
    damaged(hit, how)
    with pytest.raises(CorruptFile, match=hit.name):
        lake.table("nyc.trips").overwrite(rows(spark, (1, "eu", None, None)), where="id = 1")
    assert lake.store.pointer(("nyc", "trips")) == pointer
    assert len(list((root(table) / "data").rglob("*.parquet"))) == (1 if what != ".parquet" or how != "missing" else 0)


# Catalog and disk


def test_a_catalog_that_goes_away(lake: Lake, spark: SparkSession) -> None:
    table = lake.create_table("nyc.trips", "id bigint")
    database = Path(lake.location.removeprefix("file://"), "catalog.db")
    kept = database.read_bytes()
    lake.catalog.engine.dispose()
    database.write_bytes(b"not a database" * 100)
    with pytest.raises(CatalogUnavailable, match="nothing was changed"):
        table.append(rows(spark, (1,), schema="id bigint"))
    database.write_bytes(kept)
    assert table.read().count() == 0 and list((root(table) / "data").rglob("*")) == []


def test_a_catalog_that_is_not_there(tmp_path: Path, spark: SparkSession) -> None:
    with pytest.raises(CatalogUnavailable, match=r"127\.0\.0\.1:9"):
        lw.connect(tmp_path, spark=spark, catalog={"type": "rest", "uri": "http://127.0.0.1:9"})


def test_a_folder_that_cannot_be_a_lake(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PermissionRefused, match="/sys/kernel/lake"):
        lw.connect("/sys/kernel/lake", spark=spark)
    (tmp_path / "file").write_text("x")
    with pytest.raises(LakewrightError, match="file"):
        lw.connect(tmp_path / "file", spark=spark)


@pytest.mark.parametrize("engine", ["native", "arrow"])
def test_a_data_folder_that_cannot_be_written(lake: Lake, spark: SparkSession, engine: str) -> None:
    """/sys refuses new folders to everybody, root included."""
    table = lake.create_table("nyc.trips", "id bigint")
    (root(table) / "data").symlink_to("/sys/kernel")
    before = set((root(table) / "metadata").iterdir())
    with pytest.raises(PermissionRefused, match=r"nyc\.trips"):
        table.append(rows(spark, (1,), schema="id bigint"), engine=engine)
    assert set((root(table) / "metadata").iterdir()) == before


@pytest.mark.parametrize("folder", ["metadata", "runs"])
def test_a_metadata_folder_that_cannot_be_written(lake: Lake, spark: SparkSession, folder: str) -> None:
    table = lake.create_table("nyc.trips", "id bigint")
    hidden = root(table) / f"{folder}-before"
    if (root(table) / folder).exists():
        (root(table) / folder).rename(hidden)
    (root(table) / folder).symlink_to("/sys/kernel")
    with pytest.raises(LakewrightError) as caught:
        table.append(rows(spark, (1,), schema="id bigint"))
    assert isinstance(caught.value, (PermissionRefused, CorruptFile))
    (root(table) / folder).unlink()
    if hidden.exists():
        hidden.rename(root(table) / folder)
    assert table.read().count() == 0 and not [p for p in (root(table) / "data").rglob("*") if p.is_file()]
