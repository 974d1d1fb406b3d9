from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from lakewright.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
