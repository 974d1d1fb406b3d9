"""Which files the kept versions of a table refer to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lakewright.commit.store import TableState
from lakewright.errors import UnsupportedOperation
from lakewright.format.data_file import DELETED
from lakewright.format.manifests import read_manifest, read_manifest_list
from lakewright.format.metadata import Metadata
from lakewright.format.storage import StoredFile


def reachable(state: TableState) -> Iterator[str]:
    """Every file some kept version of the table refers to."""
    metadata = state.metadata
    yield state.metadata_location
    for entry in metadata.raw.get("metadata-log") or []:
        yield entry["metadata-file"]
    yield from statistics_files(metadata)
    seen: set[str] = set()
    for snapshot in metadata.snapshots():
        yield snapshot.manifest_list
        for manifest in read_manifest_list(state.io, snapshot.manifest_list):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                yield manifest.manifest_path
                for file in read_manifest(state.io, manifest, metadata.specs, with_metrics=False):
                    if file.status != DELETED:
                        yield file.data_file.file_path


def statistics_files(metadata: Metadata) -> Iterator[str]:
    for kind in ("statistics", "partition-statistics"):
        for statistics in metadata.raw.get(kind) or []:
            yield statistics["statistics-path"]


def name_of(path: str) -> str:
    """A path without scheme and doubled slashes, so that file:/x and file:///x are one."""
    rest = path.split(":", 1)[-1] if ":" in path.split("/", 1)[0] else path
    return "/" + rest.lstrip("/")


def require_recognised(state: TableState, stored: Iterable[StoredFile]) -> None:
    """Files are compared by name; where even the newest metadata file has another name in the listing, none would be recognised."""
    if name_of(state.metadata_location) not in {name_of(f.path) for f in stored}:
        raise UnsupportedOperation(
            f"Clean-up of {state.name} stopped: a listing of {state.metadata.location} does not show {state.metadata_location}, so used files "
            "could not be told from unused ones. Is the location a link, or reached under another name? Nothing was deleted.",
            table=state.name,
        )
