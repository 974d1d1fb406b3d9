from __future__ import annotations

import math
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform
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
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakewright.errors import InvalidOption
from lakewright.format.data_file import DataFile
from lakewright.format.metrics import MetricsConfig, MetricsMode, data_file_from_footer, nan_statistics
from lakewright.options import resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAN = math.nan


def column(field_id: int, name: str, kind: IcebergType) -> NestedField:
    return NestedField(field_id, name, kind, required=False)


def described(path: Path, schema: Schema, rows: list[dict[str, Any]], properties: dict[str, str] | None = None, **settings: Any) -> DataFile:
    table = pa.Table.from_pylist(rows, schema=schema_to_pyarrow(schema))
    pq.write_table(table, path / "f.parquet", row_group_size=settings.pop("row_group_size", None), **settings)
    config = MetricsConfig.from_properties(properties or {}, schema)
    return data_file_from_footer(path="f", size=1, footer=pq.read_metadata(path / "f.parquet"), spec_id=0, partition=(), config=config, nan_counts={})


def bounds_of(file: DataFile, schema: Schema) -> dict[str, tuple[Any, Any]]:
    found = {}
    for field_id, lower in file.lower_bounds.items():
        field = schema.find_field(field_id)
        assert not isinstance(field.field_type, (StructType, ListType, MapType))
        upper = file.upper_bounds.get(field_id)
        found[field.name] = (from_bytes(field.field_type, lower), None if upper is None else from_bytes(field.field_type, upper))  # type: ignore[arg-type]
    return found


KEYS = [uuid.UUID(int=n << 100).bytes for n in (1, 200)]
VALUES: dict[str, tuple[IcebergType, Any, Any, Any, Any]] = {
    "boolean": (BooleanType(), False, True, False, True),
    "int": (IntegerType(), -5, 7, -5, 7),
    "long": (LongType(), -(2**40), 2**40, -(2**40), 2**40),
    "float": (FloatType(), -1.5, 2.5, -1.5, 2.5),
    "double": (DoubleType(), -1e300, 0.0, -1e300, 0.0),
    "date": (DateType(), date(1960, 1, 1), date(2020, 1, 1), -3653, 18262),
    "time": (TimeType(), time(1), time(22, 31, 8), 3_600_000_000, 81_068_000_000),
    "timestamp": (TimestampType(), datetime(1969, 12, 31, 23), datetime(1970, 1, 1, 1), -3_600_000_000, 3_600_000_000),
    "timestamptz": (TimestamptzType(), datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 2, tzinfo=UTC), 0, 86_400_000_000),
    "string": (StringType(), "a", "é", "a", "é"),
    "binary": (BinaryType(), b"\x00", b"\xff", b"\x00", b"\xff"),
    "fixed": (FixedType(2), b"ab", b"\xffb", b"ab", b"\xffb"),
    "uuid": (UUIDType(), KEYS[0], KEYS[1], KEYS[0], KEYS[1]),
    "short decimal": (DecimalType(9, 2), Decimal("-14.20"), Decimal("1.00"), Decimal("-14.20"), Decimal("1.00")),
    "long decimal": (DecimalType(38, 2), Decimal("-1" + "0" * 30 + ".00"), Decimal("1" + "0" * 30 + ".00"), Decimal("-1" + "0" * 30 + ".00"), Decimal("1" + "0" * 30 + ".00")),
}
EVERY = Schema(*(column(n, name, parts[0]) for n, (name, parts) in enumerate(VALUES.items(), 1)))


@pytest.mark.feature("I10")
@pytest.mark.parametrize("row_group_size", [None, 1])
@pytest.mark.parametrize("integers", [False, True])
def test_every_type(tmp_path: Path, row_group_size: int | None, integers: bool) -> None:
    rows = [{name: parts[n] for name, parts in VALUES.items()} for n in (2, 1)] + [dict.fromkeys(VALUES)]
    file = described(tmp_path, EVERY, rows, row_group_size=row_group_size, store_decimal_as_integer=integers)
    assert bounds_of(file, EVERY) == {name: parts[3:] for name, parts in VALUES.items()}
    ids = range(1, len(VALUES) + 1)
    assert file.record_count == 3
    assert file.value_counts == dict.fromkeys(ids, 3)
    assert file.null_value_counts == dict.fromkeys(ids, 1)
    assert file.nan_value_counts == {4: 0, 5: 0}
    assert set(file.column_sizes) == set(ids)
    assert file.split_offsets == tuple(sorted(file.split_offsets))
    assert len(file.split_offsets) == (1 if row_group_size is None else 3)


