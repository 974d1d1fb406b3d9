"""Settings of a keyed table, checked when they are made rather than when the first records come."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from lakewright.keys.buckets import check_buckets
from lakewright.keys.definition import read_definition
from lakewright.keys.engines import engine_of
from lakewright.keys.index.choice import check_index
from lakewright.options import resolve
from lakewright.plan.keys import is_keyed


def check_settings(properties: Mapping[str, str], schema: Schema, spec: PartitionSpec, table: str) -> None:
    """What a table's own settings ask for, whether it has a key or not."""
    check_buckets(properties, schema, spec, table)
    if not is_keyed(properties):
        return
    definition = read_definition(properties, schema, table)
    options = resolve({}, {}, properties)
    engine_of(definition, options, [f.name for f in schema.fields])
    check_index(definition, options, spec)
