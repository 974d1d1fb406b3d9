from __future__ import annotations

import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
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
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakewright.errors import InvalidTransform
from lakewright.format.transforms import apply, partition_values

pytestmark = pytest.mark.feature("D2")

ARROW: dict[IcebergType, pa.DataType] = {
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    DateType(): pa.int32(),
    TimeType(): pa.int64(),
    TimestampType(): pa.int64(),
    TimestamptzType(): pa.int64(),
    TimestampNanoType(): pa.int64(),
    TimestamptzNanoType(): pa.int64(),
    StringType(): pa.string(),
    BinaryType(): pa.binary(),
    FixedType(4): pa.binary(4),
    UUIDType(): pa.binary(16),
    DecimalType(9, 2): pa.decimal128(9, 2),
    DecimalType(38, 10): pa.decimal128(38, 10),
}
NATIVE: dict[IcebergType, pa.DataType] = {
    DateType(): pa.date32(),
    TimeType(): pa.time64("us"),
    TimestampType(): pa.timestamp("us"),
    TimestamptzType(): pa.timestamp("us", "UTC"),
    TimestampNanoType(): pa.timestamp("ns"),
    TimestamptzNanoType(): pa.timestamp("ns", "UTC"),
}
MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
VALUES: dict[IcebergType, st.SearchStrategy[Any]] = {
    IntegerType(): st.integers(-(2**31) + 100, 2**31 - 1),
    LongType(): st.integers(-(2**63) + 100, 2**63 - 1),
    DateType(): st.integers(-719_162, 2_932_896),
    TimeType(): st.integers(0, 86_399_999_999),
    TimestampType(): MICROS,
    TimestamptzType(): MICROS,
    TimestampNanoType(): st.integers(-(2**62), 2**62),
    TimestamptzNanoType(): st.integers(-(2**62), 2**62),
    StringType(): st.text(max_size=60),
    BinaryType(): st.binary(max_size=60),
    FixedType(4): st.binary(min_size=4, max_size=4),
    UUIDType(): st.binary(min_size=16, max_size=16),
    DecimalType(9, 2): st.integers(-(10**9) + 100, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    DecimalType(38, 10): st.integers(-(10**28) + 100, 10**28 - 1).map(lambda n: Decimal(n).scaleb(-10)),
}
TRANSFORMS: list[Transform[Any, Any]] = [
    BucketTransform(16),
    BucketTransform(2**31 - 1),
    TruncateTransform(1),
    TruncateTransform(7),
    YearTransform(),
    MonthTransform(),
    DayTransform(),
    HourTransform(),
    IdentityTransform(),
    VoidTransform(),
]
CASES = [(transform, kind) for kind in VALUES for transform in TRANSFORMS if transform.can_transform(kind)]


def array_of(kind: IcebergType, values: list[Any]) -> pa.Array:
    plain = pa.array(values, ARROW[kind])
    return plain.view(NATIVE[kind]) if kind in NATIVE else plain


@pytest.mark.parametrize(("transform", "kind"), CASES, ids=lambda part: str(part))
@given(data=st.data())
def test_equal_to_pyicebergs_scalar_transforms(transform: Transform[Any, Any], kind: IcebergType, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[kind], max_size=20))
    scalar = transform.transform(kind)
    expected = [scalar(value) for value in values]
    if isinstance(transform.result_type(kind), UUIDType):
        expected = [None if value is None else uuid.UUID(bytes=value) for value in expected]
    assert apply(transform, kind, array_of(kind, values)).to_pylist() == expected


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (IntegerType(), pa.array([34], pa.int32()), 2017239379),
        (LongType(), pa.array([34], pa.int64()), 2017239379),
        (DecimalType(9, 2), pa.array([Decimal("14.20")], pa.decimal128(9, 2)), -500754589),
        (DateType(), pa.array([date(2017, 11, 16)]), -653330422),
        (TimeType(), pa.array([time(22, 31, 8)], pa.time64("us")), -662762989),
        (TimestampType(), pa.array([datetime(2017, 11, 16, 22, 31, 8)], pa.timestamp("us")), -2047944441),
        (TimestamptzType(), pa.array([datetime(2017, 11, 16, 22, 31, 8, tzinfo=UTC)], pa.timestamp("us", "UTC")), -2047944441),
        (TimestampNanoType(), pa.array([datetime(2017, 11, 16, 22, 31, 8)], pa.timestamp("ns")), -2047944441),
        (StringType(), pa.array(["iceberg"]), 1210000089),
        (UUIDType(), pa.array([uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes], pa.binary(16)), 1488055340),
        (FixedType(4), pa.array([b"\x00\x01\x02\x03"], pa.binary(4)), -188683207),
        (BinaryType(), pa.array([b"\x00\x01\x02\x03"]), -188683207),
    ],
    ids=lambda part: str(part) if isinstance(part, IcebergType) else "",
)
def test_published_bucket_hashes(kind: IcebergType, value: pa.Array, expected: int) -> None:
    buckets = 2**31 - 1
    assert apply(BucketTransform(buckets), kind, value).to_pylist() == [(expected & 0x7FFFFFFF) % buckets]


