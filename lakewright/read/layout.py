"""How the columns of a schema are named in data files, so that a file of any age is read by field id.

Spark reads Parquet by field id only where the session says so, and even then pushes filters down by *name*. A column whose name
meant another column in an older file is therefore read under a name no file has: its filters are then not pushed down, instead of
skipping row groups by another column's statistics. Float columns get the same shield, since writers leave NaN out of the
statistics while Spark counts NaN as the greatest number. Columns with fields inside are shielded by an expression instead.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.types import DoubleType, FixedType, FloatType, IcebergType, ListType, MapType, NestedField, StructType, UUIDType

from lakewright.format.lineage import LINEAGE_FIELDS
from lakewright.format.metadata import Metadata

FILE, POSITION, FILE_SIZE = "_lw_file", "_lw_pos", "_lw_file_size"
NAME_MAPPING = "schema.name-mapping.default"
ROOT = 0
_KEPT_AS_IS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = {f.field_id: f.name for f in LINEAGE_FIELDS}
_ARROW_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True)
class Layout:
    """Where the fields of a schema are in a set of files. names: field id to the name to read it by; absent: fields the files lack."""

    names: Mapping[int, str]
    by_id: bool = False
    absent: frozenset[int] = field(default_factory=frozenset)
    shielded: frozenset[int] = field(default_factory=frozenset)

    @property
    def key(self) -> tuple[object, ...]:
        return self.by_id, self.absent, tuple(sorted(self.names.items()))


def placeholder(field_id: int) -> str:
    """A name no data file has."""
    return f"_lw_{field_id}"


def struct_fields(source: IcebergType, parent: int = ROOT) -> Iterator[tuple[int, NestedField]]:
    """Every struct field in a type, with the id of the field whose struct it is in."""
    if isinstance(source, StructType):
        for inner in source.fields:
            yield parent, inner
            yield from struct_fields(inner.field_type, inner.field_id)
    elif isinstance(source, ListType):
        yield from struct_fields(source.element_type, source.element_id)
    elif isinstance(source, MapType):
        yield from struct_fields(source.key_type, source.key_id)
        yield from struct_fields(source.value_type, source.value_id)


class NameHistory:
    """Which names a table's fields have had, over all schemas its metadata keeps."""

    def __init__(self, metadata: Metadata) -> None:
        self._ids: dict[tuple[int, str], set[int]] = defaultdict(set)
        self._names: dict[int, set[str]] = defaultdict(set)
        for schema in metadata.schemas.values():
            for parent, inner in struct_fields(schema.as_struct()):
                self._ids[parent, inner.name.lower()].add(inner.field_id)
                self._names[inner.field_id].add(inner.name)
        ids = set(metadata.schemas)
        # Expiry may drop old schemas while files written under them live on.
        self.is_complete = ids == set(range(max(ids) + 1))

    def is_reused(self, parent: int, inner: NestedField) -> bool:
        """Whether the name may mean another field in some file."""
        return not self.is_complete or len(self._ids[parent, inner.name.lower()]) > 1

    def is_steady(self, parent: int, inner: NestedField) -> bool:
        """Whether every file that has the field has it under its present name, or the one the format gives it, and nothing else under that name."""
        if inner.field_id in _RESERVED:
            return self.is_complete and not self._ids.get((parent, _RESERVED[inner.field_id]))
        if inner.field_id not in self._names:
            return False  # a column of files older than every schema that is left
        written_as_named = _KEPT_AS_IS.fullmatch(inner.name) is not None
        return written_as_named and not self.is_reused(parent, inner) and self._names[inner.field_id] <= {inner.name}


def layout_by_id(metadata: Metadata, schema: Schema) -> Layout | None:
    """The layout all files share when Spark reads by id; None where files must be looked into.

    Where Spark reads only some fields of a column, it keeps their ids and forgets that of the column, which is then found by its name.
    """
    history = NameHistory(metadata)
    names = {inner.field_id: inner.name for _, inner in struct_fields(schema.as_struct())}
    shielded = set()
    for column in schema.fields:
        if column.field_id in _RESERVED and history.is_steady(ROOT, column):
            names[column.field_id] = _RESERVED[column.field_id]
        inside = list(struct_fields(column.field_type, column.field_id))
        if inside and not history.is_steady(ROOT, column):
            return None
        if has_floats(column.field_type) or any(history.is_reused(parent, inner) for parent, inner in [(ROOT, column), *inside]):
            if inside:
                shielded.add(column.field_id)
            else:
                names[column.field_id] = placeholder(column.field_id)
    return Layout(names, by_id=True, shielded=frozenset(shielded))


