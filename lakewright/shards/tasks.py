"""What one task does with the rows of its shard. No Spark here: the driver does the same for a snapshot of one shard."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import DuplicateShardKey, ShardAssignmentError, ShardError
from lakewright.shards.backends import backend_named, upload_shard
from lakewright.shards.backends.protocol import ShardWriter
from lakewright.shards.config import LAST, ValueFunction
from lakewright.shards.failures import told
from lakewright.shards.keys import Key, KeyType, from_ordered, key_array
from lakewright.shards.manifest import ShardEntry
from lakewright.shards.moving import sorted_by_key, unpacked
from lakewright.shards.paths import attempt_path
from lakewright.shards.rate_limit import RateLimit
from lakewright.shards.routing import routing_from_json
from lakewright.shards.store import Store, open_store
from lakewright.shards.values import ValueCodec, checked_values


@dataclass(frozen=True)
class ShardTask:
    """What every task of a build is told. `sample_size` is 0 where the routing cannot be told from the key."""

    url: str
    storage: Mapping[str, str]
    run_id: str
    routing: Mapping[str, Any]
    key: str
    key_type: KeyType
    codec: ValueCodec
    function: ValueFunction | None
    value_columns: tuple[str, ...]
    backend: str
    sort: bool
    duplicates: str
    ordering: str | None
    batch_rows: int
    operations_per_second: float | None
    bytes_per_second: float | None
    sample_size: int


@dataclass(frozen=True)
class ShardMessage:
    """What a task tells the driver: who it was and the shard it made; a shard without rows has no path, and nothing was written."""

    attempt: int
    task_attempt_id: int
    entry: ShardEntry

    def to_bytes(self) -> bytes:
        return json.dumps({"attempt": self.attempt, "task_attempt_id": self.task_attempt_id, "entry": self.entry.to_json()}).encode()

    @classmethod
    def from_bytes(cls, data: bytes, key_type: KeyType) -> ShardMessage:
        told = json.loads(data)
        return cls(told["attempt"], told["task_attempt_id"], ShardEntry.from_json(told["entry"], key_type))


def winners(messages: Iterable[ShardMessage]) -> dict[int, ShardEntry]:
    """One entry per shard, the same one whatever order they arrive in: lowest attempt, then task attempt id, then path."""
    ranked = sorted(messages, key=lambda m: (m.attempt, m.task_attempt_id, m.entry.path or ""), reverse=True)
    return {message.entry.shard_id: message.entry for message in ranked}


Arranged = Callable[[Iterator[pa.RecordBatch], str], Iterator[pa.RecordBatch]]


def write_packed(task: ShardTask, packs: Iterator[pa.RecordBatch], shard_id: int, attempt: int, task_attempt_id: int) -> ShardMessage:
    """Write the rows that reading tasks packed for one shard."""

    def in_order(batches: Iterator[pa.RecordBatch], folder: str) -> Iterator[pa.RecordBatch]:
        return sorted_by_key(batches, task.key, task.ordering, task.batch_rows, folder)

    return write_shard(task, unpacked(packs), shard_id, attempt, task_attempt_id, arranged=in_order if task.sort else None)


def write_shard(
    task: ShardTask,
    batches: Iterator[pa.RecordBatch],
    shard_id: int,
    attempt: int,
    task_attempt_id: int,
    *,
    limit: RateLimit | None = None,
    arranged: Arranged | None = None,
) -> ShardMessage:
    """Write rows as one shard and store it; if that fails, delete what was written and tell how far it came.

    `arranged` puts rows in order, and may keep them in a folder meanwhile. A shard without rows makes and leaves nothing.
    """
    path = attempt_path(task.run_id, shard_id, attempt, task_attempt_id)
    shard = _Shard(task, shard_id, limit or RateLimit.of(task.operations_per_second, task.bytes_per_second))
    try:
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return ShardMessage(attempt, task_attempt_id, ShardEntry(shard_id))
        store, given = open_store(task.url, task.storage), chain([first], batches)
        with _scratch(store, path, "rows") as folder, _scratch(store, path, "making") as scratch:
            writer = backend_named(task.backend).writer(scratch, task.key_type)
            try:
                shard.load(writer, shard.rows(arranged(given, folder) if arranged else given))
                made = writer.finish()
            except BaseException:
                with suppress(Exception):
                    writer.abort()
                raise
            stored = upload_shard(store, made, path)
    except Exception as error:
        _delete(task, path)
        raise told(error, url=f"{task.url}/{path}", shard_id=shard_id, attempt=attempt, rows_written=shard.written) from None
    entry = ShardEntry(shard_id, path, shard.written, stored.bytes, shard.min_key, shard.max_key, stored.checksum, stored.files, task.run_id, attempt)
    return ShardMessage(attempt, task_attempt_id, entry)


class _Shard:
    """The rows of one shard on their way into it."""

    def __init__(self, task: ShardTask, shard_id: int, limit: RateLimit) -> None:
        self.task, self.shard_id, self.limit = task, shard_id, limit
        self.written = 0
        self._least: Any = None
        self._greatest: Any = None

    @property
    def min_key(self) -> Key | None:
        return _plain(self._least, self.task.key_type)

    @property
    def max_key(self) -> Key | None:
        return _plain(self._greatest, self.task.key_type)

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
        """Keys and rows; of sorted ones with each key once."""
        keyed = ((key_array(batch.column(self.task.key), self.task.key), batch) for batch in batches if batch.num_rows)
        checked = self._verified(keyed)
        return self._each_once(checked) if self.task.sort else checked

    def load(self, writer: ShardWriter, rows: Iterator[tuple[pa.Array, pa.RecordBatch]]) -> None:
        for keys, batch in rows:
            pairs = pa.RecordBatch.from_arrays([keys, self._values(batch)], names=["key", "value"])
            for part in self.limit.admitted(pairs):
                writer.write(part.column(0), part.column(1))
                self.written += part.num_rows
            self._note_range(keys)

    def _values(self, batch: pa.RecordBatch) -> pa.Array:
        if self.task.function is None:
            return self.task.codec.encode(batch)
        made = checked_values(self.task.function(batch.select(list(self.task.value_columns))))
        if len(made) != batch.num_rows:
            raise ShardError(f"The value function made {len(made)} values of {batch.num_rows} rows; it has to return one for each, in their order.")
        return made

    def _verified(self, batches: Iterator[tuple[pa.Array, pa.RecordBatch]]) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
        """Keys of the first batch, spread over it, have to be of this shard."""
        left = self.task.sample_size
        routing = routing_from_json(self.task.routing) if left else None
        for keys, batch in batches:
            if left and routing is not None:
                step = max(1, len(keys) // left)
                for at in range(0, len(keys), step)[:left]:
                    key = batch.column(self.task.key)[at].as_py()
                    shard = routing.shard_of(key)
                    if shard != self.shard_id:
                        raise ShardAssignmentError(f"Key {key!r} arrived at shard {self.shard_id}, and the routing sends it to shard {shard}.")
                left = max(0, left - len(keys))
            yield keys, batch

    def _each_once(self, batches: Iterator[tuple[pa.Array, pa.RecordBatch]]) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
        """Of rows sorted by key, and by the ordering within it, the last of each key. A batch waits until the next one shows its first key."""
        waiting: tuple[pa.Array, pa.RecordBatch] | None = None
        for keys, batch in batches:
            if waiting is not None:
                before, rows = waiting
                self._check_pair(before[-1], keys[0])
                repeated = before[-1].equals(keys[0])
                if repeated:
                    before, rows = before.slice(0, len(before) - 1), rows.slice(0, len(before) - 1)
                if len(before):
                    yield before, rows
            waiting = self._once_within(keys, batch)
        if waiting is not None:
            yield waiting

    def _once_within(self, keys: pa.Array, batch: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        before, after = keys.slice(0, len(keys) - 1), keys.slice(1)
        rises = pc.less(before, after)
        if pc.all(rises, min_count=0).as_py():
            return keys, batch
        for wrong in (pc.greater(before, after), pc.equal(before, after)):
            at = pc.index(wrong, True).as_py()
            if at >= 0:
                self._check_pair(keys[at], keys[at + 1])
        last = pa.concat_arrays([rises, pa.array([True])])
        return keys.filter(last), batch.filter(last)

    def _check_pair(self, before: pa.Scalar, after: pa.Scalar) -> None:
        """Of neighbours: they rise, or are the same where that may be."""
        one, other = before.as_py(), after.as_py()
        if one > other:
            raise ShardError(f"Rows are not in the order of their keys: {one!r} comes before {other!r}.")
        if one == other and self.task.duplicates != LAST:
            key = _plain(other, self.task.key_type)
            raise DuplicateShardKey(f"Key {key!r} comes more than once. Make keys unique, or say which row is the last: duplicates='last', ordering=<column>.")

    def _note_range(self, keys: pa.Array) -> None:
        if self.task.sort:
            least, greatest = keys[0].as_py(), keys[-1].as_py()
        else:
            found = pc.min_max(keys)
            least, greatest = found["min"].as_py(), found["max"].as_py()
        self._least = least if self._least is None else min(self._least, least)
        self._greatest = greatest if self._greatest is None else max(self._greatest, greatest)


def _plain(key: Any, key_type: KeyType) -> Key | None:
    """A key as users know it, of one as it is sorted."""
    return key if key is None or key_type == "int" else from_ordered(key, key_type)


@contextmanager
def _scratch(store: Store, path: str, what: str) -> Iterator[str]:
    """A folder to work in; of a store on local disk one below it, from where the finished files need only be renamed."""
    local = store.local_path(path)
    if local is not None:
        os.makedirs(local, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=f".{what}-", dir=local)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _delete(task: ShardTask, path: str) -> None:
    with suppress(Exception):
        store = open_store(task.url, task.storage)
        for found in list(store.list(path)):
            store.delete(found.path)
        store.prune(path)
