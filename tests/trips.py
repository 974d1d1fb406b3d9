"""A small table of trips, and looks at what is in it."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
