"""Rows of files with deletion vectors, beside other deletes, as both engines read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
from pyroaring import BitMap64
from pyspark.sql import functions as F

from lakewright.errors import CorruptFile
from lakewright.format.data_file import EQUALITY_DELETES, DataFile
from lakewright.format.metadata import Metadata
from lakewright.format.position_deletes import write_position_deletes
from lakewright.format.puffin import write_vector_files
from lakewright.read import native_positions
from lakewright.read.deletes import DeleteFile
from lakewright.read.frame import to_dataframe
from lakewright.read.scan import FileScan, Scan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("compiled")

IO = PyArrowFileIO()
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
ROWS, ROW_GROUP = 10_000, 3_000
NAMES = ("a", "b c", "ä%20+", "sub/a", "sub'/\"b")


@pytest.fixture(params=["native", "native joined", "native in tasks", "native without broadcast", "arrow"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Positions reach a native scan in four ways: as an array, and joined where they are read by the driver, by tasks, or by tasks but not broadcast."""
    engine, _, way = request.param.partition(" ")
    if way:
        monkeypatch.setattr(native_positions, "ARRAY_BYTES", -1)
    if way in ("in tasks", "without broadcast"):
        monkeypatch.setattr(native_positions, "DRIVER_POSITIONS", -1)
    if way == "without broadcast":
        monkeypatch.setattr(native_positions, "BROADCAST_BYTES", -1)
    return str(engine)


@pytest.fixture
def metadata(other_table: Callable[..., Any]) -> Metadata:
    made: Metadata = other_table(SCHEMA).metadata
    return made


@pytest.fixture
def files(tmp_path: Path) -> dict[str, DataFile]:
    return {name: data_file(tmp_path, name, at * ROWS) for at, name in enumerate(NAMES)}


def data_file(folder: Path, name: str, first: int, rows: int = ROWS) -> DataFile:
    path = folder / "data" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    ids = range(first, first + rows)
    table = pa.table([pa.array(ids, pa.int64()), pa.array([f"n{i % 7}" for i in ids], pa.large_string())], schema=schema_to_pyarrow(SCHEMA))
    pq.write_table(table.replace_schema_metadata({"name": "-" * (first // ROWS)}), path, row_group_size=ROW_GROUP)  # so that no two are of one size
    return DataFile(f"file://{path}", rows, path.stat().st_size, spec_id=0)


def vectors(folder: Path, given: Mapping[str, Iterable[int]], files: Mapping[str, DataFile], puffin: str = "v") -> dict[str, FileScan]:
    made = write_vector_files(IO, f"file://{folder}/{puffin}.puffin", [(files[name], BitMap64(positions)) for name, positions in given.items()])
    return {name: scan(files[name], vector) for name, vector in zip(given, made, strict=True)}


def position_deletes(folder: Path, given: Mapping[str, Iterable[int]], files: Mapping[str, DataFile]) -> DataFile:
    rows = sorted((files[name].file_path, np.array(sorted(positions))) for name, positions in given.items())
    return write_position_deletes(IO, f"file://{folder}/p.parquet", rows, spec_id=0, partition=())


def equality_deletes(folder: Path, *ids: int) -> DataFile:
    table = pa.table([pa.array(ids, pa.int64())], schema=pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})]))
    pq.write_table(table, folder / "e.parquet")
    return DataFile(f"file://{folder}/e.parquet", len(ids), 100, spec_id=0, content=EQUALITY_DELETES, equality_ids=(1,))


def scan(file: DataFile, *deletes: DataFile) -> FileScan:
    return FileScan(file, 1, None, tuple(DeleteFile(d, 2) for d in deletes))


def ids(spark: SparkSession, metadata: Metadata, scans: Iterable[FileScan], engine: str, **options: Any) -> list[int]:
    return sorted(row.id for row in to_dataframe(spark, IO, metadata, Scan(None, tuple(scans)), engine=engine, **options).collect())


