"""Making a table and making it anew: from the shape that was asked for to its first version."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.schema import Schema

from lakewright import namespaces
from lakewright.commit.create import checked_format_version, first_version, replace_table, same_spec
from lakewright.commit.metadata_changes import upgrade
from lakewright.commit.store import UNPUBLISHED, Identifier, TableState, catalog_io
from lakewright.config import absolute
from lakewright.errors import InvalidOption
from lakewright.format.storage import list_files
from lakewright.keys.buckets import with_bucket
from lakewright.keys.definition import joined, plain_columns
from lakewright.keys.settings import check_settings
from lakewright.plan.blooms import check_blooms
from lakewright.plan.keys import KEY, ORDERING, is_keyed, with_key
from lakewright.plan.partitioning import build_sort_order, build_spec
from lakewright.plan.request import WriteMode, WriteRequest
from lakewright.plan.schema import replace_schema
from lakewright.plan.types import schema_from
from lakewright.transaction import Transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakewright.lake import Lake

KEYED_FORMAT_VERSION = 3
Texts = str | Sequence[str] | None


@dataclass(frozen=True)
class Shape:
    """What a new table is to be like. key: what tells its rows apart, ordering: which of a key's records is the latest; columns or expressions.
    Each is one text or several, or None for none. location: its folder, chosen by the lake unless given."""

    schema: Any
    partition_by: Texts = ()
    sort_by: Texts = ()
    properties: Mapping[str, Any] | None = None
    format_version: int | None = None
    key: Texts = ()
    location: str | None = None
    ordering: Texts = ()

    @property
    def is_keyed(self) -> bool:
        return bool(self.key) or is_keyed(self.properties or {})

    @property
    def own_properties(self) -> dict[str, str]:
        given = {KEY: joined(self.key or ()), ORDERING: joined(self.ordering or ())}
        return {**namespaces.as_text(self.properties or {}), **{name: value for name, value in given.items() if value}}

    def keyed(self, columns: Schema, table: str) -> Schema:
        """The columns with the key among them, which Iceberg records where it is made of columns."""
        properties = self.own_properties
        if KEY not in properties:
            if ORDERING in properties:
                raise InvalidOption(f"{table} has an ordering and no key; an ordering says which record of a key is the latest, so give key= too.", table=table)
            return columns
        plain = plain_columns(properties[KEY], columns)
        return columns if plain is None else with_key(columns, plain, table)

    def partitions(self, columns: Schema, table: str) -> list[str]:
        return with_bucket(_texts(self.partition_by), self.own_properties, columns, table)


def _texts(given: Texts) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


def first_state(lake: Lake, name: str, shape: Shape) -> TableState:
    """A table that is not published yet."""
    version = checked_format_version(shape.format_version or (KEYED_FORMAT_VERSION if shape.is_keyed else None), name)
    identifier = namespaces.identifier(name)
    columns = shape.keyed(schema_from(shape.schema), name)
    spec = build_spec(columns, shape.partitions(columns, name), table=name)
    check_settings(shape.own_properties, columns, spec, name)
    check_blooms(shape.own_properties, columns, name)
    order = build_sort_order(columns, _texts(shape.sort_by), table=name)
    lake.create_namespace(".".join(identifier[:-1]), if_not_exists=True)
    location = _new_location(lake, identifier) if shape.location is None else _given_location(lake, shape.location, name)
    metadata = first_version(location, columns, spec, order, shape.own_properties, version)
    return TableState(identifier, UNPUBLISHED, metadata, catalog_io(lake.catalog, metadata.properties, location))


def replace(lake: Lake, name: str, shape: Shape, rows: DataFrame | None = None) -> TableState:
    """An existing table started anew on its own history, with its first rows, if any, in the same commit."""
    state = lake.store.load(namespaces.identifier(name))
    old = state.metadata
    if shape.location is not None and absolute(shape.location) != old.location:
        raise InvalidOption(f"{name} is at {old.location} and stays there when it is replaced; leave out the location, or drop the table first.", table=name)
    given = shape.keyed(schema_from(shape.schema), name)
    columns, last_column_id = replace_schema(given, old.schema, old.last_column_id)
    columns = Schema(*columns.fields, schema_id=columns.schema_id, identifier_field_ids=[columns.find_field(k).field_id for k in given.identifier_field_names()])
    spec = build_spec(columns, shape.partitions(columns, name), spec_id=max(old.specs) + 1, last_partition_id=old.last_partition_id, table=name)
    check_settings(shape.own_properties, columns, spec, name)
    spec = next((s for s in old.specs.values() if same_spec(s, spec)), spec)
    check_blooms(shape.own_properties, columns, name)
    order = build_sort_order(columns, _texts(shape.sort_by), table=name)
    with Transaction(lake, state, operation="replace table") as tx:
        if shape.format_version is not None:
            tx.change(upgrade(name, shape.format_version))
        tx.change(replace_table(columns, last_column_id, spec, order, shape.own_properties))
        if rows is not None:
            tx.write(WriteRequest(WriteMode.APPEND), rows)
    return tx.state


def _new_location(lake: Lake, identifier: Identifier) -> str:
    """Below the lake's own location, or where the catalog would put it; never into files another table left there."""
    if not lake.location:
        return namespaces.location_by_catalog(lake.catalog, identifier)
    # One folder for the namespace, however deep: a table's folder is then never inside another's.
    location = "/".join([lake.location.rstrip("/"), ".".join(identifier[:-1]), identifier[-1]])
    return f"{location}-{os.urandom(4).hex()}" if _is_taken(lake, location) else location


def _given_location(lake: Lake, given: str, name: str) -> str:
    location = absolute(given).rstrip("/")
    if _is_taken(lake, location):
        raise InvalidOption(f"{name} cannot be made at {location}: another table's metadata is there. Choose another location.", table=name)
    return location


def _is_taken(lake: Lake, location: str) -> bool:
    stored = list_files(catalog_io(lake.catalog, {}, location), f"{location}/metadata")
    return any(file.path.endswith(".metadata.json") for file in stored)
