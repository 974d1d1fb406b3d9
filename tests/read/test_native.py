"""Files of any age, read natively by field id in our sessions and by name in sessions that keep their own settings."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import DoubleType, FloatType, IntegerType, ListType, LongType, MapType, NestedField, StringType, StructType

from lakewright.read import scan
from lakewright.read.native import FIELD_ID_READ, LISTING_THRESHOLD
from lakewright.read.scan import ManifestCache

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("compiled")

PEOPLE = Schema(NestedField(1, "id", IntegerType()), NestedField(2, "name", StringType()), NestedField(3, "score", FloatType()))


@pytest.fixture(params=["by id", "by name", "arrow"])
def reading(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Each way to read, as options: a session of ours, a session with Spark's defaults, and the Arrow engine."""
    before = spark.conf.get(FIELD_ID_READ) or "true"
    spark.conf.set(FIELD_ID_READ, "true" if request.param == "by id" else "false")
    yield {"engine": "arrow" if request.param == "arrow" else "native"}
    spark.conf.set(FIELD_ID_READ, before)


def test_rows_come_back(spark: SparkSession, other_table: Callable[..., Any], reading: dict[str, Any]) -> None:
    table = other_table(PEOPLE).append([{"id": 1, "name": "a", "score": 1.5}, {"id": 2, "name": None, "score": None}])
    assert table.rows(spark, **reading) == [(1, "a", 1.5), (2, None, None)]


def test_renamed_reordered_and_swapped_columns(spark: SparkSession, other_table: Callable[..., Any], reading: dict[str, Any]) -> None:
    table = other_table(PEOPLE).append([{"id": 1, "name": "a", "score": 1.5}])
    with table.iceberg.update_schema() as update:
        update.rename_column("name", "title")
        update.move_first("score")
    with table.iceberg.update_schema() as update:
        update.add_column("name", StringType())
    table.refresh().append([{"score": 2.5, "id": 2, "title": "b", "name": "new"}])
    assert table.rows(spark, **reading) == [(1.5, 1, "a", None), (2.5, 2, "b", "new")]


def test_filters_do_not_reach_a_column_of_the_same_name_in_old_files(spark: SparkSession, other_table: Callable[..., Any], reading: dict[str, Any]) -> None:
    table = other_table(PEOPLE).append([{"id": 1, "name": "a", "score": 1.5}])
    with table.iceberg.update_schema() as update:
        update.rename_column("name", "title")
    with table.iceberg.update_schema() as update:
        update.add_column("name", StringType())
    table.refresh()
    assert table.read(spark, **reading).where("name is null").count() == 1
    assert table.read(spark, **reading).where("title = 'a'").count() == 1


def test_dropped_and_added_again_is_another_column(spark: SparkSession, other_table: Callable[..., Any], reading: dict[str, Any]) -> None:
    table = other_table(PEOPLE).append([{"id": 1, "name": "a", "score": 1.5}])
    with table.iceberg.update_schema() as update:
        update.delete_column("name")
    with table.iceberg.update_schema() as update:
        update.add_column("name", StringType())
    table.refresh().append([{"id": 2, "score": None, "name": "b"}])
    assert table.rows(spark, **reading) == [(1, 1.5, None), (2, None, "b")]


def test_promoted_types(spark: SparkSession, other_table: Callable[..., Any], reading: dict[str, Any]) -> None:
    from decimal import Decimal

    from pyiceberg.types import DecimalType

    schema = Schema(NestedField(1, "i", IntegerType()), NestedField(2, "f", FloatType()), NestedField(3, "d", DecimalType(9, 2)))
    table = other_table(schema).append([{"i": 1, "f": 1.5, "d": Decimal("1.25")}])
    with table.iceberg.update_schema() as update:
        update.update_column("i", LongType())
        update.update_column("f", DoubleType())
        update.update_column("d", DecimalType(20, 2))
    table.refresh().append([{"i": 2**40, "f": 1e300, "d": Decimal("123456789012345678.25")}])
    assert table.rows(spark, **reading) == [(1, 1.5, Decimal("1.25")), (2**40, 1e300, Decimal("123456789012345678.25"))]


def test_nested_fields_evolve(spark: SparkSession, other_table: Callable[..., Any], reading: dict[str, Any]) -> None:
    point = StructType(NestedField(11, "x", IntegerType()), NestedField(12, "y", FloatType()))
    item = StructType(NestedField(22, "sku", StringType()), NestedField(23, "n", IntegerType()))
    schema = Schema(
        NestedField(1, "p", point),
        NestedField(2, "items", ListType(21, item, element_required=False)),
        NestedField(3, "tags", MapType(31, StringType(), 32, StructType(NestedField(33, "v", IntegerType())), value_required=False)),
    )
    table = other_table(schema)
    old = [{"p": {"x": 1, "y": 0.5}, "items": [{"sku": "a", "n": 1}, None], "tags": [("k", {"v": 1})]}, {"p": None, "items": None, "tags": None}]
    before = table.add(old).files()[0].data_file
    with table.iceberg.update_schema() as update:
        update.rename_column(("p", "x"), "left")
        update.add_column(("p", "z"), LongType())
        update.rename_column(("items", "sku"), "code")
        update.update_column(("items", "n"), LongType())
        update.add_column(("tags", "value", "w"), StringType())
    table.refresh().commit([before], content=0).add(
        [{"p": {"left": 2, "y": 1.5, "z": 3}, "items": [{"code": "b", "n": 2**40}], "tags": [("k", {"v": 2, "w": "w"})]}], "later"
    )
    rows = [row.asDict(recursive=True) for row in table.read(spark, **reading).collect()]
    assert {"p": {"left": 1, "y": 0.5, "z": None}, "items": [{"code": "a", "n": 1}, None], "tags": {"k": {"v": 1, "w": None}}} in rows
    assert {"p": None, "items": None, "tags": None} in rows
    assert {"p": {"left": 2, "y": 1.5, "z": 3}, "items": [{"code": "b", "n": 2**40}], "tags": {"k": {"v": 2, "w": "w"}}} in rows