def model(files: Mapping[str, DataFile], gone: Mapping[str, Iterable[int]]) -> list[int]:
    starts = {name: at * ROWS for at, name in enumerate(NAMES)}
    return sorted(starts[name] + p for name in files for p in set(range(ROWS)) - set(gone.get(name, ())))


def some_positions(seed: int = 7) -> dict[str, list[int]]:
    """First and last rows, the edges of row groups and of 64-bit words, a few at random, and one file whole."""
    rng = np.random.default_rng(seed)
    edges = [0, 1, 63, 64, 65, 2999, 3000, 3001, 4095, 4096, 4097, 9_999]
    return {"a": edges, "b c": sorted({*rng.choice(ROWS, 300, replace=False).tolist()}), "ä%20+": list(range(ROWS)), "sub/a": [5, 64], "sub'/\"b": []}


@pytest.mark.feature("I16")
def test_vectors(spark: SparkSession, metadata: Metadata, files: dict[str, DataFile], tmp_path: Path, engine: str) -> None:
    gone = some_positions()
    assert ids(spark, metadata, vectors(tmp_path, gone, files).values(), engine) == model(files, gone)


def test_position_delete_files(spark: SparkSession, metadata: Metadata, files: dict[str, DataFile], tmp_path: Path, engine: str) -> None:
    gone = {name: positions for name, positions in some_positions(8).items() if positions}
    shared = position_deletes(tmp_path, gone, files)
    assert ids(spark, metadata, (scan(file, shared) for file in files.values()), engine) == model(files, gone)


def test_all_kinds_of_deletes_together(spark: SparkSession, metadata: Metadata, files: dict[str, DataFile], tmp_path: Path, engine: str) -> None:
    gone = {"a": [3, 9_000], "b c": [3, 64]}
    by_vector = vectors(tmp_path, {"a": gone["a"]}, files)["a"]
    positions, values = position_deletes(tmp_path, {"b c": gone["b c"]}, files), equality_deletes(tmp_path, 4, ROWS + 5, 3 * ROWS)
    scans = [
        FileScan(by_vector.data_file, 1, None, (*by_vector.deletes, DeleteFile(values, 2))),
        scan(files["b c"], positions, values),
        scan(files["ä%20+"]),
        scan(files["sub/a"], values),
    ]
    expected = model({name: files[name] for name in NAMES[:4]}, {"a": [*gone["a"], 4], "b c": [*gone["b c"], 5], "sub/a": [0]})
    assert ids(spark, metadata, scans, engine) == expected


def test_filters_and_metadata_columns(spark: SparkSession, metadata: Metadata, files: dict[str, DataFile], tmp_path: Path, engine: str) -> None:
    scans = tuple(vectors(tmp_path, {"a": [2, 3, 8_000], "sub/a": [2, 9_999]}, files).values())
    frame = to_dataframe(spark, IO, metadata, Scan(None, scans), engine=engine, where="id % 10000 in (1, 2, 3, 8000, 9999)", metadata_columns=True)
    found = sorted((row._file, row._pos) for row in frame.collect())
    assert found == sorted([(files["a"].file_path, p) for p in (1, 9_999)] + [(files["sub/a"].file_path, p) for p in (1, 3, 8_000)])


def test_columns_that_are_not_asked_for(spark: SparkSession, metadata: Metadata, files: dict[str, DataFile], tmp_path: Path, engine: str) -> None:
    scans = vectors(tmp_path, {"a": range(0, ROWS, 2), "b c": [1]}, files).values()
    frame = to_dataframe(spark, IO, metadata, Scan(None, tuple(scans)), engine=engine)
    assert frame.columns == ["id", "name"]
    assert frame.count() == ROWS // 2 + ROWS - 1


