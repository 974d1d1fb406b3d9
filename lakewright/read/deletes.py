"""Which delete files apply to which data files, by the rules of the specification."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.transforms import VoidTransform

from lakewright.errors import CorruptFile, UnsupportedFormat
from lakewright.format.data_file import EQUALITY_DELETES, POSITION_DELETES, DataFile, ManifestEntry
from lakewright.format.position_deletes import FILE_PATH_ID
from lakewright.read.prune import partition_key

Scope = tuple[int, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class DeleteFile:
    data_file: DataFile
    sequence_number: int

    @property
    def is_position(self) -> bool:
        """Whether it says positions, in a file or in a vector, and not values."""
        return self.data_file.content == POSITION_DELETES

    @property
    def is_vector(self) -> bool:
        return self.data_file.is_vector

    @property
    def path(self) -> str:
        return self.data_file.file_path


class DeleteIndex:
    """The live delete files of a snapshot, found by the data file they apply to.

    Position deletes apply to files of the same spec and partition that are not newer, a deletion vector to the one it names and in
    place of all position delete files; equality deletes to older files of the same spec and partition, or to older files of every
    spec where their own spec has no partitions.
    """

    def __init__(self, entries: Iterable[ManifestEntry], specs: Mapping[int, PartitionSpec]) -> None:
        self._vectors: dict[str, DeleteFile] = {}
        self._by_path: dict[str, list[DeleteFile]] = defaultdict(list)
        self._positions: dict[Scope, list[DeleteFile]] = defaultdict(list)
        self._equality: dict[Scope, list[DeleteFile]] = defaultdict(list)
        self._everywhere: list[DeleteFile] = []
        for entry in entries:
            self._add(DeleteFile(entry.data_file, entry.sequence_number or 0), specs)
        for group in (*self._by_path.values(), *self._positions.values(), *self._equality.values(), self._everywhere):
            group.sort(key=attrgetter("sequence_number"))
        self.is_empty = not (self._vectors or self._by_path or self._positions or self._equality or self._everywhere)

    def applying_to(self, file: DataFile, sequence_number: int) -> tuple[DeleteFile, ...]:
        if self.is_empty:
            return ()
        scope = _scope(file)
        by_position = self._vector_of(file, sequence_number, scope)
        if not by_position:
            by_position = _from(self._by_path.get(file.file_path, ()), sequence_number)
            by_position += [d for d in _from(self._positions.get(scope, ()), sequence_number) if _may_name(d.data_file, file.file_path)]
        by_value = _from(self._everywhere, sequence_number + 1) + _from(self._equality.get(scope, ()), sequence_number + 1)
        return (*by_position, *by_value)

    def _vector_of(self, file: DataFile, sequence_number: int, scope: Scope) -> list[DeleteFile]:
        vector = self._vectors.get(file.file_path)
        if vector is None or vector.sequence_number < sequence_number or _scope(vector.data_file) != scope:
            return []
        return [vector]

    def _add(self, delete: DeleteFile, specs: Mapping[int, PartitionSpec]) -> None:
        file = delete.data_file
        if delete.is_vector:
            return self._add_vector(delete)
        if file.file_format.upper() != "PARQUET":
            raise UnsupportedFormat(
                f"Delete file {file.file_path} is {file.file_format}; only Parquet delete files and deletion vectors can be read. Compact the table with the engine that wrote it."
            )
        scope = _scope(file)
        if file.content == EQUALITY_DELETES:
            (self._everywhere if is_unpartitioned(specs[file.spec_id]) else self._equality[scope]).append(delete)
        elif (path := only_path(file)) is not None:
            self._by_path[path].append(delete)
        else:
            self._positions[scope].append(delete)

    def _add_vector(self, vector: DeleteFile) -> None:
        target = vector.data_file.referenced_data_file
        if target is None:
            raise CorruptFile(f"Deletion vector {vector.path} does not say which data file it is of. Roll the table back to a snapshot that does not use it.")
        other = self._vectors.setdefault(target, vector)
        if other is not vector:
            raise CorruptFile(
                f"Data file {target} has two deletion vectors, in {other.path} and in {vector.path}, where a snapshot may have one. "
                "Roll the table back to a snapshot before the second."
            )


def _scope(file: DataFile) -> Scope:
    return file.spec_id, partition_key(file.partition)


def is_unpartitioned(spec: PartitionSpec) -> bool:
    return all(isinstance(field.transform, VoidTransform) for field in spec.fields)


def _from(deletes: Iterable[DeleteFile], sequence_number: int) -> list[DeleteFile]:
    ordered = list(deletes)
    return ordered[bisect_left(ordered, sequence_number, key=attrgetter("sequence_number")) :]


def only_path(file: DataFile) -> str | None:
    """The one data file a position delete file is about, where it says so."""
    if file.referenced_data_file is not None:
        return file.referenced_data_file
    lower, upper = file.lower_bounds.get(FILE_PATH_ID), file.upper_bounds.get(FILE_PATH_ID)
    return lower.decode() if lower is not None and lower == upper else None


def _may_name(delete: DataFile, path: str) -> bool:
    encoded = path.encode()
    lower, upper = delete.lower_bounds.get(FILE_PATH_ID), delete.upper_bounds.get(FILE_PATH_ID)
    return (lower is None or lower <= encoded) and (upper is None or encoded <= upper)
