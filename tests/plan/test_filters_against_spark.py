"""Every predicate is put to Spark row by row; what Iceberg concludes from metrics and partitions may never contradict it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator, _StrictMetricsEvaluator, expression_evaluator, inclusive_projection, strict_projection
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, DoubleType, FloatType, TimestampType, TimestamptzType

from lakewright.format.data_file import DataFile
from lakewright.plan.filters import Filter, parse_where
from lakewright.plan.partitioning import build_spec
from lakewright.plan.types import iceberg_to_spark, schema_from

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = schema_from(
    "i int, r bigint not null, l bigint, f float, d double, n decimal(10,2), s string, b binary, flag boolean, dt date, ts timestamp, tn timestamp_ntz,"
    " a struct<x: int, y: int not null>"
)
NAN, INF = math.nan, math.inf
VALUES: dict[str, list[Any]] = {
    "i": [None, -5, 0, 4, 5, 6, 2147483647, -2147483648],
    "r": [-5, 0, 4, 5, 6, 2**53 + 1, -(2**63), 2**63 - 1],
    "l": [None, -5, 0, 4, 5, 6, 2**53 + 1, 2**63 - 1],
    "f": [None, NAN, -INF, INF, 0.1, 5.0, -0.0, 16777216.0],
    "d": [None, NAN, -INF, INF, 0.1, 5.0, -0.0, 1e300],
    "n": [None, Decimal("-5.00"), Decimal("0.00"), Decimal("1.00"), Decimal("1.01"), Decimal("5.00"), Decimal("99999999.99"), Decimal("-99999999.99")],
    "s": [None, "", "a", "ab", "abc", "a%c", "Äb", "\U0001f600"],
    "b": [None, b"", b"\x00", b"\x00\xff", b"ab", b"\xff", b"\x7f", b"\x80"],
    "flag": [None, True, False],
    "dt": [None, date(1969, 12, 31), date(2019, 12, 31), date(2020, 1, 1), date(2020, 1, 2), date(1, 1, 1), date(9999, 12, 31)],
}
VALUES["tn"] = [
    None,
    datetime(1969, 12, 31, 23),
    datetime(2019, 12, 31, 23, 59),
    datetime(2020, 1, 1),
    datetime(2020, 1, 1, 0, 0, 0, 1),
    datetime(2020, 3, 8, 2, 30),
    datetime(2020, 7, 1),
]
VALUES["ts"] = [v and v.replace(tzinfo=UTC) for v in VALUES["tn"]]
VALUES["a"] = [None, {"x": None, "y": 5}, {"x": 5, "y": 4}, {"x": 4, "y": 6}]

OPERANDS: dict[str, list[str]] = {
    "i": ["5", "4.5", "-5", "2147483648", "-2147483648.5", "5D", "4.5D", "5L", "5.000000000000000000000", "1e300"],
    "r": ["5", "4.5", "9007199254740993", "9007199254740992D", "9223372036854775808", "99999999999999999999999999999999999999", "5.5BD"],
    "l": ["5", "cast(5 as bigint)", "-9223372036854775809"],
    "f": ["5", "0.1", "0.1D", "16777217", "-1e300", "1e39", "0", "cast(0.1 as double)"],
    "d": ["5", "0.1", "0.1D", "-1e300", "0", "9007199254740993"],
    "n": ["1", "1.005", "1.00", "99999999.994", "100000000", "-100000000", "1.01D", "5.0000"],
    "s": ["'ab'", "''", "'Äb'", "'\U0001f600'", "'zz'"],
    "b": ["X'00'", "X'00FF'", "X''", "X'80'"],
    "flag": ["true", "false"],
    "dt": ["date '2020-01-01'", "'2020-01-01'", "to_date('1969-12-31')", "cast('2020-01-02' as date)"],
    "ts": [
        "timestamp '2020-01-01 00:00:00'",
        "'2020-01-01 00:00:00'",
        "'2020-01-01'",
        "date '2020-01-01'",
        "timestamp '2020-01-01 00:00:00+02:00'",
        "timestamp_ntz '2020-01-01 00:00:00'",
        "'2020-03-08 02:30:00'",
    ],
    "tn": ["timestamp_ntz '2020-01-01 00:00:00'", "'2020-01-01 00:00:00'", "timestamp '2020-01-01 00:00:00'", "date '2020-01-01'"],
    "a.x": ["5", "4.5"],
    "a.y": ["5"],
}
OTHERS = [
    "i is null", "i is not null", "isnull(r)", "isnotnull(l)", "a.x is null", "a.y is null", "not a.y is null", "a is null",
    "isnan(f)", "not isnan(f)", "isnan(d) or d > 5", "flag", "not flag", "!flag", "flag is true", "flag is not true", "(i = 5) is false",
    "i in (4, 5)", "i in (4, 5.5, null)", "i not in (4, 5)", "i not in (4, null)", "i in (5, '6')", "d in (5, 0.1)", "d not in (5, 0.1)", "f in (5, 0.1)", "f not in (5)",
    "dt in ('2020-01-01', '2020-01-02')", "dt in (date '2020-01-01')", "dt not in ('2020-01-01')", "ts in ('2020-01-01')", "s in ('a', 'ab')", "s not in ('a')",
    "s like 'ab%'", "s not like 'ab%'", "s like 'a_c'", "s not like 'a_c'", "s like '%b'", "s like 'ab'", "s like '%'", "startswith(s, 'a')", "not startswith(s, '')",
    "s ilike 'AB%'", "s like 'a!%%' escape '!'", "s not like 'a!%%' escape '!'", "s = 'it''s'", 's = "ab"', r"s = '\u0061b'",
    "i <=> 5", "not (i <=> 5)", "i <=> null", "not i <=> null", "d <=> double('NaN')", "d = double('NaN')", "i is distinct from 5", "i is not distinct from null",
    "i between 4 and 5", "not i between 4 and 5", "d between 0 and 5", "d not between 0 and 5", "i between 5 and null", "not (i between 5 and null)",
    "i = 5 and s = 'ab'", "i = 5 or s = 'ab'", "not (i = 5 and s = 'ab')", "not (i = 5 or d > 5)", "not (not (i = 5))", "i = 5 or l % 2 = 1", "l % 2 = 1 and s = 'a'",
    "not i = 5 and flag", "null", "not null", "true", "false", "i = null", "not (i = null)", "i = 5 or null", "1 = 1", "1 = 0", "i = 5 and 1 = 1",
    "case when i = 5 then true else false end", "year(dt) = 2020", "cast(i as string) = '5'", "coalesce(i, 5) = 5", "i % 2 = 1",
]  # fmt: skip

NOT_ANSI = ["s = 5", "s > i", "s in (5, 6)", "flag = 'true'", "dt = 'x'", "ts > 'x'"]


def predicates() -> Iterator[str]:
    for column, operands in OPERANDS.items():
        for operand in operands:
            for operator in ("=", "<>") if column == "flag" else ("=", "<>", "<", "<=", ">", ">="):
                yield f"{column} {operator} {operand}" if operator in ("=", "<", ">=") else f"not ({operand} {operator} {column})"
    for day in ("date(ts)", "to_date(tn)", "cast(ts as date)", "cast(dt as date)"):
        for operator in ("=", "<>", "<", "<=", ">", ">="):
            yield f"{day} {operator} '2020-01-01'"
            yield f"not (date '2020-01-01' {operator} {day})"
    yield from OTHERS


def rows() -> list[dict[str, Any]]:
    length = max(len(v) for v in VALUES.values())
    shuffled = {name: random.Random(name).sample(values, len(values)) for name, values in VALUES.items()}
    straight = [{name: values[i % len(values)] for name, values in VALUES.items()} for i in range(length)]
    return straight + [{name: values[(i * 3 + 1) % len(values)] for name, values in shuffled.items()} for i in range(length)]


def truth(spark: SparkSession, where: list[str], given: list[dict[str, Any]]) -> list[list[bool]]:
    df = spark.createDataFrame(
        [(*(r[f.name] for f in SCHEMA.fields), i) for i, r in enumerate(given)], iceberg_to_spark(SCHEMA).add("row", "integer")
    ).coalesce(1)
    answers = sorted(df.selectExpr("row", *(f"coalesce({p}, false)" for p in where)).collect())
    return [[row[i + 1] for row in answers] for i in range(len(where))]


def leaves(row: dict[str, Any]) -> dict[int, Any]:
    found = {}
    for name in [f.name for f in SCHEMA.fields[:-1]] + ["a.x", "a.y"]:
        field = SCHEMA.find_field(name)
        if field.field_type.is_primitive:
            value: Any = row
            for part in name.split("."):
                value = None if value is None else value[part]
            found[field.field_id] = internal(field.field_type, value)
    return found


def internal(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, DateType):
        return (value - date(1970, 1, 1)).days
    if isinstance(kind, (TimestampType, TimestamptzType)):
        return (value.replace(tzinfo=None) - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    if isinstance(kind, FloatType):
        import struct

        return struct.unpack("<f", struct.pack("<f", value))[0]
    return value


def file_of(given: list[dict[str, Any]], without: str = "") -> DataFile:
    """A data file's metrics; `without` leaves one kind out, as other writers do."""
    value_counts, nulls, nans, lower, upper = {}, {}, {}, {}, {}
    for field_id in leaves(given[0]):
        kind = SCHEMA.find_field(field_id).field_type
        values = [leaves(row)[field_id] for row in given]
        present = [v for v in values if v is not None and v == v]
        value_counts[field_id] = len(values)
        nulls[field_id] = values.count(None)
        if isinstance(kind, (FloatType, DoubleType)):
            nans[field_id] = sum(1 for v in values if v is not None and v != v)
        if present:
            lower[field_id], upper[field_id] = to_bytes(kind, min(present)), to_bytes(kind, max(present))
    metrics = {"value_counts": value_counts, "null_value_counts": nulls, "nan_value_counts": nans, "lower_bounds": lower, "upper_bounds": upper}
    metrics.pop(without, None)
    return DataFile("f.parquet", len(given), 1, 0, **metrics)


