"""Keys of files that were just written, if they are one whole number each: looked at here, without a job, since sorting numbers is all it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.types import DateType, IntegerType, LongType

from lakewright.format.data_file import DataFile
from lakewright.format.storage import filesystem
from lakewright.keys.definition import Definition

MOST_AT_ONCE = 32_000_000  # rows, of eight bytes each
READERS = 4

Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class WrittenKeys:
    rows: int
    nulls: int
    is_unique: bool


def written_keys(io: FileIO, files: Sequence[DataFile], definition: Definition) -> WrittenKeys | None:
    """None where the key is another, a file does not say between which keys it lies, or too many rows would have to be compared at once."""
    part = definition.key[0]
    if len(definition.key) > 1 or part.column is None or not part.is_top_level or "." in part.column:
        return None
    field = definition.schema.find_field(part.column)
    if not isinstance(field.field_type, IntegerType | LongType | DateType):
        return None
    bounds = [_bounds(file, field.field_id) for file in files]
    if any(bound is None and file.record_count for bound, file in zip(bounds, files, strict=True)):
        return None
    groups = list(_overlapping([(bound, file) for bound, file in zip(bounds, files, strict=True) if bound is not None]))
    if any(sum(file.record_count for file in group) > MOST_AT_ONCE for group in groups):
        return None
    nulls, is_unique = 0, True
    with ThreadPoolExecutor(READERS) as pool:
        for group in groups:
            columns = list(pool.map(lambda file: _column(io, file, field.name), group))
            nulls += sum(column.null_count for column in columns)
            is_unique = is_unique and _is_unique(columns)
    return WrittenKeys(sum(file.record_count for file in files), nulls, is_unique)


def _bounds(file: DataFile, field_id: int) -> tuple[int, int] | None:
    low, high = file.lower_bounds.get(field_id), file.upper_bounds.get(field_id)
    return None if low is None or high is None else (int.from_bytes(low, "little", signed=True), int.from_bytes(high, "little", signed=True))


def _overlapping(placed: list[tuple[tuple[int, int], DataFile]]) -> Iterator[list[DataFile]]:
    """Files in groups; those of different groups have no key in common."""
    group: list[DataFile] = []
    end = 0
    for (low, high), file in sorted(placed, key=lambda one: one[0]):
        if group and low > end:
            yield group
            group = []
        end = max(end, high) if group else high
        group.append(file)
    if group:
        yield group


def _column(io: FileIO, file: DataFile, name: str) -> pa.ChunkedArray:
    fs, path = filesystem(io, file.file_path)
    with fs.open_input_file(path) as source:
        found: pa.ChunkedArray = pq.read_table(source, columns=[name]).column(0)
    return found


def _is_unique(columns: list[pa.ChunkedArray]) -> bool:
    numbers: Numbers = np.concatenate([_numbers(column) for column in columns])
    numbers.sort()
    return not bool((numbers[1:] == numbers[:-1]).any())


def _numbers(column: pa.ChunkedArray) -> Numbers:
    kind = pa.int32() if pa.types.is_date(column.type) else column.type
    numbers: Numbers = column.drop_null().cast(kind).cast(pa.int64()).to_numpy()
    return numbers
