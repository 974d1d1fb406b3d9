"""Publishing a table: only the shards with changes since the snapshot published last are built anew, the others are carried over."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakewright.errors import CorruptSnapshot, DuplicateColumn, InvalidOption, InvalidRouting, LakewrightError, RangeNotFound, UnsupportedSnapshot
from lakewright.format.metadata import MAIN
from lakewright.keys.definition import definition_of
from lakewright.plan.keys import is_keyed
from lakewright.quoting import quoted
from lakewright.shards.build import Carried, Source, run_build, written_by_tasks
from lakewright.shards.config import BuildResult, ShardConfig
from lakewright.shards.failures import typed
from lakewright.shards.frames import SHARD, Shape, check_expression, shape_of, with_shard
from lakewright.shards.manifest import Manifest, read_manifest
from lakewright.shards.publish import Pointer, current
from lakewright.shards.registry import record_ref
from lakewright.shards.routing import Routing, shards_for
from lakewright.shards.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakewright.table import Table

log = logging.getLogger("lakewright")


class FullBuild(Exception):
    """Why shards cannot be carried over."""


def publish_shards(table: Table, url: str, *, key: str | None = None, full: bool = False, **options: Any) -> BuildResult:
    """Publish a table's newest snapshot at a url. `full` builds every shard; the result says why where that had to be."""
    state = table.refresh()._state
    config = ShardConfig.of(url=url, key=key or _key_of(table), **options)
    head = state.metadata.head(MAIN)
    source = Source(table.name, None if head is None else head.snapshot_id)
    rows = table.read(snapshot_id=source.snapshot_id) if head is not None else table.read()
    shape = _shape(rows, config)
    store = open_store(config.url, config.storage)
    expected = current(store)
    carried, reason = None, "full=True asks for it" if full else None
    if not full:
        try:
            before = _published(expected, store)
            carried = Carried(before, _changed_shards(table, rows, config, shape, before, source))
        except FullBuild as why:
            reason = str(why)
    if carried and expected and carried.manifest.source_snapshot_id == source.snapshot_id:
        return _as_it_is(carried.manifest, expected, config, record_ref(store, config, carried.manifest.run_id))
    if reason is not None:
        log.info("all shards of %s are built: %s", config.url, reason)
    operation = "shards" if carried is None else "changed shards"
    return run_build(rows, config, shape, store, expected, written_by_tasks, operation=operation, progress=table._lake.progress, source=source, carried=carried, full_because=reason)


def build_from_table(lake: str, table: str, url: str, **options: Any) -> BuildResult:
    """`lakewright shards build`."""
    from lakewright.lake import connect

    return connect(lake).table(table).publish_shards(url, **{name: value for name, value in options.items() if value is not None})


def _key_of(table: Table) -> str:
    columns = tuple(definition_of(table._state.metadata, table.name).key_columns) if is_keyed(table.properties) else ()
    if len(columns) != 1:
        has = f"its key is {', '.join(columns)}" if columns else "it has no key"
        raise InvalidOption(f"Which column of {table.name} is the key of the snapshot? {has[0].upper()}{has[1:]}; give key=<column>.", table=table.name)
    return columns[0]


def _shape(rows: DataFrame, config: ShardConfig) -> Shape:
    """A function's columns count as what its values are made of: with another column it may make other values."""
    shape = shape_of(rows, config)
    check_expression(config, shape)
    return shape if shape.function is None else replace(shape, codec=replace(shape.codec, columns=shape.value_columns))


def _published(pointer: Pointer | None, store: Any) -> Manifest:
    if pointer is None:
        raise FullBuild("nothing was published there before")
    try:
        return read_manifest(store, pointer.manifest_ref)
    except (CorruptSnapshot, UnsupportedSnapshot) as error:
        raise FullBuild(f"the snapshot published last cannot be read: {error}") from error


def _changed_shards(table: Table, rows: DataFrame, config: ShardConfig, shape: Shape, before: Manifest, source: Source) -> tuple[int, ...]:
    """Shards that rows were added to or removed from since the manifest's snapshot of the table."""
    if before.source_table != table.name or before.source_snapshot_id is None:
        raise FullBuild(f"what is published there was made of {before.source_table or 'a DataFrame'}, not of a snapshot of {table.name}")
    if before.config_digest != config.digest or before.codec != shape.codec or before.key_type != shape.key_type:
        raise FullBuild("the configuration changed since the last publish")
    if source.snapshot_id is None:
        raise FullBuild("the table has no snapshot")
    if before.source_snapshot_id == source.snapshot_id:
        return ()
    if config.max_keys_per_shard is not None and shards_for(rows.count(), config.max_keys_per_shard) != before.num_shards:
        raise FullBuild(f"with max_keys_per_shard={config.max_keys_per_shard} the rows no longer make {before.num_shards} shards")
    try:
        with _typed_errors():
            return _shards_of(table.changes(before.source_snapshot_id, source.snapshot_id, log=True), config, before.routing)
    except RangeNotFound as error:
        raise FullBuild(f"the changes since the last publish are no longer kept: {error}") from error
    except DuplicateColumn as error:
        raise FullBuild(f"changes cannot be told for this table: {error}") from error
    except InvalidRouting as error:
        if config.infer_routing_values:
            raise FullBuild(f"the changed rows need other shards: {error}") from error
        raise


def _shards_of(changes: DataFrame, config: ShardConfig, routing: Routing) -> tuple[int, ...]:
    names = dict.fromkeys([config.key, *config.cel_columns])
    found = with_shard(changes.select(*map(quoted, names)), config, routing).select(SHARD).distinct().collect()
    return tuple(sorted(row[SHARD] for row in found))


@contextmanager
def _typed_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        told = None if isinstance(error, LakewrightError) else typed(error)
        if told is None:
            raise
        raise told from error


def _as_it_is(manifest: Manifest, pointer: Pointer, config: ShardConfig, run_record_ref: str) -> BuildResult:
    log.info("%s has the table's newest snapshot already, version %s", config.url, pointer.version)
    return BuildResult(
        url=config.url,
        run_id=manifest.run_id,
        run_record_ref=run_record_ref,
        manifest_ref=pointer.manifest_ref,
        version=pointer.version,
        shards=manifest.shards,
        rows=manifest.rows,
        bytes=manifest.bytes,
        durations={},
        shards_rebuilt=0,
        shards_carried=manifest.num_shards,
        routing_verified=False,
        source_snapshot_id=manifest.source_snapshot_id,
    )
