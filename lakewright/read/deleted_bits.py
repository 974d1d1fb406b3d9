"""Deleted positions of several files as one array of longs, in which a row is looked up without a join.

The array has four parts. Files: where the chunks of a file begin, with how many there are; a file's place is its number cut to so
many bits that no two files share one. Chunks of 4096 rows: where the bits of each begin, and one more entry for all rows after the
last deleted one. Nothing: the bits of chunks without a deleted row. Bits: those of each chunk with one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
COUNT_BITS = 20  # for the number of a file's chunks, beside where they begin
MOST_PLACE_BITS = 16
UNKNOWN = (1 << 30) << COUNT_BITS  # chunks beyond every array

Words = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class DeletedBits:
    words: Words
    place_mask: int

    @classmethod
    def of(cls, files: Sequence[tuple[int, BitMap64]]) -> DeletedBits | None:
        """The deleted positions of files, each with a number of its own; None where numbers are too much alike, or files are beyond all measure."""
        mask = _place_mask([number for number, _ in files])
        positions = [to_array(found) for _, found in files]
        counts = [int(own[-1] >> CHUNK_BITS) + 1 if len(own) else 0 for own in positions]
        if mask is None or sum(counts) >> COUNT_BITS:
            return None
        places = np.full(mask + 1, UNKNOWN, np.int64)
        nothing_at = len(places) + sum(counts) + len(counts)
        chunks = np.full(sum(counts) + len(counts), nothing_at, np.int64)
        bits: list[Words] = []
        begin, bits_at = 0, nothing_at + WORDS
        for (number, _), own, count in zip(files, positions, counts, strict=True):
            places[number & mask] = (len(places) + begin) << COUNT_BITS | count
            touched, packed = chunk_bits(own)
            chunks[begin + touched] = bits_at + WORDS * np.arange(len(touched))
            bits.append(packed.reshape(-1))
            bits_at += packed.size
            begin += count + 1
        return cls(np.concatenate([places, chunks, np.zeros(WORDS, np.int64), *bits]), mask)

    def is_live(self, spark: SparkSession, number: Column, position: Column) -> Column:
        """Whether a row of the file of that number is not deleted."""
        from pyspark.sql import functions as F

        array = spark.createDataFrame(pa.table({"words": pa.ListArray.from_arrays(pa.array([0, len(self.words)], pa.int32()), pa.array(self.words))})).scalar()
        file = F.get(array, number.bitwiseAND(F.lit(self.place_mask)).cast("int"))
        chunk = F.least(F.shiftright(position, CHUNK_BITS), file.bitwiseAND(F.lit((1 << COUNT_BITS) - 1)))
        bits_at = F.get(array, (F.shiftright(file, COUNT_BITS) + chunk).cast("int"))
        word = F.get(array, (bits_at + F.shiftright(position, WORD_BITS).bitwiseAND(F.lit(WORDS - 1))).cast("int"))
        known = F.coalesce(word, F.raise_error(F.lit("Spark names a data file otherwise than was expected, so that its deleted rows are not known; read the table with spark.read.format('lakewright').")).cast("bigint"))
        return F.getbit(known, position.bitwiseAND(F.lit((1 << WORD_BITS) - 1)).cast("int")) == 0


def chunk_bits(positions: np.ndarray[Any, Any]) -> tuple[Words, Words]:
    """Numbers of the chunks with a deleted row, and the bits of each, a chunk a row."""
    numbers = np.unique(positions >> CHUNK_BITS).astype(np.int64)
    bits = np.zeros((len(numbers), CHUNK), dtype=bool)
    bits[np.searchsorted(numbers, positions >> CHUNK_BITS), positions & (CHUNK - 1)] = True
    return numbers, np.packbits(bits, axis=1, bitorder="little").view("<i8").reshape(-1, WORDS)


def _place_mask(numbers: Iterable[int]) -> int | None:
    """The least mask under which all numbers differ."""
    given = list(numbers)
    masks = ((1 << bits) - 1 for bits in range(MOST_PLACE_BITS + 1))
    return next((mask for mask in masks if len({number & mask for number in given}) == len(given)), None)
