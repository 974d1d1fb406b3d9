"""INSERT INTO, INSERT OVERWRITE and REPLACE WHERE as appends and overwrites, UPSERT INTO as an upsert."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from lakewright.commit.result import Commit
from lakewright.errors import ColumnNotFound, SchemaError
from lakewright.options import Options, resolve
from lakewright.plan.assignment import assign
from lakewright.plan.conversion import lossless, promotion
from lakewright.plan.names import check_names, did_you_mean, match_name
from lakewright.plan.types import iceberg_type, spark_type
from lakewright.quoting import quoted
from lakewright.session import partition_overwrite_mode, session_options
from lakewright.sql.errors import sql_error, unsupported
from lakewright.sql.frames import Frames
from lakewright.sql.parameters import literal
from lakewright.sql.statements import Insert, PartitionValue
from lakewright.sql.targets import writable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from lakewright.table import Table


def insert(frames: Frames, statement: Insert) -> Commit:
    table, branch = writable(frames, statement.table)
    if statement.if_not_exists:
        raise unsupported("IF NOT EXISTS of a partition is not known to lake tables; use MERGE, or a condition in the query.", frames.sql, statement.table.end)
    rows, static = inserted_rows(frames, table, statement)
    how: dict[str, Any] = {"branch": branch, "check_nullability": False, "check_ordering": False}
    if statement.evolve:
        how["merge_schema"] = True
    if statement.replace_where is not None:
        where = frames.expression(statement.replace_where, {statement.table.parts: table.name.rsplit(".", 1)[-1]})
        return table.overwrite(rows, where=where, **how)
    if statement.upsert:
        return table.upsert(rows, **how)
    if not statement.overwrite:
        return table.append(rows, **how)
    if partition_overwrite_mode(frames.lake.spark) == "dynamic":
        return table.overwrite_partitions(rows, **how)
    return table.overwrite(rows, where=" AND ".join(static) or None, **how)


def inserted_rows(frames: Frames, table: Table, statement: Insert) -> tuple[DataFrame, list[str]]:
    """The rows under the names and in the types of the columns they go to, and the condition that each static partition value comes to."""
    from pyspark.sql import functions as F

    fields = [(partition_field(frames, table, part), part) for part in statement.partition]
    static = [(field, literal_of(frames, part, field)) for field, part in fields if part.value is not None]
    dynamic = [field.name for field, part in fields if part.value is None]
    rows = _named(frames.query(statement.query), table, statement, [field.name for field, _ in static], dynamic)
    options = resolve({}, session_options(frames.lake.spark), table.properties)
    columns = [_assigned(rows, given.name, given.dataType, table, options, statement.evolve) for given in rows.schema.fields]
    columns += [F.expr(value).cast(spark_type(field.field_type)).alias(field.name) for field, value in static]
    return rows.select(*columns), [equal(field, value) for field, value in static]


def partition_field(frames: Frames, table: Table, part: PartitionValue) -> NestedField:
    """The column of a PARTITION clause, which the table must be partitioned by as it is."""
    schema = table.schema
    by_value = [schema.find_column_name(f.source_id) or "" for f in table.spec.fields if isinstance(f.transform, IdentityTransform)]
    name = match_name(part.column.text, by_value)
    if name is None:
        known = f"it is partitioned by the values of {', '.join(by_value)}" if by_value else "no column partitions it by its values"
        message = f"PARTITION names {part.column.text!r}, and {table.name} is not partitioned by the values of such a column: {known}. {did_you_mean(part.column.text, schema.column_names)}"
        raise sql_error(message, frames.sql, part.column.start)
    return schema.find_field(name)


def literal_of(frames: Frames, part: PartitionValue, field: NestedField) -> str:
    """The value of `c = …` in the column's type, as a literal."""
    if part.value is None:
        raise sql_error(f"Give a value for {field.name}.", frames.sql, part.column.start)
    return literal(frames.value(part.value, spark_type(field.field_type).simpleString()))


def equal(field: NestedField, value: str) -> str:
    return f"{quoted(field.name)} IS NULL" if value == "NULL" else f"{quoted(field.name)} = {value}"


