"""Positions deleted in a file, from vectors and position delete files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyroaring import BitMap64

from lakewright.errors import CorruptFile
from lakewright.format.data_file import EQUALITY_DELETES, POSITION_DELETES, DataFile
from lakewright.format.position_deletes import write_position_deletes
from lakewright.format.puffin import write_vector_files
from lakewright.read import positions as module
from lakewright.read.deletes import DeleteFile
from lakewright.read.positions import DeletedPositions, deleted_positions, read_position_deletes
from lakewright.read.scan import FileScan

IO = PyArrowFileIO()
A, B = (DataFile(f"file:///lake/{name}.parquet", 100, 1000, spec_id=0) for name in "ab")


def scan(file: DataFile, deletes: Iterable[DataFile]) -> FileScan:
    return FileScan(file, 1, None, tuple(DeleteFile(d, 2) for d in deletes))


def deletes(folder: Path, name: str, *rows: tuple[DataFile, list[int]]) -> DataFile:
    given = [(file.file_path, np.array(positions)) for file, positions in rows]
    return write_position_deletes(IO, f"file://{folder}/{name}.parquet", given, spec_id=0, partition=())


def written(folder: Path, **columns: Any) -> DataFile:
    pq.write_table(pa.table(columns), folder / "odd.parquet")
    return DataFile(f"file://{folder}/odd.parquet", 1, 100, spec_id=0, content=POSITION_DELETES)


def test_a_file_without_deletes() -> None:
    assert deleted_positions(IO, scan(A, [])) == BitMap64()


def test_position_delete_files_are_added_up(tmp_path: Path) -> None:
    first, second = deletes(tmp_path, "d", (A, [1, 5]), (B, [7])), deletes(tmp_path, "e", (A, [5, 6]))
    assert list(deleted_positions(IO, scan(A, [first, second]))) == [1, 5, 6]
    assert list(deleted_positions(IO, scan(B, [first, second]))) == [7]


def test_vectors_of_one_puffin_file_are_told_apart(tmp_path: Path) -> None:
    a, b = write_vector_files(IO, f"file://{tmp_path}/v.puffin", [(A, BitMap64([1, 2])), (B, BitMap64([3]))])
    shared = DeletedPositions(IO)
    shared.load([scan(A, [a]), scan(B, [b])])
    assert (list(shared.of(scan(A, [a]))), list(shared.of(scan(B, [b])))) == ([1, 2], [3])


def test_each_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = deletes(tmp_path, "d", (A, [1, 5]), (B, [7]))
    read: list[str] = []

    def reading(io: FileIO, path: str) -> dict[str, BitMap64]:
        read.append(path)
        return read_position_deletes(io, path)

    monkeypatch.setattr(module, "read_position_deletes", reading)
    shared = DeletedPositions(IO)
    assert [list(shared.of(scan(file, [both]))) for file in (A, B, A)] == [[1, 5], [7], [1, 5]]
    assert read == [both.file_path]


def test_what_is_handed_out_may_be_changed(tmp_path: Path) -> None:
    file = scan(A, [deletes(tmp_path, "d", (A, [1]))])
    shared = DeletedPositions(IO)
    shared.of(file).add(9)
    assert list(shared.of(file)) == [1]


def test_equality_deletes_are_not_looked_at() -> None:
    values = DataFile("file:///nowhere.parquet", 1, 100, spec_id=0, content=EQUALITY_DELETES, equality_ids=(1,))
    assert deleted_positions(IO, scan(A, [values])) == BitMap64()


def test_files_of_other_writers_need_no_order_and_may_repeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 3)
    rows = [(B, 4), (A, 9), (B, 4), (A, 1), (A, 9), (B, 2), (A, 3)]
    odd = written(tmp_path, pos=[p for _, p in rows], file_path=[file.file_path for file, _ in rows], row=["x"] * len(rows))
    assert (list(deleted_positions(IO, scan(A, [odd]))), list(deleted_positions(IO, scan(B, [odd])))) == ([1, 3, 9], [2, 4])


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"pos": [1]}, "file_path"),
        ({"file_path": ["a"]}, "pos"),
        ({"file_path": ["a"], "pos": pa.array([None], pa.int64())}, "without a file or position"),
        ({"file_path": ["a"], "pos": [-1]}, "Position -1 is negative"),
    ],
)
def test_files_that_are_no_position_deletes(tmp_path: Path, columns: dict[str, Any], reason: str) -> None:
    with pytest.raises(CorruptFile, match=f"odd.parquet.*{reason}"):
        deleted_positions(IO, scan(A, [written(tmp_path, **columns)]))


def test_a_missing_file() -> None:
    gone = DataFile("file:///nowhere/d.parquet", 1, 100, spec_id=0, content=POSITION_DELETES)
    with pytest.raises(CorruptFile, match="nowhere/d.parquet is missing"):
        deleted_positions(IO, scan(A, [gone]))
