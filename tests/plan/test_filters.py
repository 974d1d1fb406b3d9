from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    IsNaN,
    IsNull,
    LessThan,
    NotEqualTo,
    NotNull,
    Or,
    StartsWith,
)
from pyiceberg.expressions.literals import DateLiteral, LongLiteral, TimestampLiteral

from lakewright.errors import ColumnNotFound, InvalidFilter
from lakewright.plan.filters import Filter, parse_where
from lakewright.plan.types import schema_from

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = schema_from(
    "x int, r bigint not null, d double, name string, region string, dt date, ts timestamp, tn timestamp_ntz, a struct<b: int, c: int not null>, l array<struct<q: int>>, m map<string, int>, `odd.name` int"
)
ALL = Filter(None, AlwaysTrue(), AlwaysTrue(), True)


def parsed(where: str, zone: str | None = "UTC") -> Filter:
    return parse_where(where, SCHEMA, "nyc.trips", session_tz=zone)


def test_no_where_is_every_row() -> None:
    assert parse_where(None, SCHEMA) == ALL


def test_the_text_is_kept_for_spark() -> None:
    assert parsed("x = 5").sql == "x = 5"


def test_a_column_prunes_nothing(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    found = parse_where(F.col("x") == 5, SCHEMA)
    assert (found.iceberg, found.strict, found.exact) == (AlwaysTrue(), AlwaysFalse(), False)


def test_a_comparison_leaves_nulls_out() -> None:
    assert parsed("x <> 5").iceberg == And(NotEqualTo("x", LongLiteral(5)), NotNull("x"))
    assert parsed("not x = 5").iceberg == parsed("x <> 5").iceberg
    assert parsed("not (x <=> 5)").iceberg == Or(And(NotEqualTo("x", LongLiteral(5)), NotNull("x")), IsNull("x"))


def test_required_columns_need_no_guard() -> None:
    assert parsed("r = 5").iceberg == EqualTo("r", LongLiteral(5))
    assert parsed("r is null").iceberg == AlwaysFalse()


def test_nan_is_above_every_number() -> None:
    assert parsed("d > 5").iceberg == And(Or(GreaterThan("d", 5.0), IsNaN("d")), NotNull("d"))
    assert "NotNaN" in str(parsed("d < 5").strict)
    assert "NaN" not in str(parsed("d < 5").iceberg)


def test_either_side_and_any_case() -> None:
    assert parsed("5 > X").iceberg == And(LessThan("x", LongLiteral(5)), NotNull("x"))
    assert parsed("`x` < 5").iceberg == parsed("5 > X").iceberg


@pytest.mark.parametrize(
    "where", ["dt = '2020-01-01'", "dt = date '2020-01-01'", "dt = cast('2020-01-01' as date)", "date('2020-01-01') = dt", "dt in ('2020-01-01')"]
)
def test_dates(where: str) -> None:
    assert parsed(where).iceberg == And(EqualTo("dt", DateLiteral(18262)), NotNull("dt"))


@pytest.mark.parametrize(
    ("where", "zone", "micros"),
    [
        ("ts = '2020-07-01 00:00:00'", "UTC", 1593561600000000),
        ("ts = timestamp '2020-07-01 00:00:00'", "America/New_York", 1593576000000000),
        ("ts = '2020-07-01T00:00:00.5Z'", "America/New_York", 1593561600500000),
        ("ts = timestamp '2020-07-01 00:00:00+02:00'", None, 1593554400000000),
        ("ts = date '2020-07-01'", "+02:00", 1593554400000000),
        ("tn = '2020-07-01 00:00:00'", "America/New_York", 1593561600000000),
    ],
)
def test_timestamps(where: str, zone: str | None, micros: int) -> None:
    column = where[:2]
    assert parsed(where, zone).iceberg == And(EqualTo(column, TimestampLiteral(micros)), NotNull(column))


@pytest.mark.parametrize("where", ["ts = '2020-07-01 00:00:00'", "ts > date '2020-01-01'"])
def test_wall_times_need_the_sessions_zone(where: str) -> None:
    assert parsed(where, None).iceberg == AlwaysTrue()
    assert parsed(where, "Mars/Olympus").iceberg == AlwaysTrue()


def test_the_day_of_a_timestamp_bounds_it_with_a_day_to_spare_for_the_zone() -> None:
    day = 86_400_000_000
    found = parsed("date(ts) = '2020-01-01'", None)
    assert found.iceberg == And(GreaterThanOrEqual("ts", TimestampLiteral(18261 * day)), LessThan("ts", TimestampLiteral(18264 * day)))
    assert (found.strict, found.exact) == (AlwaysFalse(), False)
    assert parsed("cast(tn as date) >= '2020-01-01'", None).iceberg == GreaterThanOrEqual("tn", TimestampLiteral(18262 * day))
    assert parsed("date(name) = '2020-01-01'").iceberg == AlwaysTrue()


def test_prefixes() -> None:
    assert parsed("name like 'ab%'").iceberg == And(StartsWith("name", "ab"), NotNull("name"))
    assert parsed("name like 'a_c%'").iceberg == And(StartsWith("name", "a"), NotNull("name"))
    assert parsed("name like 'a_c%'").strict == AlwaysFalse()


@pytest.mark.parametrize(
    "where",
    [
        "x + 1 = 5",
        "l.q = 5",
        "m['a'] = 1",
        "exists(l, e -> e.q > 5)",
        "x in (select 1)",
        "upper(name) = 'A'",
        "name = 5",
        r"name = 'a\nb'",
        'name = "region"',
        "a.c is null",
        "`odd.name` = 5",
        "x = r",
    ],
)
def test_what_cannot_be_told_prunes_nothing(where: str) -> None:
    found = parsed(where)
    assert (found.iceberg, found.strict, found.exact) == (AlwaysTrue(), AlwaysFalse(), False)


def test_what_can_be_told_still_prunes() -> None:
    found = parsed("x = 5 and upper(name) = 'A'")
    assert found.iceberg == parsed("x = 5").iceberg
    assert found.strict == AlwaysFalse()
    found = parsed("x = 5 or upper(name) = 'A'")
    assert found.iceberg == AlwaysTrue()
    assert found.strict == parsed("x = 5").strict


def test_nested_columns_prune_but_prove_nothing() -> None:
    found = parsed("a.b = 5")
    assert found.iceberg == And(EqualTo("a.b", LongLiteral(5)), NotNull("a.b"))
    assert found.strict == AlwaysFalse()


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("x =", "line 1, column 3"),
        ("x = 5 and (name = 'a'", "Cannot read"),
        ("name = 'abc", "Cannot read"),
        ("", "empty"),
        ("x = 1; x = 2", "not one condition"),
        ("drop table t", "not one condition"),
        ("select 1", "not one condition"),
        ("x = 5 as y", "not one condition"),
        ("sum(x) > 5", "spans rows"),
        ("row_number() over (order by x) = 1", "spans rows"),
        ("x = :p", "parameter"),
    ],
)
def test_bad_filters(where: str, message: str) -> None:
    with pytest.raises(InvalidFilter, match=message):
        parsed(where)


