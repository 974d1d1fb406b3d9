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
DENSE = 8  # numbers in a range of up to so many times their count


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
        codes = self._codes.of(columns)
        rows = np.flatnonzero(codes >= 0)
        codes = codes[rows]
        if self._codes.is_dense:
            return rows, self._order[codes]
        at = np.searchsorted(self._sorted, codes)
        at[at == len(self._sorted)] = 0
        found = self._sorted[at] == codes if len(self._sorted) else np.zeros(len(codes), dtype=bool)
        return rows[found], self._order[at[found]]


class _Values:
    """The distinct values of one column, each known by its place among them."""

    def __init__(self, column: pa.Array) -> None:
        self._numbers = _distinct(_numbers(column.drop_null())) if _is_number(column.type) else None
        self._others = column.drop_null().unique() if self._numbers is None else None

    def __len__(self) -> int:
        return len(self._others if self._numbers is None else self._numbers)

    def codes(self, column: pa.Array) -> Numbers:
        if self._numbers is None:
            return pc.index_in(column, value_set=self._others).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        wanted = _numbers(column)
        if not len(wanted) or not len(self._numbers):
            return np.full(len(column), -1, np.int64)
        low, high = int(wanted.min()), int(wanted.max())
        first, last = np.searchsorted(self._numbers, low), np.searchsorted(self._numbers, high, side="right")
        own = self._numbers[first:last]  # few are searched sooner than many
        codes = _from_list(own - low, wanted - low, high - low + 1) if high - low < DENSE * len(wanted) else _searched(own, wanted)
        if column.null_count:
            codes[column.is_null().to_numpy(zero_copy_only=False)] = -1
        codes[codes >= 0] += first
        return codes


def _from_list(own: Numbers, wanted: Numbers, count: int) -> Numbers:
    """Places of the wanted in `own`, both of them from 0 to `count`: a list of all places answers ten times as fast as a search."""
    places = np.full(count, -1, np.int32)
    places[own] = np.arange(len(own), dtype=np.int32)
    return places[wanted].astype(np.int64)


def _searched(own: Numbers, wanted: Numbers) -> Numbers:
    if not len(own):
        return np.full(len(wanted), -1, np.int64)
    at = np.searchsorted(own, wanted)
    at[at == len(own)] = 0
    at[own[at] != wanted] = -1
    return at


def _distinct(numbers: Numbers) -> Numbers:
    """Sorted; np.unique would put them through a hash table first, which takes several times as long."""
    ordered = np.sort(numbers)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind)


def _numbers(column: pa.Array) -> Numbers:
    plain = column.cast(pa.int32()) if pa.types.is_date32(column.type) else column
    plain = plain.cast(pa.int64())
    numbers: Numbers = (plain.fill_null(0) if plain.null_count else plain).to_numpy(zero_copy_only=False)
    return numbers
