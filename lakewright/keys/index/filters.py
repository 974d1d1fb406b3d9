"""A batch's keys put to the bloom filters of a file. Only the footer and the filters are read; what they cannot tell is taken for a yes."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO

from lakewright.errors import CorruptFile
from lakewright.format.bloom import read_bloom, value_hashes
from lakewright.format.parquet_footer import Footer, Input, NotGraftable, RowGroup, read_footer
from lakewright.format.parquet_schema import Column
from lakewright.format.storage import filesystem
from lakewright.format.thrift import ThriftError

UNREADABLE = (CorruptFile, NotGraftable, ThriftError, OSError, pa.ArrowException)
log = logging.getLogger("lakewright")


@dataclass(frozen=True)
class KeyValues:
    """One key column's values, a record each; scale: of decimals."""

    field_id: int
    values: Sequence[Any]
    scale: int = 0


def has_filters(io: FileIO, path: str, field_ids: Collection[int]) -> bool:
    try:
        with _opened(io, path) as (_, footer):
            return any(_has_filter(column, group) for column in footer.columns if column.field_id in field_ids for group in footer.row_groups)
    except UNREADABLE:
        return False


def file_may_have(io: FileIO, path: str, keys: Sequence[KeyValues]) -> bool:
    """Whether one of the records may be in the file. If the file cannot be read, its reader will say so."""
    try:
        with _opened(io, path) as (stream, footer):
            return any(_group_may_have(stream, footer, group, keys) for group in footer.row_groups)
    except UNREADABLE as error:
        log.debug("bloom filters of %s are not used: %s", path, error)
        return True


@contextmanager
def _opened(io: FileIO, path: str) -> Iterator[tuple[Input, Footer]]:
    fs, name = filesystem(io, path)
    with fs.open_input_file(name) as stream:
        yield stream, read_footer(stream, path)


def _has_filter(column: Column, group: RowGroup) -> bool:
    return len(column.leaves) == 1 and group.chunks[column.first_leaf].bloom is not None


def _group_may_have(stream: Input, footer: Footer, group: RowGroup, keys: Sequence[KeyValues]) -> bool:
    """A record may be in a row group if every part of its key may be."""
    columns = {column.field_id: column for column in footer.columns}
    possible: Any = True
    for key in keys:
        column = columns.get(key.field_id)
        if column is None or not _has_filter(column, group):
            continue
        hashed, found = value_hashes(key.values, column.leaves[0], key.scale), read_bloom(stream, footer.file_size, group.chunks[column.first_leaf])
        if hashed is not None and found is not None:
            possible = possible & found.may_have(hashed.hashes) & hashed.storable
    return bool(np.any(possible))
