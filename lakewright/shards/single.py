"""A snapshot of one shard, written by the driver: rows come sorted and stream through it, a partition ahead of the writing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from lakewright.errors import InvalidRouting, ShardStoreError, ShardWriteError
from lakewright.quoting import quoted
from lakewright.session import settings
from lakewright.shards.build import Build, run_build
from lakewright.shards.config import BuildResult, ShardConfig
from lakewright.shards.failures import TaskFailed, typed
from lakewright.shards.frames import shape_of
from lakewright.shards.manifest import ShardEntry
from lakewright.shards.publish import current
from lakewright.shards.rate_limit import RateLimit
from lakewright.shards.store import open_store
from lakewright.shards.tasks import write_shard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Spark joins neighbouring partitions of the sort to this size as it reads them: fewer jobs for the driver, and no second shuffle.
COALESCING = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "64m",
}
log = logging.getLogger("lakewright")


def write_single(df: DataFrame, config: ShardConfig, *, progress: str = "auto") -> BuildResult:
    """Build and publish a snapshot of one shard, in the order of the keys. A failed attempt is made again `shard_retry` times."""
    if config.cel is not None or config.num_shards != 1:
        raise InvalidRouting("write_single makes one shard: give num_shards=1 and no expression, or use write.")
    shape = shape_of(df, config)
    store = open_store(config.url, config.storage)
    return run_build(df, config, shape, store, current(store), written_by_driver, operation="single shard", progress=progress)


def written_by_driver(build: Build) -> dict[int, ShardEntry]:
    """Attempts have paths of their own and share one rate limit."""
    config = build.config
    limit = RateLimit.of(config.operations_per_second, config.bytes_per_second)
    with settings(build.df.sparkSession, {**COALESCING, **{k: str(v) for k, v in config.spark_conf_overrides.items()}}):
        rows = packed(build)
        for attempt in range(config.shard_retry + 1):
            try:
                return {0: write_shard(build.task, streamed(rows), 0, attempt, 0, limit=limit).entry}
            except TaskFailed as failed:
                error = typed(failed)
                if attempt == config.shard_retry or not isinstance(error, ShardWriteError | ShardStoreError):
                    raise
                log.warning("%s It is tried again on a path of its own.", error)
    raise AssertionError("the last attempt returns or raises")


def packed(build: Build) -> DataFrame:
    """The rows in order, a batch in each row: what Spark hands over row by row costs far more."""
    config, kept = build.config, list(dict.fromkeys([build.config.key, *build.shape.value_columns]))
    order = [config.key, *([config.ordering] if config.ordering else [])]
    rows = build.df.select(*map(quoted, dict.fromkeys([*kept, *order])))
    rows = rows.sort(*map(quoted, order)) if config.sort else rows
    return rows.select(*map(quoted, kept)).mapInArrow(_pack, "batch binary")


def streamed(rows: DataFrame) -> Iterator[pa.RecordBatch]:
    for row in rows.toLocalIterator(prefetchPartitions=True):
        with pa.ipc.open_stream(bytes(row.batch)) as stream:
            yield from stream


def _pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.record_batch({"batch": pa.array([sink.getvalue().to_pybytes()], pa.binary())})
