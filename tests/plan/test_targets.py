"""Numbers of targets for located rows: the same by an expression, as few get them, and by a join, as many do."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from lakewright.format.data_file import DataFile
from lakewright.plan import targets
from lakewright.plan.delta import FILE, TargetFile
from lakewright.plan.targets import FIRST_ROW, with_targets
from lakewright.read.arrow_scan import ArrowFile
from lakewright.read.layout import FILE as PATH
from lakewright.read.layout import POSITION
from lakewright.read.scan import FileScan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAIN, QUOTED, FOREIGN = "file:/t/a.parquet", "file:/t/it's \\'b\\n\".parquet", "s3://t/größe-€.parquet"
POSITIONS = (0, 99, 100, 249, 250, 5_000_000_000)


@pytest.fixture(params=[targets.FEW, 0], ids=["expression", "join"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "FEW", request.param)


def whole(path: str, first_row_id: int | None) -> TargetFile:
    return TargetFile(ArrowFile(FileScan(DataFile(path, 1, 1, 0, first_row_id=first_row_id), 1, 1, ()), {}))


def parts(path: str, first_row_id: int | None) -> list[TargetFile]:
    file = whole(path, first_row_id).file
    return [TargetFile(file, (0, 1), 0), TargetFile(file, (1, 3), 100), TargetFile(file, (3, 4), 250)]


def numbers(spark: SparkSession, planned: list[TargetFile], *paths: str) -> list[tuple[int, int | None]]:
    """FILE and FIRST_ROW of rows at POSITIONS of each path in turn."""
    places = [(n, path, position) for n, (path, position) in enumerate(product(paths, POSITIONS))]
    rows = spark.createDataFrame(places, f"n int, {PATH} string, {POSITION} bigint")
    numbered = with_targets(spark, planned, {path: path for path in paths}, rows).orderBy("n")
    return [(row[FILE], row[FIRST_ROW]) for row in numbered.collect()]


@pytest.mark.usefixtures("few")
def test_one_file(spark: SparkSession) -> None:
    assert numbers(spark, [whole(QUOTED, 7)], QUOTED) == [(0, 7)] * 6


@pytest.mark.usefixtures("few")
def test_files_with_any_name(spark: SparkSession) -> None:
    planned = [whole(PLAIN, 0), whole(QUOTED, None), whole(FOREIGN, 2**40)]
    assert numbers(spark, planned, PLAIN, QUOTED, FOREIGN) == [(0, 0)] * 6 + [(1, None)] * 6 + [(2, 2**40)] * 6


@pytest.mark.usefixtures("few")
def test_parts_of_a_large_file(spark: SparkSession) -> None:
    planned = [whole(PLAIN, 5), *parts(FOREIGN, 10), *parts(QUOTED, None)]
    split = [0, 0, 1, 1, 2, 2]
    assert numbers(spark, planned, PLAIN, FOREIGN, QUOTED) == [(0, 5)] * 6 + [(1 + n, 10) for n in split] + [(4 + n, None) for n in split]


@pytest.mark.parametrize(("count", "joins"), [(targets.FEW, False), (targets.FEW + 1, True)])
def test_only_many_are_joined(spark: SparkSession, capsys: pytest.CaptureFixture[str], count: int, joins: bool) -> None:
    paths = [f"file:/t/{n}" for n in range(count)]
    rows = spark.createDataFrame([(path, 0) for path in paths], f"{PATH} string, {POSITION} bigint")
    numbered = with_targets(spark, [whole(path, None) for path in paths], {path: path for path in paths}, rows)
    assert sorted(row[FILE] for row in numbered.collect()) == list(range(count))
    numbered.explain()
    assert ("Join" in capsys.readouterr().out) is joins
