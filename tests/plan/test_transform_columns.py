from __future__ import annotations

import random
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any

import mmh3
import pytest
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, HourTransform, MonthTransform, TruncateTransform, VoidTransform, YearTransform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros

from lakewright.plan.transform_columns import source_column, with_transform
from lakewright.session import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RANDOM = random.Random(7)
TEXTS = ["", "a", "ab", "abc", "abcd", "iceberg", "null", "ÿþ", "naïve café", "日本語テキスト", "a𝒳b🙂c", "🙂🙂🙂🙂🙂", "x" * 300, "\x00\x01", "e\u0301"]
TEXTS += ["".join(RANDOM.choices("aé日🙂z\x7f", k=n)) for n in range(40)]
MOMENTS = [datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)]
MOMENTS += [datetime(1582, 10, 10, 3, 4, 5, 6), datetime(2024, 3, 10, 2, 30), datetime(2024, 11, 3, 1, 30), datetime(1900, 1, 1, 0, 0, 0, 1)]
MOMENTS += [datetime(1970, 1, 1) + timedelta(seconds=RANDOM.randint(-(10**10), 10**10), microseconds=RANDOM.randint(0, 999_999)) for _ in range(60)]
INTS = [0, 1, -1, 9, 10, -10, -11, 34, 2**31 - 1, -(2**31) + 100, *(RANDOM.randint(-(2**31) + 100, 2**31 - 1) for _ in range(60))]
LONGS = [*INTS, 2**63 - 1, -(2**63) + 2000, *(RANDOM.randint(-(2**63) + 2000, 2**63 - 1) for _ in range(60))]
TIME_TRANSFORMS = [YearTransform(), MonthTransform(), DayTransform()]
NEW_YORK = "America/New_York"


def decimals(precision: int, scale: int) -> list[Decimal]:
    edge = 10 ** (precision - 1)
    whole = [
        0,
        1,
        -1,
        127,
        128,
        -128,
        -129,
        255,
        256,
        32767,
        32768,
        -32769,
        1420,
        1065,
        -1065,
        edge - 1,
        -edge + 1,
        *(RANDOM.randint(-edge, edge) for _ in range(40)),
    ]
    with localcontext(prec=60):
        return [Decimal(n).scaleb(-scale) for n in whole if abs(n) < edge]


def internal(value: Any) -> Any:
    match value:
        case datetime():
            return datetime_to_micros(value)
        case date():
            return date_to_days(value)
    return value


CASES: dict[str, tuple[IcebergType, str, list[Any], list[Any]]] = {
    "int": (IntegerType(), "int", INTS, [BucketTransform(16), BucketTransform(2**31 - 1), TruncateTransform(10), TruncateTransform(1)]),
    "long": (LongType(), "bigint", LONGS, [BucketTransform(7), TruncateTransform(1000), VoidTransform()]),
    "decimal(9,2)": (DecimalType(9, 2), "decimal(9,2)", decimals(9, 2), [BucketTransform(97), TruncateTransform(50)]),
    "decimal(18,0)": (DecimalType(18, 0), "decimal(18,0)", decimals(18, 0), [BucketTransform(97), TruncateTransform(10)]),
    "decimal(38,10)": (DecimalType(38, 10), "decimal(38,10)", decimals(38, 10), [BucketTransform(97), TruncateTransform(10**9)]),
    "decimal(38,38)": (DecimalType(38, 38), "decimal(38,38)", decimals(38, 38), [BucketTransform(97), TruncateTransform(7)]),
    "decimal(38,0)": (DecimalType(38, 0), "decimal(38,0)", decimals(38, 0), [BucketTransform(2**31 - 1)]),
    "string": (
        StringType(),
        "string",
        TEXTS,
        [BucketTransform(2**31 - 1), BucketTransform(16), TruncateTransform(1), TruncateTransform(3), TruncateTransform(16)],
    ),
    "binary": (BinaryType(), "binary", [t.encode() for t in TEXTS] + [bytes([255, 0, 128])], [BucketTransform(2**31 - 1), TruncateTransform(5)]),
    "uuid": (UUIDType(), "string", [str(uuid.UUID(int=RANDOM.getrandbits(128))) for _ in range(20)], [BucketTransform(2**31 - 1)]),
    "date": (DateType(), "date", [m.date() for m in MOMENTS], [*TIME_TRANSFORMS, BucketTransform(16)]),
    "timestamp": (TimestampType(), "timestamp_ntz", MOMENTS, [*TIME_TRANSFORMS, HourTransform(), BucketTransform(2**31 - 1)]),
    "timestamptz": (
        TimestamptzType(),
        "timestamp",
        [m.replace(tzinfo=UTC) for m in MOMENTS[3:]],
        [*TIME_TRANSFORMS, HourTransform(), BucketTransform(2**31 - 1)],
    ),
}