def check(where: str, found: Filter, answers: list[bool], groups: list[tuple[list[int], DataFile]]) -> tuple[int, int]:
    inclusive, strict = _InclusiveMetricsEvaluator(SCHEMA, found.iceberg), _StrictMetricsEvaluator(SCHEMA, found.strict)
    pruned = whole = 0
    for indexes, file in groups:
        kept, all_match = inclusive.eval(file), strict.eval(file)  # type: ignore[arg-type]
        assert kept or not any(answers[i] for i in indexes), f"{where} would skip a file with matching rows {indexes}"
        assert not all_match or all(answers[i] for i in indexes), f"{where} would drop a file with rows that do not match {indexes}"
        pruned += not kept
        whole += all_match
    return pruned, whole


@pytest.mark.parametrize(("zone", "ansi"), [("UTC", "true"), ("America/New_York", "false")])
def test_metrics_never_contradict_spark(spark: SparkSession, zone: str, ansi: str) -> None:
    given = rows()
    groups = [([i], file_of([given[i]])) for i in range(len(given))]
    chooser = random.Random(7)
    for without in ("", "nan_value_counts", "null_value_counts", "upper_bounds", "lower_bounds"):
        for _ in range(25):
            indexes = chooser.sample(range(len(given)), chooser.randint(1, 3))
            groups.append((indexes, file_of([given[i] for i in indexes], without)))
    settings = {"spark.sql.session.timeZone": zone, "spark.sql.ansi.enabled": ansi}
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        asked = list(predicates()) + (NOT_ANSI if ansi == "false" else [])
        answers = truth(spark, asked, given)
    finally:
        for key, value in before.items():
            spark.conf.set(key, str(value))
    pruned = whole = 0
    for where, answer in zip(asked, answers, strict=True):
        found = parse_where(where, SCHEMA, session_tz=zone)
        counts = check(where, found, answer, groups)
        pruned, whole = pruned + counts[0], whole + counts[1]
        if found.exact and "a." not in where:
            matches = expression_evaluator(SCHEMA, found.iceberg, True)
            for row, matched in zip(given, answer, strict=True):
                assert matches(Record(*leaves(row).values())) == matched, f"{where} is said to be exact, but not for {row}"
    assert pruned > 20_000
    assert whole > 5_000


