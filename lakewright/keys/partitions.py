"""Keys whose record belongs to another partition than their row: moved, kept where they are, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from pyiceberg.partitioning import PartitionField
from pyiceberg.transforms import BucketTransform

from lakewright.format.metadata import Metadata
from lakewright.keys.definition import NEW, OLD, Definition
from lakewright.plan.distribution import partition_fields
from lakewright.plan.partition_scope import stays
from lakewright.plan.transform_columns import source_path, transformed
from lakewright.quoting import quoted
from lakewright.rows.expressions import column_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MOVE, KEEP = "move", "keep"


def partition_is_of_key(metadata: Metadata, definition: Definition) -> bool:
    """Whether all rows of a key are of one partition, since the partition is made of the key."""
    return all(source_path(metadata.schema, f.source_id)[0] in definition.key_columns for _, f in partition_fields(metadata.spec))


def kept_in_partition(values: Mapping[str, Any], metadata: Metadata, definition: Definition, policy: str) -> Mapping[str, Any]:
    """The values of an update, under the table's policy for rows that would leave their partition."""
    from pyspark.sql import functions as F

    sources = {source_path(metadata.schema, f.source_id)[0] for _, f in partition_fields(metadata.spec)} & set(values)
    if policy == MOVE or not sources:
        return values
    given = {metadata.schema.find_field(c).field_id: column_of(value) for c, value in values.items()}
    same = stays(metadata.schema, metadata.spec, given, lambda field: F.col(f"{OLD}.{quoted(field.name)}"))
    if policy == KEEP:
        return {c: F.when(same, column_of(value)).otherwise(F.col(f"{OLD}.{quoted(c)}")) if c in sources else value for c, value in values.items()}
    first = next(c for c in values if c in sources)
    shown = F.concat_ws(", ", *(F.expr(part.of(NEW)).cast("string") for part in definition.key))
    message = F.concat(
        F.lit("lakewright.errors.PartitionChanged: the record with key "),
        shown,
        F.lit(f" belongs to another partition of {definition.table} than its row, and lakewright.partition-change is error; nothing was written"),
    )
    refused = F.raise_error(message)
    return {c: F.when(same, column_of(value)).otherwise(refused) if c == first else value for c, value in values.items()}


def has_partitions(metadata: Metadata) -> bool:
    """Whether there is a partition field that is no bucket."""
    return bool(_own_fields(metadata))


def has_buckets(metadata: Metadata) -> bool:
    return len(_own_fields(metadata)) < len(partition_fields(metadata.spec))


def in_partitions(rows: DataFrame, metadata: Metadata) -> Column:
    """Whether a row of the table, called `old`, is of a partition that these rows have, buckets aside."""
    from pyspark.sql import functions as F

    schema = metadata.schema
    fields = [(f.transform, schema.find_field(f.source_id).field_type, source_path(schema, f.source_id)) for f in _own_fields(metadata)]
    given = [transformed(transform, kind, _at(F.col(quoted(path[0])), path)).alias(f"p{n}") for n, (transform, kind, path) in enumerate(fields)]
    stored = [transformed(transform, kind, _at(F.col(f"{OLD}.{quoted(path[0])}"), path)) for transform, kind, path in fields]
    found = [reduce(and_, (value.eqNullSafe(F.lit(one)) for value, one in zip(stored, row, strict=True))) for row in rows.select(*given).distinct().collect()]
    return reduce(or_, found) if found else F.lit(False)


def _at(column: Column, path: tuple[str, ...]) -> Column:
    return reduce(lambda value, name: value.getField(name), path[1:], column)


def _own_fields(metadata: Metadata) -> list[PartitionField]:
    return [f for _, f in partition_fields(metadata.spec) if not isinstance(f.transform, BucketTransform)]
