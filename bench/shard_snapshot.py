"""A published snapshot to read from, made without Spark and kept between runs."""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.places import DATA
from bench.shards_data import pairs
from lakewright.shards.backends import backend_named, upload_shard
from lakewright.shards.manifest import Manifest, ShardEntry
from lakewright.shards.publish import current, next_version, publish
from lakewright.shards.routing import HashRouting
from lakewright.shards.store import Store, open_store
from lakewright.shards.values import ValueCodec

BATCH = 50_000


def built_snapshot(rows: int, shards: int) -> str:
    """The url of a snapshot of `rows` pairs in SQLite shards."""
    folder = DATA / f"snapshot-{rows}-{shards}"
    if not folder.exists():
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        publish_version(open_store(str(part)), pq.ParquetDataset(pairs(rows)).read(), shards)
        part.rename(folder)
    return str(folder)


def publish_version(store: Store, table: pa.Table, shards: int) -> None:
    """One more version, of keys (`id`) and values (`payload`)."""
    routing, before = HashRouting(shards), current(store)
    version, run_id = next_version(before), uuid.uuid4().hex
    keys = table.column("id").combine_chunks().to_numpy()
    ids = routing.shards_of(pa.record_batch({"id": keys}), "id").to_numpy()
    order = np.lexsort((keys, ids))
    ends = np.searchsorted(ids[order], np.arange(shards + 1))
    entries = tuple(_shard(store, run_id, shard, table.take(pa.array(order[ends[shard] : ends[shard + 1]]))) for shard in range(shards))
    manifest = Manifest(version, run_id, time.time_ns() // 1_000_000, routing, "int", "id", "sqlite", ValueCodec("binary", ("payload",)), entries)
    publish(store, manifest, expected=before)


def _shard(store: Store, run_id: str, shard_id: int, rows: pa.Table) -> ShardEntry:
    path = f"shards/run_id={run_id}/db={shard_id:05d}/attempt=00"
    with tempfile.TemporaryDirectory() as scratch:
        writer = backend_named("sqlite").writer(scratch, "int")
        for batch in rows.to_batches(max_chunksize=BATCH):
            writer.write(batch.column(0), batch.column(1))
        stored = upload_shard(store, writer.finish(), path)
    keys = rows.column("id")
    return ShardEntry(shard_id, path, len(rows), stored.bytes, keys[0].as_py(), keys[-1].as_py(), stored.checksum, stored.files, run_id, 0)