def _named(rows: DataFrame, table: Table, statement: Insert, static: Sequence[str], dynamic: Sequence[str]) -> DataFrame:
    """The query's columns under the names they go to: by name, as listed, or in the order of the table, dynamic partitions last."""
    if statement.by_name:
        check_names(rows.columns, table.name, " of the query")
        return rows
    known = [f.name for f in table.schema.fields]
    if statement.columns is not None:
        names = [_known(table, name, known) for name in statement.columns]
    else:
        names = [name for name in known if name not in static and name not in dynamic] + list(dynamic)
    if len(rows.columns) == len(names) or (statement.evolve and len(rows.columns) > len(names)):
        check_names([*names, *rows.columns[len(names) :]], table.name, " of the rows to insert")
        named = rows.toDF(*names, *rows.columns[len(names) :])
        return named if statement.evolve else _with_fields_by_position(named, table)
    kind = "too many" if len(rows.columns) > len(names) else "not enough"
    raise SchemaError(
        f"{table.name} takes {len(names)} columns here ({', '.join(names)}), and the query gives {len(rows.columns)} ({', '.join(rows.columns)}): {kind}. "
        "Name the columns, INSERT INTO t (a, b) …, or use INSERT INTO t BY NAME.",
        table=table.name,
    )


def _with_fields_by_position(rows: DataFrame, table: Table) -> DataFrame:
    """What goes to columns by position goes to the fields of their structs by position too, whatever they are called."""
    from pyspark.sql import functions as F

    kinds = {f.name: _by_position(f.dataType, table.schema.find_field(f.name).field_type, f.name, table.name) for f in rows.schema.fields}
    return rows.select(*(F.col(quoted(f.name)) if kinds[f.name] == f.dataType else F.col(quoted(f.name)).cast(kinds[f.name]).alias(f.name) for f in rows.schema.fields))


def _by_position(given: DataType, kind: IcebergType, path: str, table: str) -> DataType:
    """The type that was given, with the names of the table's fields."""
    from pyspark.sql import types as T

    if isinstance(given, T.ArrayType) and isinstance(kind, ListType):
        return T.ArrayType(_by_position(given.elementType, kind.element_type, f"{path}.element", table), given.containsNull)
    if isinstance(given, T.MapType) and isinstance(kind, MapType):
        key, value = _by_position(given.keyType, kind.key_type, f"{path}.key", table), _by_position(given.valueType, kind.value_type, f"{path}.value", table)
        return T.MapType(key, value, given.valueContainsNull)
    if not isinstance(given, T.StructType) or not isinstance(kind, StructType):
        return given
    if len(given.fields) != len(kind.fields):
        takes, gives = ", ".join(f.name for f in kind.fields), ", ".join(given.names)
        raise SchemaError(f"{path} of {table} takes {len(kind.fields)} fields here ({takes}), and the query gives {len(given.fields)} ({gives}). Use INSERT INTO t BY NAME.", table=table, column=path)
    return T.StructType([T.StructField(own.name, _by_position(f.dataType, own.field_type, f"{path}.{own.name}", table), f.nullable) for f, own in zip(given.fields, kind.fields, strict=True)])


def _known(table: Table, name: str, known: Sequence[str]) -> str:
    found = match_name(name, known)
    if found is None:
        raise ColumnNotFound(f"{table.name} has no column {name!r}. {did_you_mean(name, known)}", table=table.name, column=name)
    return found


def _assigned(rows: DataFrame, name: str, given: DataType, table: Table, options: Options, evolve: bool) -> Column:
    """A column by the rules of store assignment; a new one of WITH SCHEMA EVOLUTION, or one that widens the table's, as it is."""
    from pyspark.sql import functions as F

    value = F.col(quoted(name))
    known = match_name(name, (f.name for f in table.schema.fields))
    if known is None:
        return value
    field = table.schema.find_field(known)
    if evolve and (not field.field_type.is_primitive or lossless(given, field.field_type) is None and promotion(field.field_type, iceberg_type(given)) is not None):
        return value
    return assign(value, given, field, known, options, table.name).alias(known)
