"""The files that tell two states of a table apart: what must be read to know which rows changed from one to the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from glob import escape
from itertools import groupby
from operator import attrgetter

from pyiceberg.io import FileIO
from pyroaring import BitMap64

from lakewright.format.data_file import DATA, ManifestEntry, ManifestFile
from lakewright.format.manifests import read_manifest_list
from lakewright.format.metadata import Metadata, Snapshot
from lakewright.read.change_range import Step
from lakewright.read.deletes import DeleteFile, DeleteIndex
from lakewright.read.positions import DeletedPositions
from lakewright.read.prune import Pruner
from lakewright.read.scan import FileScan, ManifestCache, entries_in, scan_of, without_metrics

Chosen = Callable[[FileScan], bool]


@dataclass(frozen=True)
class Image:
    """Rows of a file as they were before or after a step: all live ones, or those at `only` these positions."""

    file: FileScan
    step: int
    is_after: bool
    only: BitMap64 | None = None

    @property
    def path(self) -> str:
        return self.file.data_file.file_path

    @property
    def has_row_ids(self) -> bool:
        """Not those of files from before the table was of format 3."""
        return self.file.data_file.first_row_id is not None


@dataclass(frozen=True)
class _FileChanges:
    """kept: files of both states whose deletes differ, as they were before and after."""

    removed: list[FileScan]
    added: list[FileScan]
    kept: list[tuple[FileScan, FileScan]]


class ChangedFiles:
    """Images of steps. What manifests and delete files say is read once, however many steps it is part of.

    chosen: whether a file is looked at at all. pruner: leaves out files without rows that are asked for, as far as that hides no change.
    """

    def __init__(self, io: FileIO, metadata: Metadata, chosen: Chosen, pruner: Pruner) -> None:
        self._io, self._metadata, self._chosen, self._pruner = io, metadata, chosen, pruner
        self._cache = ManifestCache()
        self._positions = DeletedPositions(io)
        self._manifests: dict[str, list[ManifestFile]] = {}

    def images(self, steps: Sequence[Step]) -> list[Image]:
        return [image for number, step in enumerate(steps) for image in self._of(number, step)]

    def _of(self, number: int, step: Step) -> list[Image]:
        changes = self._changes(step.before, step.after)
        images = [*(Image(file, number, False) for file in changes.removed), *(Image(file, number, True) for file in changes.added)]
        return [_lean(image) for image in self._pruned([*images, *self._kept(number, changes.kept)])]

    def _pruned(self, images: list[Image]) -> list[Image]:
        """Rows of one side stand alone. Those of two are compared: a row that left a file without matching rows was not inserted where it is now."""
        matching = [image for image in images if self._pruner.keeps_file(image.file.data_file)]
        return images if matching and len(sides(images)) > 1 else matching

    def _changes(self, before: Snapshot | None, after: Snapshot | None) -> _FileChanges:
        old, new = self._list(before), self._list(after)
        old_paths, new_paths = {m.manifest_path for m in old}, {m.manifest_path for m in new}
        gone = self._entries([m for m in old if m.manifest_path not in new_paths])
        come = self._entries([m for m in new if m.manifest_path not in old_paths])
        was, now = {_key(e): e for e in gone}, {_key(e): e for e in come}
        removed, added = [e for key, e in was.items() if key not in now], [e for key, e in now.items() if key not in was]
        deletes_before, deletes_after = self._deletes(old), self._deletes(new)
        kept: list[tuple[FileScan, FileScan]] = []
        if any(e.data_file.content != DATA for e in (*removed, *added)):
            kept = self._differing(old, {_key(e) for e in removed}, deletes_before, deletes_after)
        return _FileChanges(self._scans(removed, deletes_before), self._scans(added, deletes_after), kept)

    def _differing(self, old: list[ManifestFile], removed: set[object], before: DeleteIndex, after: DeleteIndex) -> list[tuple[FileScan, FileScan]]:
        stayed = [e for e in self._entries([m for m in old if m.content == DATA]) if _key(e) not in removed]
        pairs = [(scan_of(entry, before), scan_of(entry, after)) for entry in stayed]
        return [pair for pair in pairs if _keys(pair[0].deletes) != _keys(pair[1].deletes) and self._chosen(pair[0])]

    def _kept(self, number: int, pairs: list[tuple[FileScan, FileScan]]) -> Iterator[Image]:
        """Of a file that stays, only rows that went or came back; where values say which those are, both states are compared whole."""
        by_value = [pair for pair in pairs if _keys(_by_value(pair[0])) != _keys(_by_value(pair[1]))]
        by_position = [pair for pair in pairs if _keys(_by_value(pair[0])) == _keys(_by_value(pair[1]))]
        self._positions.load(file for pair in by_position for file in pair)
        for before, after in by_value:
            yield from (Image(before, number, False), Image(after, number, True))
        for before, after in by_position:
            was, now = self._positions.of(before), self._positions.of(after)
            file = replace(before, deletes=_by_value(before))
            yield from (Image(file, number, is_after, only) for is_after, only in ((False, now - was), (True, was - now)) if only)

    def _scans(self, entries: Iterable[ManifestEntry], deletes: DeleteIndex) -> list[FileScan]:
        scans = (scan_of(entry, deletes) for entry in entries if entry.data_file.content == DATA)
        return [scan for scan in scans if self._chosen(scan)]

    def _deletes(self, manifests: list[ManifestFile]) -> DeleteIndex:
        return DeleteIndex(self._entries([m for m in manifests if m.content != DATA]), self._metadata.specs)

    def _entries(self, manifests: list[ManifestFile]) -> list[ManifestEntry]:
        return list(entries_in(self._io, self._metadata, manifests, self._cache))

    def _list(self, snapshot: Snapshot | None) -> list[ManifestFile]:
        if snapshot is None:
            return []
        if snapshot.manifest_list not in self._manifests:
            self._manifests[snapshot.manifest_list] = [m for m in read_manifest_list(self._io, snapshot.manifest_list) if m.has_live_files]
        return self._manifests[snapshot.manifest_list]


def sides(images: Iterable[Image]) -> set[bool]:
    return {image.is_after for image in images}


def by_step(images: Sequence[Image]) -> list[list[Image]]:
    return [list(group) for _, group in groupby(images, attrgetter("step"))]


def in_glob(glob: str | None, location: str) -> Chosen:
    """Whether a file's path matches, in full or from the table's location on."""
    if glob is None:
        return lambda file: True
    below = f"{escape(location)}/{glob.lstrip('/')}"
    return lambda file: fnmatchcase(file.data_file.file_path, glob) or fnmatchcase(file.data_file.file_path, below)


def _key(entry: ManifestEntry) -> object:
    """What a file is known by: several vectors share one Puffin file."""
    file = entry.data_file
    return file.file_path, file.content, file.referenced_data_file, file.content_offset


def _keys(deletes: Iterable[DeleteFile]) -> set[object]:
    return {(d.path, d.data_file.referenced_data_file, d.data_file.content_offset) for d in deletes}


def _by_value(file: FileScan) -> tuple[DeleteFile, ...]:
    return tuple(delete for delete in file.deletes if not delete.is_position)


def _lean(image: Image) -> Image:
    return replace(image, file=replace(image.file, data_file=without_metrics(image.file.data_file)))
