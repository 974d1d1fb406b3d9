"""The main path in a few steps; `make interop` also runs it on the oldest PySpark that is admitted."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

COLUMNS = "id int, region string, day date, score double"
ROWS = [(1, "eu", date(1969, 12, 31), float("nan")), (2, "", date(2024, 2, 29), 1.5), (3, None, None, None)]


def ids(frame: Any) -> list[int]:
    return sorted(row.id for row in frame.collect())


@pytest.mark.parametrize("engine", ["native", "arrow"])
def test_a_table_from_creation_to_time_travel(lake: Any, engine: str) -> None:
    table = lake.create_table("smoke.trips", COLUMNS, partition_by=["region", "bucket(4, id)", "month(day)"], sort_by=["id desc"])
    first = table.append(lake.spark.createDataFrame(ROWS, COLUMNS), engine=engine)
    table.overwrite(lake.spark.createDataFrame([(4, "eu", None, 2.5)], COLUMNS), where="region = 'eu'", engine=engine)
    table.overwrite_partitions(lake.spark.createDataFrame([(2, "", date(2024, 2, 1), 0.5)], COLUMNS), engine=engine)
    table.evolve_schema(rename={"score": "points"}, add={"tags": "array<string>"}, promote={"id": "bigint"})
    table.append(lake.spark.createDataFrame([(2**40, "us", None, 1.0, ["a"])], "id bigint, region string, day date, points double, tags array<string>"))
    assert ids(table.read()) == [2, 3, 4, 2**40]
    assert ids(table.read("region = 'eu'")) == [4]
    assert ids(table.read(snapshot_id=first.snapshot_id)) == [1, 2, 3]


def test_the_data_source(lake: Any) -> None:
    frame = lake.spark.createDataFrame(ROWS, COLUMNS)
    lake.create_table("smoke.source", COLUMNS, partition_by=["region"])
    frame.write.format("lakewright").mode("append").option("lake", str(lake.config.folder)).save("smoke.source")
    assert ids(lake.spark.read.format("lakewright").option("lake", str(lake.config.folder)).load("smoke.source")) == [1, 2, 3]


def test_a_keyed_table_and_what_changed_in_it(lake: Any) -> None:
    table = lake.create_table("smoke.keyed", "id bigint, v string", key=["id"])
    begin = table.upsert(lake.spark.range(60_000).selectExpr("id", "repeat(cast(id AS string), 4) AS v"))
    table.upsert(lake.spark.range(10_000, 70_000).selectExpr("id", "repeat(cast(-id AS string), 4) AS v"))
    assert table.read().count() == 70_000
    changed = table.changes(begin).selectExpr("count(*)", "min(id)", "count_if(v = repeat(cast(-id AS string), 4))").first()
    assert tuple(changed) == (60_000, 10_000, 60_000)
