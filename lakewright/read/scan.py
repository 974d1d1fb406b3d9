"""Planning a scan: the data files of a snapshot that may hold matching rows, each with the deletes that apply to it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from threading import Lock
from typing import Protocol

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from lakewright.errors import UnsupportedFormat
from lakewright.format.data_file import DATA, DataFile, ManifestEntry, ManifestFile
from lakewright.format.manifests import read_manifest, read_manifest_list
from lakewright.format.metadata import Metadata, Snapshot
from lakewright.read.deletes import DeleteFile, DeleteIndex
from lakewright.read.paths import scheme_of
from lakewright.read.prune import Pruner

REMOTE_READERS = 16


class HasIceberg(Protocol):
    """A parsed filter (plan.filters.Filter): what it prunes with."""

    @property
    def iceberg(self) -> BooleanExpression: ...


@dataclass(frozen=True, slots=True)
class FileScan:
    """One data file to read. snapshot_id: the commit that added it; sequence_number: its data sequence number."""

    data_file: DataFile
    sequence_number: int
    snapshot_id: int | None
    deletes: tuple[DeleteFile, ...] = ()


@dataclass(frozen=True)
class Scan:
    snapshot: Snapshot | None
    files: tuple[FileScan, ...]

    @property
    def paths(self) -> list[str]:
        return [file.data_file.file_path for file in self.files]

    @property
    def record_count(self) -> int:
        """Rows in the files, before deletes and the filter."""
        return sum(file.data_file.record_count for file in self.files)


class ManifestCache:
    """Decoded manifests by path: they never change. Holds the most recently used, up to a number of entries."""

    def __init__(self, max_entries: int = 20_000) -> None:
        self.max_entries = max_entries
        self._kept: OrderedDict[tuple[str, bool], list[ManifestEntry]] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def get(self, path: str, with_metrics: bool) -> list[ManifestEntry] | None:
        with self._lock:
            entries = self._kept.get((path, with_metrics))
            if entries is not None:
                self._kept.move_to_end((path, with_metrics))
            return entries

    def put(self, path: str, with_metrics: bool, entries: list[ManifestEntry]) -> None:
        if len(entries) > self.max_entries:
            return
        with self._lock:
            self._size += len(entries) - len(self._kept.pop((path, with_metrics), ()))
            self._kept[path, with_metrics] = entries
            while self._size > self.max_entries:
                self._size -= len(self._kept.popitem(last=False)[1])


def plan_scan(
    io: FileIO,
    metadata: Metadata,
    snapshot: Snapshot | None,
    filter: HasIceberg | BooleanExpression | None = None,
    *,
    schema: Schema | None = None,
    with_metrics: bool = False,
    cache: ManifestCache | None = None,
    newer_than: int = -1,
) -> Scan:
    """The files to read at a snapshot. `schema` is the one the filter's names are of: the current one unless told otherwise.

    newer_than: a sequence number, which all of the files are above. Metrics are decoded only where the filter needs them, and kept in the result only with `with_metrics`.
    """
    if snapshot is None:
        return Scan(None, ())
    expression = AlwaysTrue() if filter is None else filter if isinstance(filter, BooleanExpression) else filter.iceberg
    pruner = Pruner(expression, schema or metadata.schema, metadata.schemas, metadata.specs)
    manifests = [m for m in read_manifest_list(io, snapshot.manifest_list) if m.has_live_files]
    data = [m for m in manifests if m.content == DATA and m.sequence_number > newer_than and pruner.keeps_manifest(m)]
    deletes = DeleteIndex(_live(io, metadata, [m for m in manifests if m.content != DATA], True, cache) if data else (), metadata.specs)
    live = _live(io, metadata, data, with_metrics or not pruner.keeps_all, cache)
    kept = (e for e in live if (e.sequence_number or 0) > newer_than and pruner.keeps_file(e.data_file))
    return Scan(snapshot, tuple(_file_scan(entry, deletes, with_metrics or pruner.keeps_all) for entry in kept))


def live_entries(io: FileIO, metadata: Metadata, snapshot: Snapshot | None, *, with_metrics: bool = True) -> Iterator[ManifestEntry]:
    """Every data and delete file of a snapshot."""
    if snapshot is None:
        return iter(())
    manifests = [m for m in read_manifest_list(io, snapshot.manifest_list) if m.has_live_files]
    return _live(io, metadata, manifests, with_metrics, None)


def _file_scan(entry: ManifestEntry, deletes: DeleteIndex, keep_metrics: bool) -> FileScan:
    file = entry.data_file
    if file.file_format.upper() != "PARQUET":
        raise UnsupportedFormat(f"Data file {file.file_path} is {file.file_format}; only Parquet can be read. Rewrite it with the engine that wrote it.")
    sequence_number = entry.sequence_number or 0
    applying = deletes.applying_to(file, sequence_number)
    return FileScan(file if keep_metrics else without_metrics(file), sequence_number, entry.snapshot_id, applying)


def without_metrics(file: DataFile) -> DataFile:
    return replace(
        file, column_sizes=_NONE, value_counts=_NONE, null_value_counts=_NONE, nan_value_counts=_NONE, lower_bounds=_NONE_BYTES, upper_bounds=_NONE_BYTES
    )


_NONE: dict[int, int] = {}
_NONE_BYTES: dict[int, bytes] = {}


def _live(io: FileIO, metadata: Metadata, manifests: list[ManifestFile], with_metrics: bool, cache: ManifestCache | None) -> Iterator[ManifestEntry]:
    def entries(manifest: ManifestFile) -> Iterable[ManifestEntry]:
        found = cache.get(manifest.manifest_path, with_metrics) if cache else None
        if found is not None:
            return found
        reading = read_manifest(io, manifest, metadata.specs, with_metrics=with_metrics, live_only=True)
        if cache is None:
            return reading
        kept = list(reading)
        cache.put(manifest.manifest_path, with_metrics, kept)
        return kept

    if len(manifests) > 1 and scheme_of(manifests[0].manifest_path) != "file":
        return _concurrently(lambda m: list(entries(m)), manifests)
    return chain.from_iterable(map(entries, manifests))


def _concurrently(read: Callable[[ManifestFile], list[ManifestEntry]], manifests: list[ManifestFile]) -> Iterator[ManifestEntry]:
    """Remote manifests wait for the network, not for the processor; at most one round of them is held at a time."""
    with ThreadPoolExecutor(REMOTE_READERS) as pool:
        for start in range(0, len(manifests), REMOTE_READERS):
            yield from chain.from_iterable(pool.map(read, manifests[start : start + REMOTE_READERS]))


def entries_in(io: FileIO, metadata: Metadata, manifests: list[ManifestFile], cache: ManifestCache) -> Iterator[ManifestEntry]:
    """The live files of chosen manifests."""
    return _live(io, metadata, manifests, True, cache)


def scan_of(entry: ManifestEntry, deletes: DeleteIndex) -> FileScan:
    return _file_scan(entry, deletes, True)
