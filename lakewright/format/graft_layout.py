"""What a grafted file looks like: which of its columns come from the source, which can be encoded, and in what form."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakewright.format.parquet_footer import MAGIC, FileField, Footer, NotGraftable, read_footer
from lakewright.format.parquet_schema import FIELD_ID, NAME, NUM_CHILDREN, REPEATED, REQUIRED, TYPE, Column, Node, read_columns, same_form
from lakewright.format.thrift import BINARY, I32, I64, LIST, STRUCT, Struct, encode, integer, items

FIELD_ID_KEY = b"PARQUET:field_id"
_BOOLEAN = 0
CAN_BLOOM = "bloom_filter_options" in inspect.signature(pq.ParquetWriter).parameters
_LEGACY_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


@dataclass(frozen=True)
class Target:
    """A top-level column of the new file.

    source: the column its chunks can be copied from. field: how its values are encoded, None where they never are.
    everywhere: the source's chunks have another form or do not exist. bloom: paths of leaves that have bloom filters.
    """

    column: Column
    source: Column | None
    field: pa.Field | None
    everywhere: bool
    bloom: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """reshaped: what the source's metadata says of its columns does not hold for the new file. encoder: how the encoder names itself."""

    targets: tuple[Target, ...]
    elements: tuple[Struct, ...]
    orders: tuple[Struct, ...] | None
    arrow_schema: pa.Schema
    can_encode_groups: bool
    reshaped: bool
    encoder: Struct


def writer_settings(footer: Footer, settings: Mapping[str, Any]) -> dict[str, Any]:
    """How columns are encoded: as asked, with page indexes if the source has them, and nothing that speaks of a whole file."""
    indexed = any(chunk.offset_index for group in footer.row_groups for chunk in group.chunks)
    given = {"write_page_index": indexed, **settings, "store_schema": False, "store_decimal_as_integer": True}
    return {name: value for name, value in given.items() if name not in ("sorting_columns", "encryption_properties", "metadata_collector", "flavor")}


def plan_layout(footer: Footer, keep: Collection[int] | None, changed: pa.Schema, settings: Mapping[str, Any]) -> Layout:
    _check_identity(footer, keep, changed)
    if len(changed) and legacy_calendar(footer) and any(_has_time(field.type) for field in changed):
        raise NotGraftable("its dates and times are in the calendar of Spark 2")
    plain = form_of(changed, settings)
    replaced = {field_id(field): (field, form) for field, form in zip(changed, plain.columns, strict=True)}
    planned: list[Target] = []
    for column in footer.columns:
        if column.field_id in replaced:
            planned.append(_replacement(column, *replaced.pop(column.field_id), settings))
        elif keep is None or column.field_id in keep:
            planned.append(Target(column, column, None, False, ()))
    planned += [Target(form, None, field, True, ()) for field, form in replaced.values()]
    if not planned:
        raise NotGraftable("no column of it is left")
    _check_names(planned)
    elements = [_with(_schema_of(footer)[0], NUM_CHILDREN, I32, len(planned)), *(node.element for target in planned for node in target.column.node.walk())]
    orders = _orders(footer, planned)
    schema = _arrow_schema(elements, orders)
    columns = read_columns(elements, orders)
    targets = tuple(
        replace(target, column=column, field=target.field or field, bloom=_bloom_paths(footer, target.source, column))
        for target, column, field in zip(planned, columns, schema, strict=True)
    )
    return Layout(
        targets,
        tuple(elements),
        None if orders is None else tuple(orders),
        schema,
        not (legacy_calendar(footer) and any(_has_time(field.type) for field in schema)) and _encodable(targets, settings),
        len(targets) != len(footer.columns) or any(t.everywhere or t.source is None or t.source.name != t.column.name for t in targets),
        plain.struct,
    )


def form_of(schema: pa.Schema, settings: Mapping[str, Any]) -> Footer:
    """The footer of a file of these columns without a row."""
    sink = pa.BufferOutputStream()
    try:
        pq.ParquetWriter(sink, schema, **settings).close()
    except pa.ArrowException as error:
        raise NotGraftable(f"columns of it cannot be encoded: {error}") from error
    return read_footer(pa.BufferReader(sink.getvalue()), "in memory")


def footer_bytes(struct: Struct) -> bytes:
    data = encode(struct)
    return data + len(data).to_bytes(4, "little") + MAGIC


def field_id(field: pa.Field) -> int:
    text = (field.metadata or {}).get(FIELD_ID_KEY)
    if text is None:
        raise ValueError(f"column {field.name} has no field id")
    return int(text)


