"""SHOW and DESCRIBE, in the shapes Spark gives their answers."""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING, Any

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from lakewright.commit.refs import SAVEPOINT
from lakewright.commit.runs import LAST_RUN
from lakewright.maintain.dead_runs import FENCE
from lakewright.plan.names import find_field
from lakewright.plan.types import spark_type
from lakewright.quoting import quoted
from lakewright.sql.frames import Frames
from lakewright.sql.names import namespace_name, require, require_table
from lakewright.sql.parameters import literal
from lakewright.sql.statements import Describe, Show

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from lakewright.table import Table

OF_THIS_TABLE = (SAVEPOINT, LAST_RUN, FENCE)  # what was done to it, which is no part of its shape
_PLAIN = re.compile(r"[A-Za-z_]\w*")
_DESCRIBED = "col_name string COMMENT 'name of the column', data_type string COMMENT 'data type of the column', comment string COMMENT 'comment of the column'"
_IN_SQL = {"year": "years", "month": "months", "day": "days", "hour": "hours"}


def show(frames: Frames, statement: Show) -> DataFrame:
    lake = frames.lake
    if statement.what == "TABLES":
        names = [name.rsplit(".", 1) for name in lake.tables(namespace_name(frames.sql, statement.name) if statement.name else None)]
        rows: list[tuple[Any, ...]] = [(namespace, name, False) for namespace, name in names if _like(name, statement.pattern)]
        if statement.name is None:
            rows += [("", name, True) for name in sorted(lake.views) if _like(name, statement.pattern)]
        return lake.spark.createDataFrame(rows, "namespace string, tableName string, isTemporary boolean")
    if statement.what == "NAMESPACES":
        inside = f"{statement.name.text}." if statement.name else ""
        return lake.spark.createDataFrame([(n,) for n in lake.namespaces() if n.startswith(inside) and _like(n, statement.pattern)], "namespace string")
    assert statement.name is not None
    table = require_table(lake, frames.sql, statement.name)
    if statement.what == "TBLPROPERTIES":
        return lake.spark.createDataFrame(_properties(table, statement.key), "key string, value string")
    if statement.what == "COLUMNS":
        return lake.spark.createDataFrame([(f.name,) for f in table.schema.fields], "col_name string")
    if statement.what == "PARTITIONS":
        return table.partitions()
    return lake.spark.createDataFrame([(create_statement(table),)], "createtab_stmt string")


def describe(frames: Frames, statement: Describe) -> DataFrame:
    view = frames.lake.views.get(statement.table.text.lower())
    if view is not None and statement.column is None:
        shown = [(f.name, f.dataType.simpleString(), (f.metadata or {}).get("comment")) for f in frames.of_view(view).schema.fields]
        return frames.lake.spark.createDataFrame(shown, _DESCRIBED)
    table = require(frames.lake, frames.sql, statement.table).table
    if statement.column is not None:
        field = find_field(table.schema, statement.column.text, table.name)
        said = [("col_name", statement.column.text), ("data_type", spark_type(field.field_type).simpleString()), ("comment", field.doc)]
        return frames.lake.spark.createDataFrame(said, "info_name string, info_value string")
    rows: list[tuple[str, str | None, str | None]] = [_described(f) for f in table.schema.fields]
    if table.spec.fields:
        rows += [("", "", ""), ("# Partitioning", "", "")]
        rows += [(f"Part {n}", _term(table.schema, f), "") for n, f in enumerate(table.spec.fields)]
    if statement.extended:
        rows += [("", "", ""), ("# Detailed Table Information", "", "")]
        rows += [("Name", table.name, ""), ("Type", "MANAGED", ""), ("Location", table.location, ""), ("Provider", "iceberg", "")]
        rows.append(("Table Properties", "[" + ",".join(f"{key}={value}" for key, value in _properties(table, None)) + "]", ""))
    return frames.lake.spark.createDataFrame(rows, _DESCRIBED)


