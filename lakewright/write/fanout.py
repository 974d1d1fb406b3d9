"""Rows of many partitions to one writer each, with bounds on open files and on memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema

from lakewright.format.data_file import DataFile
from lakewright.format.transforms import partition_values
from lakewright.plan.distribution import partition_fields
from lakewright.plan.transform_columns import source_path
from lakewright.read.prune import partition_key
from lakewright.write.arrow_rows import in_file_types
from lakewright.write.rolling import RollingWriter, TaskFiles

MOST_BUFFERED = 256 * 1024 * 1024
Numbers = np.ndarray[Any, np.dtype[np.int64]]


class FanoutWriter:
    """One rolling writer per partition; past `most_open` the fullest is closed. With 1 it is the clustered writer."""

    def __init__(self, files: TaskFiles, most_open: int) -> None:
        self._files = files
        self._most_open = most_open
        self._writers: dict[tuple[Any, ...], RollingWriter] = {}
        self._buffered = 0

    def write(self, batch: pa.RecordBatch) -> None:
        bytes_per_row = max(batch.nbytes / max(batch.num_rows, 1), 0.1)
        for partition, rows in split_by_partition(self._files.plan.spec, self._files.plan.schema, batch):
            writer = self._writer(partition)
            before = writer.buffered_bytes
            writer.write(rows, bytes_per_row)
            self._buffered += writer.buffered_bytes - before
            if self._buffered > MOST_BUFFERED:
                self._flush_largest()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()

    def abandon(self) -> None:
        for writer in self._writers.values():
            writer.abandon()

    def _writer(self, partition: tuple[Any, ...]) -> RollingWriter:
        key = _told_apart(partition)
        if key not in self._writers:
            if len(self._writers) >= self._most_open:
                fullest = max(self._writers, key=lambda key: self._writers[key].size)
                self._buffered -= self._writers[fullest].buffered_bytes
                self._writers[fullest].close()
                del self._writers[fullest]
            self._writers[key] = RollingWriter(self._files, partition)
        return self._writers[key]

    def _flush_largest(self) -> None:
        largest = max(self._writers.values(), key=lambda writer: writer.buffered_bytes)
        self._buffered -= largest.buffered_bytes
        largest.flush()


def split_by_partition(spec: PartitionSpec, schema: Schema, batch: pa.RecordBatch) -> list[tuple[tuple[Any, ...], pa.RecordBatch]]:
    """The batch's rows by partition value, in order of first appearance; rows already together are not copied."""
    if not batch.num_rows:
        return []
    values = partition_values(spec, schema, batch)
    if not values:
        return [((), batch)]
    codes = _codes(values)
    starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    if len(starts) > len(np.unique(codes)):
        order = np.argsort(_first_appearance(codes), kind="stable")
        batch, codes = batch.take(pa.array(order)), codes[order]
        values = [array.take(pa.array(order)) for array in values]
        starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    ends = [*starts[1:], len(codes)]
    return [(tuple(_key(array[int(start)]) for array in values), batch.slice(start, end - start)) for start, end in zip(starts, ends, strict=True)]


def numbered_partitions(fields: Sequence[PartitionField], schema: Schema, rows: pa.Table) -> tuple[dict[tuple[Any, ...], int], Numbers]:
    """The values of these fields that rows have, each with a number, and the number of each row's."""
    names = list(dict.fromkeys(source_path(schema, f.source_id)[0] for f in fields))
    columns = pa.RecordBatch.from_arrays(in_file_types(rows, names, schema), names=names)
    values = partition_values(PartitionSpec(*fields), schema, columns)
    _, first, numbers = np.unique(_codes(values), return_index=True, return_inverse=True)
    return {partition_key(tuple(_key(array[int(at)]) for array in values)): number for number, at in enumerate(first)}, numbers


def partitions_of(spec: PartitionSpec, schema: Schema, rows: pa.Table, files: Sequence[DataFile]) -> tuple[Numbers, Numbers]:
    """The number of each row's partition under the spec, and of each file's, which is of the spec; -1 if no row is of it."""
    fields = partition_fields(spec)
    if not fields:
        return np.zeros(len(rows), np.int64), np.zeros(len(files), np.int64)
    numbers, of_rows = numbered_partitions([f for _, f in fields], schema, rows)
    return of_rows, np.array([numbers.get(partition_key(tuple(file.partition[n] for n, _ in fields)), -1) for file in files], np.int64)


NAN = math.nan


def _key(value: pa.Scalar) -> Any:
    """The value; NaN always as the same object, since a dict finds it only by identity."""
    plain = value.as_py()
    return NAN if isinstance(plain, float) and math.isnan(plain) else plain


def _told_apart(partition: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key for the partition: -0.0 is another than 0.0, as it is for readers that take the column from it."""
    return tuple((value, math.copysign(1, value)) if isinstance(value, float) and value == 0 else value for value in partition)


def _codes(values: list[pa.Array]) -> np.ndarray[Any, Any]:
    """One number per row, equal for rows of equal partition values."""
    combined = np.zeros(len(values[0]), dtype=np.int64)
    for array in values:
        plain = array.storage if isinstance(array, pa.ExtensionArray) else array
        encoded = plain.dictionary_encode(null_encoding="encode")
        combined = combined * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
    return combined


def _first_appearance(codes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    ranks: np.ndarray[Any, Any] = first[inverse]
    return ranks
