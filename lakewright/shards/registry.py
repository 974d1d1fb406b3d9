"""Run records of builds: the mechanism of tables (`commit/runs.py`), on the store of the snapshot."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import AbstractContextManager

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

from lakewright.commit.runs import Run, RunRecord, list_runs, open_run, record_path
from lakewright.errors import ObjectMissing
from lakewright.format.local_io import LocalFileIO
from lakewright.format.storage import StoredFile
from lakewright.shards.config import ShardConfig
from lakewright.shards.paths import run_prefix
from lakewright.shards.store import Store

MANIFEST_REF = "manifest_ref"


def run_io(store: Store) -> FileIO:
    """The store as run records are kept in it."""
    return LocalFileIO({}) if store.local_path("") is not None else StoreIO(store)


def shard_run(store: Store, config: ShardConfig, run_id: str, operation: str, read_snapshot_id: int | None) -> AbstractContextManager[Run]:
    return open_run(
        run_io(store),
        table=store.url,
        table_location=store.url,
        operation=operation,
        branch="",
        token=None,
        lease_seconds=config.lease_seconds,
        run_id=run_id,
        read_snapshot_id=read_snapshot_id,
        prefix=store.full(run_prefix(run_id)),
        folder=config.run_registry_prefix,
    )


def record_ref(store: Store, config: ShardConfig, run_id: str) -> str:
    return record_path(store.url, run_id, config.run_registry_prefix)


def runs(store: Store, folder: str = "runs") -> list[RunRecord]:
    """All builds at a place, oldest first."""
    return list_runs(run_io(store), store.url, folder)


class StoreIO(FileIO):
    """A store of shards, by whole locations."""

    def __init__(self, store: Store) -> None:
        super().__init__({})
        self.store = store

    def new_input(self, location: str) -> InputFile:
        return StoreFile(self.store, location)

    def new_output(self, location: str) -> OutputFile:
        return StoreFile(self.store, location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        name = location if isinstance(location, str) else location.location
        self.store.delete(below(self.store, name))

    def listed(self, location: str) -> Iterator[StoredFile]:
        for found in self.store.list(below(self.store, location)):
            yield StoredFile(self.store.full(found.path), found.size, found.modified_ms)


class StoreFile(InputFile, OutputFile):
    """Small: it is read and written whole."""

    def __init__(self, store: Store, location: str) -> None:
        super().__init__(location)
        self._store, self._path = store, below(store, location)

    def __len__(self) -> int:
        return len(self._data())

    def exists(self) -> bool:
        return self._store.exists(self._path)

    def open(self, seekable: bool = True) -> InputStream:
        return io.BytesIO(self._data())

    def create(self, overwrite: bool = False) -> OutputStream:
        return _Upload(self._store, self._path, overwrite)

    def to_input_file(self) -> StoreFile:
        return self

    def _data(self) -> bytes:
        try:
            return self._store.get(self._path).data
        except ObjectMissing as error:
            raise FileNotFoundError(str(error)) from error


class _Upload(io.BytesIO):
    def __init__(self, store: Store, path: str, overwrite: bool) -> None:
        super().__init__()
        self._store, self._path, self._overwrite = store, path, overwrite

    def close(self) -> None:
        if not self.closed:
            if self._overwrite:
                self._store.put(self._path, self.getvalue())
            else:
                self._store.put_if(self._path, self.getvalue(), None)
        super().close()


def below(store: Store, location: str) -> str:
    return location.removeprefix(store.url).lstrip("/")
