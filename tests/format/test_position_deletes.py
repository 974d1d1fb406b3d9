"""Position delete files of format 2."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO, _read_deletes
from pyiceberg.manifest import DataFile as PyIcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat

from lakewright.format import position_deletes
from lakewright.format.data_file import POSITION_DELETES, DataFile
from lakewright.format.deletion_vector import Positions
from lakewright.format.position_deletes import FILE_PATH_ID, POSITION_ID, write_position_deletes

IO = PyArrowFileIO()
LONG = "s3://bucket/" + "long/" * 20
ROWS = [(LONG + "a.parquet", np.array([0, 2, 5])), (LONG + "b.parquet", np.array([1, 2**33]))]


def write(folder: Path, rows: list[tuple[str, Positions]], **options: Any) -> tuple[DataFile, pq.ParquetFile]:
    path = folder / "deletes.parquet"
    return write_position_deletes(IO, f"file://{path}", rows, spec_id=2, partition=("eu",), **options), pq.ParquetFile(path)


def test_columns_are_required_and_have_the_reserved_ids(tmp_path: Path) -> None:
    _, file = write(tmp_path, ROWS)
    assert file.schema_arrow.names == ["file_path", "pos"]
    assert [(f.nullable, int(f.metadata[b"PARQUET:field_id"])) for f in file.schema_arrow] == [(False, 2147483546), (False, 2147483545)]
    assert {file.metadata.row_group(0).column(at).compression for at in (0, 1)} == {"ZSTD"}


def test_rows_keep_their_order(tmp_path: Path) -> None:
    _, file = write(tmp_path, ROWS)
    assert [(r["file_path"], r["pos"]) for r in file.read().to_pylist()] == [(name, int(p)) for name, positions in ROWS for p in positions]


def test_what_the_manifest_says_of_it(tmp_path: Path) -> None:
    made, _ = write(tmp_path, ROWS)
    assert (made.content, made.file_format, made.spec_id, made.partition, made.record_count) == (POSITION_DELETES, "PARQUET", 2, ("eu",), 5)
    assert made.file_size_in_bytes == (tmp_path / "deletes.parquet").stat().st_size
    assert (made.sort_order_id, made.referenced_data_file) == (None, None)
    assert made.value_counts == {FILE_PATH_ID: 5, POSITION_ID: 5}
    assert made.null_value_counts == {FILE_PATH_ID: 0, POSITION_ID: 0}
    assert made.lower_bounds == {FILE_PATH_ID: ROWS[0][0].encode(), POSITION_ID: struct.pack("<q", 0)}
    assert made.upper_bounds == {FILE_PATH_ID: ROWS[1][0].encode(), POSITION_ID: struct.pack("<q", 2**33)}


def test_a_file_about_one_data_file_says_so(tmp_path: Path) -> None:
    made, _ = write(tmp_path, ROWS[:1])
    assert made.referenced_data_file == ROWS[0][0]
    assert made.lower_bounds[FILE_PATH_ID] == made.upper_bounds[FILE_PATH_ID] == ROWS[0][0].encode()


@pytest.mark.feature("I16")
def test_pyiceberg_reads_the_file(tmp_path: Path) -> None:
    made, _ = write(tmp_path, ROWS)
    theirs = PyIcebergFile.from_args(content=DataFileContent.POSITION_DELETES, file_path=made.file_path, file_format=FileFormat.PARQUET)
    assert {name: found.to_pylist() for name, found in _read_deletes(IO, theirs).items()} == {name: p.tolist() for name, p in ROWS}


def test_many_rows_are_written_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(position_deletes, "ROWS_AT_ONCE", 100)
    rows = [(f"f{at:03}", np.arange(at, 1000, 7)) for at in range(20)] + [("last", np.arange(450))]
    made, file = write(tmp_path, rows)
    assert file.metadata.num_row_groups > 10
    assert len(made.split_offsets) == file.metadata.num_row_groups
    assert [(r["file_path"], r["pos"]) for r in file.read().to_pylist()] == [(name, int(p)) for name, positions in rows for p in positions]
    assert made.record_count == file.metadata.num_rows


def test_codec(tmp_path: Path) -> None:
    _, file = write(tmp_path, ROWS, compression="uncompressed")
    assert file.metadata.row_group(0).column(1).compression == "UNCOMPRESSED"


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (ROWS[::-1], "order of the paths"),
        ([ROWS[0], ROWS[0]], "order of the paths"),
        ([("a", np.array([2, 1]))], "do not ascend"),
        ([("a", np.array([1, 1]))], "do not ascend"),
        ([("a", np.array([], np.int64))], "No positions"),
    ],
)
def test_rows_out_of_order_are_refused(tmp_path: Path, rows: list[tuple[str, Positions]], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        write(tmp_path, rows)
