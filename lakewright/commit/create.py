"""The first version of a table, and what replacing a table changes in it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder

from lakewright.commit.change import MetadataChange
from lakewright.commit.updates import Update, add_schema, add_sort_order, add_spec, dump, now_ms, remove_ref, set_default_spec
from lakewright.commit.updates import set_properties as properties_update
from lakewright.errors import CommitConflict, UnsupportedOperation
from lakewright.format.metadata import MAIN, Json, Metadata

DEFAULT_FORMAT_VERSION = 2
WRITTEN_FORMAT_VERSIONS = (2, 3)


def checked_format_version(asked: int | None, table: str) -> int:
    """The version to make a table with; only what can be written too."""
    version = DEFAULT_FORMAT_VERSION if asked is None else asked
    if version not in WRITTEN_FORMAT_VERSIONS:
        raise UnsupportedOperation(f"Table {table} asks for format version {version}; Lakewright makes version 2 or 3.", table=table)
    return version


def first_version(location: str, schema: Schema, spec: PartitionSpec, order: SortOrder, properties: Mapping[str, str], format_version: int) -> Metadata:
    orders = [{"order-id": 0, "fields": []}]
    if order.fields:
        orders = [dump(order)]
    lineage = {"next-row-id": 0} if format_version >= 3 else {}
    return Metadata(
        {
            "format-version": format_version,
            "table-uuid": str(uuid.uuid4()),
            "location": location,
            "last-sequence-number": 0,
            "last-updated-ms": now_ms(),
            "last-column-id": schema.highest_field_id,
            "schemas": [dump(schema.model_copy(update={"schema_id": 0}))],
            "current-schema-id": 0,
            "partition-specs": [dump(spec)],
            "default-spec-id": spec.spec_id,
            "last-partition-id": max((f.field_id for f in spec.fields), default=999),
            "sort-orders": orders,
            "default-sort-order-id": orders[0]["order-id"],
            "properties": dict(properties),
            "snapshots": [],
            "snapshot-log": [],
            "metadata-log": [],
            "refs": {},
            **lineage,
        }
    )


def replace_table(schema: Schema, last_column_id: int, spec: PartitionSpec, order: SortOrder, properties: Mapping[str, str]) -> MetadataChange:
    """A new schema, spec, order and an empty main, on the table's own history. Ids of columns and specs are given already, so they must still be free."""
    planned: list[tuple[Any, ...]] = []

    def updates(metadata: Metadata) -> list[Update]:
        planned.append((metadata.schema.fields, metadata.last_column_id, metadata.last_partition_id, sorted(metadata.specs)))
        if planned[-1] != planned[0]:
            raise CommitConflict("The schema or partitioning of the table changed while it was being replaced; replace it again.")
        made = add_schema(schema, last_column_id)
        made += set_default_spec(spec.spec_id) if spec.spec_id in metadata.specs else add_spec(spec)
        made += add_sort_order(order)
        made += properties_update(dict(properties)) if properties else []
        return made + ([remove_ref(MAIN)] if MAIN in metadata.refs else [])

    def requirements(metadata: Metadata) -> list[Json]:
        return [
            {"type": "assert-last-assigned-field-id", "last-assigned-field-id": metadata.last_column_id},
            {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": metadata.last_partition_id},
        ]

    return MetadataChange("replace table", updates, requirements)


def same_spec(one: PartitionSpec, other: PartitionSpec) -> bool:
    """Whether two specs partition alike, whatever their ids."""
    return [(f.source_id, str(f.transform), f.name) for f in one.fields] == [(f.source_id, str(f.transform), f.name) for f in other.fields]
