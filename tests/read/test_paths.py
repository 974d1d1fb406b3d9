"""File names on their way through Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField

from lakewright.errors import CorruptFile, UnsupportedOperation
from lakewright.read.paths import is_hidden, reported_path, spark_path, spark_reaches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBERS = Schema(NestedField(1, "n", IntegerType()))
ODD = [
    "a b",
    "a%20b",
    "a=b",
    "a#b",
    "a?b",
    "a*b",
    "a[b]",
    "a{b,c}",
    "ünï",
    "a+b",
    "a&b;c",
    "a:b",
    "a'b\"c",
    "a\\b",
    "a|b",
    "日本",
    "a^`~b",
    "a\u00a0b",
    "😀",
    "a@b!$()",
]


def moved(table: Any, name: str) -> Any:
    """The table with its one file under another name, as another engine might have named it."""
    file = table.files()[0].data_file
    target = table.folder / "data" / name
    target.parent.mkdir(exist_ok=True)
    Path(file.file_path.removeprefix("file://")).rename(target)
    table.metadata.raw["snapshots"].clear()
    table.metadata.raw.pop("current-snapshot-id")
    table.metadata.raw["refs"] = {}
    return table.commit([replace(file, file_path=f"file://{target}")], content=0)


@pytest.mark.parametrize("name", ODD)
def test_odd_names_are_read_and_recognised(spark: SparkSession, other_table: Callable[..., Any], name: str) -> None:
    table = moved(other_table(NUMBERS).append([{"n": 7}]), f"{name}/f.parquet")
    row = table.read(spark, metadata_columns=True, engine="native").select("n", "_file", "_pos").collect()
    assert [tuple(r) for r in row] == [(7, f"{table.metadata.location}/data/{name}/f.parquet", 0)]


@pytest.mark.parametrize("name", ["_f.parquet", ".f.parquet"])
def test_names_spark_passes_over_are_read_all_the_same(spark: SparkSession, other_table: Callable[..., Any], name: str) -> None:
    table = moved(other_table(NUMBERS).append([{"n": 7}]), name)
    assert is_hidden(table.files()[0].data_file.file_path)
    assert table.rows(spark) == [(7,)]
    with pytest.raises(UnsupportedOperation, match=name):
        table.read(spark, engine="native")


def test_a_missing_file_is_named(spark: SparkSession, other_table: Callable[..., Any]) -> None:
    table = other_table(NUMBERS).append([{"n": 7}])
    path = table.files()[0].data_file.file_path
    Path(path.removeprefix("file://")).unlink()
    with pytest.raises(CorruptFile, match=path.rsplit("/", 1)[-1]):
        table.read(spark)


def test_other_stores(spark: SparkSession) -> None:
    assert spark_path(spark, "s3://bucket/a/b.parquet") == "s3a://bucket/a/b.parquet"
    assert spark_path(spark, "/a/b") == spark_path(spark, "file:/a/b") == "file:///a/b"
    assert reported_path("s3a://bucket/a b//c") == "s3a://bucket/a%20b/c"
    assert spark_reaches(spark, "/a") and not spark_reaches(spark, "s3://bucket/a")
