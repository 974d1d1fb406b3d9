"""Snapshots written straight through a backend, without Spark."""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lakewright.shards.backends import Backend, backend_named, upload_shard
from lakewright.shards.keys import Key, KeyType
from lakewright.shards.manifest import Manifest, ShardEntry
from lakewright.shards.publish import Pointer, current, next_version, publish
from lakewright.shards.routing import HashRouting, Routing
from lakewright.shards.store import Store
from lakewright.shards.values import ValueCodec

ARROW: dict[KeyType, pa.DataType] = {"int": pa.int64(), "str": pa.string(), "bytes": pa.binary()}
BINARY = ValueCodec("binary", ("value",))


def written(
    store: Store,
    rows: Mapping[Any, bytes],
    *,
    key_type: KeyType = "int",
    routing: Routing | None = None,
    backend: Backend | str = "sqlite",
    columns: Mapping[str, list[Any]] | None = None,
    codec: ValueCodec = BINARY,
    version: int | None = None,
    carried: Mapping[int, ShardEntry] | None = None,
) -> Manifest:
    """Shards of these rows in the store, and their manifest, not yet published. `carried`: shards taken over from another manifest."""
    run_id = uuid.uuid4().hex
    how, routing = backend_named(backend) if isinstance(backend, str) else backend, routing or HashRouting(4)
    batch = pa.record_batch({"key": pa.array(list(rows), ARROW[key_type]), "value": pa.array(list(rows.values()), pa.binary()), **(columns or {})})
    shards = routing.shards_of(batch, "key").to_pylist()
    entries = []
    for shard_id in range(routing.num_shards):
        if carried and shard_id in carried:
            entries.append(carried[shard_id])
            continue
        keys = sorted(key for key, shard in zip(rows, shards, strict=True) if shard == shard_id)
        entries.append(_shard(store, how, key_type, run_id, shard_id, {key: rows[key] for key in keys}))
    number = version if version is not None else next_version(current(store))
    return Manifest(number, run_id, time.time_ns() // 1_000_000, routing, key_type, "key", how.name, codec, tuple(entries))


def published(store: Store, rows: Mapping[Any, bytes], **settings: Any) -> Pointer:
    """The same, made current."""
    expected = current(store)
    return publish(store, written(store, rows, **settings), expected=expected)


def _shard(store: Store, backend: Backend, key_type: KeyType, run_id: str, shard_id: int, rows: Mapping[Key, bytes]) -> ShardEntry:
    if not rows:
        return ShardEntry(shard_id)
    path = f"shards/run_id={run_id}/db={shard_id:05d}/attempt=00"
    with tempfile.TemporaryDirectory() as scratch:
        writer = backend.writer(scratch, key_type)
        writer.write(pa.array(list(rows), ARROW[key_type]), pa.array(list(rows.values()), pa.binary()))
        stored = upload_shard(store, writer.finish(), path)
    return ShardEntry(shard_id, path, len(rows), stored.bytes, min(rows), max(rows), stored.checksum, stored.files, run_id, 0)
