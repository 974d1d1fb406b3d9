"""Many keys at once from a SQLite file with whole numbers as keys, without SQL.

A statement for each key, or one for all, costs a walk through the tree of pages for each; here the walks of all keys are done
together on the mapped file, as array operations. Only the layout of tables is needed, which SQLite promises to keep
(https://sqlite.org/fileformat2.html, 1.6): an inner page has children with the largest key of each, a leaf has cells of a
payload's size, a key, and the payload, which is a small header and the value. What does not fit a page is left to SQL.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from lakewright.shards.keys import LARGEST

INNER, LEAF = 5, 13
Words = np.ndarray[Any, np.dtype[Any]]
_HIGH_BITS = np.uint64(0x8080808080808080)
_GATHER = np.uint64(0x0102040810204080)  # by multiplication, the lowest bits of eight bytes come together in the highest byte
# By that byte, whose highest bit is the first byte's: how long a number is, and how far it has to be moved to the right.
_LENGTHS = np.array([next((place + 1 for place in range(8) if not mask >> (7 - place) & 1), 9) for mask in range(256)], np.int64)
_SHIFTS = (np.uint64(64) - np.minimum(_LENGTHS, 8).astype(np.uint64) * np.uint64(8)).astype(np.uint64)


class PageReader:
    """`get` answers for the keys it finds, and names those that are there and have to be read with SQL."""

    def __init__(self, path: str, root_page: int) -> None:
        with open(path, "rb") as stream:
            self._map = mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ)
        self._size = len(self._map)
        self._view = memoryview(self._map)
        self._page_size = int.from_bytes(self._view[16:18], "big")
        self._largest_local = self._page_size - self._view[20] - 35
        # Views of one, two, four and eight bytes that begin at every byte.
        self._bytes, self._shorts, self._ints, self._words = (np.ndarray((self._size - width + 1,), f">u{width}", self._map, strides=(1,)) for width in (1, 2, 4, 8))
        self._leaves, self._bounds = self._tree(root_page)

    def get(self, keys: Sequence[int] | Words, found: dict[Any, bytes | None]) -> list[int]:
        """Put the values of keys, which are whole numbers of 64 bits, where they belong, and name those that are left to SQL."""
        if self._map.size() != self._size:  # asks the file: what was cut off cannot be read through a map
            raise IndexError("the file was cut")
        wanted = np.sort(np.asarray(keys, np.int64))  # in the order of the pages
        cells, is_there = self._cells(wanted)
        sizes, at = self._varint(cells)
        keys_there, at = self._varint(at)
        is_there &= keys_there == wanted
        starts, ends = at + self._bytes[at], at + sizes
        is_local = sizes <= self._largest_local
        here, file = is_there & is_local, self._map
        for key, start, end in zip(wanted[here].tolist(), starts[here].tolist(), ends[here].tolist(), strict=True):
            found[key] = file[start:end]
        return cast("list[int]", wanted[is_there & ~is_local].tolist())

    def _cells(self, wanted: Words) -> tuple[Words, Words]:
        """The last cell of its leaf whose key is not above each wanted one, else the first; and whether the leaf has any."""
        pages = self._leaves[np.searchsorted(self._bounds, wanted, "left")]
        last = self._shorts[pages + 3].astype(np.int64) - 1
        pointers, place = pages + 8, np.zeros(len(wanted), np.int64)
        for step in reversed(range(int(last.max(initial=0)).bit_length())):
            further = np.minimum(place + (1 << step), last)
            is_before = self._key(pages + self._shorts[pointers + 2 * further]) <= wanted
            place = np.where(is_before, further, place)
        cells = np.where(last >= 0, pages + self._shorts[pointers + 2 * place], 0)
        return cells, last >= 0

    def _key(self, cells: Words) -> Words:
        """The key of each cell. In front of it is the size of the payload, mostly of one or two bytes."""
        begins = self._shorts[cells]
        if ((begins & 0x8080) == 0x8080).any():
            return self._number(self._varint(cells)[1])[0]
        return self._number(cells + 1 + (begins >> 15))[0]

    def _varint(self, at: Words) -> tuple[Words, Words]:
        """The numbers at these bytes, and where each ends."""
        numbers, going_on = self._number(at)
        return numbers, at + _LENGTHS[going_on]

    def _number(self, at: Words) -> tuple[Words, Words]:
        """The numbers at these bytes, and which bytes say that it goes on: seven bits a byte while its high bit is set, eight in a ninth."""
        if at.max(initial=0) <= self._size - 9:
            words = self._words[at].astype(np.uint64)
        else:  # near the end of the file fewer bytes are left
            words = self._words[np.minimum(at, self._size - 8)].astype(np.uint64) << (np.maximum(at - (self._size - 8), 0).astype(np.uint64) << np.uint64(3))
        going_on = ((words & _HIGH_BITS) >> np.uint64(7)) * _GATHER >> np.uint64(56)  # a bit for each byte
        bits = words >> _SHIFTS[going_on]
        bits = (bits & np.uint64(0x007F007F007F007F)) | ((bits & np.uint64(0x7F007F007F007F00)) >> np.uint64(1))
        bits = (bits & np.uint64(0x00003FFF00003FFF)) | ((bits & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2))
        bits = (bits & np.uint64(0x000000000FFFFFFF)) | ((bits & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4))
        is_long = going_on == 255
        if is_long.any():
            ninth = self._bytes[np.minimum(at + 8, self._size - 1)].astype(np.uint64)
            longer = (bits << np.uint64(8)) | ninth
            bits = longer if is_long.all() else np.where(is_long, longer, bits)
        return bits.view(np.int64), going_on

    def _tree(self, root_page: int) -> tuple[Words, Words]:
        """Where each leaf begins, and the largest key it can have, in the order of the keys."""
        leaves, bounds = [], []
        waiting = [((root_page - 1) * self._page_size, LARGEST)]
        left = self._size // self._page_size
        while waiting:
            page, bound = waiting.pop()
            left -= 1
            if left < 0:
                raise IndexError("the pages lead round in a circle")
            kind = self._view[page]
            if kind == LEAF:
                leaves.append(page)
                bounds.append(bound)
                continue
            if kind != INNER:
                raise IndexError(f"page {page // self._page_size + 1} is none of a table")
            number = int(self._shorts[page + 3])
            cells = page + self._shorts[page + 12 + 2 * np.arange(number)].astype(np.int64)
            children = (self._ints[cells].astype(np.int64) - 1) * self._page_size
            rightmost = (int(self._ints[page + 8]) - 1) * self._page_size
            keys = self._varint(cells + 4)[0]
            waiting += [(rightmost, bound), *reversed(list(zip(children.tolist(), keys.tolist(), strict=True)))]
        return np.array(leaves, np.int64), np.array(bounds, np.int64)
