"""Upserters at the same keys, and a compactor beside them: what is left is what some order of the batches leaves, each taken once."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

import lakewright as lw
from lakewright.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRITERS, KEYS = 4, 20
SCHEMA = "id bigint, writer int, batch int"


def keys_of(writer: int, batch: int) -> list[int]:
    """Half of them everybody's, half the writer's own."""
    shared = [(batch + n) % KEYS for n in range(5)]
    return shared + [1000 * (writer + 1) + (batch * 3 + n) % KEYS for n in range(5)]


def upserts(location: str, spark: SparkSession, writer: int, batches: int) -> None:
    table = lw.connect(location, spark=spark.newSession(), progress="off").table("faults.shared")
    for batch in range(batches):
        rows = [(key, writer, batch) for key in keys_of(writer, batch)]
        table.upsert(spark.createDataFrame(rows, SCHEMA).coalesce(1), token=f"{writer}-{batch}")


def compacts(location: str, spark: SparkSession, done: Event) -> int:
    table = lw.connect(location, spark=spark.newSession(), progress="off").table("faults.shared")
    compacted = 0
    while not done.is_set():
        compacted += not table.compact(compact_min_file_size=1_000_000).nothing_written
        done.wait(0.5)
    return compacted


def run(lake: Lake, mode: str, batches: int) -> int:
    # No file counts as small for an upsert, which would put its rows there: so there is something to compact in both modes.
    properties = {"write.merge.mode": mode, "commit.retry.num-retries": "100", "lakewright.compact.min-file-size": "1"}
    table = lake.create_table("faults.shared", SCHEMA, key="id", properties=properties)
    table.upsert(lake.spark.createDataFrame([(0, -1, -1)], SCHEMA))
    done = Event()
    with ThreadPoolExecutor(WRITERS + 1) as pool:
        compactor = pool.submit(compacts, lake.location, lake.spark, done)
        writers = [pool.submit(upserts, lake.location, lake.spark, writer, batches) for writer in range(WRITERS)]
        for future in writers:
            future.result()
        done.set()
    tokens = [row.summary.get("lakewright.token") for row in table.history().collect()]
    order = [token for token in tokens if token is not None]
    assert Counter(order) == Counter(f"{writer}-{batch}" for writer in range(WRITERS) for batch in range(batches)), "every batch once"
    expected: dict[int, tuple[Any, ...]] = {0: (0, -1, -1)}
    for token in order:
        writer, batch = map(int, token.split("-"))
        expected |= {key: (key, writer, batch) for key in keys_of(writer, batch)}
    assert sorted(map(tuple, table.read().collect())) == sorted(expected.values())
    return compactor.result()


def test_upserters_and_a_compactor(lake: Lake) -> None:
    run(lake, "merge-on-read", batches=2)


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_many_batches_of_upserters_and_a_compactor(lake: Lake, mode: str) -> None:
    assert run(lake, mode, batches=25) > 0
