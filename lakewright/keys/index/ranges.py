"""Keys by what files say of themselves: the bounds in their manifests, then the bloom filters in the files."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyiceberg.types import BinaryType, DateType, DecimalType, IcebergType, IntegerType, LongType, StringType

from lakewright.format.bounds import unscaled
from lakewright.keys.definition import Definition
from lakewright.keys.index.filters import KeyValues, file_may_have, has_filters

if TYPE_CHECKING:
    from lakewright.format.data_file import DataFile
    from lakewright.read.scan import FileScan
    from lakewright.rows.merge_source import MergeSource
    from lakewright.rows.row_plan import RowContext

FEW_FILES = 4
MOST_NUMBERS, MOST_TEXTS = 1_000_000, 200_000
MOST_ASKED, MOST_OPENED, READERS = 1_000, 1_000, 16
WIDE = 0.5
RANGED = (IntegerType, LongType, DateType, DecimalType, StringType)
EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class RangeIndex:
    definition: Definition

    def candidates(self, context: RowContext, source: MergeSource, files: Sequence[FileScan]) -> Sequence[FileScan]:
        if len(files) <= FEW_FILES:
            return files
        ranged = next((name for name in self._columns(RANGED) if source.ranges.get(name) is not None), None)
        kept = files if ranged is None else self._by_bounds(context, source, files, ranged)
        return kept if len(kept) <= FEW_FILES else self._by_filters(context, source, kept)

    def _columns(self, kinds: tuple[type[IcebergType], ...]) -> list[str]:
        """The key's own columns of these types."""
        return [part.column for part in self.definition.key if part.is_top_level and part.column is not None and isinstance(self._type(part.column), kinds)]

    def _type(self, column: str) -> IcebergType:
        return self.definition.schema.find_field(column).field_type

    def _by_bounds(self, context: RowContext, source: MergeSource, files: Sequence[FileScan], column: str) -> Sequence[FileScan]:
        """Files with a key of the batch between their bounds, where the batch is small enough to look at its keys one by one."""
        field = context.schema.find_field(column)
        if source.count > (MOST_TEXTS if isinstance(field.field_type, StringType) else MOST_NUMBERS):
            return files
        told = [bounds(f.data_file, field.field_id, field.field_type) for f in files]
        least, greatest = (comparable(value, field.field_type) for value in source.ranges[column] or ())
        if not _may_leave_out(told, least, greatest):
            return files
        keys = _sorted_keys(source.collected([column]).column(0), field.field_type)
        return [f for f, found in zip(files, told, strict=True) if found is None or _any_between(keys, *found)]

    def _by_filters(self, context: RowContext, source: MergeSource, files: Sequence[FileScan]) -> Sequence[FileScan]:
        """Files whose bloom filters do not rule every key out. With many keys some is always taken for present, so only a few are asked for."""
        columns = self._columns((*RANGED, BinaryType))
        if not columns or source.count > MOST_ASKED or len(files) > MOST_OPENED:
            return files
        kinds = {context.schema.find_field(c).field_id: self._type(c) for c in columns}
        io, sample = context.state.io, (files[0], files[len(files) // 2], files[-1])
        if not set(columns) & context.write.blooms.keys() and not any(has_filters(io, file.data_file.file_path, kinds.keys()) for file in sample):
            return files
        collected = source.collected(columns)
        keys = [KeyValues(field_id, _values(collected.column(n), kind), kind.scale if isinstance(kind, DecimalType) else 0) for n, (field_id, kind) in enumerate(kinds.items())]
        with ThreadPoolExecutor(READERS) as pool:
            may_have = list(pool.map(lambda file: file_may_have(io, file.data_file.file_path, keys), files))
        return [file for file, may in zip(files, may_have, strict=True) if may]


def _sorted_keys(column: pa.ChunkedArray, kind: IcebergType) -> Sequence[Any]:
    if isinstance(kind, IntegerType | LongType | DateType):
        numbers: Any = np.sort((column.cast(pa.int32()) if isinstance(kind, DateType) else column).to_numpy())
        return numbers  # type: ignore[no-any-return]
    return sorted({comparable(value, kind) for value in _values(column, kind)})


def comparable(value: Any, kind: IcebergType) -> Any:
    """A key as bounds are compared: numbers as int, texts as their bytes, which are in the order of their characters."""
    if isinstance(kind, DecimalType):
        return unscaled(Decimal(value), kind.scale)
    if isinstance(kind, StringType):
        return value.encode()
    return value.toordinal() - EPOCH if isinstance(value, date) else value


def _values(column: pa.ChunkedArray, kind: IcebergType) -> list[Any]:
    """Keys, none of which is null; dates as days."""
    return list((column.cast(pa.int32()) if isinstance(kind, DateType) else column).to_pylist())


def bounds(file: DataFile, field_id: int, kind: IcebergType) -> tuple[Any, Any] | None:
    """Lower and upper bound; None if one is missing. Long bounds of texts are cut, the upper ones upwards. Numbers may be of a narrower type."""
    low, high = file.lower_bounds.get(field_id), file.upper_bounds.get(field_id)
    if low is None or high is None:
        return None
    if isinstance(kind, StringType):
        return low, high
    order: Any = "big" if isinstance(kind, DecimalType) else "little"
    return int.from_bytes(low, order, signed=True), int.from_bytes(high, order, signed=True)


def _any_between(keys: Sequence[Any], low: Any, high: Any) -> bool:
    at = bisect_left(keys, low)
    return at < len(keys) and bool(keys[at] <= high)


def _may_leave_out(bounds: Sequence[tuple[Any, Any] | None], least: Any, greatest: Any) -> bool:
    """Whether some file is of less than half of the batch's range: where keys lie anywhere, no file can be told from another."""
    place = _places(least, greatest)
    low, high = place(least), place(greatest)
    shares = [(min(place(b[1]), high) - max(place(b[0]), low)) / max(high - low, 1) for b in bounds if b is not None]
    return bool(shares) and min(shares) < WIDE


def _places(least: Any, greatest: Any) -> Callable[[Any], int]:
    """Numbers as they are; texts by the eight bytes after what least and greatest begin with alike."""
    if not isinstance(least, bytes):
        return lambda value: int(value)
    same = next((n for n, (a, b) in enumerate(zip(least, greatest, strict=False)) if a != b), min(len(least), len(greatest)))
    shared = least[:same]

    def place(value: bytes) -> int:
        head = value[:same]
        if head != shared:
            return 0 if head < shared else 2**64
        return int.from_bytes(value[same : same + 8].ljust(8, b"\0"), "big")

    return place
