"""The footer of a Parquet file, checked before anything is built on it: counts agree and byte ranges lie within the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from lakewright.errors import CorruptFile
from lakewright.format.parquet_schema import TYPE, Column, Leaf, read_columns
from lakewright.format.thrift import BINARY, STRUCT, Struct, ThriftError, TooManyValues, binary, child, decode, integer, items, needed

MAGIC, ENCRYPTED_MAGIC = b"PAR1", b"PARE"
MAX_FOOTER = 64 << 20
_TAIL = 64 << 10
_REMEDY = "Restore the file, or drop it from the table."

Range = tuple[int, int]
"""Offset and length."""


class NotGraftable(Exception):
    """A file whose bytes cannot be reused as they are and that must be streamed instead; the message says why."""


class Input(Protocol):
    """A seekable binary file, Python's or Arrow's."""

    def seek(self, offset: int, whence: int = ..., /) -> int: ...

    def tell(self) -> int: ...

    def read(self, size: int = ..., /) -> bytes: ...


class FileField:
    VERSION, SCHEMA, NUM_ROWS, ROW_GROUPS, KEY_VALUE, CREATED_BY, COLUMN_ORDERS, ENCRYPTION, SIGNING_KEY = range(1, 10)


class GroupField:
    COLUMNS, TOTAL_BYTE_SIZE, NUM_ROWS, SORTING_COLUMNS, FILE_OFFSET, TOTAL_COMPRESSED_SIZE, ORDINAL = range(1, 8)


class ChunkField:
    FILE_PATH, FILE_OFFSET, META, OFFSET_INDEX, OFFSET_INDEX_LENGTH, COLUMN_INDEX, COLUMN_INDEX_LENGTH, CRYPTO, ENCRYPTED_META = range(1, 10)


class MetaField:
    TYPE, PATH, NUM_VALUES, RAW_SIZE, SIZE, DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, BLOOM, BLOOM_LENGTH = 1, 3, 5, 6, 7, 9, 10, 11, 14, 15


@dataclass(frozen=True)
class Chunk:
    """A column chunk and where its bytes, its page indexes and its bloom filter are. bloom: the length may be unknown (None)."""

    struct: Struct
    meta: Struct
    pages: Range
    raw_size: int
    offset_index: Range | None
    column_index: Range | None
    bloom: tuple[int, int | None] | None


@dataclass(frozen=True)
class RowGroup:
    struct: Struct
    num_rows: int
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True)
class Footer:
    """path: how errors name the file."""

    path: str
    struct: Struct
    file_size: int
    columns: tuple[Column, ...]
    row_groups: tuple[RowGroup, ...]

    @property
    def created_by(self) -> str:
        return (binary(self.struct, FileField.CREATED_BY) or b"").decode(errors="replace")

    def key_values(self) -> dict[bytes, bytes]:
        pairs = items(self.struct, FileField.KEY_VALUE, STRUCT) or []
        return {binary(pair, 1) or b"": binary(pair, 2) or b"" for pair in pairs}


def read_footer(source: Input, path: str) -> Footer:
    """Raises CorruptFile for what cannot be a Parquet file, NotGraftable for one whose bytes are of no use here."""
    try:
        raw, size = _footer_bytes(source)
        struct, end = decode(raw)
        if end != len(raw):
            raise ThriftError("its footer ends too early")
        return _checked(path, struct, size, size - 8 - len(raw))
    except TooManyValues as error:
        raise NotGraftable("its footer is too large") from error
    except ThriftError as error:
        raise corrupt(path, error) from error


def read_range(source: Input, at: Range) -> bytes:
    source.seek(at[0])
    data = source.read(at[1])
    if len(data) != at[1]:
        raise ThriftError(f"it ends {at[1] - len(data)} bytes too early")
    return data


def corrupt(path: str, error: ThriftError) -> CorruptFile:
    return CorruptFile(f"Data file {path} is damaged: {error}. {_REMEDY}")


def _footer_bytes(source: Input) -> tuple[bytes, int]:
    source.seek(0, 2)
    size = source.tell()
    if size < 12:
        raise ThriftError(f"it has only {size} bytes")
    head = read_range(source, (0, 4))
    tail = read_range(source, (max(0, size - _TAIL), min(size, _TAIL)))
    if ENCRYPTED_MAGIC in (head, tail[-4:]):
        raise NotGraftable("it is encrypted")
    if (head, tail[-4:]) != (MAGIC, MAGIC):
        raise ThriftError("it does not begin and end as a Parquet file")
    length = int.from_bytes(tail[-8:-4], "little")
    if length > size - 12:
        raise ThriftError(f"its footer of {length} bytes is larger than the file")
    if length > MAX_FOOTER:
        raise NotGraftable(f"its footer has {length} bytes")
    return (tail[-8 - length : -8] if length + 8 <= len(tail) else read_range(source, (size - 8 - length, length))), size


def _checked(path: str, struct: Struct, file_size: int, data_end: int) -> Footer:
    if FileField.ENCRYPTION in struct or FileField.SIGNING_KEY in struct:
        raise NotGraftable("some of its columns are encrypted")
    if _sizes_lack_dictionary_header((binary(struct, FileField.CREATED_BY) or b"").decode(errors="replace")):
        raise NotGraftable("its writer states sizes of column chunks that are too small")
    elements = needed(items(struct, FileField.SCHEMA, STRUCT), "schema")
    columns = read_columns(elements, items(struct, FileField.COLUMN_ORDERS, STRUCT))
    leaves = [leaf for column in columns for leaf in column.leaves]
    groups = tuple(_row_group(group, leaves, data_end) for group in items(struct, FileField.ROW_GROUPS, STRUCT) or [])
    stated, found = integer(struct, FileField.NUM_ROWS), sum(group.num_rows for group in groups)
    if stated != found:
        raise ThriftError(f"it states {stated} rows and its row groups {found}")
    if sum(length for group in groups for chunk in group.chunks for _, length in _ranges(chunk)) > data_end:
        raise ThriftError("its column chunks overlap")
    footer = Footer(path, struct, file_size, columns, groups)
    footer.key_values()
    return footer


def _row_group(struct: Struct, leaves: list[Leaf], data_end: int) -> RowGroup:
    rows = needed(integer(struct, GroupField.NUM_ROWS), "number of rows in a row group")
    chunks = items(struct, GroupField.COLUMNS, STRUCT) or []
    if rows < 0:
        raise ThriftError(f"a row group states {rows} rows")
    if len(chunks) != len(leaves):
        raise ThriftError(f"a row group has {len(chunks)} column chunks for {len(leaves)} columns")
    return RowGroup(struct, rows, tuple(_chunk(chunk, leaf, rows, data_end) for chunk, leaf in zip(chunks, leaves, strict=True)))


def _chunk(struct: Struct, leaf: Leaf, rows: int, data_end: int) -> Chunk:
    if ChunkField.CRYPTO in struct or ChunkField.ENCRYPTED_META in struct:
        raise NotGraftable(f"its column {'.'.join(leaf.path)} is encrypted")
    if binary(struct, ChunkField.FILE_PATH):
        raise NotGraftable(f"its column {'.'.join(leaf.path)} is kept in another file")
    name = ".".join(leaf.path)
    meta = needed(child(struct, ChunkField.META), f"description of column {name}")
    if integer(meta, MetaField.TYPE) != integer(leaf.node.element, TYPE):
        raise ThriftError(f"a chunk of column {name} has another type than the schema")
    if tuple(needed(items(meta, MetaField.PATH, BINARY), f"path of column {name}")) != tuple(part.encode() for part in leaf.path):
        raise ThriftError(f"a chunk of column {name} is of another column")
    values = needed(integer(meta, MetaField.NUM_VALUES), f"number of values of column {name}")
    if values != rows if leaf.max_repetition == 0 else values < rows:
        raise ThriftError(f"a chunk of column {name} has {values} values for {rows} rows")
    size, raw_size = (needed(integer(meta, field), f"size of column {name}") for field in (MetaField.SIZE, MetaField.RAW_SIZE))
    first = needed(integer(meta, MetaField.DATA_PAGE), f"data pages of column {name}")
    begins = [offset for offset in (first, integer(meta, MetaField.DICTIONARY_PAGE) or 0) if offset]
    chunk = Chunk(
        struct,
        meta,
        (min(begins, default=0), size),
        raw_size,
        _index(struct, ChunkField.OFFSET_INDEX),
        _index(struct, ChunkField.COLUMN_INDEX),
        _bloom(meta),
    )
    for offset, length in _ranges(chunk):
        if length < 0 or (length > 0 and (offset < len(MAGIC) or offset + length > data_end)):
            raise ThriftError(f"column {name} has {length} bytes at {offset}, which are not in the file")
    return chunk


def _index(struct: Struct, field: int) -> Range | None:
    offset, length = integer(struct, field), integer(struct, field + 1)
    return (offset, length) if offset and length else None


def _bloom(meta: Struct) -> tuple[int, int | None] | None:
    offset = integer(meta, MetaField.BLOOM)
    return (offset, integer(meta, MetaField.BLOOM_LENGTH)) if offset else None


def _ranges(chunk: Chunk) -> Iterator[Range]:
    yield chunk.pages
    yield from (at for at in (chunk.offset_index, chunk.column_index) if at is not None)
    if chunk.bloom is not None:
        yield chunk.bloom[0], chunk.bloom[1] or 1


def _sizes_lack_dictionary_header(created_by: str) -> bool:
    """parquet-mr up to 1.2.8 left the header of dictionary pages out of the sizes of column chunks."""
    version: Any = re.match(r"parquet-mr version (\d+)\.(\d+)\.(\d+)", created_by)
    return version is not None and tuple(map(int, version.groups())) <= (1, 2, 8)