def layout_by_name(metadata: Metadata, schema: Schema) -> Layout | None:
    """The layout all files share when no field was ever renamed; None where files must be looked into."""
    history = NameHistory(metadata)
    parts = list(struct_fields(schema.as_struct()))
    names = {inner.field_id: _RESERVED.get(inner.field_id, inner.name) for _, inner in parts}
    if not all(history.is_steady(parent, inner) for parent, inner in parts):
        return None
    return Layout(names, shielded=_float_columns(schema))


def layout_of_file(physical: pa.Schema, schema: Schema, mapping: NameMapping | None) -> Layout | None:
    """The layout one file has, by its field ids, else by the table's name mapping; None for a file with neither."""
    found: dict[int, str] = {}
    if _has_ids(physical):
        found.update(_named_ids(physical))
    elif mapping is not None:
        found.update(_mapped_ids(((f.name, f) for f in physical), mapping))
    else:
        return None
    wanted = [inner.field_id for _, inner in struct_fields(schema.as_struct())]
    names = {i: found.get(i, placeholder(i)) for i in wanted}
    return Layout(names, absent=frozenset(i for i in wanted if i not in found), shielded=_float_columns(schema))


def needs_footers(metadata: Metadata, schema: Schema) -> bool:
    """Whether only the files themselves tell: some may lack ids, or lack fields that have a default."""
    return NAME_MAPPING in metadata.properties or any(inner.initial_default is not None for _, inner in struct_fields(schema.as_struct()))


def physical_struct(source: StructType, layout: Layout) -> StructType:
    """The struct to read: the layout's names, and uuids as the bytes they are stored as."""
    return StructType(*(NestedField(f.field_id, layout.names[f.field_id], _physical_type(f.field_type, layout), required=False, doc=f.doc) for f in source.fields))


def has_floats(source: IcebergType) -> bool:
    if isinstance(source, StructType):
        return any(has_floats(inner.field_type) for inner in source.fields)
    return isinstance(source, (FloatType, DoubleType))


def _float_columns(schema: Schema) -> frozenset[int]:
    return frozenset(column.field_id for column in schema.fields if has_floats(column.field_type))


def _physical_type(source: IcebergType, layout: Layout) -> IcebergType:
    if isinstance(source, StructType):
        return physical_struct(source, layout)
    if isinstance(source, ListType):
        return ListType(source.element_id, _physical_type(source.element_type, layout), element_required=False)
    if isinstance(source, MapType):
        return MapType(source.key_id, _physical_type(source.key_type, layout), source.value_id, _physical_type(source.value_type, layout), value_required=False)
    return FixedType(16) if isinstance(source, UUIDType) else source


def _children(source: pa.DataType) -> list[tuple[str, pa.Field]]:
    """The fields inside a type, with the names a name mapping knows them by."""
    if pa.types.is_struct(source):
        return [(f.name, f) for f in source]
    if pa.types.is_map(source):
        return [("key", source.key_field), ("value", source.item_field)]
    if pa.types.is_list(source) or pa.types.is_large_list(source):
        return [("element", source.value_field)]
    return []


def field_id_of(source: pa.Field) -> int | None:
    value = (source.metadata or {}).get(_ARROW_FIELD_ID)
    return int(value) if value is not None else None


def _has_ids(fields: Iterable[pa.Field]) -> bool:
    return any(field_id_of(f) is not None or _has_ids([inner for _, inner in _children(f.type)]) for f in fields)


def _named_ids(fields: Iterable[pa.Field]) -> Iterator[tuple[int, str]]:
    for f in fields:
        field_id = field_id_of(f)
        if field_id is not None:
            yield field_id, f.name
        yield from _named_ids([inner for _, inner in _children(f.type)])


def _mapped_ids(children: Iterable[tuple[str, pa.Field]], mapping: NameMapping, path: str = "") -> Iterator[tuple[int, str]]:
    for name, f in children:
        mapped = mapping._field_by_name.get(path + name)
        if mapped is not None and mapped.field_id is not None:
            yield mapped.field_id, f.name
        yield from _mapped_ids(_children(f.type), mapping, f"{path}{name}.")
