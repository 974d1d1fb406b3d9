"""Types between Spark and Iceberg, both ways, with nullability, comments and field ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from lakewright.errors import SchemaError, UnsupportedType
from lakewright.plan.ddl import NO_ID, parse_ddl
from lakewright.plan.names import check_names

if TYPE_CHECKING:
    import pyarrow as pa
    import pyspark.sql.types as spark

FIELD_ID = "parquet.field.id"

# By Spark's name of the type, so that PySpark need not be imported to look at one.
FROM_SPARK: dict[str, IcebergType] = {
    "boolean": BooleanType(),
    "byte": IntegerType(),
    "short": IntegerType(),
    "integer": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "char": StringType(),
    "varchar": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
}
TO_SPARK: dict[type[IcebergType], str] = {
    BooleanType: "BooleanType",
    IntegerType: "IntegerType",
    LongType: "LongType",
    FloatType: "FloatType",
    DoubleType: "DoubleType",
    StringType: "StringType",
    UUIDType: "StringType",
    BinaryType: "BinaryType",
    FixedType: "BinaryType",
    DateType: "DateType",
    TimestamptzType: "TimestampType",
    TimestampType: "TimestampNTZType",
}


def spark_to_iceberg(schema: spark.StructType) -> Schema:
    """The Iceberg schema of a Spark one, with fresh ids: columns first, then what is nested in them."""
    return fresh_schema(iceberg_struct(schema))


def iceberg_struct(struct: spark.StructType, path: str = "") -> StructType:
    """A Spark struct as an Iceberg one without ids."""
    check_names(struct.names, where=f" of {path!r}" if path else "")
    fields = []
    for field in struct.fields:
        where = f"{path}.{field.name}" if path else field.name
        doc = (field.metadata or {}).get("comment")
        fields.append(NestedField(NO_ID, field.name, iceberg_type(field.dataType, where), required=not field.nullable, doc=doc))
    return StructType(*fields)


def iceberg_type(source: spark.DataType, path: str = "") -> IcebergType:
    """A Spark type as an Iceberg one without ids; raises UnsupportedType naming the column."""
    name = source.typeName()
    if name == "struct":
        return iceberg_struct(source, path)  # type: ignore[arg-type]
    if name == "array":
        return ListType(NO_ID, iceberg_type(source.elementType, f"{path}.element"), element_required=not source.containsNull)  # type: ignore[attr-defined]
    if name == "map":
        key, value = iceberg_type(source.keyType, f"{path}.key"), iceberg_type(source.valueType, f"{path}.value")  # type: ignore[attr-defined]
        return MapType(NO_ID, key, NO_ID, value, value_required=not source.valueContainsNull)  # type: ignore[attr-defined]
    if name == "decimal":
        return DecimalType(source.precision, source.scale)  # type: ignore[attr-defined]
    if name.split(" ")[0] not in FROM_SPARK or source.simpleString().startswith("string collate"):
        raise UnsupportedType(f"Column {path!r} has type {source.simpleString()}, which an Iceberg table has no place for; {_way_out(name)}.", column=path)
    return FROM_SPARK[name]


def _way_out(name: str) -> str:
    if name == "void":
        return "cast it to the type its values will have"
    if "interval" in name:
        return "cast it to a number of days or seconds, or to string"
    if name == "variant":
        return "cast it to string with to_json, or to a struct"
    return "cast it to string or another supported type"


def iceberg_to_spark(schema: Schema, field_ids: bool = False) -> spark.StructType:
    """The Spark schema of an Iceberg one; with field_ids each column and struct field carries {"parquet.field.id": id}."""
    return spark_struct(schema.as_struct(), field_ids)


def spark_struct(struct: StructType, field_ids: bool = False, *, nullable: bool = False, path: str = "") -> spark.StructType:
    """An Iceberg struct as a Spark one; nullable=True makes every field nullable."""
    import pyspark.sql.types as spark

    fields = []
    for field in struct.fields:
        metadata: dict[str, Any] = {"comment": field.doc} if field.doc else {}
        if field_ids:
            metadata[FIELD_ID] = field.field_id
        where = f"{path}.{field.name}" if path else field.name
        data_type = spark_type(field.field_type, field_ids, nullable=nullable, path=where)
        fields.append(spark.StructField(field.name, data_type, nullable or not field.required, metadata))
    return spark.StructType(fields)


def spark_type(source: IcebergType, field_ids: bool = False, *, nullable: bool = False, path: str = "") -> spark.DataType:
    """An Iceberg type as the Spark type its values are read as."""
    import pyspark.sql.types as spark

    if isinstance(source, StructType):
        return spark_struct(source, field_ids, nullable=nullable, path=path)
    if isinstance(source, ListType):
        element = spark_type(source.element_type, field_ids, nullable=nullable, path=f"{path}.element")
        return spark.ArrayType(element, nullable or not source.element_required)
    if isinstance(source, MapType):
        key = spark_type(source.key_type, field_ids, nullable=nullable, path=f"{path}.key")
        value = spark_type(source.value_type, field_ids, nullable=nullable, path=f"{path}.value")
        return spark.MapType(key, value, nullable or not source.value_required)
    if isinstance(source, DecimalType):
        return spark.DecimalType(source.precision, source.scale)
    if type(source) not in TO_SPARK:
        raise _unreadable(source, path)
    made: spark.DataType = getattr(spark, TO_SPARK[type(source)])()
    return made


def _unreadable(source: IcebergType, path: str) -> UnsupportedType:
    return UnsupportedType(f"Column {path!r} has type {source}, which Spark's Parquet reader and writer do not take; use another type.", column=path)


def schema_from(given: spark.StructType | str | pa.Schema | Schema | Any) -> Schema:
    """The schema a caller gave as StructType, DDL string, Arrow schema or Iceberg schema, with fresh ids."""
    schema = _schema_from(given)
    if not schema.fields:
        raise SchemaError("The schema is empty; it needs at least one column, such as 'id bigint'.")
    for field in schema.fields:
        _check_readable(field)
    return schema


def _schema_from(given: Any) -> Schema:
    if isinstance(given, str):
        return fresh_schema(parse_ddl(given))
    if isinstance(given, Schema):
        return fresh_schema(given.as_struct(), [given.find_column_name(i) or "" for i in given.identifier_field_ids])
    if type(given).__module__.startswith("pyarrow"):
        return fresh_schema(_arrow_struct(given))
    if hasattr(given, "fieldNames") and hasattr(given, "fields"):
        return spark_to_iceberg(given)
    raise SchemaError(f"A schema is a Spark StructType, a DDL string, an Arrow schema or an Iceberg schema, not {type(given).__name__}.")


def _check_readable(field: NestedField) -> None:
    def visit(source: IcebergType, path: str) -> None:
        if isinstance(source, StructType):
            for child in source.fields:
                visit(child.field_type, f"{path}.{child.name}")
        elif isinstance(source, ListType):
            visit(source.element_type, f"{path}.element")
        elif isinstance(source, MapType):
            visit(source.key_type, f"{path}.key")
            visit(source.value_type, f"{path}.value")
        elif type(source) not in TO_SPARK and not isinstance(source, DecimalType):
            raise _unreadable(source, path)

    visit(field.field_type, field.name)


def _arrow_struct(schema: pa.Schema) -> StructType:
    from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException, _ConvertToIcebergWithoutIDs, visit_pyarrow

    check_names(schema.names)
    try:
        converted = visit_pyarrow(schema, _ConvertToIcebergWithoutIDs())
    except UnsupportedPyArrowTypeException as error:
        raise UnsupportedType(
            f"Column {error.field.name!r} has type {error.field.type}, which an Iceberg table has no place for.", column=error.field.name
        ) from error
    except TypeError as error:
        raise UnsupportedType(f"The Arrow schema has a type an Iceberg table has no place for: {error}.") from error
    return converted.as_struct() if isinstance(converted, Schema) else converted  # type: ignore[return-value]


def fresh_schema(struct: StructType, identifiers: list[str] | None = None) -> Schema:
    """A schema with ids from 1 in Iceberg's order."""
    check_struct_names(struct)
    ids = count(1)
    schema = Schema(*with_fresh_ids(struct, lambda: next(ids)).fields, schema_id=0)
    if not identifiers:
        return schema
    return Schema(*schema.fields, schema_id=0, identifier_field_ids=[schema.find_field(name).field_id for name in identifiers])


