"""Does a DataFrame fit a table, what of the table has to change for it, and what has to be done to its rows?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType, TimestampType

from lakewright.errors import NullInRequiredColumn, SchemaError, TypeMismatch
from lakewright.options import ACCEPT_ANY_SCHEMA, CHECK_NULLABILITY, CHECK_ORDERING, EXPLICIT_CAST, MERGE_SCHEMA, Options
from lakewright.plan.conversion import Assign, Conversion, Keep, Reconciled, ToList, ToMap, ToStruct, checked, lossless, promotion
from lakewright.plan.names import check_names, did_you_mean, match_name
from lakewright.plan.project import project, translate_task_error
from lakewright.plan.types import iceberg_struct, iceberg_type, with_fresh_ids

if TYPE_CHECKING:
    import pyspark.sql.types as spark

__all__ = ["Reconciled", "project", "reconcile", "replace_schema", "translate_task_error"]


@dataclass(frozen=True)
class _Rules:
    table: str
    merge: bool
    explicit_cast: bool
    check_nullability: bool
    check_ordering: bool
    accept_any: bool
    next_id: Callable[[], int]


def reconcile(df_schema: spark.StructType, table_schema: Schema, options: Options, table: str, *, last_column_id: int | None = None) -> Reconciled:
    """How rows of df_schema become rows of the table; raises a SchemaError when they cannot.

    Columns match by name, case aside. New columns of merge-schema get ids after last_column_id, which is the table's
    (the highest id of the schema at hand is not enough: ids of dropped columns are never given again).
    """
    last = max(last_column_id or 0, table_schema.highest_field_id)
    given = [last]

    def next_id() -> int:
        given[0] += 1
        return given[0]

    merge = options[MERGE_SCHEMA]
    rules = _Rules(table, merge, merge and options[EXPLICIT_CAST], options[CHECK_NULLABILITY], options[CHECK_ORDERING], options[ACCEPT_ANY_SCHEMA], next_id)
    struct, conversion = _match_struct(df_schema, table_schema.as_struct(), "", rules)
    changed = struct != table_schema.as_struct()
    schema = table_schema
    if changed:
        schema = Schema(*struct.fields, schema_id=table_schema.schema_id + 1, identifier_field_ids=list(table_schema.identifier_field_ids))
    return Reconciled(schema, changed, given[0], conversion.fields)


def _match_struct(source: spark.StructType, target: StructType, path: str, rules: _Rules) -> tuple[StructType, ToStruct]:
    check_names(source.names, rules.table, f" of {path!r}" if path else " of the DataFrame")
    by_target: dict[str, spark.StructField] = {}
    extra: list[spark.StructField] = []
    for given in source.fields:
        name = match_name(given.name, (f.name for f in target.fields))
        if name is None:
            extra.append(given)
        else:
            by_target[name] = given
    _check_order(list(by_target), target, path, rules)
    missing = [f.name for f in target.fields if f.name not in by_target]
    if extra and not rules.merge and not rules.accept_any:
        raise _extra_column(extra[0].name, missing or [f.name for f in target.fields], path, rules)

    fields: list[NestedField] = []
    assigned: list[Assign] = []
    for field in target.fields:
        where = f"{path}.{field.name}" if path else field.name
        incoming = by_target.get(field.name)
        if incoming is None:
            fields.append(field)
            assigned.append(_assign_missing(field, where, rules))
            continue
        field_type, conversion = _match_type(incoming.dataType, field.field_type, where, rules)
        fields.append(field if field_type == field.field_type else field.model_copy(update={"field_type": field_type}))
        no_nulls = field.required and incoming.nullable and _allow_nullable(where, rules)
        assigned.append(Assign(fields[-1], where, incoming.name, conversion, no_nulls))
    if rules.merge:
        for added in _added(extra, path, rules):
            fields.append(added)
            where = f"{path}.{added.name}" if path else added.name
            conversion = _match_type(source[added.name].dataType, added.field_type, where, rules)[1]
            assigned.append(Assign(added, where, added.name, conversion))
    return StructType(*fields), ToStruct(tuple(assigned))


def _added(extra: list[spark.StructField], path: str, rules: _Rules) -> list[NestedField]:
    """New columns, optional since older rows do not have them."""
    made = []
    for field in extra:
        where = f"{path}.{field.name}" if path else field.name
        doc = (field.metadata or {}).get("comment")
        made.append(NestedField(0, field.name, iceberg_type(field.dataType, where), required=False, doc=doc))
    added: StructType = with_fresh_ids(StructType(*made), rules.next_id)
    return list(added.fields)


def _assign_missing(field: NestedField, path: str, rules: _Rules) -> Assign:
    if field.required and field.write_default is None:
        raise NullInRequiredColumn(
            f"Table {rules.table} requires column {path!r}, which the DataFrame does not have; add it, or make it optional with evolve_schema(nullable=[{path!r}]).",
            table=rules.table,
            column=path,
        )
    return Assign(field, path, None)


def _check_order(names: list[str], target: StructType, path: str, rules: _Rules) -> None:
    order = [f.name for f in target.fields if f.name in names]
    if rules.check_ordering and names != order:
        raise SchemaError(
            f"Columns{f' of {path!r}' if path else ''} come as {', '.join(names)}, but table {rules.table} has them as {', '.join(order)}; select them in that order, or set check_ordering=False to match by name.",
            table=rules.table,
        )


def _extra_column(name: str, candidates: list[str], path: str, rules: _Rules) -> SchemaError:
    where = f"{path}.{name}" if path else name
    near = did_you_mean(name, candidates)
    hint = f" {near}" if near.startswith("Did") else ""
    return SchemaError(
        f"Table {rules.table} has no column {where!r}.{hint} Use merge_schema=True to add it, or accept_any_schema=True to leave it out.",
        table=rules.table,
        column=where,
    )


def _allow_nullable(path: str, rules: _Rules) -> bool:
    if rules.check_nullability:
        raise NullInRequiredColumn(
            f"Column {path!r} may hold nulls, but table {rules.table} requires it; filter them out or use coalesce, or set check_nullability=False to have each row checked.",
            table=rules.table,
            column=path,
        )
    return True


def _match_type(source: spark.DataType, target: IcebergType, path: str, rules: _Rules) -> tuple[IcebergType, Conversion]:
    """The table's type after the write, and what to do with the value."""
    name = source.typeName()
    if isinstance(target, StructType) and name == "struct":
        struct, fields = _match_struct(source, target, path, rules)  # type: ignore[arg-type]
        return struct, Keep() if _is_plain(fields, source) else fields  # type: ignore[arg-type]
    if isinstance(target, ListType) and name == "array":
        where = f"{path}.element"
        element_type, element = _match_type(source.elementType, target.element_type, where, rules)  # type: ignore[attr-defined]
        no_nulls = target.element_required and source.containsNull and _allow_nullable(where, rules)  # type: ignore[attr-defined]
        kept = element == Keep() and not no_nulls
        return ListType(target.element_id, element_type, element_required=target.element_required), Keep() if kept else ToList(element, no_nulls)
    if isinstance(target, MapType) and name == "map":
        key_type, key = _match_type(source.keyType, target.key_type, f"{path}.key", rules)  # type: ignore[attr-defined]
        where = f"{path}.value"
        value_type, value = _match_type(source.valueType, target.value_type, where, rules)  # type: ignore[attr-defined]
        no_nulls = target.value_required and source.valueContainsNull and _allow_nullable(where, rules)  # type: ignore[attr-defined]
        kept = key == Keep() and value == Keep() and not no_nulls
        merged = MapType(target.key_id, key_type, target.value_id, value_type, value_required=target.value_required)
        return merged, Keep() if kept else ToMap(key, value, no_nulls)
    if name == "void" and not target.is_primitive or target.is_primitive and name not in ("struct", "array", "map"):
        return _match_primitive(source, target, path, rules)
    raise _mismatch(source, target, path, rules, "They cannot be cast to each other.")


