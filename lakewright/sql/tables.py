"""CREATE, DROP and ALTER as the verbs of a lake and its tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, NestedField, StructType

from lakewright import making
from lakewright.commit.create import DEFAULT_FORMAT_VERSION
from lakewright.commit.refs import Retention
from lakewright.errors import LakewrightError, RefNotFound, SchemaError, TableExists, TableNotFound
from lakewright.making import Shape
from lakewright.plan.ddl import parse_type
from lakewright.plan.evolution import column_default
from lakewright.plan.keys import with_key
from lakewright.plan.names import check_names, find_field, match_name
from lakewright.plan.types import fresh_schema, schema_from, spark_type
from lakewright.quoting import quoted
from lakewright.read.prune import optional_schema
from lakewright.sql import statements as st
from lakewright.sql.cursor import Name, Slice
from lakewright.sql.errors import point, sql_error, unsupported
from lakewright.sql.frames import Frames
from lakewright.sql.looks import written
from lakewright.sql.names import find, namespace_name, new_name, require_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakewright.table import Table

_VERSION = "format-version"
_NUMBER = re.compile(r"[0-9]{1,3}")


def create(frames: Frames, statement: st.CreateTable) -> None:
    lake, name = frames.lake, new_name(frames.sql, statement.table)
    exists = lake.table_exists(name)
    if exists and statement.if_not_exists:
        return
    if exists and not statement.replace:
        raise point(TableExists(f"Table {name} is already there; use CREATE TABLE IF NOT EXISTS, or CREATE OR REPLACE TABLE.", table=name), frames.sql, statement.table.start)
    if not exists and not statement.create:
        raise point(TableNotFound(f"There is no table {name} to replace; use CREATE OR REPLACE TABLE.", table=name), frames.sql, statement.table.start)
    rows = None if statement.query is None else _queried(frames, statement)
    how = _asked(frames, statement)
    if rows is None:
        schema = _schema(frames, statement, how["format_version"])
        lake.create_table(name, schema, replace=exists, **how)
    elif exists:
        making.replace(lake, name, Shape(optional_schema(schema_from(rows.schema)), **how), rows)
    else:
        lake.write(rows, name, "error", **how)


def _queried(frames: Frames, statement: st.CreateTable) -> DataFrame:
    assert statement.query is not None
    if statement.columns or statement.key:
        at = statement.columns[0].name.start if statement.columns else statement.table.end
        raise sql_error("A table made from a query has the query's columns; leave these out, or create the table first and insert.", frames.sql, at)
    return frames.query(statement.query)


def _asked(frames: Frames, statement: st.CreateTable) -> dict[str, Any]:
    """What the table is to be like, its columns aside."""
    properties = dict(statement.properties)
    version = _format_version(frames, statement, properties.pop(_VERSION, None))
    if statement.comment is not None:
        properties["comment"] = statement.comment
    return {"partition_by": statement.partition_by, "sort_by": statement.order_by, "properties": properties, "format_version": version, "location": statement.location}


def _format_version(frames: Frames, statement: st.CreateTable, given: str | None) -> int | None:
    if given is None:
        return None
    return _version(frames, given, statement.start)


def _version(frames: Frames, given: str, at: int) -> int:
    if not _NUMBER.fullmatch(given):
        raise sql_error(f"The format-version is {given!r}; it takes 2 or 3.", frames.sql, at)
    return int(given)


def create_like(frames: Frames, statement: st.CreateLike) -> None:
    """The same columns, partitioning, order, key and properties, and no rows."""
    like, name = require_table(frames.lake, frames.sql, statement.like), new_name(frames.sql, statement.table)
    metadata = like._state.metadata
    frames.lake.create_table(
        name,
        like.schema,
        partition_by=[f"{written(f.transform, like.schema, f.source_id)} as {quoted(f.name)}" for f in like.spec.fields],
        sort_by=[f"{written(f.transform, like.schema, f.source_id)} {f.direction} {f.null_order}" for f in like.sort_order.fields],
        properties=like.properties,
        format_version=metadata.format_version,
        if_not_exists=statement.if_not_exists,
    )


def drop(frames: Frames, statement: st.DropTable) -> None:
    if find(frames.lake, statement.table.parts) is None and statement.if_exists:
        return
    frames.lake.drop_table(require_table(frames.lake, frames.sql, statement.table).name, purge=statement.purge)


def namespace(frames: Frames, statement: st.Namespace) -> None:
    lake, name = frames.lake, namespace_name(frames.sql, statement.name)
    if statement.verb == "CREATE":
        lake.create_namespace(name, if_not_exists=statement.lenient)
        return
    if statement.cascade and name in lake.namespaces():
        for table in lake.tables(name):
            lake.drop_table(table)
    lake.drop_namespace(name, if_exists=statement.lenient)


def alter(frames: Frames, statement: st.Alter) -> None:
    table = require_table(frames.lake, frames.sql, statement.table)
    match statement.action:
        case st.RenameTable(to):
            whole = to if len(to.parts) > 1 else Name((*statement.table.parts[:-1], *to.parts), to.start, to.end)
            frames.lake.rename_table(table.name, new_name(frames.sql, whole))
        case st.AddColumns(columns):
            _add_columns(frames, table, columns)
        case st.DropColumns(names, if_exists):
            _check_paths(frames, names)
            known = table.schema.column_names
            table.evolve_schema(drop=[n.text for n in names if not if_exists or match_name(n.text, known) is not None])
        case st.RenameColumn(name, to):
            _check_paths(frames, [name])
            table.evolve_schema(rename={name.text: to})
        case st.AlterColumn():
            _alter_column(frames, table, statement.action)
        case st.SetProperties(properties, if_exists):
            _set_properties(frames, table, properties, statement, if_exists)
        case st.PartitionField(add, drop):
            table.evolve_partitions(add=[add] if add else [], drop=[drop] if drop else [])
        case st.WriteOrder(order_by, distribution):
            with table.transaction() as tx:
                tx.set_sort_order(list(order_by))
                if distribution is not None:
                    tx.set_properties({"write.distribution-mode": distribution})
        case st.IdentifierFields(add, drop):
            table.evolve_schema(key=_key(table, add, drop))
        case st.Ref():
            _ref(table, statement.action)
        case _:
            raise unsupported("This change of a table is not known.", frames.sql, statement.start)


def _add_columns(frames: Frames, table: Table, columns: tuple[st.Column, ...]) -> None:
    _check_paths(frames, [c.name for c in columns])
    check_names([c.name.text for c in columns], table.name, " to add")
    fields = {c.name.text: _field(frames, c) for c in columns}
    table.evolve_schema(
        add=fields,
        move={c.name.text: _place(c.place) for c in columns if c.place},
        defaults={c.name.text: _value(frames, c.default, fields[c.name.text].field_type) for c in columns if c.default is not None},
    )


def _alter_column(frames: Frames, table: Table, change: st.AlterColumn) -> None:
    _check_paths(frames, [change.name])
    name = change.name.text
    if change.nullable is False:
        raise unsupported(f"Column {name} cannot be made NOT NULL: rows without a value may be there already.", frames.sql, change.name.start)
    defaults: dict[str, Any] = {name: None} if change.drop_default else {}
    if change.default is not None:
        defaults[name] = _value(frames, change.default, _known(table, name).field_type)
    kind = None if change.type is None else _type(frames, change.name, change.type)[0]
    table.evolve_schema(
        promote={name: kind} if kind is not None and kind != _known(table, name).field_type else None,
        comments={name: change.comment} if change.comment is not None else None,
        nullable=[name] if change.nullable else [],
        move={name: _place(change.place)} if change.place else None,
        defaults=defaults,
    )


def _check_paths(frames: Frames, names: Sequence[Name]) -> None:
    """A dot between the parts of a name leads into a struct; one inside a part could not be told from it."""
    for name in names:
        if any("." in part for part in name.parts):
            raise unsupported("ALTER TABLE names columns without dots inside their parts; leave out the backticks to mean a field of a struct.", frames.sql, name.start)


def _set_properties(frames: Frames, table: Table, properties: dict[str, str | None], statement: st.Alter, if_exists: bool) -> None:
    missing = [key for key, value in properties.items() if value is None and key not in table.properties]
    if missing and not if_exists:
        raise sql_error(f"{table.name} has no property {missing[0]!r} to unset; UNSET TBLPROPERTIES IF EXISTS leaves it at that.", frames.sql, statement.table.end)
    version = properties.get(_VERSION)
    with table.transaction() as tx:
        if version is not None:
            tx.upgrade(_version(frames, version, statement.table.end))
        tx.set_properties({key: value for key, value in properties.items() if key != _VERSION})


def _key(table: Table, add: tuple[str, ...], drop: tuple[str, ...]) -> list[str]:
    """What the key is after SET, which names all of it, or DROP, which takes some away."""
    if add:
        return list(add)
    key = table.schema.identifier_field_names()
    for name in drop:
        if match_name(name, key) is None:
            raise SchemaError(f"Column {name!r} is not part of the key of {table.name}, which is {', '.join(sorted(key)) or 'empty'}.", table=table.name, column=name)
    gone = {match_name(name, key) for name in drop}
    return sorted(key - gone)


def _ref(table: Table, ref: st.Ref) -> None:
    known = {name: there["type"] for name, there in table._state.metadata.refs.items()}
    if ref.verb == "DROP":
        if ref.name not in known and ref.lenient:
            return
        if known.get(ref.name, ref.kind) != ref.kind:
            raise RefNotFound(f"{ref.name!r} of {table.name} is a {known[ref.name]}, not a {ref.kind}.", table=table.name)
        table.drop_ref(ref.name)
        return
    if ref.verb == "REPLACE" and ref.name not in known:
        raise RefNotFound(f"{table.name} has no {ref.kind} {ref.name!r} to replace; use CREATE OR REPLACE {ref.kind.upper()}.", table=table.name)
    if ref.lenient and ref.name in known:
        return
    make = table.create_branch if ref.kind == "branch" else table.create_tag
    make(ref.name, ref.version, retention=Retention(ref.retain_ms, ref.keep_snapshots, ref.keep_ms), replace=ref.replace)


def _schema(frames: Frames, statement: st.CreateTable, version: int | None) -> Schema:
    if not statement.columns:
        raise sql_error("A table needs columns, or AS and a query.", frames.sql, statement.table.end)
    fields = []
    for column in statement.columns:
        field = _field(frames, column)
        if match_name(field.name, statement.key) is not None:
            field = field.model_copy(update={"required": True})
        if column.default is not None:
            value = _value(frames, column.default, field.field_type)
            made = column_default(field.name, field.field_type, value, initial=True, format_version=version or DEFAULT_FORMAT_VERSION, table=statement.table.text)
            field = field.model_copy(update=made)
        fields.append(field)
    schema = fresh_schema(StructType(*fields))
    return with_key(schema, statement.key, statement.table.text)


def _field(frames: Frames, column: st.Column) -> NestedField:
    kind, required, doc = _type(frames, column.name, column.type)
    return NestedField(0, column.name.parts[-1], kind, required=required or column.required, doc=doc if column.comment is None else column.comment)


def _type(frames: Frames, column: Name, text: Slice) -> tuple[IcebergType, bool, str | None]:
    try:
        return parse_type(text.text)
    except LakewrightError as error:
        raise sql_error(str(error).replace("Column 'c'", f"Column {column.text!r}"), frames.sql, text.start) from None
    except RecursionError:
        raise sql_error("This type has more types in it than can be read.", frames.sql, text.start) from None


def _value(frames: Frames, default: Slice, kind: IcebergType) -> Any:
    return frames.value(default, spark_type(kind).simpleString())


def _known(table: Table, name: str) -> NestedField:
    return find_field(table.schema, name, table.name)


def _place(place: tuple[str, str | None] | None) -> str:
    assert place is not None
    return "first" if place[0] == "FIRST" else f"after {place[1]}"
