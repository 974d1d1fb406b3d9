from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, HourTransform, IdentityTransform, MonthTransform, Transform, VoidTransform, YearTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakewright.format.paths import partition_path

pytestmark = pytest.mark.feature("D3")

KEY = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


def path_of(value: Any, kind: IcebergType = StringType(), transform: Transform[Any, Any] = IdentityTransform(), name: str = "p") -> str:  # noqa: B008
    schema = Schema(NestedField(1, "column", kind, required=False))
    return partition_path(PartitionSpec(PartitionField(1, 1000, transform, name)), schema, (value,))


@pytest.mark.parametrize(
    ("value", "kind", "transform", "expected"),
    [
        ("eu", StringType(), IdentityTransform(), "p=eu"),
        (-1, DateType(), DayTransform(), "p=1969-12-31"),
        (600, DateType(), MonthTransform(), "p=2020-01"),
        (-1, DateType(), MonthTransform(), "p=1969-12"),
        (50, DateType(), YearTransform(), "p=2020"),
        (438_293, TimestampType(), HourTransform(), "p=2020-01-01-05"),
        (-1, TimestampType(), HourTransform(), "p=1969-12-31-23"),
        (18_262, DateType(), IdentityTransform(), "p=2020-01-01"),
        (10_000_000, DateType(), IdentityTransform(), "p=10000000"),
        (81_068_000_000, TimeType(), IdentityTransform(), "p=22%3A31%3A08"),
        (-1, TimestampType(), IdentityTransform(), "p=1969-12-31T23%3A59%3A59.999999"),
        (0, TimestamptzType(), IdentityTransform(), "p=1970-01-01T00%3A00%3A00%2B00%3A00"),
        (1, TimestampNanoType(), IdentityTransform(), "p=1970-01-01T00%3A00%3A00.000000001"),
        (7, StringType(), BucketTransform(16), "p=7"),
        (True, BooleanType(), IdentityTransform(), "p=true"),
        (b"\x00\xff", BinaryType(), IdentityTransform(), "p=AP8%3D"),
        (Decimal("-14.20"), DecimalType(9, 2), IdentityTransform(), "p=-14.20"),
        (KEY, UUIDType(), IdentityTransform(), f"p={KEY}"),
        (None, IntegerType(), VoidTransform(), "p=null"),
    ],
)
def test_readable(value: Any, kind: IcebergType, transform: Transform[Any, Any], expected: str) -> None:
    assert path_of(value, kind, transform) == expected


def test_null_and_texts_that_look_like_it() -> None:
    assert [path_of(value) for value in (None, "null", "", "%6Eull", "NULL")] == ["p=null", "p=%6Eull", "p=", "p=%256Eull", "p=NULL"]


def test_several_fields_and_none() -> None:
    schema = Schema(NestedField(1, "region", StringType()), NestedField(2, "at", DateType()))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "region"), PartitionField(2, 1001, DayTransform(), "day"))
    assert partition_path(spec, schema, ("a/b", 18_262)) == "region=a%2Fb/day=2020-01-01"
    assert partition_path(PartitionSpec(), schema, ()) == ""


@pytest.mark.parametrize("name", ["_hidden", ".hidden", "a/b", "é" * 100, "x" * 500], ids=["underscore", "dot", "slash", "accents", "long"])
def test_names_make_visible_folders_of_bounded_length(name: str) -> None:
    path = path_of("v" * 1000, name=name)
    assert path[0] not in "._"
    assert "/" not in path
    assert len(path.encode()) < 200


@given(one=st.none() | st.text(max_size=300), other=st.none() | st.text(max_size=300))
def test_different_values_different_paths(one: str | None, other: str | None) -> None:
    assert (path_of(one) == path_of(other)) == (one == other)
    assert len(path_of(one).encode()) < 200


def test_long_values_keep_their_beginning_and_differ() -> None:
    one, other = path_of("x" * 300 + "1"), path_of("x" * 300 + "2")
    assert one != other
    assert one.startswith("p=" + "x" * 70)
    assert path_of("é" * 300).split("!")[0] == "p=" + "%C3%A9" * 12 + "%C3"
