"""Column chunks placed into a new file: bytes copied as they are, and every offset that speaks of them moved along."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from lakewright.format.parquet_footer import Chunk, ChunkField, GroupField, Input, MetaField, Range, read_range
from lakewright.format.parquet_schema import Leaf
from lakewright.format.thrift import BINARY, I16, I32, I64, LIST, STRUCT, Struct, ThriftError, decode, encode, integer, items, needed

PIECE = 4 << 20
_BLOOM_HEADER = 256
_MOST_ORDINALS = 1 << 15
_INDEX_FIELDS = (ChunkField.OFFSET_INDEX, ChunkField.OFFSET_INDEX_LENGTH, ChunkField.COLUMN_INDEX, ChunkField.COLUMN_INDEX_LENGTH)
_POSITIONS = (MetaField.DATA_PAGE, MetaField.INDEX_PAGE, MetaField.DICTIONARY_PAGE)


class Output(Protocol):
    def write(self, data: bytes, /) -> Any: ...


@dataclass(frozen=True)
class PageIndex:
    """A page index that waits for the end of the file, and the chunk whose fields will point to it."""

    chunk: Struct
    field: int
    data: bytes


class Placement:
    """The new file as it grows. Neighbouring ranges of the source are copied as one, since a read may be a request to a store."""

    def __init__(self, source: Input, source_size: int, out: Output) -> None:
        self.at = 0
        self.source = source
        self._source_size = source_size
        self._out = out
        self._run: Range = (0, 0)
        self._filter_bytes = 0

    def turn_to(self, source: Input, source_size: int) -> None:
        """Copy from another file from now on."""
        self.flush()
        self.source, self._source_size, self._filter_bytes = source, source_size, 0

    def write(self, data: bytes) -> None:
        self.flush()
        self._out.write(data)
        self.at += len(data)

    def copy(self, at: Range) -> None:
        """Promise these bytes of the source; `flush` writes them."""
        if sum(self._run) != at[0]:
            self.flush()
            self._run = (at[0], 0)
        self._run = (self._run[0], self._run[1] + at[1])
        self.at += at[1]

    def flush(self) -> None:
        offset, left = self._run
        self._run = (0, 0)
        while left:
            size = min(left, PIECE)
            self._out.write(read_range(self.source, (offset, size)))
            offset, left = offset + size, left - size

    def filter_range(self, offset: int, length: int | None) -> Range:
        """Where a bloom filter of the source is; older writers leave its length to its header."""
        if length is None:
            header, end = decode(read_range(self.source, (offset, min(_BLOOM_HEADER, self._source_size - offset))))
            length = end + needed(integer(header, 1), "size of a bloom filter")
        self._filter_bytes += length
        if length <= 0 or offset + length > self._source_size or self._filter_bytes > self._source_size:
            raise ThriftError(f"a bloom filter of {length} bytes at {offset} is not in the file")
        return offset, length


@dataclass
class GroupBuilder:
    """A row group being placed, chunk by chunk in the order of the file's columns."""

    placement: Placement
    num_rows: int
    chunks: list[Struct] = field(default_factory=list)
    indexes: list[PageIndex] = field(default_factory=list)
    _filters: list[tuple[Struct, Range | bytes]] = field(default_factory=list)
    _start: int = 0
    _raw_size: int = 0

    def __post_init__(self) -> None:
        self._start = self.placement.at

    def copy(self, leaf: Leaf, chunk: Chunk) -> None:
        """A chunk of the source."""
        meta = self._place(leaf, chunk, self.placement.source)
        self.placement.copy(chunk.pages)
        if chunk.bloom is not None:
            self._filters.append((meta, self.placement.filter_range(*chunk.bloom)))

    def add(self, leaf: Leaf, chunk: Chunk, encoded: Input) -> None:
        """A chunk of a small file that does not outlive this call."""
        meta = self._place(leaf, chunk, encoded)
        self.placement.write(read_range(encoded, chunk.pages))
        if chunk.bloom is not None and chunk.bloom[1] is not None:
            self._filters.append((meta, read_range(encoded, (chunk.bloom[0], chunk.bloom[1]))))

    def finish(self, struct: Struct, sorting: list[Struct], ordinal: int) -> Struct:
        """The row group's entry in the footer; `struct` is the source's, for the fields no one here knows."""
        size = self.placement.at - self._start
        for meta, data in self._filters:
            meta[MetaField.BLOOM] = (I64, self.placement.at)
            meta[MetaField.BLOOM_LENGTH] = (I32, len(data) if isinstance(data, bytes) else data[1])
            if isinstance(data, bytes):
                self.placement.write(data)
            else:
                self.placement.copy(data)
        self.placement.flush()
        group = {
            **struct,
            GroupField.COLUMNS: (LIST, (STRUCT, self.chunks)),
            GroupField.TOTAL_BYTE_SIZE: (I64, self._raw_size),
            GroupField.NUM_ROWS: (I64, self.num_rows),
            GroupField.SORTING_COLUMNS: (LIST, (STRUCT, sorting)),
            GroupField.FILE_OFFSET: (I64, self._start),
            GroupField.TOTAL_COMPRESSED_SIZE: (I64, size),
            GroupField.ORDINAL: (I16, ordinal),
        }
        if not sorting:
            del group[GroupField.SORTING_COLUMNS]
        if ordinal >= _MOST_ORDINALS:
            del group[GroupField.ORDINAL]
        return group

    def _place(self, leaf: Leaf, chunk: Chunk, origin: Input) -> Struct:
        """Describe a chunk whose bytes come next; gives the part of it that bloom filters are noted in."""
        shift = self.placement.at - chunk.pages[0]
        meta = dict(chunk.meta)
        meta[MetaField.PATH] = (LIST, (BINARY, [part.encode() for part in leaf.path]))
        for position in _POSITIONS:
            offset = integer(meta, position)
            if offset:
                meta[position] = (I64, offset + shift)
        for gone in (MetaField.BLOOM, MetaField.BLOOM_LENGTH):
            meta.pop(gone, None)
        # The offset of a copy of the metadata behind the chunk, which is not carried along, or that of the first page.
        noted, (first, size) = integer(chunk.struct, ChunkField.FILE_OFFSET) or 0, chunk.pages
        placed = {key: value for key, value in chunk.struct.items() if key not in _INDEX_FIELDS}
        placed[ChunkField.FILE_OFFSET] = (I64, noted + shift if first <= noted < first + size else 0)
        placed[ChunkField.META] = (STRUCT, meta)
        self.chunks.append(placed)
        self._raw_size += chunk.raw_size
        if chunk.offset_index is not None:
            self.indexes.append(PageIndex(placed, ChunkField.OFFSET_INDEX, _moved(read_range(origin, chunk.offset_index), chunk.pages, shift)))
            if chunk.column_index is not None:
                self.indexes.append(PageIndex(placed, ChunkField.COLUMN_INDEX, read_range(origin, chunk.column_index)))
        return meta


def in_file_order(indexes: Iterable[PageIndex]) -> list[PageIndex]:
    """Column indexes first, then offset indexes, as readers that fetch them together expect."""
    return sorted(indexes, key=lambda index: index.field != ChunkField.COLUMN_INDEX)


def _moved(data: bytes, pages: Range, shift: int) -> bytes:
    """An offset index whose pages begin elsewhere."""
    index, _ = decode(data)
    for location in needed(items(index, 1, STRUCT), "page of an offset index"):
        offset, size = needed(integer(location, 1), "offset of a page"), needed(integer(location, 2), "size of a page")
        if size < 0 or not pages[0] <= offset <= offset + size <= sum(pages):
            raise ThriftError(f"an offset index has a page of {size} bytes at {offset}, outside of its column chunk")
        location[1] = (I64, offset + shift)
    return encode(index)
