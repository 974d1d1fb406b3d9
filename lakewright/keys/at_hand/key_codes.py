"""Keys as numbers, so that a column of millions is asked at once which of its rows have a key of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Numbers = np.ndarray[Any, np.dtype[np.int64]]
FLAGS_PER_NUMBER = 16
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 by the golden ratio: neighbours go far apart


class KeyCodes:
    """A number for each key of a batch, whose columns these are: 0, 1, … for as many as there are, and -1 for what is no key of it."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        first, *others = columns
        self._first, self._others = _Values(first), []
        self.own = self._first.codes(first)
        for column in others:
            part = _Pairs(self.own, column)
            self._others.append(part)
            self.own = part.codes(self.own, column)

    @cached_property
    def has_duplicates(self) -> bool:
        ordered = np.sort(self.own)
        return bool((ordered[1:] == ordered[:-1]).any())

    def find(self, columns: Sequence[pa.Array]) -> tuple[Numbers, Numbers]:
        """Rows of these columns that have a key of the batch, and its number."""
        first, *others = columns
        if not others:
            return self._first.find(first)
        codes = self._first.codes(first)
        for part, column in zip(self._others, others, strict=True):
            codes = part.codes(codes, column)
        rows = np.flatnonzero(codes >= 0)
        return rows, codes[rows]


class KeyPlaces:
    """Where each key is among the records of a batch, which have it once."""

    def __init__(self, codes: KeyCodes, own: Numbers) -> None:
        self._codes, self._place = codes, np.argsort(own)

    def find(self, columns: Sequence[pa.Array]) -> tuple[Numbers, Numbers]:
        """Rows of these columns that have a key of the batch, and the record of each."""
        rows, codes = self._codes.find(columns)
        return rows, self._place[codes]


class _Pairs:
    """The pairs of what came before and a value of one more column, numbered as far as the batch has them, so that numbers stay below its records."""

    def __init__(self, codes: Numbers, column: pa.Array) -> None:
        self._values = _Values(column)
        self._known = _Sorted(self._pairs(codes, column))

    def codes(self, codes: Numbers, column: pa.Array) -> Numbers:
        made = np.full(len(codes), -1, np.int64)
        rows, places = self._known.find(self._pairs(codes, column))
        made[rows] = places
        return made

    def _pairs(self, codes: Numbers, column: pa.Array) -> Numbers:
        more = self._values.codes(column)
        return np.where((codes < 0) | (more < 0), -1, codes * len(self._values) + more)


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
