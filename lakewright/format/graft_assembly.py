"""A Parquet file as it is put together: encoded columns and copied chunks in row groups, page indexes, and a footer at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakewright.format.graft_chunks import GroupBuilder, PageIndex, Placement, in_file_order
from lakewright.format.graft_encode import encode_column, fitting
from lakewright.format.graft_layout import Layout, Target, bloom_settings, footer_bytes
from lakewright.format.parquet_footer import MAGIC, NotGraftable, corrupt
from lakewright.format.thrift import I32, I64, Struct, ThriftError


class Assembly:
    """What all ways to build a file out of others share. `path` names, in errors, the file whose bytes are at hand."""

    def __init__(self, layout: Layout, settings: Mapping[str, Any], placement: Placement, path: str) -> None:
        self.arrow_schema: pa.Schema = layout.arrow_schema
        self.can_encode_groups = layout.can_encode_groups
        self._layout, self._settings, self._placement, self._path = layout, settings, placement, path
        self._groups: list[Struct] = []
        self._indexes: list[PageIndex] = []
        self._rows = 0
        self._copied = self._encoded = False
        self._placement.write(MAGIC)

    def encode_columns(self, num_rows: int, columns: Iterable[pa.ChunkedArray]) -> None:
        """A row group of these columns, those of `arrow_schema` in order. They are asked for one at a time, so that one is held."""
        if not self.can_encode_groups:
            raise NotGraftable("Arrow writes its columns in another form")
        group = GroupBuilder(self._placement, num_rows)
        for target, column in zip(self._layout.targets, columns, strict=True):
            self._encode(group, target, column)
        self._finish(group, {}, [])

    def fitting(self, name: str, values: pa.Array) -> pa.ChunkedArray:
        """Values of a column as a row group takes them later; raises NotGraftable now if none can."""
        (field,) = [target.field for target in self._layout.targets if target.column.name == name]
        assert field is not None
        return fitting(field, pa.chunked_array([values]))

    def close(self) -> tuple[int, pq.FileMetaData]:
        """Ends the file, though not its stream; returns its size and its footer."""
        for index in in_file_order(self._indexes):
            index.chunk[index.field] = (I64, self._placement.at)
            index.chunk[index.field + 1] = (I32, len(index.data))
            self._placement.write(index.data)
        footer = footer_bytes(self._struct())
        self._placement.write(footer)
        with self._damage_named():
            return self._placement.at, _parsed(footer)

    def _struct(self) -> Struct:
        """The footer."""
        raise NotImplementedError

    def _encode(self, group: GroupBuilder, target: Target, values: pa.ChunkedArray) -> None:
        assert target.field is not None
        encoded = encode_column(target.field, values, {**self._settings, **bloom_settings(target, len(values), self._settings)})
        for leaf, chunk in zip(target.column.leaves, encoded.group.chunks, strict=True):
            group.add(leaf, chunk, encoded.data)
        self._encoded = True

    def _finish(self, group: GroupBuilder, struct: Struct, sorting: list[Struct]) -> None:
        self._groups.append(group.finish(struct, sorting, len(self._groups)))
        self._indexes += group.indexes
        self._rows += group.num_rows

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except ThriftError as error:
            raise corrupt(self._path, error) from error


def _parsed(footer: bytes) -> pq.FileMetaData:
    """What Arrow does not understand of it came from a source."""
    try:
        return pq.read_metadata(pa.BufferReader(MAGIC + footer))
    except (pa.ArrowException, OSError) as error:
        raise ThriftError(str(error)) from error
