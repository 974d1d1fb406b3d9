"""Changed rows of a rewritten file, in row groups of their own behind the others.

Who asks what a commit changed then reads those groups alone: the others say by the statistics of their lineage that all their
rows are older. It takes encoding every column of a row group, so it is done where most of its bytes are encoded anyway.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakewright.write.changed_group import ChangedGroup
from lakewright.write.delta_output import DeltaOutput
from lakewright.write.source_file import SourceFile

MOST_WAITING = 64 << 20
LEAST_ENCODED = 0.5  # of the bytes of a row group, whatever becomes of the changed rows
LEAST_ROWS = 10_000  # below that reading them all is as quick
LEAST_OLD_BY_CHANGED = 4

Columns = Mapping[str, Sequence[pa.Array]]


class RowsApart:
    """Values by column, as far as they came."""

    def __init__(self) -> None:
        self._columns: dict[str, list[pa.Array]] = defaultdict(list)
        self._bytes = self.rows = 0

    @property
    def are_many(self) -> bool:
        return self._bytes >= MOST_WAITING

    def add(self, columns: Columns) -> None:
        for name, arrays in columns.items():
            self._columns[name].extend(arrays)
            self._bytes += sum(array.nbytes for array in arrays)
        self.rows += sum(len(array) for array in next(iter(columns.values()), ()))

    def taken(self, schema: pa.Schema) -> list[pa.ChunkedArray]:
        """All of them, of which none is left."""
        columns = [pa.chunked_array(self._columns.pop(field.name)) for field in schema]
        self._bytes = self.rows = 0
        return columns


def are_few(groups: Sequence[ChangedGroup]) -> bool:
    """Whether most rows of the row groups are not changed, though some are."""
    updated = sum(len(group.updated) for group in groups)
    return 0 < updated * LEAST_OLD_BY_CHANGED <= sum(group.kept for group in groups)


def sets_apart(output: DeltaOutput, source: SourceFile, is_sorted: bool) -> bool:
    """Whether changed rows of the file go behind the others: there is lineage, no order to keep, something to gain, and little to copy as bytes."""
    if not output.has_lineage or is_sorted or sum(source.rows_in(group) for group in source.row_groups) < LEAST_ROWS:
        return False
    copied_ids = {f.field_id for f in output.plan.write.schema.fields} - set(output.plan.assigned)
    copied = {name for field_id, name in source.names.items() if field_id in copied_ids}
    group = source.footer.row_group(source.row_groups[0])
    chunks = [group.column(at) for at in range(group.num_columns)]
    copied_bytes = sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema.split(".")[0] in copied)
    return bool(copied_bytes <= (1 - LEAST_ENCODED) * sum(chunk.total_compressed_size for chunk in chunks))
