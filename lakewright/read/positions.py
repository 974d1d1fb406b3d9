"""Positions deleted in data files, as deletion vectors and position delete files say them; equality deletes are not looked at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO
from pyroaring import BitMap64

from lakewright.errors import CorruptFile
from lakewright.format.data_file import DataFile
from lakewright.format.deletion_vector import Positions, to_bitmap
from lakewright.format.position_deletes import FILE_PATH, POSITION
from lakewright.format.puffin import read_vectors
from lakewright.read.deletes import DeleteFile
from lakewright.read.parquet import opened
from lakewright.read.scan import FileScan

READERS = 16
ROWS_AT_ONCE = 262_144


def deleted_positions(io: FileIO, scan: FileScan) -> BitMap64:
    """Every position of the file that a vector or a position delete file removes."""
    return DeletedPositions(io).of(scan)


class DeletedPositions:
    """What vectors and position delete files say, each read once however many data files it applies to."""

    def __init__(self, io: FileIO) -> None:
        self.io = io
        self._vectors: dict[tuple[str, str | None], BitMap64] = {}
        self._files: dict[str, dict[str, BitMap64]] = {}

    def of(self, scan: FileScan) -> BitMap64:
        self._read(delete for delete in scan.deletes if delete.is_position)
        path = scan.data_file.file_path
        return BitMap64().union(*(self._said_by(delete, path) for delete in scan.deletes if delete.is_position))

    def load(self, files: Iterable[FileScan]) -> None:
        """Read ahead, several at once, all that says something of these files."""
        self._read(delete for file in files for delete in file.deletes if delete.is_position)

    def _said_by(self, delete: DeleteFile, path: str) -> BitMap64:
        return self._vectors[_key(delete.data_file)] if delete.is_vector else self._files[delete.path].get(path, BitMap64())

    def _read(self, deletes: Iterable[DeleteFile]) -> None:
        vectors: dict[str, dict[tuple[str, str | None], DataFile]] = defaultdict(dict)
        files: dict[str, None] = {}
        for delete in deletes:
            key = _key(delete.data_file)
            if delete.is_vector and key not in self._vectors:
                vectors[delete.path][key] = delete.data_file
            elif not delete.is_vector and delete.path not in self._files:
                files[delete.path] = None
        if not vectors and not files:
            return
        with ThreadPoolExecutor(min(READERS, len(vectors) + len(files))) as pool:
            for wanted, found in zip(vectors.values(), pool.map(lambda path: read_vectors(self.io, path, list(vectors[path].values())), vectors), strict=True):
                self._vectors.update(zip(wanted, found, strict=True))
            self._files.update(zip(files, pool.map(lambda path: read_position_deletes(self.io, path), files), strict=True))


def read_position_deletes(io: FileIO, path: str) -> dict[str, BitMap64]:
    """The positions a position delete file says, by data file."""
    found: dict[str, BitMap64] = defaultdict(BitMap64)
    try:
        with opened(io, path, read_dictionary=[FILE_PATH]) as parquet:
            for batch in parquet.iter_batches(batch_size=ROWS_AT_ONCE, columns=[FILE_PATH, POSITION]):
                for data_file, positions in _by_file(batch):
                    found[data_file] |= to_bitmap(positions)
    except (KeyError, ValueError) as error:
        raise CorruptFile(f"Position delete file {path} is damaged: {error}. Restore it, or roll the table back to a snapshot that does not use it.") from error
    return dict(found)


def _by_file(batch: pa.RecordBatch) -> Iterator[tuple[str, Positions]]:
    """Rows are sorted by path as the specification has it, but a file that is not is read right all the same."""
    names = batch.column(FILE_PATH)
    if names.null_count or batch.column(POSITION).null_count:
        raise ValueError("it has a row without a file or position")
    at, positions = names.indices.to_numpy(), batch.column(POSITION).to_numpy()
    order = np.argsort(at, kind="stable")
    at, positions = at[order], positions[order]
    starts = np.flatnonzero(np.diff(at, prepend=-1))
    for name, own in zip(at[starts], np.split(positions, starts[1:]), strict=True):
        yield names.dictionary[int(name)].as_py(), own


def _key(vector: DataFile) -> tuple[str, str | None]:
    return vector.file_path, vector.referenced_data_file
