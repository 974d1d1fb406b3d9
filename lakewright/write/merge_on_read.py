"""Merge-on-read: old files stay, and what they lose is written beside them, as deletion vectors or position delete files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyroaring import BitMap64

from lakewright.format.data_file import DataFile
from lakewright.format.deletion_vector import Positions, to_array, to_bitmap
from lakewright.format.position_deletes import write_position_deletes
from lakewright.format.puffin import write_vector_files
from lakewright.options import COMPRESSION, COMPRESSION_LEVEL, DELETE_GRANULARITY, DELETE_TARGET_SIZE
from lakewright.plan.delta import DELETE, MATCH, MOVE
from lakewright.read.arrow_scan import DeletedRows
from lakewright.read.positions import DeletedPositions
from lakewright.read.prune import partition_key
from lakewright.read.scan import FileScan
from lakewright.write.delta_output import DeltaOutput
from lakewright.write.delta_rows import DeltaRows, DeltaStream
from lakewright.write.source_file import SourceFile

# What a position takes in a delete file, compressed, where deletes are spread over a file.
BYTES_PER_POSITION = 3


class DeletedByDelta:
    """The positions a task's delta deletes, by data file; the new rows are written as they come."""

    def __init__(self, output: DeltaOutput) -> None:
        self._output = output
        self._scans: dict[str, FileScan] = {}
        self._positions: dict[str, BitMap64] = defaultdict(BitMap64)
        self._existing = DeletedPositions(output.io)
        self._deletes = DeletedRows(output.io, output.plan.read)

    def take(self, number: int, stream: DeltaStream) -> None:
        """All delta rows of a file, or of a part of one. The file is opened only for what moved rows keep of it."""
        plan = self._output.plan
        scan = plan.files[number].file.scan
        if not plan.fetched:
            for rows in stream.pieces(number):
                self._mark(scan, rows)
                if len(moved := rows.of(MOVE)):
                    self._output.move(moved)
            return
        with SourceFile(self._output.io, plan, plan.files[number], self._deletes) as source:
            for group, start in source.groups():
                rows = stream.take(number, start + source.rows_in(group))
                if len(rows):
                    self._mark(scan, rows)
                if len(moved := rows.of(MOVE)):
                    self._output.move(moved, source, group, start)
            stream.finish(number)

    def _mark(self, scan: FileScan, rows: DeltaRows) -> None:
        path = scan.data_file.file_path
        gone = rows.of(DELETE, MOVE)
        if len(gone):
            self._scans[path] = scan
            self._positions[path] |= to_bitmap(gone.positions)
        if (rows.actions != MATCH).any():
            self._output.touched.add(path)
        self._output.counts.update(rows.counted())

    def write(self) -> None:
        """Write the deletes; a file that loses its last row is dropped instead."""
        left = []
        for path, scan in sorted(self._scans.items()):
            positions = self._positions[path]
            everything = positions | self._existing.of(scan)
            if len(everything) >= scan.data_file.record_count:
                self._output.drop(scan)
            else:
                left.append((scan, everything if self._output.plan.format_version >= 3 else positions))
        if not left:
            return
        if self._output.plan.format_version >= 3:
            self._write_vectors(left)
        else:
            self._write_position_deletes(left)

    def _write_vectors(self, left: list[tuple[FileScan, BitMap64]]) -> None:
        write = self._output.plan.write
        place = self._output.location(replace(write, spec=UNPARTITIONED_PARTITION_SPEC), (), "puffin")
        self._output.deletes += write_vector_files(self._output.io, place, ((scan.data_file, positions) for scan, positions in left))
        for scan, _ in left:
            self._output.supersede(scan)

    def _write_position_deletes(self, left: list[tuple[FileScan, BitMap64]]) -> None:
        """In files for each data file, or for all of a partition; in the order of paths, which `left` has."""
        options = self._output.plan.write.options
        scopes: dict[tuple[Any, ...], list[tuple[DataFile, Positions]]] = defaultdict(list)
        for scan, positions in left:
            file = scan.data_file
            scope = (file.file_path,) if options[DELETE_GRANULARITY] == "file" else (file.spec_id, partition_key(file.partition))
            scopes[scope].append((file, to_array(positions)))
        for members in scopes.values():
            for part in _parts(members, max(1, options[DELETE_TARGET_SIZE] // BYTES_PER_POSITION)):
                self._output.deletes.append(self._position_deletes(members[0][0], part))

    def _position_deletes(self, file: DataFile, rows: list[tuple[str, Positions]]) -> DataFile:
        """A delete file of the spec and partition of the data files it is about."""
        plan = self._output.plan
        options, spec = plan.write.options, plan.specs[file.spec_id]
        return write_position_deletes(
            self._output.io,
            self._output.location(replace(plan.write, spec=spec), file.partition, "deletes.parquet"),
            rows,
            spec_id=file.spec_id,
            partition=file.partition,
            compression=options[COMPRESSION],
            compression_level=options[COMPRESSION_LEVEL],
        )


def _parts(members: list[tuple[DataFile, Positions]], most: int) -> Iterator[list[tuple[str, Positions]]]:
    """Positions in lists of at most so many."""
    part: list[tuple[str, Positions]] = []
    room = most
    for file, positions in members:
        while len(positions):
            part.append((file.file_path, positions[:room]))
            room -= len(part[-1][1])
            positions = positions[len(part[-1][1]) :]
            if not room:
                yield part
                part, room = [], most
    if part:
        yield part
