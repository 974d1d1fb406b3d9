from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from lakewright.errors import ConfigurationError, SessionConflict
from lakewright.session import (
    PARTITION_OVERWRITE_MODE,
    SQL_SETTINGS,
    active_or_local,
    local_session,
    partition_overwrite_mode,
    session_options,
    settings,
    time_zone,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BYTES = "spark.sql.files.maxPartitionBytes"
LIMIT = "spark.sql.parquet.columnarReaderBatchSize"


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    return spark.newSession()


def test_a_local_session_has_the_settings_we_need(spark: SparkSession) -> None:
    assert {key: spark.conf.get(key) for key in SQL_SETTINGS} == dict(SQL_SETTINGS)
    assert time_zone(spark) == "UTC"


def test_tasks_run_this_interpreter(spark: SparkSession) -> None:
    import pyarrow as pa

    def which(batches: object) -> object:
        yield pa.record_batch({"python": [sys.executable]})

    assert {row.python for row in spark.range(1).mapInArrow(which, "python string").collect()} == {sys.executable}  # type: ignore[arg-type]


def test_workers_begin_with_what_writing_tasks_import(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    @F.udf("string")
    def parent(_: int) -> str:
        import os
        from pathlib import Path

        return Path(f"/proc/{os.getppid()}/cmdline").read_text()

    started_by = spark.range(1).select(parent("id").alias("command")).collect()[0].command
    assert "lakewright.write.worker_daemon" in started_by
    program = "import sys; sys.argv = ['daemon', 'pyspark.worker']; import lakewright.write.worker_daemon; print('lakewright.write.copy_on_write' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split() == ["True"]


def test_workers_do_not_look_for_garbage_among_their_imports(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    @F.udf("array<int>")
    def counted(_: int) -> list[int]:
        import gc

        return [gc.get_freeze_count(), len(gc.get_objects())]

    aside, looked_at = spark.range(1).select(counted("id").alias("counts")).collect()[0].counts
    assert aside > 50_000 and looked_at < aside / 5


def test_the_active_session_is_taken(spark: SparkSession) -> None:
    assert active_or_local().conf.get("spark.app.id") == spark.conf.get("spark.app.id")


def test_settings_last_for_the_block(session: SparkSession) -> None:
    session.conf.set(BYTES, "1000")
    with settings(session, {BYTES: "2000", LIMIT: "77", "spark.lakewright.engine": "arrow"}):
        assert (session.conf.get(BYTES), session.conf.get(LIMIT)) == ("2000", "77")
        assert session_options(session) == {"spark.lakewright.engine": "arrow"}
    assert session.conf.get(BYTES) == "1000"
    assert LIMIT not in session.conf.getAll
    assert session_options(session) == {}


def test_settings_are_restored_in_reverse_order_after_a_failure(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    kind = type(session.conf)
    unset = kind.unset

    def recorded(self: object, key: str) -> None:
        order.append(key)
        unset(self, key)  # type: ignore[arg-type]

    monkeypatch.setattr(kind, "unset", recorded)
    with pytest.raises(ZeroDivisionError), settings(session, {BYTES: "1", LIMIT: "2"}):
        raise ZeroDivisionError
    assert order == [LIMIT, BYTES]


def test_a_setting_spark_refuses_leaves_the_others_as_they_were(session: SparkSession) -> None:
    with pytest.raises(ConfigurationError, match=r"spark\.driver\.memory"), settings(session, {BYTES: "1", "spark.driver.memory": "1g"}):
        pass
    assert BYTES not in session.conf.getAll


def test_one_thread_may_nest(session: SparkSession) -> None:
    with settings(session, {BYTES: "1"}):
        with settings(session, {BYTES: "2"}):
            assert session.conf.get(BYTES) == "2"
        assert session.conf.get(BYTES) == "1"
    assert BYTES not in session.conf.getAll


def _in_thread(session: SparkSession, value: str) -> tuple[threading.Thread, threading.Event]:
    """A thread that holds BYTES at the value from `entered` until `leave`."""
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with settings(session, {BYTES: value}):
            entered.set()
            leave.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert entered.wait(30)
    return thread, leave


def test_threads_share_one_value_until_the_last_leaves(session: SparkSession) -> None:
    first, leave_first = _in_thread(session, "5")
    second, leave_second = _in_thread(session, "5")
    leave_first.set()
    first.join()
    assert session.conf.get(BYTES) == "5"
    leave_second.set()
    second.join()
    assert BYTES not in session.conf.getAll


def test_threads_that_differ_are_told_so(session: SparkSession) -> None:
    thread, leave = _in_thread(session, "5")
    with pytest.raises(SessionConflict, match=rf"{BYTES} is '5' .* needs '6'.*newSession"), settings(session, {LIMIT: "3", BYTES: "6"}):
        pass
    assert LIMIT not in session.conf.getAll
    with settings(session.newSession(), {BYTES: "6"}):
        pass
    leave.set()
    thread.join()
    with settings(session, {BYTES: "6"}):
        assert session.conf.get(BYTES) == "6"


def test_a_thread_does_not_change_what_another_shares(session: SparkSession) -> None:
    with settings(session, {BYTES: "5"}):
        thread, leave = _in_thread(session, "5")
        with pytest.raises(SessionConflict), settings(session, {BYTES: "6"}):
            pass
        leave.set()
        thread.join()


@pytest.mark.feature("P3")
def test_partition_overwrite_mode_is_read(session: SparkSession) -> None:
    assert partition_overwrite_mode(session) == "static"
    session.conf.set(PARTITION_OVERWRITE_MODE, "DYNAMIC")
    assert partition_overwrite_mode(session) == "dynamic"


def test_without_java_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ConfigurationError, match="apt install openjdk-17"):
        local_session()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(ConfigurationError, match="JAVA_HOME is /nowhere"):
        local_session()


def test_importing_lakewright_imports_no_spark() -> None:
    code = "import lakewright, lakewright.session, sys; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
