"""Changes of metadata on keyed tables: settings stay ones that can work, and the key stays as it is while there are rows it was checked by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyiceberg.schema import Schema

from lakewright.commit.change import MetadataChange
from lakewright.commit.metadata_changes import evolve_partitions
from lakewright.commit.updates import Update, add_schema, apply
from lakewright.errors import UnsupportedOperation
from lakewright.format.metadata import Metadata
from lakewright.keys.buckets import rescaled
from lakewright.keys.definition import Part, plain_columns, read_definition
from lakewright.keys.settings import check_settings
from lakewright.options import BUCKET_MODE
from lakewright.plan.keys import KEY, ORDERING, is_keyed, key_ids


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
                f"The key of {table} cannot change while it has rows, which may then have one key, or snapshots with rows that it can be set back to; "
                "write them to a new table with that key, or delete them and expire their snapshots and savepoints.",
                table=table,
            )
        _require_same_columns(metadata, after, table)
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
    return any(snapshot.summary.get("total-records", "") != "0" for snapshot in metadata.snapshots())


def _require_same_columns(before: Metadata, after: Metadata, table: str) -> None:
    """Key and ordering go by names, which columns may exchange: what the rows were checked by must not become another column."""
    if not (is_keyed(before.properties) and is_keyed(after.properties) and _has_rows(after)):
        return
    was, will = (read_definition(m.properties, m.schema, table) for m in (before, after))
    for setting, old, new in ((KEY, was.key, will.key), (ORDERING, was.ordering, will.ordering)):
        if before.properties.get(setting) == after.properties.get(setting) and _field_ids(old) != _field_ids(new):
            raise UnsupportedOperation(
                f"{setting} of {table} is {after.properties[setting]!r}, and its rows were compared by other columns of these names than there would be; give the columns other names.", table=table
            )


def _field_ids(parts: Sequence[Part]) -> list[list[int]]:
    return [[field_id for field_id, _ in part.fields] for part in parts]
