from __future__ import annotations

import pytest
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.sorting import NullOrder, SortDirection
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)

from lakewright.errors import ColumnNotFound, IllegalEvolution, InvalidTransform
from lakewright.plan.partitioning import TransformTerm, build_sort_order, build_spec, evolve_spec, parse_partition_field
from lakewright.plan.types import schema_from

SCHEMA = schema_from(
    "id bigint, ts timestamp, name string, price decimal(9,2), a struct<b: int>, tags array<int>, ts_month int, f float, flag boolean, `odd name` int"
)


def fields(spec: PartitionSpec) -> list[tuple[int, str, str]]:
    return [(f.field_id, f.name, str(f.transform)) for f in spec.fields]


@pytest.mark.feature("D2")
@pytest.mark.parametrize(
    ("text", "column", "transform"),
    [
        ("day(ts)", "ts", DayTransform()),
        ("DAYS( ts )", "ts", DayTransform()),
        ("year(ts)", "ts", YearTransform()),
        ("months(ts)", "ts", MonthTransform()),
        ("hour(ts)", "ts", HourTransform()),
        ("bucket(16, id)", "id", BucketTransform(16)),
        ("bucket(id, 16)", "id", BucketTransform(16)),
        ("truncate(4, name)", "name", TruncateTransform(4)),
        ("truncate(name, 4)", "name", TruncateTransform(4)),
        ("void(x)", "x", VoidTransform()),
        ("identity(x)", "x", IdentityTransform()),
        ("region", "region", IdentityTransform()),
        ("a.b", "a.b", IdentityTransform()),
        ("`odd name`", "odd name", IdentityTransform()),
        ("bucket(4, `a`.`b c`)", "a.b c", BucketTransform(4)),
        ('"odd name"', "odd name", IdentityTransform()),
    ],
)
def test_parse(text: str, column: str, transform: object) -> None:
    assert parse_partition_field(text) == TransformTerm(column, transform)  # type: ignore[arg-type]


def test_parse_with_a_name() -> None:
    assert parse_partition_field("day(ts) as pickup_day") == TransformTerm("ts", DayTransform(), "pickup_day")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("weekday(ts)", "no transform 'weekday'.*Did you mean day"),
        ("bucket(id)", "a number and one column"),
        ("bucket(0, id)", "above 0"),
        ("bucket(-1, id)", "above 0"),
        ("day(ts, name)", "just one column"),
        ("day(ts", "Cannot read"),
        ("", "Cannot read"),
        ("id desc", "Cannot read"),
        ("day(name)", "string, which day does not take"),
        ("hour(price)", "hour does not take"),
        ("bucket(4, f)", "float, which bucket does not take"),
        ("truncate(4, flag)", "boolean, which truncate does not take"),
        ("tags", "is a list"),
        ("tags.element", "several values per row"),
        ("a", "is a struct"),
    ],
)
def test_bad_transforms_name_the_way_out(text: str, message: str) -> None:
    with pytest.raises(InvalidTransform, match=message):
        build_spec(SCHEMA, [text], table="nyc.trips")


def test_unknown_column_names_near_ones() -> None:
    with pytest.raises(ColumnNotFound, match=r"'nam' of table nyc.trips. Did you mean name"):
        build_spec(SCHEMA, ["truncate(2, nam)"], table="nyc.trips")


def test_names_are_icebergs() -> None:
    spec = build_spec(SCHEMA, ["day(ts)", "bucket(16, ID)", "truncate(4, name)", "a.b", "void(flag)", "`odd name`"])
    assert fields(spec) == [
        (1000, "ts_day", "day"),
        (1001, "id_bucket", "bucket[16]"),
        (1002, "name_trunc", "truncate[4]"),
        (1003, "a.b", "identity"),
        (1004, "flag_null", "void"),
        (1005, "odd name", "identity"),
    ]


