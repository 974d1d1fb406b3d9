"""What random tables once found wrong, each as small as it gets."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from lakewright.commit.create import first_version
from lakewright.errors import InvalidTransform
from lakewright.format.data_file import ADDED, DataFile, ManifestEntry, ManifestFile
from lakewright.format.manifests import read_manifest, write_manifest
from lakewright.plan.filters import parse_where
from lakewright.plan.overwrite import WholeFiles
from lakewright.plan.partitioning import build_sort_order, build_spec
from lakewright.plan.types import schema_from
from lakewright.read.prune import Pruner
from tests.interop.readers import pyiceberg
from tests.properties.checks import data_files

pytestmark = pytest.mark.usefixtures("compiled")

LEAST, WRAPPED = -(2**31), 2**31 - 2
ENGINES = ["native", "arrow"]


def manifest(folder: Path, columns: str, by: list[str], *partitions: tuple[Any, ...]) -> tuple[ManifestFile, list[DataFile]]:
    """A manifest with a file of each partition, and the files as it has them."""
    schema, io = schema_from(columns), PyArrowFileIO()
    spec = build_spec(schema, by)
    entries = [ManifestEntry(ADDED, 1, None, None, DataFile("f.parquet", 1, 1, 0, partition)) for partition in partitions]
    written = write_manifest(io, f"file://{folder}/m.avro", spec=spec, schema=schema, content=0, snapshot_id=1, entries=entries)
    return written, [entry.data_file for entry in read_manifest(io, written, {0: spec})]


def test_a_double_in_a_manifest_keeps_all_its_digits(tmp_path: Path) -> None:
    assert manifest(tmp_path, "d double", ["d"], (0.1,))[1][0].partition == (0.1,)


@pytest.mark.parametrize("where", ["i < 5", "i = -2147483648", "i <= -2147483648", "i in (-2147483648, 7)"])
def test_the_least_int_truncated_is_the_greatest_but_still_found(tmp_path: Path, where: str) -> None:
    """truncate(10) of it is -2147483650, which as an int is 2147483646."""
    schema = schema_from("i int")
    pruner = Pruner(parse_where(where, schema).iceberg, schema, {}, {0: build_spec(schema, ["truncate(10, i)"])})
    listed, files = manifest(tmp_path, "i int", ["truncate(10, i)"], (WRAPPED,))
    assert pruner.keeps_manifest(listed) and pruner.keeps_file(files[0])


def test_other_truncations_still_prune(tmp_path: Path) -> None:
    schema = schema_from("i int")
    pruner = Pruner(parse_where("i < 5", schema).iceberg, schema, {}, {0: build_spec(schema, ["truncate(10, i)"])})
    listed, files = manifest(tmp_path, "i int", ["truncate(10, i)"], (10,))
    assert not pruner.keeps_manifest(listed) and not pruner.keeps_file(files[0])


@pytest.mark.parametrize("by", ["year(d)", "month(t)", "day(t)"])
@pytest.mark.parametrize(
    "where", ["d > date '9999-12-31'", "d < date '0001-01-01'", "t > timestamp '9999-12-31 23:59:59.999999'", "t < timestamp '0001-01-01'"]
)
def test_a_filter_may_name_the_ends_of_the_calendar(tmp_path: Path, by: str, where: str) -> None:
    schema = schema_from("d date, t timestamp")
    found, specs = parse_where(where, schema, session_tz="UTC"), {0: build_spec(schema, [by])}
    listed, files = manifest(tmp_path, "d date, t timestamp", [by], (0,))
    pruner = Pruner(found.iceberg, schema, {}, specs)
    pruner.keeps_manifest(listed)
    pruner.keeps_file(files[0])
    assert not WholeFiles(found.strict, first_version("file:///t", schema, specs[0], build_sort_order(schema, []), {}, 2)).match(files[0])


@pytest.mark.parametrize("engine", ENGINES)
def test_an_overwrite_keeps_the_least_int_beside_what_it_replaces(lake: Any, engine: str) -> None:
    rows = lake.spark.createDataFrame([(LEAST,), (7,)], "i int")
    table = lake.create_table("k.t", rows.schema, partition_by=["truncate(10, i)"])
    table.append(rows, engine=engine)
    metadata = table.refresh()._state.metadata
    least = next(file for file in data_files(table.iceberg) if file.partition[0] == WRAPPED)
    without_metrics = DataFile(least.file_path, 1, 1, 0, (WRAPPED,))
    assert not WholeFiles(parse_where("i > 0", table.schema).strict, metadata).match(without_metrics)
    table.overwrite(lake.spark.createDataFrame([(8,)], "i int"), where="i > 0", engine=engine)
    assert sorted(row.i for row in table.read().collect()) == [LEAST, 8]


def test_a_filter_takes_all_digits_of_a_decimal() -> None:
    schema, digits = schema_from("n decimal(38, 10)"), "-1234567890123456789012345678.0123456789"
    found = parse_where(f"n = {digits}", schema)
    assert found.exact and digits in str(found.iceberg)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("by", [["n"], ["bucket(4, n)"], ["truncate(10, n)"]])
def test_partitions_of_decimals_with_38_digits(lake: Any, engine: str, by: list[str]) -> None:
    values = [Decimal("9" * 28 + "." + "9" * 10), Decimal("-" + "9" * 28 + "." + "9" * 9 + "0")]
    rows = lake.spark.createDataFrame([(value,) for value in values], "n decimal(38, 10)")
    table = lake.create_table("k.t", rows.schema, partition_by=by)
    table.append(rows, engine=engine)
    transform = table.spec.fields[0].transform.transform(table.schema.fields[0].field_type)
    assert {file.partition[0] for file in data_files(table.iceberg)} == {transform(value) for value in values}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("size", ["4, 2", "38, 0", "38, 10"])
def test_a_decimal_whose_truncation_has_no_room_is_refused(lake: Any, engine: str, size: str) -> None:
    precision, scale = map(int, size.split(","))
    rows = lake.spark.createDataFrame([(Decimal(f"-{10**precision - 1}E-{scale}"),)], f"n decimal({size})")
    table = lake.create_table("k.t", rows.schema, partition_by=["truncate(50, n)"])
    with pytest.raises(InvalidTransform, match="digits"):
        table.append(rows, engine=engine)
    assert table.read().count() == 0


def test_two_partition_fields_of_one_decimal_type_are_read_by_pyiceberg(lake: Any) -> None:
    rows = lake.spark.createDataFrame([(Decimal("1.50"), Decimal("2.50"))], "a decimal(9, 2), b decimal(9, 2)")
    table = lake.create_table("k.t", rows.schema, partition_by=["a", "b"])
    table.append(rows)
    assert pyiceberg(table).to_pylist() == [{"a": Decimal("1.50"), "b": Decimal("2.50")}]


@pytest.mark.parametrize("engine", ENGINES)
def test_minus_zero_is_a_partition_of_its_own(lake: Any, engine: str) -> None:
    """Readers that take an identity column from its partition would else lose the sign."""
    rows = lake.spark.createDataFrame([(0.0,), (-0.0,)], "d double")
    table = lake.create_table("k.t", rows.schema, partition_by=["d"])
    table.append(rows.coalesce(1), engine=engine)
    assert sorted(str(file.partition[0]) for file in data_files(table.iceberg)) == ["-0.0", "0.0"]