def test_nested_columns(tmp_path: Path) -> None:
    schema = Schema(
        column(1, "s", StructType(column(2, "n", IntegerType()), column(3, "t", StructType(column(4, "d", DoubleType()))))),
        column(5, "l", ListType(6, DoubleType(), element_required=False)),
        column(7, "m", MapType(8, StringType(), 9, IntegerType(), value_required=False)),
    )
    rows: list[dict[str, Any]] = [{"s": {"n": 1, "t": {"d": 2.0}}, "l": [1.0], "m": [("k", 1)]}, {"s": None, "l": [], "m": None}]
    file = described(tmp_path, schema, rows)
    assert set(file.column_sizes) == {2, 4, 6, 8, 9}
    assert (file.value_counts, file.null_value_counts) == ({2: 2, 4: 2}, {2: 1, 4: 1})
    assert set(file.lower_bounds) == {2, 4}


def test_columns_are_known_by_id_not_name(tmp_path: Path) -> None:
    written = Schema(column(1, "a", IntegerType()), column(2, "b", IntegerType()), column(9, "unknown", IntegerType()))
    table = pa.Table.from_pylist([{"a": 1, "b": 2, "unknown": 3}], schema=schema_to_pyarrow(written))
    pq.write_table(table, tmp_path / "f.parquet")
    config = MetricsConfig.from_properties({}, Schema(column(2, "a", IntegerType()), column(1, "b", IntegerType())))
    file = data_file_from_footer(path="f", size=1, footer=pq.read_metadata(tmp_path / "f.parquet"), spec_id=0, partition=(), config=config)
    assert {field: int.from_bytes(data, "little") for field, data in file.lower_bounds.items()} == {1: 1, 2: 2}
    assert file.nan_value_counts == {}


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("none", ({}, {}, {})),
        ("counts", ({1: 1}, {}, {})),
        ("truncate(3)", ({1: 1}, {1: b"abc"}, {1: b"abd"})),
        ("full", ({1: 1}, {1: b"abcdef"}, {1: b"abcdef"})),
    ],
)
def test_modes(tmp_path: Path, mode: str, expected: tuple[Any, Any, Any]) -> None:
    schema = Schema(column(1, "text", StringType()))
    for key in ("write.metadata.metrics.default", "write.metadata.metrics.column.text"):
        file = described(tmp_path, schema, [{"text": "abcdef"}], {key: mode})
        assert (file.value_counts, file.lower_bounds, file.upper_bounds) == expected
        assert set(file.column_sizes) == {1}


def test_an_upper_bound_that_cannot_be_raised_is_left_out(tmp_path: Path) -> None:
    schema = Schema(column(1, "text", StringType()))
    file = described(tmp_path, schema, [{"text": "\U0010ffff" * 20}])
    assert (set(file.lower_bounds), set(file.upper_bounds)) == ({1}, set())


def modes(schema: Schema, properties: dict[str, str], sort_order: SortOrder | None = None) -> dict[int, MetricsMode]:
    return {field: column.mode for field, column in MetricsConfig.from_properties(properties, schema, sort_order).columns.items()}


def test_columns_past_the_limit_keep_none_unless_asked_for() -> None:
    schema = Schema(column(1, "s", StructType(column(2, "deep", IntegerType()))), *(column(n, f"c{n}", IntegerType()) for n in range(3, 6)))
    limit = {"write.metadata.metrics.max-inferred-column-defaults": "2"}
    assert [field for field, mode in modes(schema, limit).items() if mode.counts] == [3, 4]
    named = limit | {"write.metadata.metrics.column.s.deep": "counts"}
    assert [field for field, mode in modes(schema, named).items() if mode.counts] == [2, 3, 4]
    assert all(mode.bounds for mode in modes(schema, limit | {"write.metadata.metrics.default": "full"}).values())


def test_sorted_columns_keep_bounds() -> None:
    schema = Schema(column(1, "a", StringType()), column(2, "b", StringType()), column(3, "c", StringType()))
    order = SortOrder(SortField(source_id=1, transform=IdentityTransform()), SortField(source_id=2, transform=BucketTransform(4)))
    counts = {"write.metadata.metrics.default": "counts"}
    assert modes(schema, counts, order) == {1: MetricsMode(True, True, 16), 2: MetricsMode(True, False), 3: MetricsMode(True, False)}
    assert not modes(schema, counts | {"write.metadata.metrics.column.a": "none"}, order)[1].counts


def test_write_options_win_over_properties() -> None:
    schema = Schema(column(1, "a", StringType()))
    options = resolve({"metrics_default": "full"}, {}, {"write.metadata.metrics.default": "none"})
    assert MetricsConfig.from_options(options, schema).columns[1].mode == MetricsMode(True, True)
    options = resolve({}, {}, {"write.metadata.metrics.default": "none"})
    assert not MetricsConfig.from_options(options, schema).columns[1].mode.counts


@pytest.mark.parametrize("mode", ["truncate(0)", "truncate", "some"])
def test_an_unknown_mode_is_refused(mode: str) -> None:
    with pytest.raises(InvalidOption, match=r"metrics\.column\.a is .* it takes none, counts"):
        modes(Schema(column(1, "a", StringType())), {"write.metadata.metrics.column.a": mode})


