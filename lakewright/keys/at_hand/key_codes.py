"""Keys as numbers, so that a column of millions is asked at once which of its rows have a key of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Numbers = np.ndarray[Any, np.dtype[np.int64]]
MOST_CODES = 2**62
FLAGS_PER_NUMBER = 16
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 by the golden ratio: neighbours go far apart


class TooManyKeys(Exception):
    """Values of several columns have more combinations than there are numbers."""


class KeyCodes:
    """A code for each key of a batch, whose columns these are; -1 for what is no key of it. Codes of one column are 0, 1, …"""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self._values = [_Values(column) for column in columns]
        self.is_dense = len(columns) == 1
        combinations = 1
        for values in self._values:
            combinations *= max(len(values), 1)
        if combinations > MOST_CODES:
            raise TooManyKeys
        self._own = columns

    @cached_property
    def own(self) -> Numbers:
        """Those of the batch."""
        return self.of(self._own)

    @cached_property
    def has_duplicates(self) -> bool:
        ordered = np.sort(self.own)
        return bool((ordered[1:] == ordered[:-1]).any())

    def find(self, column: pa.Array) -> tuple[Numbers, Numbers]:
        """Rows of the only column that have a code, and it."""
        return self._values[0].find(column)

    def of(self, columns: Sequence[pa.Array]) -> Numbers:
        codes = self._values[0].codes(columns[0])
        for values, column in zip(self._values[1:], columns[1:], strict=True):
            more = values.codes(column)
            codes = np.where((codes < 0) | (more < 0), -1, codes * len(values) + more)
        return codes


class KeyPlaces:
    """Where each code is among the records of a batch, which have it once."""

    def __init__(self, codes: KeyCodes, own: Numbers) -> None:
        self._codes = codes
        self._order = np.argsort(own)
        self._sorted = own[self._order]

    def find(self, columns: Sequence[pa.Array]) -> tuple[Numbers, Numbers]:
        """Rows of these columns that have a key of the batch, and the record of each."""
        if self._codes.is_dense:
            rows, codes = self._codes.find(columns[0])
            return rows, self._order[codes]
        codes = self._codes.of(columns)
        rows = np.flatnonzero(codes >= 0)
        codes = codes[rows]
        at = np.searchsorted(self._sorted, codes)
        at[at == len(self._sorted)] = 0
        found = self._sorted[at] == codes if len(self._sorted) else np.zeros(len(codes), dtype=bool)
        return rows[found], self._order[at[found]]


class _Values:
    """The distinct values of one column, each known by its place among them."""

    def __init__(self, column: pa.Array) -> None:
        present = column.drop_null()
        self._numbers = _Sorted(_numbers(present)) if _is_number(column.type) else None
        self._others = present.unique() if self._numbers is None else None

    def __len__(self) -> int:
        return len(self._others) if self._others is not None else len(self._numbers.values if self._numbers else ())

    def codes(self, column: pa.Array) -> Numbers:
        codes = np.full(len(column), -1, np.int64)
        rows, places = self.find(column)
        codes[rows] = places
        return codes

    def find(self, column: pa.Array) -> tuple[Numbers, Numbers]:
        """Rows of a column that have one of the values, and its place."""
        if self._numbers is None:
            places = pc.index_in(column, value_set=self._others)
            found = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False))
            return found, places.drop_null().to_numpy().astype(np.int64)
        rows, at = self._numbers.find(_numbers(column))
        if column.null_count:
            valid = column.is_valid().to_numpy(zero_copy_only=False)[rows]
            rows, at = rows[valid], at[valid]
        return rows, at


class _Sorted:
    """Distinct numbers in order. Most that are asked for are none of them, which a list of flags by hash tells sooner than a search."""

    def __init__(self, numbers: Numbers) -> None:
        self.values = _distinct(numbers)
        bits = max(len(self.values) * FLAGS_PER_NUMBER, 2).bit_length()
        self._shift = np.uint64(64 - bits)
        self._flags = np.zeros(2**bits, dtype=bool)
        self._flags[self._hashes(self.values)] = True

    def find(self, wanted: Numbers) -> tuple[Numbers, Numbers]:
        rows = np.flatnonzero(self._flags.take(self._hashes(wanted), mode="clip"))
        if not len(rows):
            return rows, rows
        order = np.argsort(wanted[rows])  # so that one search is near the next
        asked = wanted[rows][order]
        at = np.searchsorted(self.values, asked)
        at[at == len(self.values)] = 0
        places = np.where(self.values[at] == asked, at, -1)
        places[order] = places.copy()
        return rows[places >= 0], places[places >= 0]

    def _hashes(self, numbers: Numbers) -> Numbers:
        return ((numbers.view(np.uint64) * SPREAD) >> self._shift).view(np.int64)


def _distinct(numbers: Numbers) -> Numbers:
    """Sorted; np.unique would put them through a hash table first, which takes several times as long."""
    ordered = np.sort(numbers)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def _is_number(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in (pa.types.is_integer, pa.types.is_date32, pa.types.is_timestamp))


def _numbers(column: pa.Array) -> Numbers:
    plain = column.cast(pa.int32()) if pa.types.is_date32(column.type) else column
    plain = plain.cast(pa.int64())
    numbers: Numbers = (plain.fill_null(0) if plain.null_count else plain).to_numpy(zero_copy_only=False)
    return numbers
