from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, FixedType, LongType, NestedField, StringType, TimestampType, TimestamptzType, TimeType, UUIDType
from pyspark.sql import types as spark

from lakewright.errors import DuplicateColumn, SchemaError, UnsupportedType
from lakewright.plan.types import FIELD_ID, iceberg_to_spark, schema_from, spark_to_iceberg

EVERY_TYPE = spark.StructType(
    [
        spark.StructField("flag", spark.BooleanType(), False, {"comment": "yes or no"}),
        spark.StructField("i", spark.IntegerType()),
        spark.StructField("l", spark.LongType()),
        spark.StructField("f", spark.FloatType()),
        spark.StructField("d", spark.DoubleType()),
        spark.StructField("n", spark.DecimalType(38, 10)),
        spark.StructField("s", spark.StringType()),
        spark.StructField("b", spark.BinaryType()),
        spark.StructField("day", spark.DateType()),
        spark.StructField("ts", spark.TimestampType()),
        spark.StructField("tn", spark.TimestampNTZType()),
        spark.StructField(
            "nested",
            spark.StructType(
                [
                    spark.StructField(
                        "items", spark.ArrayType(spark.StructType([spark.StructField("x", spark.IntegerType(), False, {"comment": "deep"})]), False)
                    ),
                    spark.StructField("by_name", spark.MapType(spark.StringType(), spark.ArrayType(spark.LongType()), False), False),
                ]
            ),
        ),
    ]
)
DDL = """flag boolean not null comment 'yes or no', i int, l bigint, f float, d double, n decimal(38, 10), s string, b binary, day date,
 ts timestamp, tn timestamp_ntz, nested struct<items: array<struct<x: int not null comment 'deep'> not null>, by_name: map<string, array<bigint> not null> not null>"""


def test_spark_types_survive_the_way_there_and_back() -> None:
    back = iceberg_to_spark(spark_to_iceberg(EVERY_TYPE))
    assert back == EVERY_TYPE
    assert back.json() == EVERY_TYPE.json()


def test_ddl_means_what_spark_means_by_it() -> None:
    assert schema_from(DDL) == spark_to_iceberg(EVERY_TYPE)


def test_spark_reads_the_ddl_alike(spark: object) -> None:
    assert schema_from(
        spark_ddl := "`a b` int not null, c struct<d: map<string,int>, e: array<decimal>>, f varchar(3), g tinyint, h real, i numeric(5)"
    ) == spark_to_iceberg(spark_types(spark_ddl))


def spark_types(ddl: str) -> spark.StructType:
    return spark.StructType.fromDDL(ddl)


def test_ids_are_fresh_columns_first() -> None:
    schema = schema_from("a struct<b: int, c: array<int>>, d map<int, struct<e: int>>, f int")
    assert {name: schema.find_field(name).field_id for name in schema.column_names} == {
        "a": 1, "d": 2, "f": 3, "a.b": 4, "a.c": 5, "a.c.element": 6, "d.key": 7, "d.value": 8, "d.value.e": 9,
    }  # fmt: skip


def test_field_ids_are_column_metadata() -> None:
    made = iceberg_to_spark(schema_from("a struct<b: int>, c int"), field_ids=True)
    assert made["a"].metadata == {FIELD_ID: 1}
    assert made["a"].dataType["b"].metadata == {FIELD_ID: 3}  # type: ignore[index]


def test_narrow_types_take_the_next_wider_one() -> None:
    given = spark.StructType(
        [
            spark.StructField("a", spark.ByteType()),
            spark.StructField("b", spark.ShortType()),
            spark.StructField("c", spark.VarcharType(3)),
            spark.StructField("d", spark.CharType(3)),
        ]
    )
    assert iceberg_to_spark(spark_to_iceberg(given)).simpleString() == "struct<a:int,b:int,c:string,d:string>"


def test_uuid_is_text_and_fixed_is_binary_in_spark() -> None:
    schema = Schema(NestedField(1, "u", UUIDType()), NestedField(2, "x", FixedType(4)))
    assert iceberg_to_spark(schema).simpleString() == "struct<u:string,x:binary>"