FLOATS = Schema(
    column(1, "id", LongType()),
    column(2, "d", DoubleType()),
    column(3, "f", FloatType()),
    column(4, "s", StructType(column(5, "x", DoubleType()), column(6, "y", FloatType()))),
    column(7, "dec", DecimalType(15, 2)),
    column(8, "l", ListType(9, DoubleType(), element_required=False)),
)
ROWS = 6000
PLACES = {
    "first": ("id = 0", {0}),
    "middle": ("id = 3111", {3111}),
    "last": (f"id = {ROWS - 1}", {ROWS - 1}),
    "everywhere": ("id >= 0", set(range(ROWS))),
    "nowhere": ("id < 0", set()),
}


def spark_files(frame: DataFrame, path: Path) -> list[Path]:
    """Several row groups of several pages, with field ids as the native engine gives them."""
    for name, metadata in (("id", 1), ("d", 2), ("f", 3), ("s", 4), ("dec", 7), ("l", 8)):
        frame = frame.withMetadata(name, {"parquet.field.id": metadata})
    options = {"parquet.page.row.count.limit": "500", "parquet.block.size": "40000", "parquet.block.size.row.check.min": "10"}
    frame.coalesce(1).write.options(**options).parquet(str(path))
    return list(path.glob("*.parquet"))


@pytest.mark.feature("I10")
@pytest.mark.parametrize("place", PLACES)
def test_nans_of_sparks_own_files(spark: SparkSession, tmp_path: Path, place: str) -> None:
    from pyspark.sql.types import DoubleType as SparkDouble
    from pyspark.sql.types import FloatType as SparkFloat
    from pyspark.sql.types import StructField
    from pyspark.sql.types import StructType as SparkStruct

    condition, nan_rows = PLACES[place]
    number = f"if({condition}, double('NaN'), double(id))"
    fields = [StructField("x", SparkDouble(), True, {"parquet.field.id": 5}), StructField("y", SparkFloat(), True, {"parquet.field.id": 6})]
    frame = spark.range(ROWS).selectExpr(
        "id",
        f"{number} AS d",
        f"cast({number} AS float) AS f",
        f"if(id % 2 = 0, named_struct('x', {number}, 'y', cast({number} AS float)), null) AS s",
        "cast(-id AS decimal(15, 2)) AS dec",
        "array(double('NaN')) AS l",
    )
    frame = frame.withColumn("s", frame["s"].cast(SparkStruct(fields)))
    (file,) = spark_files(frame, tmp_path / place)
    footer = pq.read_metadata(file)
    assert footer.num_row_groups > 1
    config = MetricsConfig.from_properties({}, FLOATS)
    found = data_file_from_footer(path="f", size=1, footer=footer, spec_id=0, partition=(), config=config, nans=nan_statistics(file, footer, config))
    kept = [n for n in range(ROWS) if n not in nan_rows]
    even = len([n for n in nan_rows if n % 2 == 0])
    assert found.nan_value_counts == {2: len(nan_rows), 3: len(nan_rows), 5: even, 6: even}
    assert found.null_value_counts == {1: 0, 2: 0, 3: 0, 5: ROWS // 2, 6: ROWS // 2, 7: 0}
    expected: dict[str, Any] = {"id": (0, ROWS - 1), "dec": (Decimal(1 - ROWS).quantize(Decimal("0.01")), Decimal("0.00"))}
    if kept:
        expected |= dict.fromkeys("df", (kept[0], kept[-1]))
        evens = [n for n in kept if n % 2 == 0]
        expected |= dict.fromkeys("xy", (evens[0], evens[-1]))
    assert bounds_of(found, FLOATS) == expected


def test_nans_of_other_writers_are_counted_by_decoding(tmp_path: Path) -> None:
    schema = Schema(column(1, "d", DoubleType()), column(2, "e", DoubleType()))
    table = pa.Table.from_pylist([{"d": 6.0}, {"d": NAN}, {"d": 7.0}], schema=schema_to_pyarrow(schema))
    pq.write_table(table, tmp_path / "f.parquet")
    config = MetricsConfig.from_properties({}, schema)
    footer = pq.read_metadata(tmp_path / "f.parquet")
    nans = nan_statistics(tmp_path / "f.parquet", footer, config)
    assert {field: (nan.count, nan.bounds) for field, nan in nans.items()} == {1: (1, (6.0, 7.0))}
    file = data_file_from_footer(path="f", size=1, footer=footer, spec_id=0, partition=(), config=config, nans=nans)
    assert file.nan_value_counts == {1: 1, 2: 0}
    assert bounds_of(file, schema) == {"d": (6.0, 7.0)}


def test_only_nans_have_no_bounds(tmp_path: Path) -> None:
    schema = Schema(column(1, "d", DoubleType()))
    file = described(tmp_path, schema, [{"d": NAN}, {"d": None}])
    assert (file.lower_bounds, file.upper_bounds) == ({}, {})
