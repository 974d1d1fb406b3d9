"""Deleted positions of several files as arrays of longs, in which a row is looked up without a join.

Files: where what is said of a file begins in the other array, with how far it goes; a file's place is some bits of its number, so
chosen that no two files share one. Words: for each file a bit for each row up to its last deleted one, and a word more for all that
come after it. Where that would be many words for few deleted rows, a file has an entry for each chunk of 4096 rows instead, which
says where the words of that chunk are; chunks without a deleted row share theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from lakewright.format.deletion_vector import to_array

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

CHUNK_BITS = 12
CHUNK = 1 << CHUNK_BITS
WORD_BITS = 6
WORDS = CHUNK >> WORD_BITS
COUNT_BITS = 30  # for how many entries or words a file has, beside where they begin
MOST_PLACE_BITS, MOST_SHIFT = 16, 40
UNKNOWN = (1 << 30) << COUNT_BITS  # beyond every array
FEW_WORDS = 1 << 18  # that need not be fewer
MOST_WORDS = 1 << 22
NOT_FOUND = "Spark names a data file otherwise than was expected, so that its deleted rows are not known; read the table with spark.read.format('lakewright')."

Words = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Places:
    """Where a file stands among others: some bits of its number."""

    shift: int
    mask: int

    def of(self, number: int) -> int:
        return number >> self.shift & self.mask

    @classmethod
    def that_tell_apart(cls, numbers: Sequence[int]) -> Places | None:
        """The fewest bits in which all numbers differ."""
        all_places = (cls(shift, (1 << bits) - 1) for bits in range(MOST_PLACE_BITS + 1) for shift in range(MOST_SHIFT))
        return next((places for places in all_places if len({places.of(number) for number in numbers}) == len(numbers)), None)


@dataclass(frozen=True)
class DeletedBits:
    places: Places
    files: Words
    words: Words
    in_chunks: bool

    @classmethod
    def of(cls, files: Sequence[tuple[int, BitMap64]]) -> DeletedBits | None:
        """The deleted positions of files, each with a number of its own; None where numbers are too much alike, or files are beyond all measure."""
        places = Places.that_tell_apart([number for number, _ in files])
        positions = [to_array(found) for _, found in files]
        plain, in_chunks = (sum(map(count, positions)) for count in (_word_count, _chunked_count))
        is_sparse = plain > max(FEW_WORDS, 2 * in_chunks)
        if places is None or (in_chunks if is_sparse else plain) > MOST_WORDS:
            return None
        words, spans = (_chunked if is_sparse else _plain)(positions)
        entries = np.full(places.mask + 1, UNKNOWN, np.int64)
        for (number, _), (begin, count) in zip(files, spans, strict=True):
            entries[places.of(number)] = begin << COUNT_BITS | count
        return cls(places, entries, words, is_sparse)

    def is_live(self, spark: SparkSession, number: str, position: str) -> Column:
        """Whether a row is not deleted; the number of its file and its position are given in SQL."""
        from pyspark.sql import functions as F

        listed = ",".join(map(str, self.files.tolist()))
        file = f"get(from_json('[{listed}]', 'array<bigint>'), shiftright({number}, {self.places.shift}) & {self.places.mask})"
        unit = CHUNK_BITS if self.in_chunks else WORD_BITS
        entry = F.expr(f"shiftright({file}, {COUNT_BITS}) + least(shiftright({position}, {unit}), {file} & {(1 << COUNT_BITS) - 1})")
        words = spark.createDataFrame(pa.table({"words": pa.ListArray.from_arrays(pa.array([0, len(self.words)], pa.int32()), pa.array(self.words))})).scalar()
        word = F.get(words, entry)
        if self.in_chunks:
            word = F.get(words, word + F.expr(f"shiftright({position}, {WORD_BITS}) & {WORDS - 1}"))
        known = F.coalesce(word, F.raise_error(F.lit(NOT_FOUND)).cast("bigint"))
        return F.getbit(known, F.expr(f"int({position} & {(1 << WORD_BITS) - 1})")) == 0


def chunk_bits(positions: np.ndarray[Any, Any]) -> tuple[Words, Words]:
    """Numbers of the chunks with a deleted row, and the bits of each, a chunk a row."""
    numbers = np.unique(positions >> CHUNK_BITS).astype(np.int64)
    bits = np.zeros((len(numbers), CHUNK), dtype=bool)
    bits[np.searchsorted(numbers, positions >> CHUNK_BITS), positions & (CHUNK - 1)] = True
    return numbers, np.packbits(bits, axis=1, bitorder="little").view("<i8").reshape(-1, WORDS)


def _units(positions: Words, bits: int) -> int:
    """How many chunks or words there are up to the last deleted row."""
    return int(positions[-1] >> bits) + 1 if len(positions) else 0


def _word_count(positions: Words) -> int:
    return _units(positions, WORD_BITS) + 1


def _chunked_count(positions: Words) -> int:
    return _units(positions, CHUNK_BITS) + 1 + WORDS * len(np.unique(positions >> CHUNK_BITS))


def _plain(files: Sequence[Words]) -> tuple[Words, list[tuple[int, int]]]:
    """The words of all files, and where those of each begin, with their number."""
    spans, begin = [], 0
    for positions in files:
        spans.append((begin, _units(positions, WORD_BITS)))
        begin += _word_count(positions)
    bits = np.zeros(begin << WORD_BITS, dtype=bool)
    for positions, (first, _) in zip(files, spans, strict=True):
        bits[(first << WORD_BITS) + positions] = True
    return np.packbits(bits, bitorder="little").view("<i8"), spans


def _chunked(files: Sequence[Words]) -> tuple[Words, list[tuple[int, int]]]:
    """The same with entries for chunks first; an entry more for what comes after the last, and words of nothing that many have in common."""
    counts = [_units(positions, CHUNK_BITS) for positions in files]
    nothing_at = sum(counts) + len(counts)
    entries = np.full(nothing_at, nothing_at, np.int64)
    words, spans = [np.zeros(WORDS, np.int64)], []
    begin, words_at = 0, nothing_at + WORDS
    for positions, count in zip(files, counts, strict=True):
        touched, packed = chunk_bits(positions)
        entries[begin + touched] = words_at + WORDS * np.arange(len(touched))
        words.append(packed.reshape(-1))
        spans.append((begin, count))
        words_at += packed.size
        begin += count + 1
    return np.concatenate([entries, *words]), spans