@pytest.mark.parametrize(
    "kind",
    [
        spark.NullType(),
        spark.VariantType(),
        spark.DayTimeIntervalType(),
        spark.YearMonthIntervalType(),
        spark.CalendarIntervalType(),
        spark.TimeType(),
        spark.StringType("UTF8_LCASE"),
    ],
    ids=lambda kind: str(kind.simpleString()),
)
def test_other_spark_types_are_refused_by_column(kind: spark.DataType) -> None:
    given = spark.StructType([spark.StructField("a", spark.ArrayType(spark.StructType([spark.StructField("b", kind)])))])
    with pytest.raises(UnsupportedType, match=r"'a\.element\.b'") as raised:
        spark_to_iceberg(given)
    assert raised.value.column == "a.element.b"


def test_other_iceberg_types_are_refused_by_column() -> None:
    with pytest.raises(UnsupportedType, match="'t' has type time"):
        iceberg_to_spark(Schema(NestedField(1, "t", TimeType())))
    with pytest.raises(UnsupportedType, match="'t' has type time"):
        schema_from("t time")


def test_arrow_schema() -> None:
    given = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("n", pa.decimal128(9, 2)),
            pa.field("ts", pa.timestamp("us", "UTC")),
            pa.field("tn", pa.timestamp("us")),
            pa.field("tags", pa.list_(pa.struct([pa.field("x", pa.string())]))),
        ]
    )
    schema = schema_from(given)
    assert [f.field_type for f in schema.fields[:4]] == [LongType(), DecimalType(9, 2), TimestamptzType(), TimestampType()]
    assert schema.find_field("id").required
    assert schema.find_field("tags.element.x").field_type == StringType()
    assert schema.find_field("tags.element.x").field_id == 7


@pytest.mark.parametrize("kind", [pa.duration("s"), pa.timestamp("ns"), pa.time64("us"), pa.month_day_nano_interval()], ids=str)
def test_other_arrow_types_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedType):
        schema_from(pa.schema([("a", kind)]))


def test_iceberg_schema_gets_fresh_ids_and_keeps_its_key() -> None:
    schema = schema_from(Schema(NestedField(7, "a", LongType(), required=True), NestedField(9, "b", StringType()), identifier_field_ids=[7]))
    assert [f.field_id for f in schema.fields] == [1, 2]
    assert schema.identifier_field_ids == [1]


@pytest.mark.parametrize("ddl", ["a int, A int", "a struct<b: int, B: int>", "a array<struct<b: int, B: int>>", "a int, a int"])
def test_names_that_differ_by_case_are_refused(ddl: str) -> None:
    with pytest.raises(DuplicateColumn, match="case aside"):
        schema_from(ddl)


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("", "empty"),
        ("a", "position 1: expected a type"),
        ("a int,", "position 6: expected a column name"),
        ("a int b int", "position 6: expected ','"),
        ("a struct<b: int", "expected ','"),
        ("a array<int", "expected '>'"),
        ("a int comment 5", "expected a comment in quotes"),
        ("a ?", "position 1: unexpected"),
        ("`` int", "empty name"),
    ],
)
def test_unreadable_ddl_says_where(ddl: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        schema_from(ddl)


@pytest.mark.parametrize("ddl", ["a decimal(39, 2)", "a decimal(5, 6)", "a interval", "a variant", "a void", "a struct<b: money>"])
def test_types_that_do_not_exist_are_refused(ddl: str) -> None:
    with pytest.raises(UnsupportedType, match="Column 'a"):
        schema_from(ddl)


def test_no_spark_is_needed_for_ddl() -> None:
    code = "import sys, lakewright.plan.schema, lakewright.plan.filters, lakewright.plan.evolution\nfrom lakewright.plan.types import schema_from\nschema_from('a int')\nassert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_other_things_are_no_schema() -> None:
    with pytest.raises(SchemaError, match="not int"):
        schema_from(5)
