"""Both engines through Spark: the same rows in, the same files' worth of rows out."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.errors import NullInRequiredColumn, PermissionRefused, StorageFull, UnsupportedOperation, WriteFailed
from lakewright.format.data_file import DataFile
from lakewright.format.transforms import partition_values
from lakewright.options import resolve
from lakewright.plan.types import iceberg_to_spark, schema_from
from lakewright.plan.write_plan import WritePlan
from lakewright.session import settings
from lakewright.write import footers
from lakewright.write.engine import choose_engine, write_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MakePlan = Callable[..., WritePlan]
Listing = Callable[[], set[str]]
ENGINES = pytest.mark.parametrize("engine", ["native", "arrow"])
MIB = 1024 * 1024

SCHEMA = "id bigint, s string, b binary, d date, ts timestamp, n timestamp_ntz, c decimal(20,3), x double, f float, ok boolean, st struct<k: int, t: string>"
ROWS: list[tuple[Any, ...]] = [
    (1, "", b"", date(1969, 12, 31), datetime(1969, 12, 31, 23, 59, tzinfo=UTC), datetime(1, 1, 1), Decimal("-1.005"), math.nan, 1.5, True, (1, "a")),
    (2, None, None, None, None, None, None, None, None, None, None),
    (
        3,
        "null",
        b"\x00\xff",
        date(2024, 2, 29),
        datetime(2024, 2, 29, 12, tzinfo=UTC),
        datetime(2024, 2, 29, 12),
        Decimal("17.999"),
        -0.5,
        math.nan,
        False,
        (None, ""),
    ),
    (4, "é/=%🙂", b"x" * 100, date(1582, 10, 15), datetime(1900, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23), Decimal("0"), 1e300, 0.1, True, (4, None)),
    (
        5,
        "long " * 60,
        b"y" * 300,
        date(9999, 12, 31),
        datetime(2038, 1, 19, tzinfo=UTC),
        datetime(2038, 1, 19),
        Decimal("99999999999999999.999"),
        0.1,
        -2.5,
        None,
        (5, "e"),
    ),
    (
        6,
        "long " * 60,
        b"y" * 300,
        date(2024, 2, 28),
        datetime(2024, 2, 29, 12, tzinfo=UTC),
        datetime(2024, 2, 29, 13),
        Decimal("17.000"),
        -0.5,
        3.5,
        False,
        (4, "f"),
    ),
]
SPECS = [
    ["s"], ["b"], ["d"], ["ts"], ["n"], ["c"], ["x"], ["f"], ["ok"], ["st.k"],
    ["bucket(4, s)", "truncate(3, s)", "void(id)"], ["truncate(2, b)", "bucket(3, b)"], ["year(d)", "month(ts)", "day(n)"], ["hour(ts)", "hour(n)"],
    ["truncate(10, c)", "bucket(5, c)", "bucket(5, id)"], ["bucket(7, ts)", "bucket(7, n)", "bucket(7, d)"],
]  # fmt: skip


def frame(spark: SparkSession, schema: str = SCHEMA, rows: list[Any] | None = None) -> DataFrame:
    return spark.createDataFrame(ROWS if rows is None else rows, iceberg_to_spark(schema_from(schema)))


def read(file: DataFile) -> pa.Table:
    return pq.ParquetFile(file.file_path.removeprefix("file://")).read()


def read_all(files: list[DataFile]) -> list[dict[str, Any]]:
    return sorted((row for file in files for row in read(file).to_pylist()), key=lambda row: row["id"])


@ENGINES
@pytest.mark.feature("I7", "I10", "D5")
def test_rows_metrics_and_field_ids(spark: SparkSession, make_plan: MakePlan, on_disk: Listing, engine: str) -> None:
    plan = make_plan(SCHEMA, engine=engine)
    files = write_files(plan, frame(spark).coalesce(1))
    (file,) = files
    assert on_disk() == {file.file_path}
    assert file.record_count == 6 and file.nan_value_counts == {8: 1, 9: 1}
    assert file.null_value_counts[2] == 1 and file.null_value_counts[10] == 2 and file.lower_bounds[1] == (1).to_bytes(8, "little")
    stored = read(file)
    assert stored.column("id").to_pylist() == [1, 2, 3, 4, 5, 6]
    assert stored.column("s").to_pylist() == [row[1] for row in ROWS]
    assert stored.column("c").to_pylist() == [row[6] for row in ROWS]
    shown = str(pq.read_metadata(file.file_path.removeprefix("file://")).schema)
    assert [int(part.split(" ")[0]) for part in shown.split("field_id=")[1:]][1:] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in shown and "isAdjustedToUTC=false, timeUnit=microseconds" in shown


@ENGINES
@pytest.mark.feature("D1", "D4")
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: ",".join(spec))
def test_each_file_holds_rows_of_its_partition(spark: SparkSession, make_plan: MakePlan, on_disk: Listing, engine: str, spec: list[str]) -> None:
    plan = make_plan(SCHEMA, spec, engine=engine)
    with settings(spark, {"spark.sql.session.timeZone": "Asia/Kathmandu"}):
        files = write_files(plan, frame(spark))
    assert [row["id"] for row in read_all(files)] == [1, 2, 3, 4, 5, 6]
    assert on_disk() == {file.file_path for file in files}
    for file in files:
        (stored,) = read(file).combine_chunks().to_batches()
        for expected, values in zip(file.partition, partition_values(plan.spec, plan.schema, stored), strict=True):
            assert all(same(expected, value) for value in values.to_pylist()), (expected, values)
    assert len({repr(file.partition) for file in files}) == len(files), "one file per partition"


def same(left: Any, right: Any) -> bool:
    return left == right or (isinstance(left, float) and math.isnan(left) and math.isnan(right))


@ENGINES
@pytest.mark.feature("I5")
@pytest.mark.parametrize("mode", ["none", "hash", "range"])
@pytest.mark.parametrize("fanout", [False, True])
def test_sort_order_is_applied_under_each_distribution(spark: SparkSession, make_plan: MakePlan, engine: str, mode: str, fanout: bool) -> None:
    plan = make_plan("id bigint, p int, t string", ["p"], ["t desc", "bucket(4, id)"], engine=engine, distribution_mode=mode, fanout_enabled=fanout)
    df = spark.range(600).selectExpr("id", "cast(id % 3 as int) p", "case when id % 10 = 0 then null else cast(hash(id) % 50 as string) end t")
    files = write_files(plan, df)
    assert sum(f.record_count for f in files) == 600 and {f.partition for f in files} == {(0,), (1,), (2,)}
    assert {f.sort_order_id for f in files} == {plan.sort_order.order_id}
    for file in files:
        texts = read(file).column("t").to_pylist()
        assert texts == sorted((t for t in texts if t is not None), reverse=True) + [None] * texts.count(None)


@ENGINES
def test_an_empty_frame_makes_no_files(spark: SparkSession, make_plan: MakePlan, on_disk: Listing, engine: str) -> None:
    assert write_files(make_plan(SCHEMA, engine=engine), frame(spark).limit(0)) == [] and not on_disk()


@pytest.mark.feature("I9")
@pytest.mark.parametrize(("engine", "tolerance"), [("arrow", 0.3), ("native", 0.5)])
def test_file_sizes(spark: SparkSession, make_plan: MakePlan, engine: str, tolerance: float) -> None:
    target = MIB // 2
    df = spark.range(0, 300_000, 1, 1).selectExpr("id", "uuid() as t", "rand() as x")
    first = write_files(make_plan("id bigint, t string, x double", engine=engine), df)
    per_row = sum(f.file_size_in_bytes for f in first) / 300_000
    files = write_files(make_plan("id bigint, t string, x double", engine=engine, bytes_per_row=per_row, target_file_size_bytes=target), df)
    whole = sorted(f.file_size_in_bytes for f in files)[1:]
    assert len(whole) > 10
    assert all(abs(size - target) <= tolerance * target for size in whole), whole


@pytest.mark.feature("I9", "I5")
def test_a_large_partition_is_spread_over_files_of_the_target_size(spark: SparkSession, make_plan: MakePlan) -> None:
    plan = make_plan("id bigint, p int, t string", ["p"], target_file_size_bytes=MIB, advisory_partition_size=3 * MIB)
    df = spark.range(0, 200_000, 1, 4).selectExpr("id", "case when id % 20 = 0 then 1 else 0 end p", "uuid() as t")
    files = write_files(plan, df)
    big = [f.file_size_in_bytes for f in files if f.partition == (0,)]
    assert len(big) > 3 and max(big) <= 1.3 * MIB


@ENGINES
@pytest.mark.feature("I22")
def test_a_job_that_fails_leaves_nothing(spark: SparkSession, make_plan: MakePlan, on_disk: Listing, engine: str) -> None:
    df = spark.range(0, 4000, 1, 4).selectExpr("id", "if(id = 3999, raise_error('bad row'), 'x') as t")
    with pytest.raises(WriteFailed, match=r"db\.t failed.*bad row") as raised:
        write_files(make_plan("id bigint, t string", engine=engine), df)
    assert raised.value.__cause__ is not None and not on_disk()


def test_null_in_a_required_column_names_it(spark: SparkSession, make_plan: MakePlan, on_disk: Listing) -> None:
    plan = make_plan("id bigint not null, t string")
    with pytest.raises(NullInRequiredColumn, match="'id'.*db.t") as raised:
        write_files(plan, spark.sql("select if(id = 9, null, id) id, 'x' t from range(10)"))
    assert raised.value.table == "db.t" and not on_disk()


@ENGINES
@pytest.mark.parametrize(("said", "kind"), [("No space left on device", StorageFull), ("Permission denied", PermissionRefused)])
def test_storage_errors_are_typed(spark: SparkSession, make_plan: MakePlan, engine: str, said: str, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"db\.t.*as before"):
        write_files(make_plan("id bigint", engine=engine), spark.range(10).selectExpr(f"if(id = 3, raise_error('java.io.IOException: {said}'), id) as id"))


def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in range(batch.num_rows):
            yield batch.slice(row, 1)
            time.sleep(0.2)


@ENGINES
@pytest.mark.feature("I22")
def test_an_interrupt_cancels_the_job_and_leaves_nothing(spark: SparkSession, make_plan: MakePlan, on_disk: Listing, engine: str) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    df = spark.range(0, 400, 1, 4).mapInArrow(slow, "id bigint")
    before = signal.signal(signal.SIGALRM, interrupt)
    began = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, 4)
        with pytest.raises(KeyboardInterrupt):
            write_files(make_plan("id bigint", engine=engine), df)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - began < 30
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()
    assert not on_disk()


@ENGINES
def test_settings_of_the_session_are_as_before(spark: SparkSession, make_plan: MakePlan, engine: str) -> None:
    before = spark.conf.getAll
    write_files(make_plan(SCHEMA, ["ok"], engine=engine, fanout_enabled=True), frame(spark))
    assert spark.conf.getAll == before and not spark.sparkContext.getJobTags()


@ENGINES
def test_what_is_written_does_not_depend_on_the_session(spark: SparkSession, make_plan: MakePlan, engine: str) -> None:
    unfit = {
        "spark.sql.parquet.fieldId.write.enabled": "false",
        "spark.sql.parquet.writeLegacyFormat": "true",
        "spark.sql.parquet.outputTimestampType": "INT96",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
        "spark.sql.adaptive.enabled": "false",
    }
    with settings(spark, unfit):
        (file,) = write_files(
            make_plan("d date, ts timestamp, c decimal(9,2)", engine=engine), spark.sql("select date'1000-01-01' d, timestamp'1000-01-01' ts, 1.5BD c")
        )
    assert read(file).to_pylist() == [{"d": date(1000, 1, 1), "ts": datetime(1000, 1, 1, tzinfo=UTC), "c": Decimal("1.50")}]
    assert set(file.lower_bounds) == {1, 2, 3}


@pytest.mark.feature("D5")
def test_footers_of_many_files_are_read_by_spark(spark: SparkSession, make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(SCHEMA, ["s"], engine="native")
    expected = write_files(plan, frame(spark))
    monkeypatch.setattr(footers, "MOST_ON_DRIVER", 1)
    files = write_files(plan, frame(spark))
    assert {(f.partition, f.record_count, str(f.lower_bounds)) for f in files} == {(f.partition, f.record_count, str(f.lower_bounds)) for f in expected}


def test_parquet_settings_of_the_native_engine(spark: SparkSession, make_plan: MakePlan) -> None:
    plan = make_plan(
        "id bigint, t string", engine="native", compression_codec="gzip", dictionary_enabled=False, target_file_size_bytes=10_000, bytes_per_row=100.0
    )
    files = write_files(plan, spark.range(0, 250, 1, 1).selectExpr("id", "'same' as t"))
    assert sorted(f.record_count for f in files) == [50, 100, 100]
    column = pq.read_metadata(files[0].file_path.removeprefix("file://")).row_group(0).column(1)
    assert column.compression == "GZIP" and not column.has_dictionary_page


@pytest.mark.parametrize(
    ("schema", "location", "options", "engine"),
    [
        ("id bigint", "file:///t", {}, "native"),
        ("id bigint", "s3://bucket/t", {}, "arrow"),
        ("id bigint", "s3://bucket/t", {"engine": "native"}, "native"),
        ("id bigint", "file:///t", {"engine": "arrow"}, "arrow"),
        ("id bigint, l array<int>", "file:///t", {}, "arrow"),
        ("s struct<m: map<string, int>>", "file:///t", {}, "arrow"),
        ("id bigint", "file:///t", {"compression_codec": "brotli"}, "arrow"),
    ],
)
def test_choice_of_engine(spark: SparkSession, schema: str, location: str, options: dict[str, Any], engine: str) -> None:
    assert choose_engine(schema_from(schema), resolve(options, {}, {}), location, spark) == engine


def test_native_cannot_be_forced_on_lists(spark: SparkSession) -> None:
    with pytest.raises(UnsupportedOperation, match="'l' holds a list or map"):
        choose_engine(schema_from("id bigint, l array<int>"), resolve({"engine": "native"}, {}, {}), "file:///t", spark)


def test_a_task_that_is_late_to_stop_leaves_nothing(spark: SparkSession, make_plan: MakePlan, on_disk: Listing) -> None:
    """One task fails at once; the other has its rows already and takes its time to write them."""
    plan = make_plan("id bigint not null, t string")
    slow = "if(id = 0, reflect('java.lang.Thread', 'sleep', bigint(1500)), 'x')"
    with pytest.raises(NullInRequiredColumn, match="'id'"):
        write_files(plan, spark.range(0, 10, 1, 2).selectExpr("if(id = 9, null, id) id", f"coalesce({slow}, 'x') t"))
    assert not on_disk()
    time.sleep(2)
    assert not on_disk()
