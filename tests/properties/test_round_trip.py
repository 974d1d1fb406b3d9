"""Property tests of the round trip: random schemas, partitionings and rows, by each engine and distribution mode, as three readers see them.

What is written comes back from Lakewright, PyIceberg and DuckDB; every file holds rows of its partition and within its bounds,
and counts nulls and NaNs right; a filter finds what Spark finds without the table. 30 examples per engine, 500 in `make soak`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, note
from pyspark.sql.pandas.types import from_arrow_schema

import lakewright as lw
from tests.interop.canonical import canonical
from tests.interop.readers import duck, pyiceberg
from tests.properties.checks import check_file, data_files
from tests.properties.events import WANTED, WANTED_OF_ARROW, events
from tests.properties.strategies import Example, examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("compiled")

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
FEATURES = pytest.mark.feature("D1", "D2", "D3", "D5", "I5", "I7")
seen: Counter[str] = Counter()


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    before = spark.conf.get(SHUFFLE_PARTITIONS)
    spark.conf.set(SHUFFLE_PARTITIONS, "2")
    yield lw.connect(str(tmp_path_factory.mktemp("properties") / "lake"), spark=spark, progress="off")
    spark.conf.set(SHUFFLE_PARTITIONS, str(before))


@FEATURES
@given(example=examples(repeated=False))
def test_native(lake: Any, example: Example) -> None:
    check(lake, example, "native")


@FEATURES
@given(example=examples(repeated=True))
def test_arrow(lake: Any, example: Example) -> None:
    check(lake, example, "arrow")


def check(lake: Any, example: Example, engine: str) -> None:
    frame = lake.spark.createDataFrame(example.table, from_arrow_schema(example.schema, prefer_timestamp_ntz=True))
    table = lake.create_table("p.t", frame.schema, partition_by=example.partition_by, sort_by=example.sort_by)
    try:
        table.append(frame, engine=engine, distribution_mode=example.distribution_mode, fanout_enabled=example.fanout)
        check_rows(table, example)
        check_files(table)
        if example.where is not None:
            check_filter(table, frame, example.where)
    finally:
        lake.drop_table("p.t", purge=True)
    seen.update(f"{engine}: {event}" for event in events(example))


@pytest.mark.hypothesis
def test_what_the_examples_held() -> None:
    """Runs after the others of this module, and judges what they drew."""
    print(dict(seen.most_common()))
    wanted = {f"native: {event}" for event in WANTED} | {f"arrow: {event}" for event in WANTED_OF_ARROW}
    assert wanted <= set(seen), f"never drawn: {sorted(wanted - set(seen))}"


def check_rows(table: Any, example: Example) -> None:
    expected = canonical(example.table)
    assert canonical(table.read().toArrow()) == expected, "read by Lakewright"
    assert canonical(duck(table)) == expected, "read by DuckDB"
    assert canonical(pyiceberg(table)) == canonical(example.as_pyiceberg_reads()), "read by PyIceberg"


def check_files(table: Any) -> None:
    iceberg = table.iceberg
    for file in data_files(iceberg):
        check_file(file, iceberg.schema(), iceberg.spec())


def check_filter(table: Any, frame: Any, where: str) -> None:
    note(where)
    assert canonical(table.read(where=where).toArrow()) == canonical(frame.where(where).toArrow())
