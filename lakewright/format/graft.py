"""One Parquet file built out of another: column chunks copied as bytes, changed columns encoded, or whole row groups encoded.

Copied chunks keep what describes them (statistics, encodings, size statistics, page indexes, bloom filters); only offsets
are mended. Bloom filters follow their row group, page indexes stand before the footer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pyarrow as pa

from lakewright.format.graft_assembly import Assembly
from lakewright.format.graft_chunks import GroupBuilder, Output, Placement
from lakewright.format.graft_encode import MOST_BUFFERED, collected
from lakewright.format.graft_layout import plan_layout, writer_settings
from lakewright.format.parquet_footer import FileField, GroupField, Input, NotGraftable, corrupt, read_footer
from lakewright.format.thrift import I32, I64, LIST, STRUCT, Struct, ThriftError, binary, integer, items

__all__ = ["GraftWriter", "NotGraftable"]

_DESCRIBES_COLUMNS = (b"ARROW:schema", b"pandas", b"org.apache.spark.sql.parquet.row.metadata", b"parquet.avro.schema", b"avro.schema", b"iceberg.schema")


class GraftWriter(Assembly):
    """Builds one Parquet file out of row groups of another.

    Top-level columns of the source are carried over if `keep` has their field id (None: all); those of `changed` replace the
    ones with their field id, or are appended. `path` names the source in errors.
    encode_everywhere: changed columns that must be given for every row group, as the source has them in another form or not at all.
    can_encode_groups: whether a row group that is encoded whole can stand beside copied ones.
    """

    def __init__(self, source: Input, out: Output, *, keep: Collection[int] | None, changed: pa.Schema, settings: Mapping[str, Any], path: str = "") -> None:
        self._footer = read_footer(source, path or str(getattr(source, "name", "")))
        encoding = writer_settings(self._footer, settings)
        try:
            layout = plan_layout(self._footer, keep, changed, encoding)
        except ThriftError as error:
            raise corrupt(self._footer.path, error) from error
        super().__init__(layout, encoding, Placement(source, self._footer.file_size, out), self._footer.path)
        self._changed = frozenset(changed.names)
        self.row_group_rows = [group.num_rows for group in self._footer.row_groups]
        self.num_row_groups = len(self.row_group_rows)
        self.encode_everywhere = frozenset(target.column.name for target in self._layout.targets if target.everywhere)

    def copy_group(self, index: int, columns: pa.RecordBatch | pa.Table | None = None) -> None:
        """A row group of the source: `columns` (those in `encode_everywhere` at least, any of the changed ones) encoded, all others copied."""
        source = self._footer.row_groups[index]
        given = self._given(columns, source.num_rows)
        if not source.num_rows:
            return
        with self._damage_named():
            group = GroupBuilder(self._placement, source.num_rows)
            for target in self._layout.targets:
                if target.column.name in given:
                    self._encode(group, target, given[target.column.name])
                    continue
                assert target.source is not None
                for place, leaf in enumerate(target.column.leaves, target.source.first_leaf):
                    group.copy(leaf, source.chunks[place])
                self._copied = True
            self._finish(group, source.struct, self._sorting(source.struct, given))

    def encode_group(self, batches: Iterable[pa.RecordBatch]) -> int:
        """A row group of these rows, with the columns of `arrow_schema` by name; returns how many, and writes nothing for none."""
        if not self.can_encode_groups:
            raise NotGraftable("Arrow writes its columns in another form")
        with collected(batches, pa.schema([target.field for target in self._layout.targets]), MOST_BUFFERED) as rows:
            if rows.num_rows:
                self.encode_columns(rows.num_rows, (rows.column(place) for place in range(len(self._layout.targets))))
            return rows.num_rows

    def _given(self, columns: pa.RecordBatch | pa.Table | None, rows: int) -> dict[str, pa.ChunkedArray]:
        table = pa.Table.from_batches([columns]) if isinstance(columns, pa.RecordBatch) else columns
        given = {} if table is None else dict(zip(table.column_names, table.columns, strict=True))
        if missing := self.encode_everywhere - given.keys():
            raise ValueError(f"every row group needs values for {sorted(missing)}")
        if unknown := given.keys() - self._changed:
            raise ValueError(f"{sorted(unknown)} are not among the changed columns")
        if table is not None and table.num_rows != rows:
            raise ValueError(f"{table.num_rows} values for a row group of {rows} rows")
        return given

    def _sorting(self, struct: Struct, given: Collection[str]) -> list[Struct]:
        """The source's sorting columns under their new numbers, up to the first that has other values now or is gone: the rest orders only within it."""
        numbers = {
            target.source.first_leaf + place: target.column.first_leaf + place
            for target in self._layout.targets
            if target.source is not None and target.column.name not in given
            for place in range(len(target.column.leaves))
        }
        kept: list[Struct] = []
        for column in items(struct, GroupField.SORTING_COLUMNS, STRUCT) or []:
            number = integer(column, 1)
            if number not in numbers:
                break
            kept.append({**column, 1: (I32, numbers[number])})
        return kept

    def _struct(self) -> Struct:
        source, encoder = self._footer.struct, self._layout.encoder
        struct: Struct = {
            **source,
            FileField.VERSION: (I32, max(integer(source, FileField.VERSION) or 1, integer(encoder, FileField.VERSION) or 1 if self._encoded else 1)),
            FileField.SCHEMA: (LIST, (STRUCT, list(self._layout.elements))),
            FileField.NUM_ROWS: (I64, self._rows),
            FileField.ROW_GROUPS: (LIST, (STRUCT, self._groups)),
        }
        # Readers look at created_by to decide which statistics and pages to distrust. What an old writer got wrong is still in
        # the copied chunks; distrusting ours as well costs some pruning, trusting its would cost rows.
        if self._encoded and not self._copied:
            struct[FileField.CREATED_BY] = encoder[FileField.CREATED_BY]
        if self._layout.orders is None:
            struct.pop(FileField.COLUMN_ORDERS, None)
        else:
            struct[FileField.COLUMN_ORDERS] = (LIST, (STRUCT, list(self._layout.orders)))
        if self._layout.reshaped:
            pairs = items(source, FileField.KEY_VALUE, STRUCT) or []
            struct[FileField.KEY_VALUE] = (LIST, (STRUCT, [pair for pair in pairs if binary(pair, 1) not in _DESCRIBES_COLUMNS]))
        return struct
