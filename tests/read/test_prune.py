"""Nothing that may match is left out, by Spark's rules; and what cannot match is."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions import (
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotIn,
    NotNull,
    Or,
    StartsWith,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, MonthTransform, Transform, TruncateTransform, YearTransform
from pyiceberg.types import DateType, DecimalType, DoubleType, IntegerType, LongType, NestedField, StringType, StructType, TimestampType, UUIDType

from lakewright.format.data_file import DataFile, ManifestFile, PartitionFieldSummary
from lakewright.plan.partitioning import build_spec
from lakewright.read.prune import Pruner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAN = float("nan")
FLOATS = Schema(NestedField(1, "x", DoubleType()))
DOUBLE = struct.Struct("<d").pack
UNPARTITIONED = {0: PartitionSpec()}


def keeps(expression: BooleanExpression, file: DataFile, schema: Schema = FLOATS, spec: PartitionSpec | None = None) -> bool:
    specs = {0: spec} if spec else UNPARTITIONED
    return Pruner(expression, schema, {0: schema}, specs).keeps_file(file)


def float_file(nans: int | None, lower: float = 1.0, upper: float = 5.0) -> DataFile:
    counts = {} if nans is None else {1: nans}
    return DataFile(
        "f", 10, 1, 0, value_counts={1: 10}, null_value_counts={1: 0}, nan_value_counts=counts, lower_bounds={1: DOUBLE(lower)}, upper_bounds={1: DOUBLE(upper)}
    )


@pytest.mark.parametrize("expression", [GreaterThan("x", 9.0), GreaterThanOrEqual("x", 9.0), Not(LessThan("x", 9.0)), IsNaN("x")])
def test_uncounted_nans_may_match(expression: BooleanExpression) -> None:
    assert keeps(expression, float_file(nans=None))
    assert keeps(expression, float_file(nans=1))
    assert not keeps(expression, float_file(nans=0))


@pytest.mark.parametrize("expression", [LessThan("x", 0.5), LessThanOrEqual("x", 0.5), EqualTo("x", 9.0), In("x", [8.0, 9.0]), IsNull("x")])
def test_nans_do_not_keep_what_they_cannot_match(expression: BooleanExpression) -> None:
    assert not keeps(expression, float_file(nans=None))


def test_numbers_past_a_float_are_still_below_nan() -> None:
    from pyiceberg.types import FloatType

    schema = Schema(NestedField(1, "x", FloatType()))
    assert keeps(GreaterThan("x", 1e300), DataFile("f", 10, 1, 0), schema)


def test_a_required_field_of_a_struct_that_may_be_null() -> None:
    schema = Schema(NestedField(1, "s", StructType(NestedField(2, "x", IntegerType(), required=True)), required=False))
    assert keeps(IsNull("s.x"), DataFile("f", 10, 1, 0), schema)


def test_bounds_of_a_promoted_column_and_bounds_that_cannot_be_read() -> None:
    schema = Schema(NestedField(1, "x", LongType()))
    file = DataFile("f", 10, 1, 0, lower_bounds={1: struct.pack("<i", 1)}, upper_bounds={1: struct.pack("<i", 5)})
    assert keeps(EqualTo("x", 3), file, schema) and not keeps(EqualTo("x", 9), file, schema)
    text = Schema(NestedField(1, "x", StringType()))
    assert keeps(EqualTo("x", "z"), DataFile("f", 10, 1, 0, lower_bounds={1: "é".encode()[:1]}, upper_bounds={1: b"b"}), text)


def test_a_partition_whose_source_column_was_dropped() -> None:
    spec = PartitionSpec(PartitionField(9, 1000, IdentityTransform(), "gone"), PartitionField(1, 1001, IdentityTransform(), "x"))
    old = Schema(NestedField(1, "x", IntegerType()), NestedField(9, "gone", StringType()))
    now = Schema(NestedField(1, "x", IntegerType()))
    pruner = Pruner(EqualTo("x", 1), now, {0: old, 1: now}, {0: spec})
    assert pruner.keeps_file(DataFile("f", 1, 1, 0, ("a", 1))) and not pruner.keeps_file(DataFile("f", 1, 1, 0, ("a", 2)))
    assert Pruner(EqualTo("x", 1), now, {1: now}, {0: spec}).keeps_file(DataFile("f", 1, 1, 0, ("a", 1)))


def test_manifests_by_their_summaries() -> None:
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "x"))

    def manifest(contains_nan: bool | None) -> ManifestFile:
        summary = PartitionFieldSummary(False, contains_nan, DOUBLE(1.0), DOUBLE(5.0))
        return ManifestFile("m", 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 0, 0, (summary,))

    pruner = Pruner(GreaterThan("x", 9.0), FLOATS, {0: FLOATS}, {0: spec})
    assert pruner.keeps_manifest(manifest(True)) and pruner.keeps_manifest(manifest(None)) and not pruner.keeps_manifest(manifest(False))


VALUES: dict[str, tuple[Any, st.SearchStrategy[Any], list[Transform[Any, Any]]]] = {
    "int": (IntegerType(), st.integers(-50, 50), [IdentityTransform(), BucketTransform(4), TruncateTransform(10)]),
    "double": (DoubleType(), st.sampled_from([-1.5, -0.0, 0.0, 1.0, 2.5, NAN]), [IdentityTransform()]),
    "string": (StringType(), st.sampled_from(["", "a", "ab", "abc", "b", "ü", "日本語"]), [IdentityTransform(), BucketTransform(4), TruncateTransform(2)]),
    "date": (
        DateType(),
        st.dates(date(1968, 11, 1), date(1971, 2, 1)),
        [IdentityTransform(), YearTransform(), MonthTransform(), DayTransform(), BucketTransform(4)],
    ),
    "timestamp": (
        TimestampType(),
        st.datetimes(datetime(1969, 12, 30), datetime(1970, 1, 3)),
        [YearTransform(), MonthTransform(), DayTransform(), BucketTransform(4)],
    ),
    "decimal": (DecimalType(9, 2), st.decimals(-2, 2, places=2), [IdentityTransform(), BucketTransform(4), TruncateTransform(50)]),
    "uuid": (UUIDType(), st.integers(0, 5).map(lambda n: uuid.UUID(int=n)), [IdentityTransform(), BucketTransform(2)]),
}


def internal(value: Any) -> Any:
    from pyiceberg.utils.datetime import date_to_days, datetime_to_micros

    if isinstance(value, datetime):
        return datetime_to_micros(value)
    return date_to_days(value) if isinstance(value, date) else value


def greater(a: Any, b: Any) -> bool:
    """As Spark compares: NaN above everything and equal to itself."""
    if a != a or b != b:
        return bool(a != a and b == b)
    return bool(a > b)


def equal(a: Any, b: Any) -> bool:
    return bool(a == b or (a != a and b != b))


def matches(value: Any, operator: str, literal: Any) -> bool:
    if value is None:
        return operator == "null"
    tests: dict[str, Callable[[], bool]] = {
        "null": lambda: False,
        "not null": lambda: True,
        "=": lambda: equal(value, literal),
        "!=": lambda: not equal(value, literal),
        ">": lambda: greater(value, literal),
        ">=": lambda: greater(value, literal) or equal(value, literal),
        "<": lambda: greater(literal, value),
        "<=": lambda: greater(literal, value) or equal(value, literal),
        "in": lambda: equal(value, literal),
        "not in": lambda: not equal(value, literal),
        "starts": lambda: isinstance(value, str) and value.startswith(literal),
    }
    return tests[operator]()


PREDICATES: dict[str, Callable[[str, Any], BooleanExpression]] = {
    "null": lambda c, _: IsNull(c),
    "not null": lambda c, _: NotNull(c),
    "=": EqualTo,
    "!=": NotEqualTo,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
    "<": LessThan,
    "<=": LessThanOrEqual,
    "in": lambda c, v: In(c, [v]),
    "not in": lambda c, v: NotIn(c, [v]),
    "starts": StartsWith,
}


@given(st.data())
def test_no_partition_with_a_matching_row_is_left_out(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(VALUES)))
    kind, values, transforms = VALUES[name]
    transform = data.draw(st.sampled_from(transforms))
    value = data.draw(st.one_of(st.none(), values))
    operators = [o for o in PREDICATES if o != "starts" or name == "string"]
    picked = [(data.draw(st.sampled_from(operators)), data.draw(values.filter(lambda v: v == v))) for _ in range(2)]
    schema = Schema(NestedField(1, "c", kind))
    spec = PartitionSpec(PartitionField(1, 1000, transform, "p"))
    file = DataFile("f", 1, 1, 0, (transform.transform(kind)(internal(value)),))
    left, right = (PREDICATES[o]("c", literal) for o, literal in picked)
    truths = [matches(value, o, literal) for o, literal in picked]
    if truths[0]:
        assert keeps(left, file, schema, spec)
    if all(truths):
        assert keeps(And(left, right), file, schema, spec)
    if any(truths):
        assert keeps(Or(left, right), file, schema, spec)


def test_where_prunes_files_of_every_spec(spark: SparkSession, other_table: Callable[..., Any]) -> None:
    schema = Schema(NestedField(1, "id", IntegerType()), NestedField(2, "region", StringType()))
    table = other_table(schema, partition_spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region")))
    table.append([{"id": 1, "region": "eu"}, {"id": 2, "region": "us"}])
    with table.iceberg.update_spec() as update:
        update.remove_field("region")
        update.add_field("id", BucketTransform(4), "b")
    table.append([{"id": 3, "region": "eu"}, {"id": 50, "region": "us"}])
    assert len(table.files()) == 4
    assert len(table.files(filter=EqualTo("region", "eu"))) == 2
    assert len(table.files(filter=EqualTo("id", 3))) == 1
    assert table.rows(spark, where="region = 'eu'") == [(1, "eu"), (3, "eu")]
    assert table.rows(spark, where="id = 3 or region is null") == [(3, "eu")]
    assert table.rows(spark, where="id > 1000") == []


def test_metrics_are_kept_only_on_request(other_table: Callable[..., Any]) -> None:
    table = other_table(FLOATS).append([{"x": 1.0}])
    assert not table.files()[0].data_file.lower_bounds
    assert not table.files(filter=EqualTo("x", 1.0))[0].data_file.lower_bounds
    assert table.files(filter=EqualTo("x", 1.0), with_metrics=True)[0].data_file.lower_bounds


@pytest.mark.parametrize("transform", ["year(d)", "month(d)"])
def test_a_filter_beyond_the_last_date_prunes_nothing_rather_than_fail(transform: str) -> None:
    schema = Schema(NestedField(1, "d", DateType(), required=False))
    pruner = Pruner(GreaterThan("d", date(9999, 12, 31)), schema, {0: schema}, {0: build_spec(schema, [transform])})
    assert pruner.keeps_partition(DataFile("x", 1, 1, 0, (8029,)))