@pytest.mark.parametrize(
    ("where", "near"), [("nam = 'a'", "Did you mean name"), ("a.z = 1", "'a.z' of table nyc.trips"), ("x = 1 or upper(regoin) = 'EU'", "Did you mean region")]
)
def test_unknown_columns(where: str, near: str) -> None:
    with pytest.raises(ColumnNotFound, match=near):
        parsed(where)


def test_names_that_may_also_be_used() -> None:
    assert parse_where("_file like '%x'", SCHEMA, also=["_file"]).iceberg == AlwaysTrue()


@pytest.mark.parametrize(
    "where", ["rand() < 0.5", "name = uuid()", "ts < now()", "ts < current_timestamp()", "dt = current_date", "x = 5 and shuffle(l) is null"]
)
def test_overwrites_take_no_changing_answers(where: str) -> None:
    assert parsed(where).sql == where
    with pytest.raises(InvalidFilter, match="another answer next time"):
        parse_where(where, SCHEMA, deterministic=True)


@pytest.mark.parametrize("word", ["or", "and"])
def test_a_long_chain_of_conditions_is_told_whole(word: str) -> None:
    found = parse_where(f" {word} ".join(f"x = {n}" for n in range(5000)), SCHEMA)
    assert found.exact


def test_brackets_in_brackets_without_end() -> None:
    with pytest.raises(InvalidFilter, match="more brackets in brackets"):
        parse_where("(" * 3000 + "x = 1" + ")" * 3000, SCHEMA)
