from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from lakewright.session import local_session
from tests.trips import D1, D2, SCHEMA, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakewright.lake import Lake
    from lakewright.table import Table

# Sessions of tests are short: what the JVM's second compiler makes of their code comes too late to pay for itself.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")

settings.register_profile("test", max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
settings.register_profile("soak", max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "feature(*codes): the behaviours of the feature list that this test shows")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = local_session("lakewright-tests")
    yield session
    session.stop()


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Any:
    """A fresh embedded lake."""
    import lakewright as lw

    return lw.connect(str(tmp_path / "lake"), spark=spark)


@pytest.fixture
def trips(lake: Lake) -> Table:
    return lake.create_table("nyc.trips", SCHEMA, partition_by=["region"])


@pytest.fixture
def filled(spark: SparkSession, trips: Table) -> Table:
    """Two rows in eu, one in us, one without a region; one file each."""
    trips.append(rows(spark, (1, "eu", D1), (2, "eu", D2), (3, "us", D1), (4, None, D1)))
    return trips
