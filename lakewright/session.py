"""Spark sessions: start one with the settings Lakewright needs, or borrow one and give it back as it was."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakewright.errors import ConfigurationError, SessionConflict
from lakewright.options import SESSION_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITION_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
TIME_ZONE = "spark.sql.session.timeZone"
GIB = 1024**3
UNKNOWN_BYTES = 2**50

SQL_SETTINGS: Mapping[str, str] = {
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    TIME_ZONE: "UTC",
}


def local_session(app_name: str = "lakewright") -> SparkSession:
    """A Spark session on this machine with the settings Lakewright needs; quiet on the console."""
    _require_java()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name).master("local[*]")
    for key, value in {**_process_settings(), **SQL_SETTINGS}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def active_or_local() -> SparkSession:
    """The active session, classic or Connect; else the server SPARK_REMOTE names; else a local one."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if "SPARK_REMOTE" in os.environ:
        return SparkSession.builder.getOrCreate()
    return local_session()


def session_options(spark: SparkSession) -> dict[str, str]:
    """Every `spark.lakewright.*` key set on the session, with its prefix."""
    return {key: value for key, value in _all_settings(spark).items() if key.startswith(SESSION_PREFIX)}


def _all_settings(spark: SparkSession) -> dict[str, str]:
    """What is set on the session: from a JVM at hand in one call, where `getAll` makes several for each setting."""
    session: Any = getattr(spark, "_jsparkSession", None)
    if session is None:
        return dict(spark.conf.getAll)
    pairs = str(session.conf().getAll().mkString("\0")).split("\0")
    return dict(pair.split(" -> ", 1) for pair in pairs if pair)


def partition_overwrite_mode(spark: SparkSession) -> str:
    """`static` or `dynamic`, as Spark's own sources would take it."""
    return str(spark.conf.get(PARTITION_OVERWRITE_MODE, "static")).lower()


def time_zone(spark: SparkSession) -> str:
    return str(spark.conf.get(TIME_ZONE))


def cores_at_hand(spark: SparkSession) -> int | None:
    """How many tasks run at once; None for a Connect session, which does not say."""
    context: Any = getattr(spark, "_sc", None)
    return None if context is None else int(context.defaultParallelism)


def cores_of(spark: SparkSession) -> int:
    """The same; a Connect session says it through how it splits rows, in a job."""
    from pyspark.sql import functions as F

    known = cores_at_hand(spark)
    if known is not None:
        return known
    row = spark.range(10_000).select(F.spark_partition_id().alias("part")).agg(F.max("part").alias("last")).first()
    assert row is not None
    return int(row.last) + 1


@contextmanager
def settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Keep these settings in force for a block, then put the session back in reverse order, also when the block fails.

    Threads that want one value of a key share it until the last of them leaves. A thread that wants another value than one
    in force for a different thread gets a SessionConflict, since a session holds one value for all its threads.
    """
    with ExitStack() as held:
        for key, value in wanted.items():
            held.enter_context(_setting(spark, key, str(value)))
        yield


@contextmanager
def settings_if_free(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """The same for settings that only make a block faster: without those that another thread holds otherwise."""
    with ExitStack() as held:
        for key, value in wanted.items():
            with suppress(SessionConflict):
                held.enter_context(_setting(spark, key, value))
        yield


@dataclass
class _Setting:
    """One key of one session while it is held: who holds which value, and what to restore."""

    original: str | None
    holders: list[tuple[int, str]] = field(default_factory=list)


_held: dict[tuple[str, str], _Setting] = {}
_lock = threading.RLock()


@contextmanager
def _setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    place, holder = (_session_key(spark), key), (threading.get_ident(), value)
    with _lock:
        _take(spark, place, holder)
    try:
        yield
    finally:
        with _lock:
            _release(spark, place, holder)


def _take(spark: SparkSession, place: tuple[str, str], holder: tuple[int, str]) -> None:
    key, (thread, value) = place[1], holder
    state = _held.get(place)
    if state is None:
        state = _Setting(spark.conf.get(key, None))
    other = next((v for t, v in state.holders if t != thread and v != value), None)
    if other is not None:
        raise SessionConflict(
            f"Setting {key} is {other!r} for another thread on this session, and this operation needs {value!r}. "
            "Give each thread its own session: spark.newSession()."
        )
    if value != _in_force(state):
        _set(spark, key, value)
    state.holders.append(holder)
    _held[place] = state


def _release(spark: SparkSession, place: tuple[str, str], holder: tuple[int, str]) -> None:
    state = _held[place]
    before = _in_force(state)
    last = len(state.holders) - 1 - state.holders[::-1].index(holder)
    del state.holders[last]
    if not state.holders:
        del _held[place]
    after = _in_force(state)
    if after is None:
        spark.conf.unset(place[1])
    elif after != before:
        spark.conf.set(place[1], after)


def _in_force(state: _Setting) -> str | None:
    return state.holders[-1][1] if state.holders else state.original


def _set(spark: SparkSession, key: str, value: str) -> None:
    try:
        spark.conf.set(key, value)
    except Exception as error:
        raise ConfigurationError(f"Spark refuses {key}={value!r}: {str(error).splitlines()[0]}") from error


def _session_key(spark: SparkSession) -> str:
    """Identity of the session behind the Python object: classic Spark makes a new object at each getActiveSession()."""
    connect_id: Any = getattr(spark, "session_id", None)
    return str(connect_id) if connect_id is not None else str(spark._jsparkSession.sessionUUID())


def _process_settings() -> dict[str, str]:
    cores = os.cpu_count() or 1
    return {
        "spark.driver.memory": f"{_driver_memory_mib()}m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.ui.explainMode": "simple",  # each query writes its plan down for the page that is not shown
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(max(8, 2 * cores)),
        "spark.python.daemon.module": "lakewright.write.worker_daemon",
        "spark.buffer.pageSize": "8m",  # every small join and sort takes a page, which would be of 64 MiB and more
    }


def _driver_memory_mib() -> int:
    """A quarter of the machine's memory, from 1 to 4 GiB."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        total = 8 * GIB
    return min(max(total // 4, GIB), 4 * GIB) // (1024 * 1024)


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home and os.access(os.path.join(home, "bin", "java"), os.X_OK):
        return
    if not home and shutil.which("java"):
        return
    where = f"JAVA_HOME is {home}, where there is no bin/java" if home else "there is no java on the PATH and JAVA_HOME is not set"
    raise ConfigurationError(
        f"Spark needs Java 17 or 21, and {where}. Install it (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17; "
        "conda: conda install openjdk=17), or hand in a session of your own: lakewright.connect(…, spark=spark)."
    )


def estimated_bytes(rows: DataFrame) -> int | None:
    """How many bytes Spark takes rows to be; None where it cannot tell, as with rows of an RDD or a Connect session, whose client has no plan."""
    try:
        size = int(str(rows._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    except Exception:
        return None
    return None if size >= UNKNOWN_BYTES else size
