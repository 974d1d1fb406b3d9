"""One lake for all tests of a module, each with tables of its own: a conftest.py that imports `lake` from here has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import lakewright as lw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One lake for a module: each test makes tables of its own."""
    before = spark.conf.get(SHUFFLE_PARTITIONS)
    spark.conf.set(SHUFFLE_PARTITIONS, "2")
    yield lw.connect(str(tmp_path_factory.mktemp("module") / "lake"), spark=spark, progress="off")
    spark.conf.set(SHUFFLE_PARTITIONS, str(before))