def test_several_on_one_column() -> None:
    spec = build_spec(SCHEMA, ["bucket(16, id)", "bucket(8, id)", "truncate(10, id)", "id"])
    assert [f.name for f in spec.fields] == ["id_bucket", "id_bucket_8", "id_trunc", "id"]


def test_the_same_twice_is_refused() -> None:
    with pytest.raises(InvalidTransform, match="given twice"):
        build_spec(SCHEMA, ["day(ts)", "days(ts)"])


def test_a_field_never_takes_the_name_of_another_column() -> None:
    assert build_spec(SCHEMA, ["month(ts)"]).fields[0].name == "ts_month_2"
    with pytest.raises(InvalidTransform, match="already that of a column"):
        build_spec(SCHEMA, ["day(ts) as NAME"])


def test_evolved_spec_keeps_and_reuses_ids() -> None:
    first = build_spec(SCHEMA, ["day(ts)"])
    second, last = evolve_spec(first, {0: first}, SCHEMA, 1000, add=["bucket(4, id)"])
    assert (second.spec_id, fields(second), last) == (1, [(1000, "ts_day", "day"), (1001, "id_bucket_4", "bucket[4]")], 1001)
    third, last = evolve_spec(second, [first, second], SCHEMA, last, drop=["day(ts)"], add=["hour(ts)"])
    assert (third.spec_id, fields(third), last) == (2, [(1001, "id_bucket_4", "bucket[4]"), (1002, "ts_hour", "hour")], 1002)
    fourth, last = evolve_spec(third, [first, second, third], SCHEMA, last, drop=["ts_hour"], add=["day(ts)"])
    assert (fourth.spec_id, fields(fourth), last) == (3, [(1001, "id_bucket_4", "bucket[4]"), (1000, "ts_day", "day")], 1002)


def test_an_equal_earlier_spec_comes_back() -> None:
    first = build_spec(SCHEMA, ["day(ts)"])
    second, last = evolve_spec(first, [first], SCHEMA, 1000, drop=["ts_day"])
    assert second.is_unpartitioned()
    third, last = evolve_spec(second, [first, second], SCHEMA, last, add=["day(ts)"])
    assert third == first
    assert last == 1000


def test_bad_spec_changes() -> None:
    spec = build_spec(SCHEMA, ["day(ts)"])
    with pytest.raises(IllegalEvolution, match=r"already partitioned by 'days\(ts\)'"):
        evolve_spec(spec, [spec], SCHEMA, 1000, add=["days(ts)"])
    with pytest.raises(IllegalEvolution, match=r"not partitioned by 'hour\(ts\)'; it is by day\(ts\)"):
        evolve_spec(spec, [spec], SCHEMA, 1000, drop=["hour(ts)"], table="nyc.trips")


@pytest.mark.parametrize(
    ("text", "transform", "direction", "nulls"),
    [
        ("ts", "identity", SortDirection.ASC, NullOrder.NULLS_FIRST),
        ("ts desc", "identity", SortDirection.DESC, NullOrder.NULLS_LAST),
        ("bucket(16, id) ASC NULLS LAST", "bucket[16]", SortDirection.ASC, NullOrder.NULLS_LAST),
        ("`odd name` desc nulls first", "identity", SortDirection.DESC, NullOrder.NULLS_FIRST),
        ("a.b nulls last", "identity", SortDirection.ASC, NullOrder.NULLS_LAST),
    ],
)
def test_sort_order(text: str, transform: str, direction: SortDirection, nulls: NullOrder) -> None:
    order = build_sort_order(SCHEMA, [text])
    assert order.order_id == 1
    assert [(str(f.transform), f.direction, f.null_order) for f in order.fields] == [(transform, direction, nulls)]


def test_no_sort_is_order_zero() -> None:
    assert build_sort_order(SCHEMA, []).order_id == 0


@pytest.mark.parametrize("text", ["tags", "void(id)", "ts down", "day(name) desc"])
def test_bad_sort_orders(text: str) -> None:
    with pytest.raises(InvalidTransform):
        build_sort_order(SCHEMA, [text])