PARTITIONS = [
    "i",
    "f",
    "d",
    "s",
    "dt",
    "flag",
    "n",
    "a.x",
    "b",
    "bucket(4, i)",
    "bucket(4, s)",
    "bucket(3, ts)",
    "truncate(10, i)",
    "truncate(2, s)",
    "truncate(10, n)",
    "year(dt)",
    "month(dt)",
    "day(ts)",
    "hour(tn)",
    "void(l)",
]


@pytest.mark.parametrize("partition_by", PARTITIONS)
def test_partitions_never_contradict_spark(spark_answers: tuple[list[dict[str, Any]], list[str], list[list[bool]]], partition_by: str) -> None:
    given, asked, answers = spark_answers
    spec = build_spec(SCHEMA, [partition_by])
    field = spec.fields[0]
    source = SCHEMA.find_field(field.source_id)
    transform = field.transform.transform(source.field_type)
    partitions = [Record(transform(leaves(row)[field.source_id])) for row in given]
    struct = Schema(*spec.partition_type(SCHEMA).fields)
    name = SCHEMA.find_column_name(field.source_id)
    for where, answer in zip(asked, answers, strict=True):
        if name not in where:
            continue
        found = parse_where(where, SCHEMA, session_tz="UTC")
        inclusive = expression_evaluator(struct, inclusive_projection(SCHEMA, spec)(found.iceberg), True)
        strict = expression_evaluator(struct, strict_projection(SCHEMA, spec)(found.strict), True)
        for i, partition in enumerate(partitions):
            assert inclusive(partition) or not answer[i], f"{where} would skip the partition of {given[i]}"
            assert not strict(partition) or all(answer[j] for j in range(len(given)) if partitions[j] == partition), (
                f"{where} would drop the partition of {given[i]}"
            )


@pytest.fixture(scope="module")
def spark_answers(spark: SparkSession) -> tuple[list[dict[str, Any]], list[str], list[list[bool]]]:
    given, asked = rows(), list(predicates())
    return given, asked, truth(spark, asked, given)
