"""Settings of a keyed table, checked when they are made rather than when the first records come."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.schema import Schema

from lakewright.keys.definition import read_definition
from lakewright.keys.engines import engine_of
from lakewright.options import resolve


def check_settings(properties: Mapping[str, str], schema: Schema, table: str) -> None:
    definition = read_definition(properties, schema, table)
    engine_of(definition, resolve({}, {}, properties), [f.name for f in schema.fields])
