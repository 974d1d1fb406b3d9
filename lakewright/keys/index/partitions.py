"""Keys by the partition they are in, as far as that is made of the key: files of other partitions and buckets are left alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.transforms import BucketTransform, DayTransform, HourTransform, MonthTransform, YearTransform
from pyiceberg.types import BooleanType, IntegerType, LongType, StringType

from lakewright.keys.definition import Definition
from lakewright.plan.distribution import partition_fields
from lakewright.plan.transform_columns import source_column, source_path, with_transform
from lakewright.read.prune import partition_key
from lakewright.write.fanout import numbered_partitions

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField

    from lakewright.read.scan import FileScan
    from lakewright.rows.merge_source import MergeSource
    from lakewright.rows.row_plan import RowContext

MOST_PARTITIONS = 10_000
COUNTED = (BucketTransform, YearTransform, MonthTransform, DayTransform, HourTransform)
SAME = (IntegerType, LongType, StringType, BooleanType)


@dataclass(frozen=True)
class PartitionIndex:
    definition: Definition

    def candidates(self, context: RowContext, source: MergeSource, files: Sequence[FileScan]) -> Sequence[FileScan]:
        spec = context.metadata.spec
        fields = [(n, f) for n, f in partition_fields(spec) if self._is_of_key(context, f)]
        if not fields or not any(f.data_file.spec_id == spec.spec_id for f in files):
            return files
        wanted = self._partitions(context, source, [f for _, f in fields])
        if wanted is None:
            return files
        return [f for f in files if f.data_file.spec_id != spec.spec_id or partition_key(tuple(f.data_file.partition[n] for n, _ in fields)) in wanted]

    def _is_of_key(self, context: RowContext, field: PartitionField) -> bool:
        """Made of the key, and of a type whose values are the same in Spark and in a manifest."""
        of_key = source_path(context.schema, field.source_id)[0] in self.definition.key_columns
        return of_key and (isinstance(field.transform, COUNTED) or isinstance(context.schema.find_field(field.source_id).field_type, SAME))

    def _partitions(self, context: RowContext, source: MergeSource, fields: list[PartitionField]) -> set[tuple[Any, ...]] | None:
        """The values of these fields that the batch has; None if there are too many to tell one by one."""
        if source.at_hand is not None:
            known, _ = numbered_partitions(fields, context.schema, source.at_hand.table)
            return None if len(known) > MOST_PARTITIONS else set(known)
        rows = source.rows
        for n, field in enumerate(fields):
            column = source_column(context.schema, field.source_id)
            rows = with_transform(rows, f"_lw_p{n}", field.transform, context.schema.find_field(field.source_id).field_type, column)
        found = rows.select(*(f"_lw_p{n}" for n in range(len(fields)))).distinct().limit(MOST_PARTITIONS + 1).collect()
        return None if len(found) > MOST_PARTITIONS else {partition_key(tuple(row)) for row in found}
