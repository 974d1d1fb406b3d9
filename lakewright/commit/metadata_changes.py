"""Changes of schema, partitioning, order, properties and refs as steps that can be worked out anew on a newer head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyiceberg.schema import Schema

from lakewright.commit.change import MetadataChange
from lakewright.commit.create import checked_format_version
from lakewright.commit.updates import (
    Update,
    add_schema,
    add_sort_order,
    add_spec,
    remove_properties,
    set_default_spec,
    upgrade_format_version,
)
from lakewright.commit.updates import set_properties as properties_update
from lakewright.errors import CommitConflict, IllegalEvolution, StalePlan, UnsupportedOperation
from lakewright.format.metadata import Json, Metadata
from lakewright.plan import evolution
from lakewright.plan.partitioning import build_sort_order, evolve_spec


def evolve_schema(table: str, **how: Any) -> MetadataChange:
    def updates(metadata: Metadata) -> list[Update]:
        schema, last_column_id = evolution.evolve_schema(
            metadata.schema,
            metadata.last_column_id,
            metadata.format_version,
            spec=metadata.spec,
            sort_order=metadata.sort_order,
            table=table,
            **how,
        )
        same = schema.fields == metadata.schema.fields and set(schema.identifier_field_ids) == set(metadata.schema.identifier_field_ids)
        return [] if same else add_schema(schema, last_column_id)

    return MetadataChange("evolve schema", updates, _schema_requirements)


def merge_schema(table: str, before: Schema, after: Schema, last_column_id: int) -> MetadataChange:
    """The columns a write adds. Its files already carry the new field ids, so on a newer head those must still be free."""
    fresh = after._lazy_id_to_field.keys() - before._lazy_id_to_field.keys()

    def updates(metadata: Metadata) -> list[Update]:
        if metadata.schema.fields == after.fields:
            return []
        if metadata.schema.fields != before.fields or any(field_id <= metadata.last_column_id for field_id in fresh):
            raise StalePlan(f"The schema of {table} changed while rows with new columns were written; run the write again.", table=table)
        return add_schema(after, last_column_id)

    return MetadataChange("merge schema", updates, _schema_requirements)


def replace_schema(table: str, after: Schema, last_column_id: int) -> MetadataChange:
    planned: list[tuple[Any, ...]] = []

    def updates(metadata: Metadata) -> list[Update]:
        planned.append((metadata.schema.fields, metadata.last_column_id))
        if planned[-1] != planned[0]:
            raise CommitConflict(f"The schema of {table} changed while it was being replaced; run the overwrite again.", table=table)
        _require_sources(table, metadata, after)
        return [] if metadata.schema.fields == after.fields else add_schema(after, last_column_id)

    return MetadataChange("replace schema", updates, _schema_requirements)


def _require_sources(table: str, metadata: Metadata, after: Schema) -> None:
    """A column that partitions or sorts the table keeps its id only with its name and type."""
    sources = [field.source_id for field in metadata.spec.fields] + [field.source_id for field in metadata.sort_order.fields]
    for source_id in sources:
        if source_id not in after._lazy_id_to_field:
            name = metadata.schema.find_column_name(source_id)
            raise IllegalEvolution(
                f"The new schema of {table} has no column {name!r} of the type it had, and the table is partitioned or sorted by it. "
                "Change that first: t.evolve_partitions(drop=[…]), t.set_sort_order([…]).",
                table=table,
                column=name,
            )


def evolve_partitions(table: str, add: list[str], drop: list[str]) -> MetadataChange:
    def updates(metadata: Metadata) -> list[Update]:
        spec, _ = evolve_spec(metadata.spec, metadata.specs, metadata.schema, metadata.last_partition_id, add=add, drop=drop, table=table)
        if spec.spec_id == metadata.default_spec_id:
            return []
        return set_default_spec(spec.spec_id) if spec.spec_id in metadata.specs else add_spec(spec)

    def requirements(metadata: Metadata) -> list[Json]:
        return [
            {"type": "assert-default-spec-id", "default-spec-id": metadata.default_spec_id},
            {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": metadata.last_partition_id},
        ]

    return MetadataChange("evolve partitions", updates, requirements)


def set_sort_order(table: str, sort_by: list[str]) -> MetadataChange:
    def updates(metadata: Metadata) -> list[Update]:
        order = build_sort_order(metadata.schema, sort_by, table=table)
        return [] if order.fields == metadata.sort_order.fields else add_sort_order(order)

    def requirements(metadata: Metadata) -> list[Json]:
        return [{"type": "assert-default-sort-order-id", "default-sort-order-id": int(metadata.raw.get("default-sort-order-id", 0))}]

    return MetadataChange("set sort order", updates, requirements)


def upgrade(table: str, version: int) -> MetadataChange:
    """A newer format version for what is written from now on; no file is rewritten, and there is no way back."""
    checked_format_version(version, table)

    def updates(metadata: Metadata) -> list[Update]:
        if metadata.format_version > version:
            raise UnsupportedOperation(
                f"{table} has format version {metadata.format_version}, which cannot become {version} again; write its rows to a new table of that version.",
                table=table,
            )
        return [] if metadata.format_version == version else upgrade_format_version(version)

    return MetadataChange("upgrade", updates)


def set_properties(properties: Mapping[str, Any]) -> MetadataChange:
    """Set properties; None removes one."""

    def updates(metadata: Metadata) -> list[Update]:
        given = {key: _text(value) for key, value in properties.items() if value is not None}
        changed = {key: value for key, value in given.items() if metadata.properties.get(key) != value}
        gone = [key for key, value in properties.items() if value is None and key in metadata.properties]
        return (properties_update(changed) if changed else []) + (remove_properties(gone) if gone else [])

    return MetadataChange("set properties", updates)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _schema_requirements(metadata: Metadata) -> list[Json]:
    return [
        {"type": "assert-current-schema-id", "current-schema-id": metadata.current_schema_id},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": metadata.last_column_id},
    ]
