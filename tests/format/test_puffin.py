"""Puffin files of deletion vectors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile
from pyroaring import BitMap64

from lakewright.errors import CorruptFile
from lakewright.format.data_file import POSITION_DELETES, DataFile
from lakewright.format.deletion_vector import serialize
from lakewright.format.puffin import read_blob, read_vector, read_vectors, write_vector_files, write_vectors

IO = PyArrowFileIO()
FIRST, SECOND = "file:///lake/data/a b.parquet", "file:///lake/data/ä.parquet"
VECTORS = {FIRST: BitMap64([0, 3, 70_000]), SECOND: BitMap64(range(10, 500))}


def data_file(path: str, partition: tuple[str, ...] = ("eu",)) -> DataFile:
    return DataFile(path, 100_000, 1_000_000, spec_id=3, partition=partition)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return f"file://{tmp_path}/deletes.puffin"


@pytest.fixture
def vector(path: str) -> DataFile:
    return write_vector_files(IO, path, [(data_file(name), positions) for name, positions in VECTORS.items()])[1]


def content(path: str) -> bytes:
    return Path(path.removeprefix("file://")).read_bytes()


def test_blobs_are_where_the_result_says(path: str) -> None:
    written, size = write_vectors(IO, path, VECTORS.items())
    assert size == len(content(path))
    assert [(v.referenced_data_file, v.cardinality) for v in written] == [(FIRST, 3), (SECOND, 490)]
    for vector in written:
        assert read_blob(IO, path, vector.content_offset, vector.content_size) == serialize(VECTORS[vector.referenced_data_file])


@pytest.mark.feature("I16")
def test_pyiceberg_reads_the_file(path: str) -> None:
    written, _ = write_vectors(IO, path, VECTORS.items())
    puffin = PuffinFile(content(path))
    assert {v.referenced_data_file: v.to_vector().to_pylist() for v in deletion_vectors_from_puffin_file(puffin)} == {
        name: list(positions) for name, positions in VECTORS.items()
    }
    for blob, vector in zip(puffin.footer.blobs, written, strict=True):
        assert (blob.type, blob.snapshot_id, blob.sequence_number, blob.compression_codec) == ("deletion-vector-v1", -1, -1, None)
        assert (blob.offset, blob.length, blob.fields) == (vector.content_offset, vector.content_size, [2147483645])
        assert blob.properties == {"referenced-data-file": vector.referenced_data_file, "cardinality": str(vector.cardinality)}


def test_what_the_manifest_says_of_a_vector(path: str) -> None:
    first, second = write_vector_files(IO, path, [(data_file(FIRST), VECTORS[FIRST]), (data_file(SECOND, ("us",)), VECTORS[SECOND])])
    assert (first.file_path, first.content, first.file_format, first.file_size_in_bytes) == (path, POSITION_DELETES, "PUFFIN", len(content(path)))
    assert (first.referenced_data_file, first.record_count, first.spec_id, first.partition) == (FIRST, 3, 3, ("eu",))
    assert (second.referenced_data_file, second.partition, second.content_offset) == (SECOND, ("us",), 4 + (first.content_size_in_bytes or 0))
    assert read_vectors(IO, path, [second, first]) == [VECTORS[SECOND], VECTORS[FIRST]]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"content_offset": 5}, "its length is"),
        ({"content_offset": -4}, "it should be bytes -4"),
        ({"content_offset": 2**40}, "it should be bytes"),
        ({"content_size_in_bytes": 2**62}, "it should be bytes"),
        ({"content_size_in_bytes": -1}, "it should be bytes"),
        ({"content_size_in_bytes": 20}, "its length is"),
        ({"content_offset": None}, "does not say where"),
        ({"record_count": 489}, "it has 490 positions, and its manifest says 489"),
    ],
)
def test_a_manifest_that_does_not_fit_the_file(vector: DataFile, change: dict[str, int | None], reason: str) -> None:
    with pytest.raises(CorruptFile, match=reason) as caught:
        read_vector(IO, replace(vector, **change))  # type: ignore[arg-type]
    assert vector.file_path in str(caught.value) and SECOND in str(caught.value)


def test_a_damaged_file(vector: DataFile) -> None:
    data = bytearray(content(vector.file_path))
    data[(vector.content_offset or 0) + 12] ^= 1
    Path(vector.file_path.removeprefix("file://")).write_bytes(data)
    with pytest.raises(CorruptFile, match="checksum does not match"):
        read_vector(IO, vector)


def test_a_missing_file(vector: DataFile) -> None:
    Path(vector.file_path.removeprefix("file://")).unlink()
    with pytest.raises(CorruptFile, match="deletes.puffin is missing"):
        read_vector(IO, vector)