def test_years_far_away() -> None:
    micros = pa.array([-(10**18), 10**18], pa.timestamp("us"))
    assert apply(YearTransform(), TimestampType(), micros).to_pylist() == [-31689, 31688]
    assert apply(DayTransform(), TimestampType(), micros).to_pylist() == [-11574075, 11574074]
    with pytest.raises(InvalidTransform, match="too far away"):
        apply(YearTransform(), DateType(), pa.array([2**31 - 1], pa.int32()).view(pa.date32()))


@pytest.mark.parametrize(
    "form", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=["string", "large", "view", "dictionary"]
)
def test_any_arrow_form(form: pa.DataType) -> None:
    values = pa.array(["iceberg", None, "é𝄞日本語"]).cast(form)
    transforms: list[Transform[Any, Any]] = [BucketTransform(16), TruncateTransform(2), IdentityTransform(), VoidTransform()]
    for transform in transforms:
        expected = [transform.transform(StringType())(value) for value in values.to_pylist()]
        assert apply(transform, StringType(), values).to_pylist() == expected
        assert apply(transform, StringType(), pa.chunked_array([values, values])).to_pylist() == expected * 2
        assert apply(transform, StringType(), pa.chunked_array([], form)).to_pylist() == []


@pytest.mark.parametrize(("kind", "form", "values"), [(BooleanType(), pa.bool_(), [True, None]), (FloatType(), pa.float32(), [1.5]), (DoubleType(), pa.float64(), [-0.5])])
def test_identity_of_other_types(kind: IcebergType, form: pa.DataType, values: list[Any]) -> None:
    assert apply(IdentityTransform(), kind, pa.array(values, form)).to_pylist() == values


def test_internal_form() -> None:
    assert apply(DayTransform(), DateType(), pa.array([date(1969, 12, 31)])).type == pa.int32()
    assert apply(IdentityTransform(), TimestamptzType(), pa.array([0], pa.timestamp("us", "UTC"))).type == pa.int64()
    key = uuid.uuid4()
    stored = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([key.bytes, None], pa.binary(16)))
    assert apply(IdentityTransform(), UUIDType(), stored).to_pylist() == [key, None]
    assert apply(IdentityTransform(), UUIDType(), pa.chunked_array([stored, stored])).to_pylist() == [key, None] * 2


def test_a_transform_that_does_not_fit() -> None:
    with pytest.raises(InvalidTransform, match="hour does not take date"):
        apply(HourTransform(), DateType(), pa.array([date(2020, 1, 1)]))


def test_values_of_a_batch_with_a_column_inside_a_struct() -> None:
    inner = StructType(NestedField(3, "city", StringType(), required=False))
    schema = Schema(NestedField(1, "day", DateType(), required=False), NestedField(2, "place", inner, required=False))
    spec = PartitionSpec(PartitionField(1, 1000, MonthTransform(), "month"), PartitionField(3, 1001, IdentityTransform(), "city"))
    batch = pa.RecordBatch.from_pylist(
        [{"day": date(1970, 3, 1), "place": {"city": "Ulm"}}, {"day": None, "place": None}],
        schema=pa.schema([("day", pa.date32()), ("place", pa.struct([("city", pa.string())]))]),
    )
    assert [values.to_pylist() for values in partition_values(spec, schema, batch)] == [[2, None], ["Ulm", None]]