def test_files_without_a_size_at_hand_are_known_by_the_hash_of_their_names(
    spark: SparkSession, metadata: Metadata, files: dict[str, DataFile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_positions, "_sizes", lambda targets: None)
    gone = some_positions(10)
    assert ids(spark, metadata, vectors(tmp_path, gone, files).values(), "native") == model(files, gone)


def test_files_with_one_number_are_told_apart(
    spark: SparkSession, metadata: Metadata, files: dict[str, DataFile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_positions, "ARRAY_BYTES", -1)
    monkeypatch.setattr(native_positions, "_file_numbers", lambda spark, targets, chunks: (chunks, F.lit(0).cast("bigint"), F.lit(0).cast("bigint")))
    gone = some_positions(9)
    assert ids(spark, metadata, vectors(tmp_path, gone, files).values(), "native") == model(files, gone)


def test_files_of_one_size_are_told_apart(spark: SparkSession, metadata: Metadata, tmp_path: Path) -> None:
    twins = {name: data_file(tmp_path, name, 0) for name in ("one", "two")}
    assert len({file.file_size_in_bytes for file in twins.values()}) == 1
    gone = {"one": range(0, ROWS, 2), "two": [1]}
    live = sorted(p for positions in gone.values() for p in set(range(ROWS)) - set(positions))
    assert ids(spark, metadata, vectors(tmp_path, gone, twins).values(), "native") == live


def test_a_row_of_a_file_that_is_not_known_fails_the_query(
    spark: SparkSession, metadata: Metadata, files: dict[str, DataFile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_positions, "_sizes", lambda targets: {name: 1 << 40 | at for at, (name, _) in enumerate(targets)})
    scans = vectors(tmp_path, {name: [1] for name in files}, files)
    known = {file.file_size_in_bytes & 7 for file in files.values()} & set(range(len(files)))
    assert len(known) < len(files), "or all would be taken for others"
    with pytest.raises(Exception, match="its deleted rows are not known"):
        ids(spark, metadata, scans.values(), "native")


def test_files_are_of_different_sizes(files: dict[str, DataFile]) -> None:
    """Or the tests above would not see the array."""
    assert len({file.file_size_in_bytes for file in files.values()}) == len(files)


def test_rows_are_looked_up_without_a_join(
    spark: SparkSession, metadata: Metadata, files: dict[str, DataFile], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = to_dataframe(spark, IO, metadata, Scan(None, tuple(vectors(tmp_path, {"a": [1], "b c": [7]}, files).values())), engine="native", where="id > 5")
    frame.explain()
    plan = capsys.readouterr().out
    assert "Join" not in plan, plan
    assert "GreaterThan(id,5)" in plan.split("PushedFilters")[1], plan


def test_the_join_is_on_one_long(
    spark: SparkSession, metadata: Metadata, files: dict[str, DataFile], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_positions, "ARRAY_BYTES", -1)
    scans = tuple(vectors(tmp_path, {"a": [1]}, files).values())
    to_dataframe(spark, IO, metadata, Scan(None, scans), engine="native", where="id > 5").explain()
    plan = capsys.readouterr().out
    assert re.search(r"BroadcastHashJoin \[\(shiftleft\([^\]]*\], \[_lw_deleted_key#\d+L\], LeftAnti", plan), plan
    assert "GreaterThan(id,5)" in plan.split("PushedFilters")[1], plan


def test_a_damaged_vector_fails_the_read(spark: SparkSession, metadata: Metadata, files: dict[str, DataFile], tmp_path: Path) -> None:
    scans = vectors(tmp_path, {"a": [1, 2]}, files)
    puffin = tmp_path / "v.puffin"
    puffin.write_bytes(puffin.read_bytes().replace(b"\xd1\xd3\x39\x64", b"\xd1\xd3\x39\x65"))
    with pytest.raises(CorruptFile, match="v.puffin of data file .*a.parquet is damaged: it begins with d1d33965"):
        ids(spark, metadata, scans.values(), "native")
