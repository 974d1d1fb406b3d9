"""Which metrics are kept for each column: `write.metadata.metrics.*` read the way Iceberg reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder
from pyiceberg.transforms import BucketTransform, VoidTransform
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, PrimitiveType, StructType

from lakewright.errors import InvalidOption
from lakewright.options import METRICS_DEFAULT, METRICS_MAX_COLUMNS, Options

COLUMN_PREFIX = "write.metadata.metrics.column."


@dataclass(frozen=True)
class MetricsMode:
    """`length` limits bounds of strings and binaries; None keeps them whole."""

    counts: bool
    bounds: bool
    length: int | None = None


NONE = MetricsMode(counts=False, bounds=False)
COUNTS = MetricsMode(counts=True, bounds=False)
FULL = MetricsMode(counts=True, bounds=True)
TRUNCATE_16 = MetricsMode(counts=True, bounds=True, length=16)


@dataclass(frozen=True)
class ColumnMetrics:
    """A leaf column. `repeated` ones, inside lists and maps, have a size but neither counts nor bounds: a Parquet footer
    counts a null for each empty list, and Iceberg keeps no bounds for them."""

    field_id: int
    field_type: PrimitiveType
    mode: MetricsMode
    repeated: bool


@dataclass(frozen=True)
class MetricsConfig:
    """The leaf columns of a schema by field id."""

    columns: Mapping[int, ColumnMetrics]

    @staticmethod
    def from_options(options: Options, schema: Schema, sort_order: SortOrder | None = None) -> MetricsConfig:
        """From resolved options: write options and session settings win over the table's properties."""
        properties = dict(options.properties)
        if options[METRICS_DEFAULT] != METRICS_DEFAULT.default:
            properties[str(METRICS_DEFAULT.table_property)] = options[METRICS_DEFAULT]
        properties[str(METRICS_MAX_COLUMNS.table_property)] = str(options[METRICS_MAX_COLUMNS])
        return MetricsConfig.from_properties(properties, schema, sort_order)

    @staticmethod
    def from_properties(properties: Mapping[str, str], schema: Schema, sort_order: SortOrder | None = None) -> MetricsConfig:
        """From table properties alone. Columns of the sort order keep bounds even where the default has none."""
        leaves = list(_leaves(schema.as_struct()))
        chosen = properties.get(str(METRICS_DEFAULT.table_property))
        default = TRUNCATE_16 if chosen is None else parse_mode(chosen, str(METRICS_DEFAULT.table_property))
        modes = {leaf.field_id: default for leaf, _, _ in leaves}
        if chosen is None:
            limit = int(properties.get(str(METRICS_MAX_COLUMNS.table_property)) or METRICS_MAX_COLUMNS.default)
            by_depth = sorted(leaves, key=lambda leaf: leaf[2])
            modes |= {leaf.field_id: NONE for leaf, _, _ in by_depth[limit:]}
        promoted = default if default.bounds else TRUNCATE_16
        for field_id in _sorted_columns(sort_order):
            if field_id in modes:
                modes[field_id] = promoted
        for leaf, _, _ in leaves:
            key = f"{COLUMN_PREFIX}{schema.find_column_name(leaf.field_id)}"
            if key in properties:
                modes[leaf.field_id] = parse_mode(properties[key], key)
        return MetricsConfig({leaf.field_id: _column(leaf, modes, repeated) for leaf, repeated, _ in leaves})


def parse_mode(text: str, key: str) -> MetricsMode:
    """none, counts, full or truncate(n)."""
    mode = text.strip().lower()
    named = {"none": NONE, "counts": COUNTS, "full": FULL}.get(mode)
    if named is not None:
        return named
    length = re.fullmatch(r"truncate\(\s*(\d+)\s*\)", mode)
    if length is None or int(length[1]) == 0:
        raise InvalidOption(f"Option {key} is {text!r}; it takes none, counts, truncate(n) with n from 1, or full.")
    return MetricsMode(counts=True, bounds=True, length=int(length[1]))


def _column(leaf: NestedField, modes: Mapping[int, MetricsMode], repeated: bool) -> ColumnMetrics:
    assert isinstance(leaf.field_type, PrimitiveType)
    return ColumnMetrics(leaf.field_id, leaf.field_type, modes[leaf.field_id], repeated)


def _sorted_columns(sort_order: SortOrder | None) -> list[int]:
    """Columns whose own order the sort order keeps."""
    fields = sort_order.fields if sort_order is not None else []
    return [field.source_id for field in fields if not isinstance(field.transform, (BucketTransform, VoidTransform))]


def _leaves(struct: StructType, repeated: bool = False, depth: int = 0) -> Iterator[tuple[NestedField, bool, int]]:
    for field in struct.fields:
        yield from _leaves_of(field, field.field_type, repeated, depth)


def _leaves_of(field: NestedField, field_type: IcebergType, repeated: bool, depth: int) -> Iterator[tuple[NestedField, bool, int]]:
    if isinstance(field_type, StructType):
        yield from _leaves(field_type, repeated, depth + 1)
    elif isinstance(field_type, ListType):
        element = field_type.element_field
        yield from _leaves_of(element, element.field_type, True, depth + 1)
    elif isinstance(field_type, MapType):
        for part in (field_type.key_field, field_type.value_field):
            yield from _leaves_of(part, part.field_type, True, depth + 1)
    else:
        yield field, repeated, depth
