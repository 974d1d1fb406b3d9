"""Builds with Spark: what was written is got, each row from the shard of its key; what cannot be written changes nothing."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakewright.commit.runs import FAILED, SUCCEEDED
from lakewright.errors import CurrentMoved, DuplicateShardKey, InvalidRouting, InvalidShardKey, InvalidShardValue, MissingShards, ShardWriteError, ValueTooLarge
from lakewright.shards import build
from lakewright.shards.backends import sqlite
from lakewright.shards.build import write
from lakewright.shards.publish import current, publish
from lakewright.shards.registry import runs
from lakewright.shards.routing import shard_of
from lakewright.shards.store import open_store
from tests.shards.build_kit import Place, payloads, people

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "users"))


@pytest.mark.feature("S1", "S3", "S4")
@pytest.mark.parametrize("backend", ["sqlite", "slatedb"])
def test_every_row_is_in_the_shard_of_its_key(spark: SparkSession, place: Place, backend: str) -> None:
    result = write(people(spark), place.config(num_shards=5, backend=backend), progress="off")
    assert place.content() == payloads()
    assert all(shard_of(key, 5) == shard for shard, pairs in place.by_shard().items() for key in pairs)
    assert (result.rows, result.num_shards, result.shards_rebuilt, result.shards_carried) == (1000, 5, 5, 0)
    assert result.bytes == sum(entry.bytes for entry in place.manifest().shards) > 0
    assert all((entry.min_key, entry.max_key) == (min(pairs), max(pairs)) for entry, pairs in zip(place.manifest().shards, place.by_shard().values(), strict=True))
    assert result.durations.keys() >= {"route", "write", "publish"}


@pytest.mark.feature("S1")
@pytest.mark.parametrize(
    ("sql", "keys"),
    [
        ("concat('kä-', id)", [f"kä-{n}" for n in range(50)]),
        ("cast(concat('b', id) as binary)", [f"b{n}".encode() for n in range(50)]),
        ("cast(id - 25 as int)", list(range(-25, 25))),
        ("cast(id as tinyint)", list(range(50))),
        ("id + bigint(-9223372036854775808)", [n - 2**63 for n in range(50)]),
    ],
    ids=["text", "bytes", "int", "tinyint", "smallest"],
)
def test_keys_of_every_kind(spark: SparkSession, place: Place, sql: str, keys: list[Any]) -> None:
    rows = people(spark, 50).selectExpr(f"{sql} as id", "payload")
    write(rows, place.config(num_shards=3), progress="off")
    assert place.content() == dict(zip(keys, payloads(50).values(), strict=True))
    assert all(shard_of(key, 3) == shard for shard, pairs in place.by_shard().items() for key in pairs)


@pytest.mark.feature("S4")
def test_shards_without_rows_write_nothing_and_are_sparse_entries(spark: SparkSession, place: Place) -> None:
    write(people(spark, 3), place.config(num_shards=16), progress="off")
    used = {shard_of(key, 16) for key in range(3)}
    entries = place.manifest().shards
    assert [entry.shard_id for entry in entries] == list(range(16))
    assert {entry.shard_id for entry in entries if entry.path is not None} == used
    assert {int(name.split("db=")[1][:5]) for name in place.files()} == used


@pytest.mark.parametrize("rows", ["where id < 0", "limit 0"])
def test_no_rows_at_all_are_a_snapshot_too(spark: SparkSession, place: Place, rows: str) -> None:
    none = people(spark).where("id < 0") if rows.startswith("where") else spark.createDataFrame([], people(spark).schema)
    result = write(none, place.config(), progress="off")
    assert (result.rows, place.content(), place.files()) == (0, {}, set())
    assert [entry.path for entry in place.manifest().shards] == [None] * 4


@pytest.mark.parametrize("sort", [True, False])
def test_rows_may_come_unsorted(spark: SparkSession, place: Place, sort: bool) -> None:
    write(people(spark).orderBy("name"), place.config(sort=sort, batch_rows=17), progress="off")
    assert place.content() == payloads()
    assert all((entry.min_key, entry.max_key) == (min(pairs), max(pairs)) for entry, pairs in zip(place.manifest().shards, place.by_shard().values(), strict=True))


# Values


@pytest.mark.parametrize("codec", ["json", "msgpack", "avro"])
def test_a_value_of_several_columns(spark: SparkSession, place: Place, codec: str) -> None:
    write(people(spark, 30), place.config(value=["name", "region"], codec=codec), progress="off")
    decode = place.manifest().codec.decode
    assert {key: decode(data) for key, data in place.content().items()} == {n: {"name": f"name-{n}", "region": ["eu", "us", "asia"][n % 3]} for n in range(30)}


def test_the_key_may_be_part_of_the_value(spark: SparkSession, place: Place) -> None:
    write(people(spark, 5), place.config(value=["id", "name"]), progress="off")
    assert json.loads(place.content()[3]) == {"id": 3, "name": "name-3"}


def test_a_function_makes_the_values(spark: SparkSession, place: Place) -> None:
    def upper(batch: pa.RecordBatch) -> pa.Array:
        assert batch.schema.names == ["name"]
        return pc.utf8_upper(batch.column("name")).cast(pa.binary())

    write(people(spark, 30), place.config(value=upper, value_columns=["name"]), progress="off")
    assert place.content() == {n: f"NAME-{n}".encode() for n in range(30)}


def test_a_function_that_loses_rows_is_refused(spark: SparkSession, place: Place) -> None:
    with pytest.raises(Exception, match="one for each"):
        write(people(spark, 30), place.config(value=lambda batch: batch.column("payload").slice(1)), progress="off")


def test_a_null_value_is_refused(spark: SparkSession, place: Place) -> None:
    with pytest.raises(InvalidShardValue, match="null"):
        write(people(spark, 30).selectExpr("id", "nullif(payload, cast('payload-7' as binary)) as payload"), place.config(), progress="off")
    assert place.files() == set() and current(open_store(place.url)) is None


def test_a_value_above_the_limit_is_refused(spark: SparkSession, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = people(spark, 3).selectExpr("id", "cast(repeat('x', 20) as binary) as payload")
    task = build._task

    def limited(shard_task: Any, shards: Any) -> Any:
        write_one = task(shard_task, shards)

        def small(batches: Any) -> Any:
            object.__setattr__(backends.BACKENDS["sqlite"], "max_value_bytes", 10)
            try:
                yield from write_one(batches)
            finally:
                object.__setattr__(backends.BACKENDS["sqlite"], "max_value_bytes", 10**9)

        from lakewright.shards import backends

        return small

    monkeypatch.setattr(build, "_task", limited)
    with pytest.raises(ValueTooLarge, match="20 bytes"):
        write(rows, place.config(num_shards=1), progress="off")


# Keys that cannot be


def test_a_null_key_is_refused(spark: SparkSession, place: Place) -> None:
    with pytest.raises(InvalidShardKey, match="null"):
        write(people(spark, 30).selectExpr("nullif(id, 7) as id", "payload"), place.config(), progress="off")
    assert place.files() == set()


@pytest.mark.parametrize("sort", [True, False])
@pytest.mark.parametrize("backend", ["sqlite", "slatedb"])
def test_a_key_that_comes_twice_is_refused(spark: SparkSession, place: Place, sort: bool, backend: str) -> None:
    twice = people(spark, 100).union(people(spark, 100).where("id = 42"))
    with pytest.raises(DuplicateShardKey, match="42") as caught:
        write(twice, place.config(sort=sort, backend=backend), progress="off")
    assert caught.value.shard_id == shard_of(42, 4) and place.files() == set()


@pytest.mark.parametrize("batch_rows", [1, 3, 1000])
def test_the_last_of_a_keys_rows_by_the_ordering_column_stays(spark: SparkSession, place: Place, batch_rows: int) -> None:
    rows = spark.range(200).selectExpr("id % 20 as id", "(id * 7) % 200 as at", "cast((id * 7) % 200 as string) as text").selectExpr("id", "at", "cast(text as binary) as payload")
    write(rows, place.config(duplicates="last", ordering="at", batch_rows=batch_rows), progress="off")
    last: dict[int, int] = {}
    for n in range(200):
        last[n % 20] = max(last.get(n % 20, 0), (n * 7) % 200)
    assert place.content() == {key: str(at).encode() for key, at in last.items()}
    assert place.manifest().rows == 20


# Routing


def test_the_number_of_shards_by_keys_per_shard(spark: SparkSession, place: Place) -> None:
    write(people(spark, 95), place.config(max_keys_per_shard=10), progress="off")
    assert place.manifest().num_shards == 10 and place.content() == payloads(95)


@pytest.mark.feature("S2")
def test_an_expression_that_yields_the_shard(spark: SparkSession, place: Place) -> None:
    result = write(people(spark, 60), place.config(cel="key % 3", num_shards=3), progress="off")
    assert {shard: {key % 3 for key in pairs} for shard, pairs in place.by_shard().items()} == {0: {0}, 1: {1}, 2: {2}}
    assert result.routing_verified


@pytest.mark.feature("S2", "S15")
@pytest.mark.parametrize("how", [{"routing_values": ["us", "eu", "asia"]}, {"infer_routing_values": True}], ids=["declared", "inferred"])
def test_an_expression_that_yields_tokens(spark: SparkSession, place: Place, how: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "lakewright"):
        result = write(people(spark, 60), place.config(cel="region", cel_columns=["region"], **how), progress="off")
    tokens = how.get("routing_values", ["asia", "eu", "us"])
    regions = ["eu", "us", "asia"]
    assert {tokens[shard]: {regions[key % 3] for key in pairs} for shard, pairs in place.by_shard().items()} == {token: {token} for token in tokens}
    assert not result.routing_verified
    assert any("is not verified" in line for line in caplog.messages)


@pytest.mark.feature("S2")
def test_an_expression_over_several_columns(spark: SparkSession, place: Place) -> None:
    rows = people(spark, 60).selectExpr("*", "id % 2 = 0 as even")
    write(rows, place.config(cel="region + (even ? '-even' : '-odd')", cel_columns=["region", "even"], infer_routing_values=True), progress="off")
    assert place.manifest().num_shards == 6 and place.content() == payloads(60)
    assert all(len({(key % 3, key % 2) for key in pairs}) == 1 for pairs in place.by_shard().values())


@pytest.mark.feature("S2")
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"cel": "key % 5", "num_shards": 3}, "from 0 to 2"),
        ({"cel": "region", "cel_columns": ["region"], "routing_values": ["eu", "us"]}, "'asia'"),
        ({"cel": "100 / (key - 7)", "num_shards": 200}, "fails|divide"),
    ],
    ids=["range", "token", "fails"],
)
def test_an_expression_that_goes_wrong_for_a_row(spark: SparkSession, place: Place, options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidRouting, match=text):
        write(people(spark, 60), place.config(**options), progress="off")
    assert place.files() == set() and current(open_store(place.url)) is None


def test_values_cannot_be_found_in_no_rows(spark: SparkSession, place: Place) -> None:
    with pytest.raises(InvalidRouting, match="no rows"):
        write(people(spark, 60).where("id < 0"), place.config(cel="region", cel_columns=["region"], infer_routing_values=True), progress="off")


# The run


@pytest.mark.feature("S11", "S16")
@pytest.mark.parametrize("prefix", ["runs", "ops/records"])
def test_the_run_is_recorded(spark: SparkSession, place: Place, prefix: str) -> None:
    result = write(people(spark), place.config(run_registry_prefix=prefix), progress="off")
    (record,) = runs(open_store(place.url), prefix)
    assert (record.state, record.run_id, record.rows, record.files) == (SUCCEEDED, result.run_id, 1000, 4)
    assert record.details["manifest_ref"] == result.manifest_ref == place.manifest().ref
    assert json.loads(Path(result.run_record_ref).read_text())["run_id"] == result.run_id
    assert result.run_record_ref.startswith(f"{place.url}/{prefix}/")
    assert list((Path(place.url) / prefix / "running").iterdir()) == []


@pytest.mark.feature("S11", "S14")
def test_a_task_that_fails_tells_where_and_how_far_it_came(spark: SparkSession, place: Place) -> None:
    def breaks(batch: pa.RecordBatch) -> pa.Array:
        if 77 in batch.column("id").to_pylist():
            raise RuntimeError("no luck with 77")
        return batch.column("payload")

    with pytest.raises(ShardWriteError, match="no luck with 77") as caught:
        write(people(spark), place.config(value=breaks, value_columns=["id", "payload"], batch_rows=5), progress="off")
    error, shard = caught.value, shard_of(77, 4)
    before = [key for key in range(1000) if shard_of(key, 4) == shard and key < 77]
    assert (error.shard_id, error.attempt, error.rows_written) == (shard, 0, len(before) // 5 * 5)
    assert error.url is not None and f"db={shard:05d}/attempt=00/" in error.url
    assert "in breaks" in error.trace and "RuntimeError" in error.trace
    (record,) = runs(open_store(place.url))
    assert record.state == FAILED and "no luck with 77" in (record.error or "")
    assert place.files() == set() and current(open_store(place.url)) is None


@pytest.mark.feature("S5")
def test_shards_without_an_answer_are_named(spark: SparkSession, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    task = build._task

    def silent(*given: Any) -> Any:
        write_one = task(*given)

        def some(batches: Any) -> Any:
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            answers = list(write_one(batches))
            yield from () if context.partitionId() in (1, 3) else answers

        return some

    monkeypatch.setattr(build, "_task", silent)
    with pytest.raises(MissingShards, match="shard 1, 3 of 4") as caught:
        write(people(spark, 50), place.config(), progress="off")
    assert caught.value.missing == (1, 3) and current(open_store(place.url)) is None and place.files() == set()


@pytest.mark.feature("S7")
def test_what_fails_leaves_the_snapshot_that_is_there(spark: SparkSession, place: Place) -> None:
    write(people(spark, 50), place.config(), progress="off")
    with pytest.raises(DuplicateShardKey):
        write(people(spark, 10).union(people(spark, 10)), place.config(), progress="off")
    assert place.content() == payloads(50) and place.files() == place.referenced()


def test_another_publisher_that_was_faster_is_not_overwritten(spark: SparkSession, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    write(people(spark, 50), place.config(), progress="off")
    store = open_store(place.url)

    def beaten(*given: Any, **how: Any) -> Any:
        monkeypatch.setattr(build, "publish", publish)
        write(people(spark, 70), place.config(), progress="off")
        return publish(*given, **how)

    monkeypatch.setattr(build, "publish", beaten)
    with pytest.raises(CurrentMoved):
        write(people(spark, 60), place.config(), progress="off")
    assert place.content() == payloads(70)
    assert [record.state for record in runs(store)] == [SUCCEEDED, FAILED, SUCCEEDED]


def test_a_run_that_was_taken_for_dead_does_not_publish(spark: SparkSession, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakewright.commit.runs import mark_path
    from lakewright.errors import CommitConflict

    write_by_tasks = build.written_by_tasks

    def slept(under_way: build.Build) -> Any:
        entries = write_by_tasks(under_way)
        Path(mark_path(place.url, under_way.run_id)).write_bytes(b"")
        return entries

    monkeypatch.setattr(build, "written_by_tasks", slept)
    with pytest.raises(CommitConflict, match="rolled back"):
        write(people(spark, 50), place.config(), progress="off")
    assert current(open_store(place.url)) is None


def test_a_record_that_cannot_be_ended_fails_nothing(spark: SparkSession, place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def full(*given: Any, **how: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("lakewright.commit.runs.Run.finish", full)
    write(people(spark, 50), place.config(), progress="off")
    assert place.content() == payloads(50) and "could not record the end" in caplog.text


# The session


@pytest.mark.feature("S12")
@pytest.mark.parametrize("fails", [False, True])
def test_settings_are_put_back_in_reverse(spark: SparkSession, place: Place, fails: bool) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "9")
    wanted = {"spark.sql.shuffle.partitions": "3", "spark.lakewright.made-up": "x"}

    def look(batch: pa.RecordBatch) -> pa.Array:
        if fails:
            raise RuntimeError("stop")
        return batch.column("payload")

    try:
        write(people(spark, 20), place.config(value=look, spark_conf_overrides=wanted), progress="off")
    except ShardWriteError:
        assert fails
    assert spark.conf.get("spark.sql.shuffle.partitions") == "9"
    assert spark.conf.get("spark.lakewright.made-up", None) is None
    spark.conf.unset("spark.sql.shuffle.partitions")


@pytest.mark.feature("S12")
def test_settings_hold_during_the_build(spark: SparkSession, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    by_tasks = build.written_by_tasks

    def looked(under_way: build.Build) -> Any:
        seen.append((spark.conf.get("spark.lakewright.made-up", None), spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")))
        return by_tasks(under_way)

    monkeypatch.setattr(build, "written_by_tasks", looked)
    write(people(spark, 20), place.config(spark_conf_overrides={"spark.lakewright.made-up": "x"}, batch_rows=123), progress="off")
    assert seen == [("x", "123")]


@pytest.mark.feature("S12")
def test_the_input_is_cached_for_the_time_of_the_build(spark: SparkSession, place: Place) -> None:
    rows, read = people(spark, 50), spark.sparkContext.accumulator(0)

    def counted(batches: Any) -> Any:
        for batch in batches:
            read.add(batch.num_rows)
            yield batch

    config = place.config(max_keys_per_shard=10, cache_input=True)
    frame = rows.mapInArrow(counted, rows.schema)
    write(frame, config, progress="off")
    assert read.value == 50 and not frame.is_cached and place.content() == payloads(50)


@pytest.mark.feature("S12")
def test_rows_that_cannot_be_cached_are_read_anew(spark: SparkSession, place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    from pyspark.sql.classic.dataframe import DataFrame

    def refuse(*given: Any, **how: Any) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(DataFrame, "persist", refuse)
    write(people(spark, 50), place.config(cache_input=True), progress="off")
    assert place.content() == payloads(50)
    assert any(record.levelno == logging.WARNING and "no room" in record.message for record in caplog.records)


@pytest.mark.feature("S8")
def test_tasks_keep_to_the_rate_limit(spark: SparkSession, place: Place) -> None:
    result = write(people(spark, 400), place.config(num_shards=1, operations_per_second=200), progress="off")
    assert result.durations["write"] >= 400 / 200 * 0.9 and place.content() == payloads(400)


def test_the_tuned_file_is_the_one_that_is_served(spark: SparkSession, place: Place) -> None:
    write(people(spark, 50), place.config(), progress="off")
    assert {name.rsplit("/", 1)[-1] for name in place.files()} == {sqlite.FILE} and place.files() == place.referenced()
