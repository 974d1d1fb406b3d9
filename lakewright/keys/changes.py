"""Changes of metadata on keyed tables: settings stay ones that can work, and the key stays as it is while there are rows it was checked by."""

from __future__ import annotations

from dataclasses import replace

from pyiceberg.schema import Schema

from lakewright.commit.change import MetadataChange
from lakewright.commit.metadata_changes import evolve_partitions
from lakewright.commit.updates import Update, add_schema, apply
from lakewright.errors import UnsupportedOperation
from lakewright.format.metadata import Metadata
from lakewright.keys.buckets import rescaled
from lakewright.keys.definition import plain_columns
from lakewright.keys.settings import check_settings
from lakewright.options import BUCKET_MODE
from lakewright.plan.keys import KEY, is_keyed, key_ids


def with_key_rules(change: MetadataChange, table: str) -> MetadataChange:
    """The same change, refused where it would break the table's key, and with the key's columns recorded where it sets a key."""

    def updates(metadata: Metadata) -> list[Update]:
        made = change.updates(metadata)
        after = apply(metadata, made) if made else metadata
        if not made or not any(_has_settings(m) for m in (metadata, after)):
            return made
        key_changed = metadata.properties.get(KEY) != after.properties.get(KEY)
        if key_changed:
            made = made + _recorded(after, table)
        identity_changed = key_changed or set(metadata.schema.identifier_field_ids) != set(after.schema.identifier_field_ids)
        if identity_changed and _has_rows(after):
            raise UnsupportedOperation(
                f"The key of {table} cannot change while it has rows, which may then have one key; write them to a new table with that key.", table=table
            )
        add, drop = rescaled(after, after.properties, table) if is_keyed(after.properties) else ([], [])
        if add:
            made = made + evolve_partitions(table, add, drop).updates(after)
        final = apply(metadata, made)
        check_settings(final.properties, final.schema, final.spec, table)
        return made

    return replace(change, updates=updates)


def _has_settings(metadata: Metadata) -> bool:
    return is_keyed(metadata.properties) or BUCKET_MODE.table_property in metadata.properties


def _recorded(after: Metadata, table: str) -> list[Update]:
    key = after.properties.get(KEY, "")
    names = plain_columns(key, after.schema) or []
    ids = list(key_ids(after.schema, names, table).values())
    if set(ids) == set(after.schema.identifier_field_ids):
        return []
    return add_schema(Schema(*after.schema.fields, schema_id=after.schema.schema_id + 1, identifier_field_ids=ids), after.last_column_id)


def _has_rows(metadata: Metadata) -> bool:
    heads = [metadata.head(name) for name, ref in metadata.refs.items() if ref["type"] == "branch"]
    return any(head is not None and head.summary.get("total-records", "") != "0" for head in heads)
