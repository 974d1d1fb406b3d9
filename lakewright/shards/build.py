"""Building a snapshot with Spark: one job whose tasks write a shard each, then publish."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lakewright.commit.runs import SUCCEEDED, Run, new_run_id
from lakewright.commit.updates import now_ms
from lakewright.errors import LakewrightError, MissingShards, WriteFailed
from lakewright.progress import Progress
from lakewright.session import settings
from lakewright.shards.config import BuildResult, ShardConfig
from lakewright.shards.failures import typed
from lakewright.shards.frames import Shape, by_shard, check_expression, routing_for, shape_of
from lakewright.shards.manifest import Manifest, ShardEntry
from lakewright.shards.moving import blobs
from lakewright.shards.paths import run_prefix
from lakewright.shards.publish import Pointer, current, next_version, publish
from lakewright.shards.registry import MANIFEST_REF, record_ref, shard_run
from lakewright.shards.removal import clean_losers
from lakewright.shards.routing import Routing
from lakewright.shards.store import Store, open_store
from lakewright.shards.tasks import ShardMessage, ShardTask, winners, write_packed
from lakewright.write.cancel import cancellable
from lakewright.write.leftovers import has_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MESSAGE = "result binary"
SETTLE_SECONDS, SETTLE_STEP = 30.0, 0.2
log = logging.getLogger("lakewright")


@dataclass(frozen=True)
class Source:
    """Where the rows come from, to be told in the manifest."""

    table: str | None = None
    snapshot_id: int | None = None


@dataclass(frozen=True)
class Carried:
    """An earlier snapshot whose shards stay, but for those that are built anew."""

    manifest: Manifest
    rebuilt: tuple[int, ...]


Entries = Callable[["Build"], dict[int, ShardEntry]]


def write(df: DataFrame, config: ShardConfig, *, progress: str = "auto") -> BuildResult:
    """Build a snapshot of all rows of a DataFrame and publish it.

    Readers see it at once and whole, or what they saw before where this raises. Another publisher that was faster is not
    overwritten: CurrentMoved.
    """
    shape = shape_of(df, config)
    check_expression(config, shape)
    store = open_store(config.url, config.storage)
    return run_build(df, config, shape, store, current(store), written_by_tasks, operation="shards", progress=progress)


@dataclass(frozen=True)
class Build:
    """A build under way."""

    df: DataFrame
    config: ShardConfig
    shape: Shape
    store: Store
    run_id: str
    routing: Routing
    only: tuple[int, ...] | None

    @property
    def task(self) -> ShardTask:
        config, shape = self.config, self.shape
        return ShardTask(
            url=self.store.url,
            storage=self.store.options,
            run_id=self.run_id,
            routing=self.routing.to_json(),
            key=config.key,
            key_type=shape.key_type,
            codec=shape.codec,
            function=shape.function,
            value_columns=shape.value_columns,
            backend=config.backend,
            sort=config.sort,
            duplicates=config.duplicates,
            ordering=config.ordering,
            batch_rows=config.batch_rows,
            operations_per_second=config.operations_per_second,
            bytes_per_second=config.bytes_per_second,
            sample_size=config.sample_size if self.verifies else 0,
        )

    @property
    def verifies(self) -> bool:
        return self.config.verify_routing and self.routing.uses_only_key


def run_build(
    df: DataFrame,
    config: ShardConfig,
    shape: Shape,
    store: Store,
    expected: Pointer | None,
    entries_of: Entries,
    *,
    operation: str,
    progress: str,
    source: Source = Source(),  # noqa: B008
    carried: Carried | None = None,
    full_because: str | None = None,
) -> BuildResult:
    """A run with its record: route, write, publish, clean up."""
    run_id, spark = new_run_id(), df.sparkSession
    with (
        Progress(operation, config.url, progress) as shown,
        shard_run(store, config, run_id, operation, source.snapshot_id) as run,
        _failing(store, run_id, spark),
        ExitStack() as kept,
    ):
        with settings(spark, _settings(config)), cancellable(spark, f"lakewright-{run_id}"):
            rows = kept.enter_context(cached(df)) if config.cache_input else df
            with shown.phase("route"):
                routing = carried.manifest.routing if carried else routing_for(rows, config, shape)
            build = Build(rows, config, shape, store, run_id, routing, carried.rebuilt if carried else None)
            _say_what_is_not_verified(build)
            with shown.phase("write"):
                entries = entries_of(build)
        with shown.phase("publish"):
            manifest = _manifest(build, entries, expected, source, carried)
            pointer = _published(build, run, manifest, expected)
        _record(run, manifest)
    _clean_up(build, manifest, spark)
    rebuilt = len(entries)
    carried_over = manifest.num_shards - rebuilt
    shown.done(f"published {manifest.rows:,} rows in {rebuilt} of {manifest.num_shards} shards at {config.url}, version {pointer.version}")
    return BuildResult(
        url=config.url,
        run_id=run_id,
        run_record_ref=record_ref(store, config, run_id),
        manifest_ref=pointer.manifest_ref,
        version=pointer.version,
        shards=manifest.shards,
        rows=manifest.rows,
        bytes=manifest.bytes,
        durations=dict(shown.seconds),
        shards_rebuilt=rebuilt,
        shards_carried=carried_over,
        routing_verified=build.verifies,
        full_because=full_because,
        source_snapshot_id=source.snapshot_id,
    )


def written_by_tasks(build: Build) -> dict[int, ShardEntry]:
    """One job: a partition for each shard, whose task writes it and answers with one small row."""
    wanted = tuple(range(build.routing.num_shards)) if build.only is None else build.only
    if not wanted:
        return {}
    rows = by_shard(build.df, build.config, build.shape, build.routing, build.only)
    answers = rows.mapInArrow(_task(build.task, wanted), MESSAGE).collect()
    entries = winners(ShardMessage.from_bytes(bytes(row.result), build.shape.key_type) for row in answers)
    missing = tuple(shard for shard in wanted if shard not in entries)
    if missing and not any(entry.rows for entry in entries.values()) and build.df.isEmpty():
        return {shard: ShardEntry(shard) for shard in wanted}  # of no rows that it knows of beforehand, Spark makes no partition at all
    require_all(missing, build)
    return entries


def require_all(missing: Sequence[int], build: Build) -> None:
    if missing:
        names = ", ".join(map(str, missing[:20])) + (" and more" if len(missing) > 20 else "")
        raise MissingShards(
            f"The build of {build.config.url} ended without a result for shard {names} of {build.routing.num_shards}; nothing was published. Run it again.",
            missing=tuple(missing),
            url=build.config.url,
        )


def _task(task: ShardTask, shards: tuple[int, ...]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write_one(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        message = write_packed(task, batches, shards[context.partitionId()], context.attemptNumber(), context.taskAttemptId())
        answer = message.to_bytes()
        yield pa.RecordBatch.from_arrays([blobs([0, len(answer)], pa.py_buffer(answer))], names=["result"])

    return write_one


def _settings(config: ShardConfig) -> dict[str, str]:
    wanted = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(config.batch_rows),
        "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    }
    return {**wanted, **{name: str(value) for name, value in config.spark_conf_overrides.items()}}


@contextmanager
def cached(df: DataFrame) -> Iterator[DataFrame]:
    """The rows in Spark's cache for a block; where they cannot be, as they are."""
    try:
        rows = df.persist()
    except Exception as error:
        log.warning("the input is not cached, and is read anew at each use: %s", str(error).splitlines()[0] if str(error) else type(error).__name__)
        yield df
        return
    try:
        yield rows
    finally:
        with suppress(Exception):
            rows.unpersist()


