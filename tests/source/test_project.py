from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyspark.sql.pandas.types import from_arrow_schema

from lakewright.errors import LakewrightError, NullInRequiredColumn, RowsOutsideFilter, TypeMismatch, UnsupportedOperation
from lakewright.options import resolve
from lakewright.plan.filters import parse_where
from lakewright.plan.schema import reconcile
from lakewright.plan.types import schema_from
from lakewright.source.project import inside, project_batch

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
NO_CHECK = {"check-nullability": "false"}
CAST = {"merge-schema": "true", "merge-schema.explicit-cast": "true"}


def projected(batch: pa.RecordBatch, table: Schema, **options: Any) -> pa.RecordBatch:
    reconciled = reconcile(from_arrow_schema(batch.schema), table, resolve(options, {}, {}), "nyc.trips")
    return project_batch(batch, reconciled, "nyc.trips")


def test_columns_are_matched_by_name_and_widened() -> None:
    rows = pa.record_batch({"b": pa.array([1, None], pa.int32()), "a": ["x", "y"]})
    made = projected(rows, schema_from("a string, b bigint, c double"))
    assert made.to_pydict() == {"a": ["x", "y"], "b": [1, None], "c": [None, None]}
    assert made.schema.types == [pa.string(), pa.int64(), pa.float64()]


def test_nested_values_are_converted() -> None:
    kind = pa.struct([("y", pa.int32()), ("x", pa.int32())])
    rows = pa.record_batch(
        {
            "s": pa.array([{"y": 2, "x": 1}, None], kind),
            "l": pa.array([[1, None], None], pa.list_(pa.int32())),
            "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
        }
    )
    made = projected(rows, schema_from("s struct<x: bigint, y: int, z: string>, l array<bigint>, m map<string, bigint>"))
    assert made.to_pydict() == {"s": [{"x": 1, "y": 2, "z": None}, None], "l": [[1, None], None], "m": [[("k", 1)], None]}


def test_a_null_for_a_required_column_is_found() -> None:
    rows = pa.record_batch({"a": pa.array([1, None], pa.int64())})
    with pytest.raises(NullInRequiredColumn, match="'a'"):
        projected(rows, schema_from("a bigint not null"), **NO_CHECK)


def test_a_null_in_a_null_struct_is_none() -> None:
    table = schema_from("s struct<x: bigint not null>")
    kind = pa.struct([("x", pa.int64())])
    assert projected(pa.record_batch({"s": pa.array([{"x": 1}, None], kind)}), table, **NO_CHECK).to_pydict() == {"s": [{"x": 1}, None]}
    with pytest.raises(NullInRequiredColumn, match=r"'s\.x'"):
        projected(pa.record_batch({"s": pa.array([{"x": None}, None], kind)}), table, **NO_CHECK)


@pytest.mark.parametrize(
    ("values", "table", "error"),
    [
        (pa.array(["12", "x"]), "a bigint", TypeMismatch),
        (pa.array([2**40], pa.int64()), "a int", None),
        (pa.array(["2024-01-01"]), "a timestamp", UnsupportedOperation),
    ],
)
def test_explicit_casts_lose_nothing(values: pa.Array, table: str, error: type[LakewrightError] | None) -> None:
    rows = pa.record_batch({"a": values})
    if error is None:
        assert projected(rows, schema_from(table), **CAST).column("a").to_pylist() == values.to_pylist()
    else:
        with pytest.raises(error, match="'a'"):
            projected(rows, schema_from(table), **CAST)


@pytest.mark.feature("P3")
@pytest.mark.parametrize(
    ("where", "values", "refused"),
    [
        ("a >= timestamp'2024-05-01 00:00:00'", pa.array([NOON], pa.timestamp("us", "Europe/Berlin")), False),
        ("a < timestamp'2024-05-01 00:00:00'", pa.array([NOON], pa.timestamp("us", "Europe/Berlin")), True),
        ("a > 5", pa.array([6.0, float("nan")]), False),
        ("a = 'x'", pa.array(["x", None]), True),
        ("a IS NULL OR a = 'x'", pa.array(["x", None]), False),
        ("a = date'2024-05-01'", pa.array([NOON.date()]), False),
        ("a = 1.50", pa.array([Decimal("1.50")], pa.decimal128(9, 2)), False),
        ("a IN (1, 2)", pa.array([1, 3], pa.int64()), True),
    ],
)
def test_rows_are_checked_against_the_filter_of_an_overwrite(where: str, values: pa.Array, refused: bool) -> None:
    batch = pa.record_batch({"a": values})
    table = schema_from(from_arrow_schema(batch.schema))
    parsed = parse_where(where, table, "nyc.trips", session_tz="Europe/Berlin", deterministic=True)
    assert parsed.exact
    if refused:
        with pytest.raises(RowsOutsideFilter, match="nyc.trips"):
            inside(batch, parsed, table, "nyc.trips")
    else:
        assert inside(batch, parsed, table, "nyc.trips") is batch
