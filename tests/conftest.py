from __future__ import annotations

import os
from collections import Counter
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
# Without it the JVM sets only 48 MiB aside for compiled code, which a session of some minutes fills, and compiles nothing from then on.
# Two cores are for the sessions, not for collectors beside them.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m -XX:+UseSerialGC")
CLASSES = Path(__file__).parents[1] / ".venv" / "spark-classes.jsa"  # made by scripts/share_classes.py
if CLASSES.exists():
    os.environ.setdefault("SPARK_SUBMIT_OPTS", f"-XX:SharedArchiveFile={CLASSES} -Xlog:disable")

settings.register_profile("test", max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
settings.register_profile("soak", max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "feature(*codes): the behaviours of the feature list that this test shows")


# Files that take longest, begun first: no worker then waits long for another's last one.
LONGEST = (
    *("rows/test_row_properties", "faults/test_row_level_faults", "rows/test_merge", "read/test_changes", "keys/test_model", "keys/test_at_hand", "source/test_write", "sql/test_queries"),
    *("keys/test_upsert", "sql/test_row_statements", "maintain/test_compact_drawn", "maintain/test_compact", "docs/test_examples", "faults/test_kill", "test_connect", "faults/test_interleavings"),
    *("source/test_changes", "read/test_changes_drawn", "faults/test_at_hand", "faults/test_shard_readers", "faults/test_small_disk", "shards/test_incremental", "shards/test_build", "faults/test_shard_builds", "shards/test_single"),
    *("keys/test_index_record", "keys/test_engines", "keys/test_index", "faults/test_upserters", "write/test_engine", "keys/test_buckets", "properties/test_round_trip"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {f"tests/{name}.py": rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.nodeid.partition("::")[0], len(ranks)))


SECONDS: Counter[str] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    SECONDS[report.nodeid.partition("::")[0]] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("seconds by file")
    for name, seconds in SECONDS.most_common(40):
        terminalreporter.write_line(f"{seconds:7.1f}  {name}")


# To compile the code that Spark generates for a plan takes longer than to run the plan over the few rows of a test: a fifth of all time.
# Those that are about reading rows of every type do it (`compiled`), as do all that have a session of their own, and the interop tests.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = local_session("lakewright-tests")
    for key, value in INTERPRETED.items():
        session.conf.set(key, value)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def compiled(spark: SparkSession) -> Iterator[None]:
    """Spark as users have it, with compiled plans."""
    for key in INTERPRETED:
        spark.conf.unset(key)
    yield
    for key, value in INTERPRETED.items():
        spark.conf.set(key, value)


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