def _say_what_is_not_verified(build: Build) -> None:
    if build.config.verify_routing and not build.verifies:
        log.info("routing of %s is not verified: %r cannot be told from the key alone", build.config.url, build.config.cel)


@contextmanager
def _failing(store: Store, run_id: str, spark: SparkSession) -> Iterator[None]:
    """Makes a failed job's error a typed one, and removes what the run wrote, unless a manifest refers to it."""
    try:
        yield
    except BaseException as error:
        if not _has_manifest(store, run_id):
            _discard(store, run_id, spark)
        if not isinstance(error, Exception) or isinstance(error, LakewrightError):
            raise
        told = typed(error)
        if told is not None:
            raise told from told.__cause__
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise WriteFailed(f"Building the shards at {store.url} failed: {reason}. Nothing was published.") from error


def _has_manifest(store: Store, run_id: str) -> bool:
    """Also where that cannot be told."""
    try:
        return any(run_id in found.path for found in store.list("manifests"))
    except Exception:
        return True


def _discard(store: Store, run_id: str, spark: SparkSession | None) -> None:
    """Delete what a failed run wrote, until tasks that were still being stopped add nothing more."""
    deadline, quiet = time.monotonic() + SETTLE_SECONDS, 0
    while quiet < 2 and time.monotonic() < deadline:
        with suppress(Exception):
            found = list(store.list(run_prefix(run_id)))
            for file in found:
                store.delete(file.path)
            quiet = 0 if found or (spark is not None and has_tasks(spark)) else quiet + 1
        if quiet < 2:
            time.sleep(SETTLE_STEP)
    with suppress(Exception):
        store.prune(run_prefix(run_id))


def _manifest(build: Build, entries: dict[int, ShardEntry], expected: Pointer | None, source: Source, carried: Carried | None) -> Manifest:
    before = {entry.shard_id: entry for entry in carried.manifest.shards} if carried else {}
    shards = tuple(entry for _, entry in sorted({**before, **entries}.items()))
    return Manifest(
        version=next_version(expected),
        run_id=build.run_id,
        created_ms=now_ms(),
        routing=build.routing,
        key_type=build.shape.key_type,
        key_column=build.config.key,
        backend=build.config.backend,
        codec=build.shape.codec,
        shards=shards,
        source_table=source.table,
        source_snapshot_id=source.snapshot_id,
        config_digest=build.config.digest,
    )


def _published(build: Build, run: Run, manifest: Manifest, expected: Pointer | None) -> Pointer:
    run.record = replace(run.record, details={**run.record.details, MANIFEST_REF: manifest.ref})
    run.require_alive()
    return publish(build.store, manifest, expected=expected)


def _record(run: Run, manifest: Manifest) -> None:
    """The snapshot is published: that the record cannot say so yet fails nothing, clean-up finds it out."""
    try:
        run.finish(SUCCEEDED, rows=manifest.rows, files=sum(len(entry.files) for entry in manifest.shards if entry.run_id == run.run_id))
    except Exception as error:
        log.warning("could not record the end of run %s: %s", run.run_id, error)


def _clean_up(build: Build, manifest: Manifest, spark: SparkSession) -> None:
    """Remove what attempts wrote that are not in the manifest; of speculative ones also what they add while they are being stopped."""
    deadline = time.monotonic() + SETTLE_SECONDS
    speculates = _speculates(spark)
    while True:
        is_over = not speculates or not has_tasks(spark) or time.monotonic() > deadline
        try:
            clean_losers(build.store, manifest, build.run_id)
        except Exception as error:
            log.warning("could not remove what other attempts of run %s left: %s", build.run_id, error)
        if is_over:
            return
        time.sleep(SETTLE_STEP)


def _speculates(spark: SparkSession) -> bool:
    try:
        return str(spark.conf.get("spark.speculation", "false")).lower() == "true"
    except Exception:
        return False