def create_statement(table: Table) -> str:
    """The statement that makes a table like this one."""
    columns = [f"  {_name(f.name)} {_type(spark_type(f.field_type))}{_details(f)}" for f in table.schema.fields]
    key = [name for name in table.schema.column_names if name in table.schema.identifier_field_names()]
    columns += [f"  PRIMARY KEY ({', '.join(map(_name, key))}) NOT ENFORCED"] if key else []
    order = [f"{written(f.transform, table.schema, f.source_id)} {f.direction} {f.null_order}" for f in table.sort_order.fields]
    comment = table.properties.get("comment")
    lines = [f"CREATE TABLE {'.'.join(map(_name, table.name.split('.')))} (", ",\n".join(columns) + ")", "USING iceberg"]
    lines += [f"PARTITIONED BY ({', '.join(_term(table.schema, f) for f in table.spec.fields)})"] if table.spec.fields else []
    lines += [f"ORDERED BY ({', '.join(order)})"] if order else []
    lines += [f"COMMENT {_text(comment)}"] if comment else []
    lines.append(f"LOCATION {_text(table.location)}")
    properties = {**table.properties, "format-version": str(table._state.metadata.format_version)}
    said = [f"  {_text(key)} = {_text(value)}" for key, value in sorted(properties.items()) if key != "comment" and not key.startswith(OF_THIS_TABLE)]
    return "\n".join([*lines, "TBLPROPERTIES (", ",\n".join(said) + ")"])


def written(transform: Any, schema: Schema, source_id: int, names: dict[str, str] | None = None) -> str:
    """A transform as people write it, `bucket(16, id)`. names: other names for some of them."""
    column = ".".join(map(_name, str(schema.find_column_name(source_id)).split(".")))
    kind, _, width = str(transform).rstrip("]").partition("[")
    kind = (names or {}).get(kind, kind)
    return column if kind == "identity" else f"{kind}({width}, {column})" if width else f"{kind}({column})"


def _term(schema: Schema, field: Any) -> str:
    return written(field.transform, schema, field.source_id, _IN_SQL)


def _described(field: NestedField) -> tuple[str, str, str | None]:
    return field.name, spark_type(field.field_type).simpleString(), field.doc


def _type(kind: DataType) -> str:
    """As SQL reads it; Spark's own way to say a type leaves names inside of it without backticks."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    match kind:
        case StructType():
            return f"STRUCT<{', '.join(f'{_name(f.name)}: {_type(f.dataType)}' for f in kind.fields)}>"
        case ArrayType():
            return f"ARRAY<{_type(kind.elementType)}>"
        case MapType():
            return f"MAP<{_type(kind.keyType)}, {_type(kind.valueType)}>"
    return str(kind.simpleString()).upper()


def _details(field: NestedField) -> str:
    default = f" DEFAULT {literal(field.write_default)}" if field.write_default is not None else ""
    return f"{' NOT NULL' if field.required else ''}{default}{f' COMMENT {_text(field.doc)}' if field.doc else ''}"


def _properties(table: Table, key: str | None) -> list[tuple[str, str]]:
    """Sorted; the version of the format and the newest snapshot are told as other engines do."""
    metadata = table._state.metadata
    head = metadata.head()
    known = {"format": "iceberg/parquet", "format-version": str(metadata.format_version), "current-snapshot-id": str(head.snapshot_id) if head else "none", **table.properties}
    if key is not None:
        return [(key, known.get(key, f"Table {table.name} does not have property: {key}"))]
    return sorted(known.items())


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quoted(name)


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _like(name: str, pattern: str | None) -> bool:
    """Spark's patterns: `*` is anything, `|` stands between alternatives, case does not matter."""
    if pattern is None:
        return True
    plain = (re.sub(r"[?[]", r"[\g<0>]", part.strip()) for part in pattern.split("|"))
    return any(re.fullmatch(fnmatch.translate(part), name, re.IGNORECASE) for part in plain)  # fnmatch goes back for no `*` but the last
