"""One lake for all tests of a module, each with tables of its own: a conftest.py that imports `lake` from here has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import lakewright as lw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A few rows at a time: planning their stages one by one, as adaptive execution does, costs more than running them. Tests of the other folders, docs and interop keep it.
FEW_ROWS = {"spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false"}


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One lake for a module: each test makes tables of its own."""
    before = {key: str(spark.conf.get(key)) for key in FEW_ROWS}
    for key, value in FEW_ROWS.items():
        spark.conf.set(key, value)
    yield lw.connect(str(tmp_path_factory.mktemp("module") / "lake"), spark=spark, progress="off")
    for key, value in before.items():
        spark.conf.set(key, value)
