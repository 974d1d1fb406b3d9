"""NaNs of a file whose column chunks were partly copied: footers do not count them, and copied chunks should not be decoded for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.read.layout import field_id_of
from lakewright.write.source_file import SourceFile


class GraftNans:
    """Counts as a file is built. What a chunk had before it was changed comes off what the old file is known to have."""

    def __init__(self, source: SourceFile) -> None:
        self._source = source
        self._before: dict[int, dict[int, int]] = defaultdict(dict)
        self._after: dict[int, dict[int, int]] = defaultdict(dict)
        self._unseen: set[int] = set()
        self._copied: set[int] = set()

    def copied(self, group: int) -> None:
        """The group is in the new file, with all chunks that were not said to be encoded."""
        self._copied.add(group)

    def encoded(self, group: int, before: pa.RecordBatch | None, after: pa.RecordBatch) -> None:
        """before: the same columns as the old file had them; None where that was not looked at."""
        counts = dict(_counts(after.schema, after.columns))
        self._after[group].update(counts)
        if before is None:
            self._unseen.update(counts)
        else:
            self._before[group].update(_counts(before.schema, before.columns))

    def forget(self, group: int) -> None:
        """The group did not come into the new file after all."""
        self._before.pop(group, None)
        self._after.pop(group, None)

    def totals(self, schema: pa.Schema) -> dict[int, int]:
        """NaNs by field id, for the columns of the new file."""
        return {leaf: self._total(leaf, top) for top, leaf in _float_leaves(schema)}

    def _total(self, field_id: int, column: int) -> int:
        known = self._source.data_file.nan_value_counts.get(field_id)
        after = sum(counts.get(field_id, 0) for counts in self._after.values())
        if known == 0:
            return after
        has_all = len(self._copied | self._after.keys()) == self._source.footer.num_row_groups
        if known is not None and has_all and field_id not in self._unseen:
            return known - sum(counts.get(field_id, 0) for counts in self._before.values()) + after
        copied = [group for group in self._copied if field_id not in self._after.get(group, {})]
        return after + sum(self._decode(group, field_id, self._source.names[column]) for group in copied)

    def _decode(self, group: int, field_id: int, name: str) -> int:
        table = pa.table([self._source.column(group, name)], schema=pa.schema([self._source.physical.field(name)]))
        return sum(dict(_counts(batch.schema, batch.columns)).get(field_id, 0) for batch in table.to_batches())


def _float_leaves(schema: pa.Schema) -> Iterator[tuple[int, int]]:
    """Top-level field id and field id of each float, also within structs."""
    for field in schema:
        top = field_id_of(field)
        if top is not None:
            yield from ((top, leaf) for leaf in _leaves(field))


def _leaves(field: pa.Field) -> Iterator[int]:
    if pa.types.is_struct(field.type):
        for child in field.type:
            yield from _leaves(child)
    elif pa.types.is_floating(field.type) and (found := field_id_of(field)) is not None:
        yield found


def _counts(fields: pa.Schema | pa.StructType, arrays: Sequence[pa.Array]) -> Iterator[tuple[int, int]]:
    for field, array in zip(fields, arrays, strict=True):
        if pa.types.is_struct(field.type):
            yield from _counts(field.type, array.flatten())
        elif pa.types.is_floating(field.type) and (found := field_id_of(field)) is not None:
            yield found, pc.sum(pc.is_nan(array)).as_py() or 0
