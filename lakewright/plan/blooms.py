"""Which columns get Parquet bloom filters, by Iceberg's table properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, StructType

from lakewright.errors import ColumnNotFound, InvalidOption
from lakewright.plan.names import did_you_mean, match_name, unquoted

ENABLED, FPP, NDV = (f"write.parquet.bloom-filter-{what}.column." for what in ("enabled", "fpp", "ndv"))
MAX_BYTES = "write.parquet.bloom-filter-max-bytes"
DEFAULT_FPP, DEFAULT_MAX_BYTES = 0.01, 1024 * 1024


@dataclass(frozen=True)
class Bloom:
    """fpp: how often a value that is not there may be taken for present. ndv: how many distinct values a row group has, if that was said.
    max_bytes: the largest filter Spark makes."""

    fpp: float
    ndv: int | None
    max_bytes: int


def blooms(properties: Mapping[str, str], schema: Schema, table: str) -> dict[str, Bloom]:
    """Filters by column, dotted if nested. A column that is not there, since it was dropped later, has none."""
    found = {}
    most = properties.get(MAX_BYTES)
    for given in _enabled(properties, table):
        name = match_name(unquoted(given), schema.column_names)
        if name is not None:
            _require_single(name, ENABLED + given, schema, table)
            fpp, ndv = properties.get(FPP + given), properties.get(NDV + given)
            found[name] = Bloom(
                DEFAULT_FPP if fpp is None else _share(FPP + given, fpp, table),
                None if ndv is None else _positive(NDV + given, ndv, table),
                DEFAULT_MAX_BYTES if most is None else _positive(MAX_BYTES, most, table),
            )
    return found


def check_blooms(properties: Mapping[str, str], schema: Schema, table: str) -> None:
    """Settings as they are made: a column must be there."""
    for given in _enabled(properties, table):
        if match_name(unquoted(given), schema.column_names) is None:
            raise ColumnNotFound(f"{ENABLED}{given} of {table} names column {given!r}, which is not there. {did_you_mean(given, schema.column_names)}", table=table, column=given)
    blooms(properties, schema, table)


def _enabled(properties: Mapping[str, str], table: str) -> list[str]:
    return [setting.removeprefix(ENABLED) for setting, value in properties.items() if setting.startswith(ENABLED) and _boolean(setting, value, table)]


def _require_single(name: str, setting: str, schema: Schema, table: str) -> None:
    kind = schema.find_field(name).field_type
    inside = [schema.find_field(".".join(name.split(".")[:depth])).field_type for depth in range(1, name.count(".") + 1)] if "." in name else []
    if not kind.is_primitive or isinstance(kind, BooleanType) or not all(isinstance(outer, StructType) for outer in inside):
        raise InvalidOption(f"{setting} of {table} asks for a bloom filter of {name!r}, which is {kind}; columns of single values other than boolean have them.", table=table, column=name)


def _boolean(setting: str, value: str, table: str) -> bool:
    if value.strip().lower() not in ("true", "false"):
        raise InvalidOption(f"{setting} of {table} is {value!r}; it takes true or false.", table=table)
    return value.strip().lower() == "true"


def _share(setting: str, value: str, table: str) -> float:
    try:
        share = float(value)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise InvalidOption(f"{setting} of {table} is {value!r}; it takes a number between 0 and 1.", table=table)
    return share


def _positive(setting: str, value: str, table: str) -> int:
    if not value.strip().isdigit() or not int(value):
        raise InvalidOption(f"{setting} of {table} is {value!r}; it takes a whole number above 0.", table=table)
    return int(value)