@pytest.mark.parametrize("renamed", [False, True])
def test_one_field_of_a_struct(spark: SparkSession, other_table: Callable[..., Any], reading: dict[str, Any], renamed: bool) -> None:
    """Spark reads only the fields that are used."""
    point = StructType(NestedField(11, "x", IntegerType()), NestedField(12, "y", FloatType()))
    item = StructType(NestedField(22, "sku", StringType()), NestedField(23, "n", IntegerType()))
    mark = StructType(NestedField(33, "v", IntegerType()), NestedField(34, "w", IntegerType()))
    schema = Schema(NestedField(1, "p", point), NestedField(2, "i", ListType(21, item)), NestedField(3, "q", item), NestedField(4, "m", MapType(31, StringType(), 32, mark)))
    schema = assign_fresh_schema_ids(schema)
    table = other_table(schema).append([{"p": {"x": 1, "y": 0.5}, "i": [{"sku": "a", "n": 1}], "q": {"sku": "b", "n": 2}, "m": [("k", {"v": 3, "w": 4})]}])
    if renamed:
        with table.iceberg.update_schema() as update:
            for name in "piqm":
                update.rename_column(name, f"new_{name}")
        table.refresh()
    frame = table.read(spark, **reading)
    p, i, q, m = (f"new_{name}" if renamed else name for name in "piqm")
    assert frame.selectExpr(f"{p}.x", f"{i}.sku", f"{q}.n", f"map_values({m}).w").collect() == [(1, ["a"], 2, [4])]
    assert frame.selectExpr(f"{p}", f"{q}.n").collect() == [((1, 0.5), 2)]
    assert frame.where(f"{p}.y = 0.5 AND {q}.sku = 'b'").count() == 1


def test_filters_find_nan_as_spark_does(spark: SparkSession, other_table: Callable[..., Any], reading: dict[str, Any]) -> None:
    inner = StructType(NestedField(3, "y", DoubleType()), NestedField(4, "z", IntegerType()))
    schema = Schema(NestedField(1, "x", DoubleType()), NestedField(2, "s", inner))
    nan = float("nan")
    table = other_table(schema).append([{"x": y, "s": {"y": y, "z": 1}} for y in (6.0, nan, 7.0)])
    frame = table.read(spark, **reading)
    assert frame.where("x > 10").count() == 1
    assert frame.where("x = double('NaN')").count() == 1
    assert frame.where("s.y > 10").count() == 1
    assert frame.where("s.y > 10").select("s.z").collect() == [(1,)]


def test_uuid_and_fixed(spark: SparkSession, other_table: Callable[..., Any], reading: dict[str, Any]) -> None:
    import uuid

    from pyiceberg.types import FixedType, UUIDType

    schema = Schema(NestedField(1, "u", UUIDType()), NestedField(2, "f", FixedType(4)), NestedField(3, "us", ListType(4, UUIDType(), element_required=False)))
    one = uuid.UUID("12345678-1234-5678-1234-567812345678")
    uuids = pa.ListArray.from_arrays(pa.array([0, None, 1], pa.int32()), pa.ExtensionArray.from_storage(pa.uuid(), pa.array([one.bytes], pa.binary(16))))
    arrow = pa.table(
        {"u": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([one.bytes, None], pa.binary(16))), "f": pa.array([b"abcd", None], pa.binary(4)), "us": uuids}
    )
    table = other_table(schema).append(arrow)
    rows = [row.asDict() for row in table.read(spark, **reading).collect()]
    assert rows == [{"u": str(one), "f": bytearray(b"abcd"), "us": [str(one)]}, {"u": None, "f": None, "us": None}]


def test_an_empty_table_has_its_schema(spark: SparkSession, other_table: Callable[..., Any]) -> None:
    frame = other_table(PEOPLE).read(spark)
    assert (frame.count(), frame.dtypes) == (0, [("id", "int"), ("name", "string"), ("score", "float")])


def test_many_files_leave_the_session_as_it_was(spark: SparkSession, other_table: Callable[..., Any]) -> None:
    table = other_table(PEOPLE)
    first = table.add([{"id": 1, "name": "a", "score": 1.0}]).files()[0].data_file
    data = Path(first.file_path.removeprefix("file://"))
    copies = [data.with_name(f"copy-{n}.parquet") for n in range(40)]
    for copy in copies:
        shutil.copy(data, copy)
    table.commit([replace(first, file_path=f"file://{copy}") for copy in copies], content=0)
    spark.conf.set(LISTING_THRESHOLD, "7")
    try:
        frame = table.read(spark)
        assert spark.conf.get(LISTING_THRESHOLD) == "7"
    finally:
        spark.conf.set(LISTING_THRESHOLD, "1000000")
    assert frame.count() == 41


def test_decoded_manifests_are_kept_up_to_a_number_of_entries(other_table: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    table = other_table(PEOPLE).append([{"id": 1, "name": "a", "score": 1.0}]).append([{"id": 2, "name": "b", "score": 1.0}])
    roomy, tight = ManifestCache(), ManifestCache(max_entries=1)
    whole = table.files()
    assert table.files(cache=roomy) == table.files(cache=tight) == whole
    decoded: list[str] = []
    monkeypatch.setattr(scan, "read_manifest", lambda io, manifest, *args, **options: decoded.append(manifest.manifest_path) or iter(()))
    assert table.files(cache=roomy) == whole and not decoded
    table.files(cache=tight)
    assert decoded
