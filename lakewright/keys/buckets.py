"""Bucket modes: how rows of a partition are spread over files, and what that asks of the table.

fixed: by the hash of a key column, as a field of the partition spec, so that every engine can prune by it. dynamic, key-dynamic: a bucket
is a data file, filled to a number of rows before another is begun. unaware: append tables, whose rows are not moved. postpone: rows land
on a branch of their own, and get their buckets when a compaction takes them in.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform

from lakewright.commit.change import MetadataChange
from lakewright.commit.metadata_changes import evolve_partitions
from lakewright.commit.updates import Update
from lakewright.errors import InvalidOption
from lakewright.format.metadata import Metadata
from lakewright.keys.definition import Definition, read_definition
from lakewright.options import BUCKET, BUCKET_MODE, BUCKET_TARGET_ROWS, Options, resolve
from lakewright.plan.distribution import partition_fields
from lakewright.plan.keys import is_keyed
from lakewright.plan.transform_columns import source_path
from lakewright.quoting import quoted

NONE, FIXED, DYNAMIC, KEY_DYNAMIC, UNAWARE, POSTPONE = "none", "fixed", "dynamic", "key-dynamic", "unaware", "postpone"


def with_bucket(partition_by: list[str], properties: Mapping[str, str], schema: Schema, table: str) -> list[str]:
    """The partitions of a new table, with its bucket among them where the number of buckets is fixed."""
    options = resolve({}, {}, properties)
    if options[BUCKET_MODE] != FIXED or any(text.strip().lower().startswith("bucket(") for text in partition_by):
        return partition_by
    number = options[BUCKET]
    if number is None:
        raise InvalidOption(f"lakewright.bucket-mode of {table} is fixed, and lakewright.bucket does not say how many buckets there are.", table=table)
    return [*partition_by, bucket_text(number, properties, schema, table)]


def bucket_text(number: int, properties: Mapping[str, str], schema: Schema, table: str) -> str:
    return f"bucket({number}, {quoted(_bucket_column(properties, schema, table))})"


def _bucket_column(properties: Mapping[str, str], schema: Schema, table: str) -> str:
    """The last column of the key, which tells most rows apart in keys such as (tenant, id)."""
    if not is_keyed(properties):
        raise InvalidOption(f"{table} has buckets by key and no key; give key= too, or lakewright.bucket-mode unaware.", table=table)
    columns = [part.column for part in read_definition(properties, schema, table).key if part.column is not None]
    if not columns:
        raise InvalidOption(f"The key of {table} has no column to hash; fixed buckets need one.", table=table)
    return columns[-1]


def bucket_field(spec: PartitionSpec, schema: Schema, definition: Definition) -> PartitionField | None:
    """The field of the spec that is a bucket of the key."""
    names = {part.column for part in definition.key}
    return next((f for f in spec.fields if isinstance(f.transform, BucketTransform) and schema.find_column_name(f.source_id) in names), None)


def check_buckets(properties: Mapping[str, str], schema: Schema, spec: PartitionSpec, table: str) -> None:
    """Whether the mode fits the table."""
    mode = resolve({}, {}, properties)[BUCKET_MODE]
    if mode == NONE:
        return
    if mode == UNAWARE:
        if is_keyed(properties):
            raise InvalidOption(f"lakewright.bucket-mode unaware is for append tables, and {table} has a key; use fixed, dynamic or postpone.", table=table)
        return
    if not is_keyed(properties):
        raise InvalidOption(f"lakewright.bucket-mode {mode} spreads rows by key, and {table} has none; give key=, or use unaware.", table=table)
    definition = read_definition(properties, schema, table)
    fields = [f for _, f in partition_fields(spec)]
    outside = [f.name for f in fields if source_path(schema, f.source_id)[0] not in definition.key_columns]
    if mode == FIXED and bucket_field(spec, schema, definition) is None:
        raise InvalidOption(f"lakewright.bucket-mode of {table} is fixed, and it is not partitioned by a bucket of its key; set lakewright.bucket too.", table=table)
    if mode == DYNAMIC and outside:
        raise InvalidOption(f"lakewright.bucket-mode dynamic of {table} needs a key that has the partition, and {outside[0]} is not of it; use key-dynamic.", table=table)
    if mode == KEY_DYNAMIC and not outside:
        raise InvalidOption(f"lakewright.bucket-mode key-dynamic of {table} is for keys that do not have the partition; use dynamic.", table=table)


def rescaled(metadata: Metadata, properties: Mapping[str, str], table: str) -> tuple[list[str], list[str]]:
    """Partition fields to add and to drop for the number of buckets that the properties give."""
    options = resolve({}, {}, properties)
    number = options[BUCKET]
    if options[BUCKET_MODE] != FIXED or number is None:
        return [], []
    there = bucket_field(metadata.spec, metadata.schema, read_definition(properties, metadata.schema, table))
    if there is not None and isinstance(there.transform, BucketTransform) and there.transform.num_buckets == number:
        return [], []
    return [bucket_text(number, properties, metadata.schema, table)], [there.name] if there is not None else []


def first_buckets(rows: int, options: Options, table: str) -> MetadataChange:
    """Partition a table of the mode postpone by as many buckets as its first records call for; nothing once it has some."""
    number = options[BUCKET] or max(1, ceil(rows / options[BUCKET_TARGET_ROWS]))

    def updates(metadata: Metadata) -> list[Update]:
        definition = read_definition(metadata.properties, metadata.schema, table)
        if options[BUCKET_MODE] != POSTPONE or bucket_field(metadata.spec, metadata.schema, definition) is not None:
            return []
        return evolve_partitions(table, [bucket_text(number, metadata.properties, metadata.schema, table)], []).updates(metadata)

    return MetadataChange("first buckets", updates, evolve_partitions(table, [], []).requirements)
