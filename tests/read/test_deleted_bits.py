"""The array of deleted positions: what it says of every place, for files of any size, and when there is none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from pyroaring import BitMap64

from lakewright.read.deleted_bits import CHUNK, COUNT_BITS, MOST_PLACE_BITS, MOST_SHIFT, MOST_WORDS, UNKNOWN, WORDS, DeletedBits


def deleted_in(bits: DeletedBits, number: int, positions: Sequence[int]) -> list[int]:
    """As `is_live` looks them up."""
    file, words = int(bits.files[bits.places.of(number)]), bits.words.tolist()
    assert file != UNKNOWN
    first, count = file >> COUNT_BITS, file & ((1 << COUNT_BITS) - 1)

    def word(position: int) -> int:
        if bits.in_chunks:
            return int(words[words[first + min(position // CHUNK, count)] + position // 64 % WORDS])
        return int(words[first + min(position // 64, count)])

    return [p for p in positions if word(p) & 0xFFFFFFFFFFFFFFFF & (1 << p % 64)]


@pytest.mark.parametrize("far", [[], [10_000 * CHUNK + 5]], ids=["plain", "in chunks"])
def test_every_place_is_said_right(far: list[int]) -> None:
    edges = [0, 1, 63, 64, CHUNK - 1, CHUNK, 5 * CHUNK - 1, 5 * CHUNK, 9 * CHUNK + 77]
    files = {1_000: edges, 1_001: [], -77: [3 * CHUNK], 5_000_000_000: [*range(2 * CHUNK), *far]}
    bits = DeletedBits.of([(number, BitMap64(gone)) for number, gone in files.items()])
    assert bits is not None and bits.in_chunks == bool(far)
    asked = [p + d for p in (*edges, *far, 20 * CHUNK, 10**9) for d in (-1, 0, 1) if p + d >= 0]
    for number, gone in files.items():
        assert deleted_in(bits, number, asked) == [p for p in asked if p in set(gone)]


def test_random_positions() -> None:
    random = np.random.default_rng(5)
    files = [(int(random.integers(1 << 40)), BitMap64(np.unique(random.integers(0, 60_000, 900)))) for _ in range(100)]
    bits = DeletedBits.of(files)
    assert bits is not None
    for number, gone in files:
        assert deleted_in(bits, number, range(61_000)) == list(gone)


@pytest.mark.parametrize("files", [[(5, [1]), (5, [2])], [(1, [1]), (1 + (1 << MOST_PLACE_BITS + MOST_SHIFT), [2])], [(1, [CHUNK * MOST_WORDS])]])
def test_no_array_where_files_look_alike_or_are_beyond_measure(files: list[tuple[int, list[int]]]) -> None:
    assert DeletedBits.of([(number, BitMap64(gone)) for number, gone in files]) is None
