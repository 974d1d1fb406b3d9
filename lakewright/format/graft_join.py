"""One Parquet file built out of several: row groups of each copied as bytes as far as their columns have one form, the rest encoded.

The form of each column is that of one of the files, where Arrow can encode it too, so that most bytes are copied; else Arrow's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from lakewright.format.graft_assembly import Assembly
from lakewright.format.graft_chunks import GroupBuilder, Output, Placement
from lakewright.format.graft_layout import Layout, Target, form_of, legacy_calendar, plan_layout, writer_settings
from lakewright.format.parquet_footer import FileField, Footer, Input, NotGraftable, corrupt, read_footer
from lakewright.format.parquet_schema import Column, same_form
from lakewright.format.thrift import BINARY, I32, I64, LIST, STRUCT, Struct, ThriftError, integer

# Writers whose statistics and pages no reader has a reason to distrust, so that they may stand under one name.
_SOUND = re.compile(r"parquet-cpp-arrow version|parquet-mr version 1\.(1\d|[2-9]\d)\.|parquet-rs version|DuckDB version")


@dataclass(frozen=True)
class Member:
    """A file whose row groups can go into the new one. columns: for each column of that, where its chunks are copied from, None where they cannot be."""

    source: Input
    footer: Footer
    layout: Layout
    columns: tuple[Column | None, ...]

    @cached_property
    def encoded(self) -> frozenset[str]:
        """Columns that must be given with every row group."""
        return frozenset(target.column.name for target, column in zip(self.layout.targets, self.columns, strict=True) if column is None)

    def size(self, group: int) -> int:
        """Bytes of the row group that are copied."""
        chunks = self.footer.row_groups[group].chunks
        return sum(chunks[column.first_leaf + place].pages[1] for column in self.columns if column for place in range(len(column.leaves)))


class JoinWriter(Assembly):
    """Builds one Parquet file with the columns of `schema`, in the form the file `like` has them in; None: as Arrow writes them."""

    def __init__(self, out: Output, schema: pa.Schema, settings: Mapping[str, Any], like: Footer | None = None) -> None:
        self._like = like or form_of(schema, settings)
        encoding = writer_settings(self._like, settings)
        try:
            layout = plan_layout(self._like, (), schema, encoding)
        except ThriftError as error:
            raise corrupt(self._like.path, error) from error
        super().__init__(layout, encoding, Placement(pa.BufferReader(b""), 0, out), self._like.path)
        self._writers: set[str] = set()

    @property
    def size(self) -> int:
        """Bytes so far, without the footer."""
        return self._placement.at

    def member(self, source: Input, path: str) -> Member:
        """Raises NotGraftable for a file of which nothing can be copied."""
        footer = read_footer(source, path)
        if legacy_calendar(footer):
            raise NotGraftable("its dates and times may be in the calendar of Spark 2")
        if footer.created_by != self._like.created_by and not (_SOUND.match(footer.created_by) and _SOUND.match(self._like.created_by)):
            raise NotGraftable(f"it was written by {footer.created_by}")
        ids = [column.field_id for column in footer.columns]
        if None in ids or len(set(ids)) < len(ids):
            raise NotGraftable("its columns are not known by field ids")
        found = {column.field_id: column for column in footer.columns}
        columns = tuple(self._copyable(target, found.get(target.column.field_id)) for target in self._layout.targets)
        if not any(columns):
            raise NotGraftable("no column of it has the form it has in the new file")
        return Member(source, footer, self._layout, columns)

    def copy_group(self, member: Member, index: int, columns: Mapping[str, pa.ChunkedArray]) -> None:
        """A row group of a member: the given columns, those it must have at least, encoded, and all others copied."""
        if missing := member.encoded - columns.keys():
            raise ValueError(f"every row group needs values for {sorted(missing)}")
        group = member.footer.row_groups[index]
        self._placement.turn_to(member.source, member.footer.file_size)
        self._path = member.footer.path
        with self._damage_named():
            placed = GroupBuilder(self._placement, group.num_rows)
            for target, column in zip(self._layout.targets, member.columns, strict=True):
                if target.column.name in columns:
                    self._encode(placed, target, columns[target.column.name])
                    continue
                assert column is not None
                for place, leaf in enumerate(target.column.leaves, column.first_leaf):
                    placed.copy(leaf, group.chunks[place])
                self._writers.add(member.footer.created_by)
            self._finish(placed, {}, [])

    def encode_rows(self, rows: pa.Table) -> None:
        """A row group of rows, whose columns are found by name."""
        self.encode_columns(rows.num_rows, (rows.column(target.column.name) for target in self._layout.targets))

    def _copyable(self, target: Target, column: Column | None) -> Column | None:
        if column is None or not same_form(column, target.column):
            return None
        is_ordered = self._layout.orders is None or all(leaf.order is not None for leaf in column.leaves)
        return column if is_ordered else None

    def _struct(self) -> Struct:
        encoder = self._layout.encoder
        name = next(iter(self._writers)) if len(self._writers) == 1 else None
        struct: Struct = {
            FileField.VERSION: (I32, max(integer(struct, FileField.VERSION) or 1 for struct in (self._like.struct, encoder))),
            FileField.SCHEMA: (LIST, (STRUCT, list(self._layout.elements))),
            FileField.NUM_ROWS: (I64, self._rows),
            FileField.ROW_GROUPS: (LIST, (STRUCT, self._groups)),
            FileField.CREATED_BY: encoder[FileField.CREATED_BY] if name is None else (BINARY, name.encode()),
        }
        if self._layout.orders is not None:
            struct[FileField.COLUMN_ORDERS] = (LIST, (STRUCT, list(self._layout.orders)))
        return struct
