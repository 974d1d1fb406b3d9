"""Settings of a keyed table, checked when they are made rather than when the first records come."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from lakewright.keys.definition import is_keyed, read_definition
from lakewright.keys.engines import engine_of
from lakewright.keys.index.choice import check_index
from lakewright.options import resolve


def check_settings(properties: Mapping[str, str], schema: Schema, table: str) -> None:
    definition = read_definition(properties, schema, table)
    engine_of(definition, resolve({}, {}, properties), [f.name for f in schema.fields])


def check_layout(properties: Mapping[str, str], schema: Schema, spec: PartitionSpec, table: str) -> None:
    """What can be told only of a table whose partitions are known; nothing of one without a key."""
    if is_keyed(properties):
        check_index(read_definition(properties, schema, table), resolve({}, {}, properties), spec)
