"""Whether delete files that came meanwhile may delete rows of chosen data files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from pyiceberg.io import FileIO

from lakewright.format.data_file import DATA, EQUALITY_DELETES, DataFile
from lakewright.format.manifests import read_manifest, read_manifest_list
from lakewright.format.metadata import Metadata, Snapshot
from lakewright.format.position_deletes import FILE_PATH_ID
from lakewright.read.deletes import is_unpartitioned, only_path
from lakewright.read.prune import partition_key

Scope = tuple[int, tuple[Any, ...]]


class Targets:
    """Data files of a snapshot by path; where they are filed is looked up only if a delete file does not name the one it is of."""

    def __init__(self, io: FileIO, metadata: Metadata, head: Snapshot, paths: frozenset[str]) -> None:
        self._io, self._metadata, self._head, self._paths = io, metadata, head, paths

    def concerned_by(self, delete: DataFile) -> str | None:
        """A file the delete file may delete rows of."""
        return min(self.all_concerned_by(delete), default=None)

    def all_concerned_by(self, delete: DataFile) -> Iterable[str]:
        """The files the delete file may delete rows of.

        A vector or a position delete file of one data file concerns that one; one of several, files of its partition within its
        bounds of paths; equality deletes, all of their partition, or all there are where their spec has no partitions.
        """
        if delete.content == EQUALITY_DELETES:
            everywhere = is_unpartitioned(self._metadata.specs[delete.spec_id])
            return self._paths if everywhere else self._by_scope.get(_scope(delete), ())
        only = only_path(delete)
        if only is not None:
            return {only} & self._paths
        lower, upper = delete.lower_bounds.get(FILE_PATH_ID, b""), delete.upper_bounds.get(FILE_PATH_ID)
        return [path for path in self._by_scope.get(_scope(delete), ()) if lower <= path.encode() and (upper is None or path.encode() <= upper)]

    @cached_property
    def _by_scope(self) -> Mapping[Scope, list[str]]:
        found: dict[Scope, list[str]] = defaultdict(list)
        missing = set(self._paths)
        for manifest in read_manifest_list(self._io, self._head.manifest_list):
            if missing and manifest.content == DATA and manifest.has_live_files:
                for entry in read_manifest(self._io, manifest, self._metadata.specs, with_metrics=False, live_only=True):
                    if entry.data_file.file_path in missing:
                        missing.remove(entry.data_file.file_path)
                        found[_scope(entry.data_file)].append(entry.data_file.file_path)
        return found


def _scope(file: DataFile) -> Scope:
    return file.spec_id, partition_key(file.partition)
