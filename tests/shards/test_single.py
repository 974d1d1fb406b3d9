"""One shard written by the driver: in the order of the keys, under one limit, tried again on a path of its own."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakewright.commit.runs import SUCCEEDED
from lakewright.errors import DuplicateShardKey, InvalidRouting, ShardWriteError
from lakewright.shards import single
from lakewright.shards.backends.sqlite import SqliteWriter
from lakewright.shards.publish import current
from lakewright.shards.registry import runs
from lakewright.shards.single import write_single
from lakewright.shards.store import open_store
from tests.shards.build_kit import Place, payloads, people

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "users"))


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """The keys of each call of the backend's writer."""
    calls: list[list[Any]] = []
    write = SqliteWriter.write

    def noted(self: SqliteWriter, keys: Any, values: Any) -> None:
        calls.append(keys.to_pylist())
        write(self, keys, values)

    monkeypatch.setattr(SqliteWriter, "write", noted)
    return calls


@pytest.mark.feature("S10")
@pytest.mark.parametrize("backend", ["sqlite", "slatedb"])
def test_all_rows_are_in_the_one_shard(spark: SparkSession, place: Place, backend: str) -> None:
    result = write_single(people(spark), place.config(num_shards=1, backend=backend), progress="off")
    assert place.content() == payloads() and (result.num_shards, result.rows) == (1, 1000)
    assert runs(open_store(place.url))[0].state == SUCCEEDED


@pytest.mark.feature("S10")
@pytest.mark.parametrize("sql", ["id", "concat('k', id)"], ids=["numbers", "text"])
def test_rows_are_written_in_the_order_of_their_keys(spark: SparkSession, place: Place, written: list[list[Any]], sql: str) -> None:
    rows = people(spark, 3000).selectExpr(f"{sql} as id", "payload").repartition(7)
    overrides = {"spark.sql.adaptive.advisoryPartitionSizeInBytes": "4k", "spark.sql.shuffle.partitions": "12"}
    write_single(rows, place.config(num_shards=1, batch_rows=100, spark_conf_overrides=overrides), progress="off")
    keys = [key for call in written for key in call]
    assert len(keys) == 3000 and keys == sorted(keys) and len(written) > 12
    with sqlite3.connect(Path(place.url) / next(iter(place.referenced()))) as database:
        assert database.execute("SELECT count(*) FROM kv").fetchone() == (3000,)


@pytest.mark.feature("S10")
def test_small_partitions_are_joined_without_a_second_shuffle(spark: SparkSession, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = []
    packed = single.packed

    def noted(build: Any) -> Any:
        rows = packed(build)
        plans.append(rows)
        return rows

    monkeypatch.setattr(single, "packed", noted)
    write_single(people(spark, 3000).repartition(5), place.config(num_shards=1, spark_conf_overrides={"spark.sql.shuffle.partitions": "12"}), progress="off")
    plan = plans[0]._jdf.queryExecution().executedPlan().toString()
    final = plan.split("== Initial Plan ==")[0]
    assert "AQEShuffleRead coalesced" in final
    assert final.count("rangepartitioning") == 1 and final.count("Exchange") == 2  # the sort's, and the input's own


@pytest.mark.feature("S8", "S10")
def test_one_limit_holds_for_all_of_it(spark: SparkSession, place: Place) -> None:
    begin = time.monotonic()
    write_single(people(spark, 900).repartition(6), place.config(num_shards=1, operations_per_second=300), progress="off")
    assert time.monotonic() - begin >= 900 / 300 * 0.9 and place.content() == payloads(900)


@pytest.mark.feature("S8", "S10")
def test_attempts_share_the_limit(spark: SparkSession, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = set()
    write_shard = single.write_shard

    def failing(*given: Any, limit: Any) -> Any:
        limits.add(id(limit))
        raise_first(given[3])
        return write_shard(*given, limit=limit)

    def raise_first(attempt: int) -> None:
        if attempt == 0:
            from lakewright.shards.failures import told

            raise told(OSError("gone"), url="x", shard_id=0, attempt=0)

    monkeypatch.setattr(single, "write_shard", failing)
    write_single(people(spark, 10), place.config(num_shards=1, operations_per_second=1000), progress="off")
    assert len(limits) == 1 and place.content() == payloads(10)


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The first attempts fail after some rows; the list says how many still will."""
    left = ["first", "second"]
    write = SqliteWriter.write

    def sometimes(self: SqliteWriter, keys: Any, values: Any) -> None:
        write(self, keys, values)
        if self.rows > 400 and left:
            raise OSError(f"lost the {left.pop(0)} attempt")

    monkeypatch.setattr(SqliteWriter, "write", sometimes)
    return left


@pytest.mark.feature("S7", "S10")
def test_a_failed_attempt_is_made_again_on_a_path_of_its_own(spark: SparkSession, place: Place, breaking: list[str]) -> None:
    write_single(people(spark), place.config(num_shards=1, batch_rows=100), progress="off")
    (entry,) = place.manifest().shards
    assert entry.attempt == 2 and entry.path is not None and "/attempt=02/" in entry.path
    assert place.content() == payloads() and place.files() == place.referenced() and breaking == []


@pytest.mark.feature("S10", "S14")
def test_attempts_come_to_an_end(spark: SparkSession, place: Place, breaking: list[str]) -> None:
    with pytest.raises(ShardWriteError, match="lost the second attempt") as caught:
        write_single(people(spark), place.config(num_shards=1, batch_rows=100, shard_retry=1), progress="off")
    assert (caught.value.attempt, caught.value.rows_written, caught.value.shard_id) == (1, 400, 0)
    assert place.files() == set() and current(open_store(place.url)) is None


def test_what_a_retry_cannot_mend_is_not_tried_again(spark: SparkSession, place: Place, written: list[list[Any]]) -> None:
    with pytest.raises(DuplicateShardKey):
        write_single(people(spark, 10).union(people(spark, 10)), place.config(num_shards=1), progress="off")
    assert written == []


@pytest.mark.parametrize("options", [{"num_shards": 2}, {"cel": "key % 2", "num_shards": 2}, {"max_keys_per_shard": 10}])
def test_more_than_one_shard_is_refused(spark: SparkSession, place: Place, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidRouting, match="one shard"):
        write_single(people(spark, 10), place.config(**options), progress="off")


def test_no_rows_are_a_sparse_shard(spark: SparkSession, place: Place) -> None:
    write_single(people(spark, 10).where("id < 0"), place.config(num_shards=1), progress="off")
    assert place.content() == {} and place.files() == set()


def test_the_last_of_a_keys_rows_stays(spark: SparkSession, place: Place) -> None:
    rows = spark.range(100).selectExpr("id % 10 as id", "id as at", "cast(cast(id as string) as binary) as payload").repartition(5)
    write_single(rows, place.config(num_shards=1, duplicates="last", ordering="at", batch_rows=7), progress="off")
    assert place.content() == {n: str(90 + n).encode() for n in range(10)}
