"""Data files that are to become one: what a compaction, and a write that folds small files into its own, give to write/combine.py.

Files of a snapshot and files of the commit that is being made may share a bin: the former come with their deletes and the
lineage of their rows, the latter with neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakewright.format.data_file import DataFile
from lakewright.format.metadata import Metadata
from lakewright.plan.delta import COPY_ON_WRITE, DeltaPlan, TargetFile
from lakewright.plan.write_plan import WritePlan
from lakewright.read.arrow_scan import arrow_file, arrow_read
from lakewright.read.scan import FileScan

NOT_COMMITTED = 0  # the sequence number of a file that has none yet; nothing is read from it


@dataclass(frozen=True)
class Bin:
    """Files of one partition, or of one partition of an older spec. They become one file for each partition of the current
    spec that their rows are in; several where they are too large for one."""

    files: tuple[TargetFile, ...]

    @property
    def size(self) -> int:
        return sum(target.file.scan.data_file.file_size_in_bytes for target in self.files)

    @property
    def scans(self) -> Iterable[FileScan]:
        """The files that are in a snapshot."""
        return (target.file.scan for target in self.files if not target.is_new)


def combine_plan(write: WritePlan, metadata: Metadata, files: Sequence[FileScan]) -> DeltaPlan:
    """How the files are read and written: a delta that changes no row."""
    read = arrow_read(metadata, files, write.schema)
    return DeltaPlan(write, read, metadata.specs, (), COPY_ON_WRITE, metadata.format_version, values=(), assigned=())


def committed(metadata: Metadata, write: WritePlan, scan: FileScan) -> TargetFile:
    return TargetFile(arrow_file(metadata, scan, write.schema))


def uncommitted(metadata: Metadata, write: WritePlan, file: DataFile) -> TargetFile:
    """A file the commit at hand has written; what it does not say of lineage its rows get from the commit, also in another file."""
    return TargetFile(arrow_file(metadata, FileScan(file, NOT_COMMITTED, None), write.schema), is_new=True)