def _match_primitive(source: spark.DataType, target: IcebergType, path: str, rules: _Rules) -> tuple[IcebergType, Conversion]:
    safe = lossless(source, target)
    if safe is not None:
        return target, safe
    incoming = iceberg_type(source, path)
    if rules.merge:
        wider = promotion(target, incoming)
        if wider is not None:
            return wider, lossless(source, wider) or Keep()
        if rules.explicit_cast:
            cast = checked(source, target)
            if cast is not None:
                return target, cast
    if promotion(target, incoming) is not None:
        raise _mismatch(source, target, path, rules, f"Use merge_schema=True to widen the column to {incoming}, or cast the DataFrame's.")
    if checked(source, target) is not None:
        hint = "Cast it, or use merge_schema=True with merge_schema_explicit_cast=True; a value that does not fit then fails the write."
        raise _mismatch(source, target, path, rules, hint)
    raise _mismatch(source, target, path, rules, "Cast it to the table's type.")


def _mismatch(source: spark.DataType, target: IcebergType, path: str, rules: _Rules, hint: str) -> TypeMismatch:
    shown = f"{target} without time zone" if isinstance(target, TimestampType) else str(target)
    return TypeMismatch(f"Column {path!r} is {source.simpleString()}, but {shown} in table {rules.table}. {hint}", table=rules.table, column=path)