def bloom_settings(target: Target, values: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Filters for the leaves that have them in the source; one is sized for distinct values only and then folded."""
    if not target.bloom or not CAN_BLOOM:
        return {}
    ours = {path: {"ndv": max(1, values), "fpp": 0.01} for path in target.bloom}
    return {"bloom_filter_options": {**ours, **(settings.get("bloom_filter_options") or {})}}


def _replacement(source: Column, field: pa.Field, form: Column, settings: Mapping[str, Any]) -> Target:
    """The source's form if the new values fit it, levels included, so that its chunks can be copied where nothing changed."""
    fitted = _nullable_as(field, source.node)
    if not fitted.equals(field):
        form_fitted = form_of(pa.schema([fitted]), settings).columns[0]
        if same_form(source, form_fitted):
            return Target(_renamed(source, form_fitted), source, fitted, False, ())
    elif same_form(source, form):
        return Target(_renamed(source, form), source, field, False, ())
    return Target(form, source, field, True, ())


def _nullable_as(field: pa.Field, node: Node) -> pa.Field:
    """The field with the nullability of a file's column, as deep as their structures agree."""
    kind, below = field.type, node.children
    if pa.types.is_struct(kind) and len(below) == kind.num_fields:
        kind = pa.struct([_nullable_as(kind.field(place), inner) for place, inner in enumerate(below)])
    elif pa.types.is_map(kind) and len(below) == 1 and len(below[0].children) == 2:
        kind = pa.map_(kind.key_field, _nullable_as(kind.item_field, below[0].children[1]), keys_sorted=kind.keys_sorted)
    elif pa.types.is_large_list(kind) and len(below) == 1 and len(below[0].children) == 1:
        kind = pa.large_list(_nullable_as(kind.value_field, below[0].children[0]))
    elif pa.types.is_list(kind) and len(below) == 1 and len(below[0].children) == 1:
        kind = pa.list_(_nullable_as(kind.value_field, below[0].children[0]))
    nullable = field.nullable if node.repetition == REPEATED else node.repetition != REQUIRED
    return pa.field(field.name, kind, nullable=nullable, metadata=field.metadata)


def _renamed(source: Column, new: Column) -> Column:
    """The source's column under its new name, with field ids the source lacks."""
    nodes = zip(source.node.walk(), new.node.walk(), strict=True)
    elements = [
        one.element if one.field_id is not None or other.field_id is None else _with(one.element, FIELD_ID, I32, other.field_id) for one, other in nodes
    ]
    elements[0] = _with(elements[0], NAME, BINARY, new.name.encode())
    root: Struct = {NAME: (BINARY, b"schema"), NUM_CHILDREN: (I32, 1)}
    (column,) = read_columns([root, *elements], None)
    return replace(column, leaves=tuple(replace(leaf, order=old.order) for leaf, old in zip(column.leaves, source.leaves, strict=True)))


def _orders(footer: Footer, targets: Sequence[Target]) -> list[Struct] | None:
    """One for each leaf, or none at all: a file that has none says nothing of its statistics' order, and neither must we of chunks copied from it."""
    orders = [leaf.order for target in targets for leaf in target.column.leaves]
    return None if any(order is None for order in orders) else [order for order in orders if order is not None]


def _arrow_schema(elements: list[Struct], orders: list[Struct] | None) -> pa.Schema:
    struct: Struct = {
        FileField.VERSION: (I32, 2),
        FileField.SCHEMA: (LIST, (STRUCT, elements)),
        FileField.NUM_ROWS: (I64, 0),
        FileField.ROW_GROUPS: (LIST, (STRUCT, [])),
    }
    if orders is not None:
        struct[FileField.COLUMN_ORDERS] = (LIST, (STRUCT, orders))
    try:
        return pq.read_schema(pa.BufferReader(MAGIC + footer_bytes(struct)))
    except (pa.ArrowException, OSError) as error:
        raise NotGraftable(f"Arrow does not know its columns: {error}") from error


def _encodable(targets: Sequence[Target], settings: Mapping[str, Any]) -> bool:
    """Whether encoding every column gives chunks that can stand beside copied ones."""
    try:
        forms = form_of(pa.schema([target.field for target in targets]), settings).columns
    except NotGraftable:
        return False
    return all(same_form(target.column, form) for target, form in zip(targets, forms, strict=True))


def _bloom_paths(footer: Footer, source: Column | None, column: Column) -> tuple[str, ...]:
    if source is None:
        return ()
    with_filter = {
        leaf.path[1:]
        for place, leaf in enumerate(source.leaves)
        if any(group.chunks[source.first_leaf + place].bloom is not None for group in footer.row_groups)
    }
    return tuple(".".join(leaf.path) for leaf in column.leaves if leaf.path[1:] in with_filter and integer(leaf.node.element, TYPE) != _BOOLEAN)


def _check_identity(footer: Footer, keep: Collection[int] | None, changed: pa.Schema) -> None:
    """Columns are known by field id; with ids on some of them only, readers would stop matching the others by name."""
    if keep is None and not len(changed):
        return
    ids = [column.field_id for column in footer.columns]
    if None in ids:
        raise NotGraftable(f"its column {footer.columns[ids.index(None)].name} has no field id")
    if len(set(ids)) < len(ids):
        raise NotGraftable("two of its columns have one field id")
    if len({field_id(field) for field in changed}) < len(changed):
        raise ValueError("two changed columns have one field id")


def _check_names(targets: Sequence[Target]) -> None:
    """A column renamed since the file was written may leave its old name to another."""
    names = [target.column.name.lower() for target in targets]
    for target in targets:
        if target.field is not None and names.count(target.column.name.lower()) > 1:
            raise NotGraftable(f"another of its columns is named {target.column.name}")


def legacy_calendar(footer: Footer) -> bool:
    """Readers shift all dates and times of such a file, also those that do not need it."""
    pairs = footer.key_values()
    return any(key in pairs for key in _LEGACY_CALENDAR) or pairs.get(b"org.apache.spark.version", b"").startswith((b"1.", b"2."))


def _has_time(kind: pa.DataType) -> bool:
    return pa.types.is_date(kind) or pa.types.is_timestamp(kind) or any(_has_time(below.type) for below in _fields(kind))


def _fields(kind: pa.DataType) -> Iterator[pa.Field]:
    for place in range(kind.num_fields):
        yield kind.field(place)


def _schema_of(footer: Footer) -> list[Struct]:
    return items(footer.struct, FileField.SCHEMA, STRUCT) or []


def _with(element: Struct, field: int, kind: int, value: Any) -> Struct:
    return {**element, field: (kind, value)}
