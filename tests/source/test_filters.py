from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyiceberg import expressions
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, DecimalType, DoubleType, LongType, NestedField, StringType, StructType, TimestamptzType
from pyspark.sql import datasource as pushed

from lakewright.source.filters import pruning_filter

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "fare", DoubleType(), required=False),
    NestedField(4, "price", DecimalType(9, 2), required=False),
    NestedField(5, "day", DateType(), required=False),
    NestedField(6, "at", TimestamptzType(), required=False),
    NestedField(7, "place", StructType(NestedField(8, "city", StringType(), required=False)), required=False),
)
iceberg: Any = expressions
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.mark.feature("H14")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (pushed.EqualTo(("id",), 5), iceberg.EqualTo("id", 5)),
        (pushed.EqualNullSafe(("name",), None), iceberg.IsNull("name")),
        (pushed.In(("id",), (1, 2, None)), iceberg.In("id", {1, 2})),
        (pushed.IsNotNull(("name",)), iceberg.NotNull("name")),
        (pushed.Not(pushed.IsNotNull(("name",))), iceberg.IsNull("name")),
        (pushed.Not(pushed.LessThan(("fare",), 1.5)), iceberg.GreaterThanOrEqual("fare", 1.5)),
        (pushed.StringStartsWith(("name",), "ab"), iceberg.StartsWith("name", "ab")),
        (pushed.LessThan(("price",), Decimal("1.25")), iceberg.LessThan("price", Decimal("1.25"))),
        (pushed.EqualTo(("day",), date(2024, 5, 1)), iceberg.EqualTo("day", date(2024, 5, 1))),
        (pushed.LessThan(("at",), NOON), iceberg.LessThan("at", NOON)),
        (pushed.EqualTo(("place", "city"), "Rome"), iceberg.EqualTo("place.city", "Rome")),
    ],
)
def test_filters_prune(given: pushed.Filter, expected: Any) -> None:
    assert pruning_filter([given], SCHEMA) == expected


@pytest.mark.parametrize(
    "given",
    [
        pushed.StringEndsWith(("name",), "x"),
        pushed.Not(pushed.EqualTo(("id",), 5)),
        pushed.EqualTo(("fare",), float("nan")),
        pushed.EqualTo(("gone",), 5),
        pushed.LessThan(("price",), Decimal("1.255")),
        pushed.In(("id",), tuple(range(5000))),
    ],
)
def test_what_has_no_counterpart_keeps_every_file(given: pushed.Filter) -> None:
    assert pruning_filter([given], SCHEMA) == iceberg.AlwaysTrue()


def test_all_filters_count() -> None:
    both = pruning_filter([pushed.EqualTo(("id",), 5), pushed.StringEndsWith(("name",), "x"), pushed.IsNull(("name",))], SCHEMA)
    assert both == iceberg.And(iceberg.EqualTo("id", 5), iceberg.IsNull("name"))
