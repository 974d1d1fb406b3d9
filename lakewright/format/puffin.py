"""Puffin files: of deletion vectors, one blob for each data file, and of sketches of columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import SEEK_END
from typing import Any, NamedTuple

from pyiceberg.io import FileIO, InputStream
from pyroaring import BitMap64

from lakewright import __version__
from lakewright.errors import CorruptFile
from lakewright.format.data_file import POSITION_DELETES, DataFile
from lakewright.format.deletion_vector import damaged, deserialize, serialize

MAGIC = b"PFA1"
PUFFIN = "PUFFIN"
VECTOR_BLOB = "deletion-vector-v1"
ROW_POSITION_ID = 2147483645  # of _pos, which is what Java says the blob was computed for
NOT_KNOWN_YET = -1
UNCOMPRESSED_FOOTER = bytes(4)


class WrittenVector(NamedTuple):
    """Where a vector is in its Puffin file."""

    referenced_data_file: str
    content_offset: int
    content_size: int
    cardinality: int


def write_vectors(io: FileIO, path: str, vectors: Iterable[tuple[str, BitMap64]]) -> tuple[list[WrittenVector], int]:
    """Write a Puffin file of (data file path, deleted positions), as manifests name the data files; with the size of the file."""
    written: list[WrittenVector] = []
    with io.new_output(path).create(overwrite=True) as stream:
        size = stream.write(MAGIC)
        for data_file, positions in vectors:
            blob = serialize(positions)
            stream.write(blob)
            written.append(WrittenVector(data_file, size, len(blob), len(positions)))
            size += len(blob)
        footer = _footer([_vector_blob(vector) for vector in written])
        stream.write(footer)
    return written, size + len(footer)


class SketchFile(NamedTuple):
    """A Puffin file of sketches, as a table's metadata speaks of it."""

    path: str
    size: int
    footer_size: int


def write_sketches(io: FileIO, path: str, kind: str, sketches: Iterable[tuple[dict[str, Any], bytes]]) -> SketchFile:
    """Write a Puffin file of blobs of one kind, each with what it is of: fields, snapshot-id, sequence-number, properties."""
    said, size = [], len(MAGIC)
    with io.new_output(path).create() as stream:
        stream.write(MAGIC)
        for about, sketch in sketches:
            stream.write(sketch)
            said.append({"type": kind, **about, "offset": size, "length": len(sketch)})
            size += len(sketch)
        footer = _footer(said)
        stream.write(footer)
    return SketchFile(path, size + len(footer), len(footer))


def write_vector_files(io: FileIO, path: str, vectors: Iterable[tuple[DataFile, BitMap64]]) -> list[DataFile]:
    """Write a Puffin file for these data files; what the manifest says of each vector in it."""
    given = list(vectors)
    written, size = write_vectors(io, path, ((file.file_path, positions) for file, positions in given))
    return [
        DataFile(
            file_path=path,
            record_count=vector.cardinality,
            file_size_in_bytes=size,
            spec_id=file.spec_id,
            partition=file.partition,
            content=POSITION_DELETES,
            file_format=PUFFIN,
            referenced_data_file=file.file_path,
            content_offset=vector.content_offset,
            content_size_in_bytes=vector.content_size,
        )
        for (file, _), vector in zip(given, written, strict=True)
    ]


def read_blob(io: FileIO, path: str, offset: int, size: int) -> bytes:
    with _opened(io, path) as stream:
        return _blob(stream, path, offset, size)


def read_vectors(io: FileIO, path: str, vectors: Sequence[DataFile]) -> list[BitMap64]:
    """The positions of several vectors of one Puffin file, which is opened once."""
    with _opened(io, path) as stream:
        return [_vector(stream, vector) for vector in vectors]


def read_vector(io: FileIO, vector: DataFile) -> BitMap64:
    return read_vectors(io, vector.file_path, [vector])[0]


def _vector(stream: InputStream, vector: DataFile) -> BitMap64:
    name = f"{vector.file_path} of data file {vector.referenced_data_file}"
    if vector.content_offset is None or vector.content_size_in_bytes is None:
        raise damaged(name, "its manifest does not say where in the Puffin file it is")
    positions = deserialize(_blob(stream, name, vector.content_offset, vector.content_size_in_bytes), name)
    if len(positions) != vector.record_count:
        raise damaged(name, f"it has {len(positions)} positions, and its manifest says {vector.record_count}")
    return positions


def _blob(stream: InputStream, name: str, offset: int, size: int) -> bytes:
    """Bytes of a file; asked for more than it has, nothing is read, since the size may be as damaged as the rest."""
    stream.seek(0, SEEK_END)
    end = stream.tell()
    if offset < 0 or size < 0 or offset + size > end:
        raise damaged(name, f"it should be bytes {offset} to {offset + size}, and the Puffin file has {end}")
    stream.seek(offset)
    return bytes(stream.read(size))


@contextmanager
def _opened(io: FileIO, path: str) -> Iterator[InputStream]:
    try:
        with io.new_input(path).open() as stream:
            yield stream
    except FileNotFoundError as error:
        raise CorruptFile(f"Puffin file {path} is missing. Restore it, or roll the table back to a snapshot that does not use it.") from error
    except OSError as error:
        raise CorruptFile(f"Puffin file {path} cannot be read: {error}") from error


def _vector_blob(vector: WrittenVector) -> dict[str, Any]:
    return {
        "type": VECTOR_BLOB,
        "fields": [ROW_POSITION_ID],
        "snapshot-id": NOT_KNOWN_YET,
        "sequence-number": NOT_KNOWN_YET,
        "offset": vector.content_offset,
        "length": vector.content_size,
        "properties": {"referenced-data-file": vector.referenced_data_file, "cardinality": str(vector.cardinality)},
    }


def _footer(blobs: Sequence[dict[str, Any]]) -> bytes:
    payload = json.dumps({"blobs": blobs, "properties": {"created-by": f"lakewright {__version__}"}}, ensure_ascii=False).encode()
    return MAGIC + payload + len(payload).to_bytes(4, "little") + UNCOMPRESSED_FOOTER + MAGIC