def _is_plain(struct: ToStruct, source: spark.StructType) -> bool:
    """Is the struct already field by field what the table has?"""
    if [a.source for a in struct.fields] != source.names:
        return False
    return all(a.conversion == Keep() and not a.no_nulls and a.field.name == a.source for a in struct.fields)


def replace_schema(new: spark.StructType | Schema, old: Schema, last_column_id: int) -> tuple[Schema, int]:
    """A DataFrame's or other schema as the table's new one: fields with an old name and type keep their id. Returns it and the new last column id."""
    ids = count(last_column_id + 1)
    last = [last_column_id]

    def next_id() -> int:
        last[0] = next(ids)
        return last[0]

    struct = _keep_ids(new.as_struct() if isinstance(new, Schema) else iceberg_struct(new), old.as_struct(), next_id)
    assert isinstance(struct, StructType)
    required = {f.field_id for f in struct.fields if f.required}
    identifiers = [i for i in old.identifier_field_ids if i in required]
    return Schema(*struct.fields, schema_id=old.schema_id + 1, identifier_field_ids=identifiers), last[0]


def _keep_ids(new: IcebergType, old: IcebergType, next_id: Callable[[], int]) -> IcebergType:
    if isinstance(new, StructType) and isinstance(old, StructType):
        known = {f.name: f for f in old.fields}
        kept = [known[f.name] if f.name in known and _same_kind(f.field_type, known[f.name].field_type) else None for f in new.fields]
        ids = [k.field_id if k else next_id() for k in kept]
        return StructType(
            *(
                f.model_copy(
                    update={
                        "field_id": i,
                        "field_type": _keep_ids(f.field_type, k.field_type, next_id) if k else with_fresh_ids(f.field_type, next_id),
                        "doc": f.doc or (k.doc if k else None),
                    }
                )
                for f, k, i in zip(new.fields, kept, ids, strict=True)
            )
        )
    if isinstance(new, ListType) and isinstance(old, ListType) and _same_kind(new.element_type, old.element_type):
        return ListType(old.element_id, _keep_ids(new.element_type, old.element_type, next_id), element_required=new.element_required)
    if isinstance(new, MapType) and isinstance(old, MapType) and _same_kind(new.key_type, old.key_type) and _same_kind(new.value_type, old.value_type):
        key, value = _keep_ids(new.key_type, old.key_type, next_id), _keep_ids(new.value_type, old.value_type, next_id)
        return MapType(old.key_id, key, old.value_id, value, value_required=new.value_required)
    fresh: IcebergType = new if new.is_primitive else with_fresh_ids(new, next_id)
    return fresh


def _same_kind(new: IcebergType, old: IcebergType) -> bool:
    return new == old if new.is_primitive or old.is_primitive else type(new) is type(old)