def check_struct_names(source: IcebergType, path: str = "") -> None:
    for struct, where in _structs(source, path):
        check_names((f.name for f in struct.fields), where=f" of {where!r}" if where else "")


def _structs(source: IcebergType, path: str) -> Iterator[tuple[StructType, str]]:
    if isinstance(source, StructType):
        yield source, path
        for field in source.fields:
            yield from _structs(field.field_type, f"{path}.{field.name}" if path else field.name)
    elif isinstance(source, ListType):
        yield from _structs(source.element_type, f"{path}.element")
    elif isinstance(source, MapType):
        yield from _structs(source.key_type, f"{path}.key")
        yield from _structs(source.value_type, f"{path}.value")


def with_fresh_ids(source: Any, next_id: Callable[[], int]) -> Any:
    """The type with new ids in Iceberg's order: the fields of a struct first, then what is nested in each."""
    if isinstance(source, StructType):
        ids = [next_id() for _ in source.fields]
        return StructType(
            *(f.model_copy(update={"field_id": i, "field_type": with_fresh_ids(f.field_type, next_id)}) for f, i in zip(source.fields, ids, strict=True))
        )
    if isinstance(source, ListType):
        element = next_id()
        return ListType(element, with_fresh_ids(source.element_type, next_id), element_required=source.element_required)
    if isinstance(source, MapType):
        key, value = next_id(), next_id()
        key_type = with_fresh_ids(source.key_type, next_id)
        return MapType(key, key_type, value, with_fresh_ids(source.value_type, next_id), value_required=source.value_required)
    return source