@pytest.mark.feature("D2")
@pytest.mark.parametrize("name", CASES)
def test_equal_to_pyiceberg_scalar_transforms(spark: SparkSession, name: str) -> None:
    source_type, spark_type, values, transforms = CASES[name]
    scalar = [None, *(uuid.UUID(v) if name == "uuid" else v for v in values)]
    schema = Schema(NestedField(1, "c", source_type, required=False))
    with settings(spark, {"spark.sql.session.timeZone": NEW_YORK}):
        df = spark.createDataFrame([(None,), *((v,) for v in values)], f"c {spark_type}").coalesce(1)
        for index, transform in enumerate(transforms):
            df = with_transform(df, f"r{index}", transform, source_type, source_column(schema, 1))
        rows = df.drop("c").collect()
    for index, transform in enumerate(transforms):
        with localcontext(prec=60):
            expected = [transform.transform(source_type)(internal(v)) for v in scalar]
        got = [bytes(row[index]) if isinstance(row[index], bytearray) else row[index] for row in rows]
        assert got == expected, f"{transform} of {name}"


@pytest.mark.feature("D2")
def test_published_bucket_values(spark: SparkSession) -> None:
    """The 32-bit hash values of the specification's appendix B."""
    published = {
        ("34", "int"): (IntegerType(), 2017239379),
        ("34", "bigint"): (LongType(), 2017239379),
        ("14.20", "decimal(9,2)"): (DecimalType(9, 2), -500754589),
        ("2017-11-16", "date"): (DateType(), -653330422),
        ("2017-11-16 22:31:08", "timestamp_ntz"): (TimestampType(), -2047944441),
        ("2017-11-16 14:31:08-08:00", "timestamp"): (TimestamptzType(), -2047944441),
        ("2017-11-16 22:31:08.000001", "timestamp_ntz"): (TimestampType(), -1207196810),
        ("iceberg", "string"): (StringType(), 1210000089),
        ("f79c3e09-677c-4bbd-a479-3f349cb785e7", "string"): (UUIDType(), 1488055340),
    }
    from pyspark.sql import functions as F

    df = spark.range(1)
    for index, ((text, kind), (source, _)) in enumerate(published.items()):
        df = with_transform(df, f"r{index}", BucketTransform(2**31 - 1), source, F.lit(text).cast(kind))
    (row,) = df.drop("id").collect()
    assert list(row) == [(value & 0x7FFFFFFF) % (2**31 - 1) for _, value in published.values()]


def test_truncate_wraps_below_the_least_number(spark: SparkSession) -> None:
    df = spark.createDataFrame([(-(2**31), -(2**63)), (-(2**31) + 5, -(2**63) + 3)], "i int, l bigint")
    schema = Schema(NestedField(1, "i", IntegerType()), NestedField(2, "l", LongType()))
    for n in (1, 2):
        df = with_transform(df, f"r{n}", TruncateTransform(10), schema.find_type(n), source_column(schema, n))
    rows = df.select("r1", "r2").collect()
    assert [tuple(r) for r in rows] == [(2**31 - 2, 2**63 - 2), (2**31 - 2, 2**63 - 2)]


def test_nested_and_oddly_named_sources(spark: SparkSession) -> None:
    schema = Schema(
        NestedField(1, "a.b", StructType(NestedField(2, "c`d", IntegerType()))), NestedField(3, "a", StructType(NestedField(4, "e", IntegerType())))
    )
    df = spark.sql("select named_struct('c`d', 41) as `a.b`, named_struct('e', 7) as a")
    (row,) = df.select(source_column(schema, 2), source_column(schema, 4)).collect()
    assert tuple(row) == (41, 7)


def test_hash_agrees_with_a_reference_on_every_length(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    from lakewright.plan.murmur import with_murmur3_bytes

    values = [bytes(RANDOM.randrange(256) for _ in range(n)) for n in range(70) for _ in range(4)]
    df = spark.createDataFrame([(v,) for v in values], "b binary").coalesce(1)
    assert [row[0] for row in with_murmur3_bytes(df, "h", F.col("b")).select("h").collect()] == [mmh3.hash(v) for v in values]
