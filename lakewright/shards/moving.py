"""How rows get to their shard: as Arrow, many in one row of Spark's. Rows of Spark's own would be taken apart and put together at
every step between the tasks that read and those that write, which costs more than all the rest.

A task that reads routes its rows and packs those of each shard; the task of a shard unpacks, and sorts by key.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.shards.failures import telling
from lakewright.shards.keys import key_array, numbers
from lakewright.shards.routing import routing_from_json

PLACE, ROWS = "place", "rows"
PACKED = f"{PLACE} int, {ROWS} binary"
PACK_BYTES, SHARD_BYTES = 4 << 20, 128 << 10  # what a reading task holds before it packs: so much, and more where there are many shards
MOST_PACKED = 64 << 20
HELD_BYTES = 256 << 20  # what a writing task holds in memory; past it rows wait in files
ALIGNED = 64
Order = np.ndarray[Any, np.dtype[Any]]


def packed(batches: Iterator[pa.RecordBatch], routing: Mapping[str, Any], key: str, kept: Sequence[str], only: Sequence[int] | None, url: str) -> Iterator[pa.RecordBatch]:
    """Rows of `kept` columns by the partition of their shard: the shard itself, or its place among those wanted."""
    with telling(url):
        known = routing_from_json(routing)
        wanted = range(known.num_shards) if only is None else only
        for rows in _gathered(batches, min(MOST_PACKED, max(PACK_BYTES, known.num_shards * SHARD_BYTES))):
            yield _pack(rows.select(list(kept)), numbers(known.shards_of(rows, key)), known.num_shards, wanted)


def _gathered(batches: Iterator[pa.RecordBatch], enough: int) -> Iterator[pa.RecordBatch]:
    """Batches joined to larger ones, so that the rows of one shard are many at a time."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            size += batch.nbytes
        if size >= enough:
            yield _joined(held)
            held, size = [], 0
    if held:
        yield _joined(held)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).combine_chunks()
    return pa.RecordBatch.from_arrays([_one_chunk(column) for column in table.columns], schema=table.schema)


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _pack(rows: pa.RecordBatch, shards: Order, num_shards: int, wanted: Sequence[int]) -> pa.RecordBatch:
    small = shards.astype(np.uint16) if num_shards <= 1 << 16 else shards  # numpy sorts numbers of 16 bits without comparing them
    ends = np.concatenate([[0], np.cumsum(np.bincount(shards, minlength=num_shards))])
    ordered = rows.take(_numbers(np.argsort(small, kind="stable")))
    sink, places, offsets = pa.BufferOutputStream(), [], [0]
    for place, shard in enumerate(wanted):
        count = int(ends[shard + 1] - ends[shard])
        if count:
            with pa.ipc.new_stream(sink, rows.schema) as stream:
                stream.write_batch(ordered.slice(int(ends[shard]), count))
            sink.write(b"\0" * (-sink.tell() % ALIGNED))
            places.append(place)
            offsets.append(sink.tell())
    return pa.RecordBatch.from_arrays([_numbers(np.array(places, np.int32)), blobs(offsets, sink.getvalue())], names=[PLACE, ROWS])


def nothing(places: int) -> pa.RecordBatch:
    """No rows for each partition. One task sends it, so that Spark, which plans no task for what it knows to be empty, starts them all."""
    return pa.RecordBatch.from_arrays([_numbers(np.arange(places, dtype=np.int32)), blobs([0] * (places + 1), pa.py_buffer(b""))], names=[PLACE, ROWS])


def blobs(offsets: Sequence[int], data: pa.Buffer) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(np.array(offsets, np.int32)), data])


def _numbers(values: Order) -> pa.Array:
    """Without `pa.array`, which imports pandas first: a second of every worker's time."""
    return pa.Array.from_buffers(pa.int32() if values.dtype == np.int32 else pa.int64(), len(values), [None, pa.py_buffer(values)])


def unpacked(packs: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in packs:
        for value in batch.column(ROWS):
            data = value.as_buffer()
            if data.size:
                with pa.ipc.open_stream(data) as stream:
                    yield from stream


def sorted_by_key(batches: Iterator[pa.RecordBatch], key: str, ordering: str | None, batch_rows: int, scratch: str) -> Iterator[pa.RecordBatch]:
    """All rows in the order of their keys, and of `ordering` within a key. Keys are held in memory; other columns past a limit in files."""
    held = _Held(scratch)
    for batch in batches:
        held.add(batch)
    parts = held.parts()
    if not parts:
        return
    order = _order(parts, key, ordering)
    starts = np.cumsum([0, *(part.num_rows for part in parts)])
    for start in range(0, len(order), batch_rows):
        yield _taken(parts, starts, order[start : start + batch_rows])


class _Held:
    """Rows that wait until all have come."""

    def __init__(self, scratch: str) -> None:
        self._scratch, self._waiting, self._size = scratch, list[pa.RecordBatch](), 0
        self._parts: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._size += batch.nbytes
        if self._size >= HELD_BYTES:
            self._parts.append(self._in_a_file(_joined(self._waiting)))
            self._waiting, self._size = [], 0

    def parts(self) -> list[pa.RecordBatch]:
        return [*self._parts, *([_joined(self._waiting)] if self._waiting else [])]

    def _in_a_file(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        path = os.path.join(self._scratch, f"rows-{len(self._parts)}.arrow")
        with pa.ipc.new_file(path, batch.schema) as stream:
            stream.write_batch(batch)
        return pa.ipc.open_file(pa.memory_map(path)).get_batch(0)


def _order(parts: Sequence[pa.RecordBatch], key: str, ordering: str | None) -> Order:
    keys = [key_array(part.column(key), key) for part in parts]
    if ordering is None and keys[0].type == pa.int64():
        return np.argsort(np.concatenate([numbers(part) for part in keys]))
    columns = {"key": pa.chunked_array(keys)}
    if ordering is not None:
        given = pa.chunked_array([part.column(ordering) for part in parts])
        columns |= {"has_ordering": given.is_valid(), "ordering": given}  # a null is before all others
    order = pc.sort_indices(pa.table(columns), sort_keys=[(name, "ascending") for name in columns])
    return numbers(order).astype(np.int64)


def _taken(parts: Sequence[pa.RecordBatch], starts: Order, order: Order) -> pa.RecordBatch:
    """Rows by their number over all parts."""
    if len(parts) == 1:
        return parts[0].take(_numbers(order))
    found = np.searchsorted(starts, order, side="right") - 1
    grouped = np.argsort(found, kind="stable")
    pieces = [parts[part].take(_numbers(order[found == part] - starts[part])) for part in np.unique(found)]
    back = np.empty(len(order), np.int64)
    back[grouped] = np.arange(len(order))
    return _joined(pieces).take(_numbers(back))

