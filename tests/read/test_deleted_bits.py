"""The array of deleted positions: what it says of every place, for files of any size, and when there is none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from pyroaring import BitMap64

from lakewright.read.deleted_bits import CHUNK, COUNT_BITS, MOST_PLACE_BITS, UNKNOWN, WORDS, DeletedBits


def deleted_in(bits: DeletedBits, number: int, positions: Sequence[int]) -> list[int]:
    """As `is_live` looks them up."""
    words = bits.words.tolist()
    file = words[number & bits.place_mask]
    assert file != UNKNOWN
    first, count = file >> COUNT_BITS, file & ((1 << COUNT_BITS) - 1)
    return [p for p in positions if words[words[first + min(p // CHUNK, count)] + (p // 64) % WORDS] & 0xFFFFFFFFFFFFFFFF & (1 << p % 64)]


def test_every_place_is_said_right() -> None:
    edges = [0, 1, 63, 64, CHUNK - 1, CHUNK, 5 * CHUNK - 1, 5 * CHUNK, 9 * CHUNK + 77]
    files = {1_000: edges, 1_001: [], -77: [3 * CHUNK], 5_000_000_000: list(range(2 * CHUNK))}
    bits = DeletedBits.of([(number, BitMap64(gone)) for number, gone in files.items()])
    assert bits is not None
    asked = [p + d for p in (*edges, 20 * CHUNK, 10**9) for d in (-1, 0, 1) if p + d >= 0]
    for number, gone in files.items():
        assert deleted_in(bits, number, asked) == [p for p in asked if p in set(gone)]


def test_random_positions() -> None:
    random = np.random.default_rng(5)
    files = [(int(random.integers(1 << 40)), BitMap64(np.unique(random.integers(0, 60_000, 900)))) for _ in range(100)]
    bits = DeletedBits.of(files)
    assert bits is not None
    for number, gone in files:
        assert deleted_in(bits, number, range(61_000)) == list(gone)


@pytest.mark.parametrize("files", [[(5, [1]), (5, [2])], [(1, [1]), (1 + (1 << MOST_PLACE_BITS), [2])], [(1, [CHUNK << COUNT_BITS])]])
def test_no_array_where_files_look_alike_or_are_beyond_measure(files: list[tuple[int, list[int]]]) -> None:
    assert DeletedBits.of([(number, BitMap64(gone)) for number, gone in files]) is None
