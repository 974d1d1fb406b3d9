"""Rows in a table's sort order, however many: sorted runs in temporary files, merged a batch of each at a time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder

from lakewright.format.transforms import apply, source_column

RUN_BYTES = 128 * 1024 * 1024
BATCH_ROWS = 8192

Indices = np.ndarray[Any, np.dtype[np.int64]]


def sorted_rows(batches: Iterable[pa.RecordBatch], schema: Schema, order: SortOrder) -> Iterator[pa.RecordBatch]:
    """The rows of all batches in order; `schema` is the one the order speaks of. Memory is that of one run."""
    with ExitStack() as held:
        folder = held.enter_context(tempfile.TemporaryDirectory(prefix="lakewright-"))
        spilled: list[str] = []
        waiting: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            waiting.append(batch)
            size += batch.nbytes
            if size >= RUN_BYTES:
                spilled.append(_spilled(_in_order(waiting, schema, order), os.path.join(folder, str(len(spilled)))))
                waiting, size = [], 0
        last = _in_order(waiting, schema, order).to_batches(BATCH_ROWS) if waiting else []
        runs = [_read(held.enter_context(pa.OSFile(path))) for path in spilled]
        yield from _merged([*runs, iter(last)], schema, order)


def _in_order(batches: list[pa.RecordBatch], schema: Schema, order: SortOrder) -> pa.Table:
    rows = pa.Table.from_batches(batches)
    return rows.take(_ranked(rows, schema, order))


def _spilled(run: pa.Table, path: str) -> str:
    with pa.ipc.new_file(path, run.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as file:
        file.write_table(run, max_chunksize=BATCH_ROWS)
    return path


def _read(file: pa.NativeFile) -> Iterator[pa.RecordBatch]:
    reader = pa.ipc.open_file(file)
    for number in range(reader.num_record_batches):
        yield reader.get_batch(number)


def _merged(runs: list[Iterator[pa.RecordBatch]], schema: Schema, order: SortOrder) -> Iterator[pa.RecordBatch]:
    """Up to the first end of a batch at hand, no row can come from what is not read yet."""
    heads = [(head, run) for run in runs if (head := next(run, None)) is not None]
    while len(heads) > 1:
        together = pa.Table.from_batches([head for head, _ in heads])
        sizes = np.array([head.num_rows for head, _ in heads])
        indices = _ranked(together, schema, order)
        ranks = np.empty(len(indices), np.int64)
        ranks[indices] = np.arange(len(indices))
        chosen = indices[: ranks[np.cumsum(sizes) - 1].min() + 1]
        yield from together.take(chosen).to_batches()
        taken = np.bincount(np.repeat(np.arange(len(heads)), sizes)[chosen], minlength=len(heads))
        left = [(head.slice(count) if count < head.num_rows else next(run, None), run) for (head, run), count in zip(heads, taken.tolist(), strict=True)]
        heads = [(head, run) for head, run in left if head is not None]
    for head, run in heads:
        yield head
        yield from run


def _ranked(rows: pa.Table, schema: Schema, order: SortOrder) -> Indices:
    keys: dict[str, Any] = {}
    directions: list[tuple[str, str]] = []
    for number, field in enumerate(order.fields):
        values = _values(rows, schema, field)
        keys[f"g{number}"], keys[f"v{number}"] = _groups(values, field), values
        directions += [(f"g{number}", "ascending"), (f"v{number}", "ascending" if field.direction == SortDirection.ASC else "descending")]
    indices: Indices = pc.sort_indices(pa.table(keys), sort_keys=directions).to_numpy()
    return indices.astype(np.int64)


def _values(rows: pa.Table, schema: Schema, field: SortField) -> pa.Array:
    values = apply(field.transform, schema.find_type(field.source_id), source_column(schema, field.source_id, rows))
    plain = values.storage if isinstance(values, pa.ExtensionArray) else values
    return plain.cast(pa.binary()) if pa.types.is_fixed_size_binary(plain.type) else plain


def _groups(values: pa.Array, field: SortField) -> pa.Array:
    """Where nulls and NaNs stand among the rest: nulls as the order says, NaN as the greatest number."""
    nulls = pc.is_null(values)
    nans = pc.fill_null(pc.is_nan(values), False) if pa.types.is_floating(values.type) else pa.repeat(False, len(values))
    rest, nan = (1, 2) if field.direction == SortDirection.ASC else (2, 1)
    null = 0 if field.null_order == NullOrder.NULLS_FIRST else 3
    return pc.if_else(nulls, pa.scalar(null, pa.int8()), pc.if_else(nans, pa.scalar(nan, pa.int8()), pa.scalar(rest, pa.int8())))
