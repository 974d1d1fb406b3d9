"""Keys as numbers, so that a column of millions is asked at once which of its rows have a key of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Numbers = np.ndarray[Any, np.dtype[np.int64]]
FLAGS_PER_NUMBER = 16
MOST_FLAGS_PER_NUMBER, MOST_FLAGS = 256, 2**26
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 by the golden ratio: neighbours go far apart


class KeyCodes:
    """A number for each key of a batch, whose columns these are, without nulls: 0, 1, … for as many as there are."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        first, *others = columns
        self._first, self._others = _values(first), list[_Pairs]()
        self.own, self.count = self._first.own, len(self._first)
        for column in others:
            part = _Pairs(self.own, column)
            self._others.append(part)
            self.own, self.count = part.own, len(part)

    def find(self, columns: Sequence[pa.Array]) -> tuple[Numbers, Numbers]:
        """Rows of these columns that have a key of the batch, and its number."""
        first, *others = columns
        rows, codes = self._first.find(first)
        for part, column in zip(self._others, others, strict=True):
            found, codes = part.find(codes, column.take(pa.array(rows)))
            rows = rows[found]
        return rows, codes


class KeyPlaces:
    """Where each key is among the records of a batch, which have it once."""

    def __init__(self, codes: KeyCodes, own: Numbers) -> None:
        self._codes, self._place = codes, np.empty(len(own), np.int64)
        self._place[own] = np.arange(len(own))

    def find(self, columns: Sequence[pa.Array]) -> tuple[Numbers, Numbers]:
        """Rows of these columns that have a key of the batch, and the record of each."""
        rows, codes = self._codes.find(columns)
        return rows, self._place[codes]


class _Pairs:
    """What came before with a value of one more column, numbered as far as the batch has it, so that numbers stay below its records."""

    def __init__(self, codes: Numbers, column: pa.Array) -> None:
        self._values = _values(column)
        self._known = _Sorted(codes * len(self._values) + self._values.own)
        self.own = self._known.own

    def __len__(self) -> int:
        return len(self._known)

    def find(self, codes: Numbers, column: pa.Array) -> tuple[Numbers, Numbers]:
        rows, more = self._values.find(column)
        found, places = self._known.find_numbers(codes[rows] * len(self._values) + more)
        return rows[found], places


class _Dictionary:
    """Distinct values of any type, each known by its place."""

    def __init__(self, column: pa.Array) -> None:
        encoded = column.dictionary_encode()
        self._values = encoded.dictionary
        self.own: Numbers = encoded.indices.to_numpy().astype(np.int64)

    def __len__(self) -> int:
        return len(self._values)

    def find(self, column: pa.Array) -> tuple[Numbers, Numbers]:
        """Rows of a column that have one of the values, and its place."""
        places = pc.index_in(column, value_set=self._values)
        return np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False)), places.drop_null().to_numpy().astype(np.int64)


class _Sorted:
    """Distinct numbers in order. Most that are asked for are none of them, which a list of flags tells sooner than a search: one for each
    number from the first to the last, or by hash where that would be too many."""

    def __init__(self, numbers: Numbers) -> None:
        order = np.argsort(numbers)
        ordered = numbers[order]
        is_new = np.append(np.ones(min(len(ordered), 1), dtype=bool), ordered[1:] != ordered[:-1])
        self._numbers = ordered[is_new]
        self.own = np.empty(len(numbers), np.int64)
        self.own[order] = np.cumsum(is_new) - 1
        span = int(self._numbers[-1]) - int(self._numbers[0]) + 1 if len(self) else 0
        self._is_dense = span <= min(len(self) * MOST_FLAGS_PER_NUMBER, MOST_FLAGS)
        bits = max(len(self) * FLAGS_PER_NUMBER, 2).bit_length()
        self._shift = np.uint64(64 - bits)
        self._before = np.uint64((int(self._numbers[0]) - 1) % 2**64) if len(self) else np.uint64(0)
        self._flags = np.zeros(span + 2 if self._is_dense else 2**bits, dtype=bool)
        self._flags[self._slots(self._numbers)] = True

    def __len__(self) -> int:
        return len(self._numbers)

    def find(self, column: pa.Array) -> tuple[Numbers, Numbers]:
        """Rows of a column that have one of the numbers, and its place."""
        rows, places = self.find_numbers(_numbers(column))
        if not column.null_count:
            return rows, places
        is_valid = column.is_valid().to_numpy(zero_copy_only=False)[rows]
        return rows[is_valid], places[is_valid]

    def find_numbers(self, wanted: Numbers) -> tuple[Numbers, Numbers]:
        rows = np.flatnonzero(self._flags.take(self._slots(wanted), mode="clip"))
        if not len(rows):
            return rows, rows
        order = np.argsort(wanted[rows])  # so that one search is near the next
        asked = wanted[rows][order]
        at = np.searchsorted(self._numbers, asked)
        at[at == len(self)] = 0
        places = np.empty(len(rows), np.int64)
        places[order] = np.where(self._numbers[at] == asked, at, -1)
        return rows[places >= 0], places[places >= 0]

    def _slots(self, numbers: Numbers) -> Numbers:
        """Which flag is a number's; beyond the first and the last of all there is one that says no."""
        plain = numbers.view(np.uint64)
        return ((plain - self._before) if self._is_dense else (plain * SPREAD) >> self._shift).view(np.int64)


def _values(column: pa.Array) -> _Sorted | _Dictionary:
    is_number = any(is_kind(column.type) for is_kind in (pa.types.is_integer, pa.types.is_date32, pa.types.is_timestamp))
    return _Sorted(_numbers(column)) if is_number else _Dictionary(column)


def _numbers(column: pa.Array) -> Numbers:
    plain = column.cast(pa.int32()) if pa.types.is_date32(column.type) else column
    plain = plain.cast(pa.int64())
    numbers: Numbers = (plain.fill_null(0) if plain.null_count else plain).to_numpy(zero_copy_only=False)
    return numbers
