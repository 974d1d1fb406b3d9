"""Listing and deleting below a location, on whatever file system a PyIceberg FileIO reaches."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Protocol, runtime_checkable
from urllib.parse import urlparse

from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem
from pyiceberg.io import FileIO

from lakewright.errors import PermissionRefused, StorageFull

log = logging.getLogger("lakewright")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)
REMOTE_THREADS = 8


def explained(error: BaseException, where: str) -> BaseException:
    """A file system's refusal as a typed error; anything else as it is. Arrow gives the reason in words only."""
    if not isinstance(error, OSError):
        return error
    reason = str(error)
    if error.errno in _FULL or "No space left" in reason or "quota exceeded" in reason.lower():
        return StorageFull(f"There is no space left for {where}: {reason}. Free some and run it again; the table is as before.")
    if error.errno in _REFUSED or "Permission denied" in reason or "Read-only file system" in reason or "ACCESS_DENIED" in reason:
        return PermissionRefused(f"The store refuses to write {where}: {reason}. Grant write access and run it again; the table is as before.")
    return error


@dataclass(frozen=True, slots=True)
class StoredFile:
    path: str
    size: int
    modified_ms: int


@runtime_checkable
class Listing(Protocol):
    """A FileIO that lists by itself, where PyIceberg's goes through Arrow."""

    def listed(self, location: str) -> Iterator[StoredFile]: ...


def local_path(location: str) -> str | None:
    """The path on local disk, or None where the location is elsewhere. Not URL-decoded: a location is a name, not a URL."""
    for prefix in ("file://", "file:"):
        if location.startswith(prefix):
            return location[len(prefix) :]
    return location if location.startswith("/") else None


def threads_for(location: str) -> int:
    """As many as cores; more where they wait for a store that is elsewhere."""
    cores = os.cpu_count() or 1
    return cores if local_path(location) is not None else max(cores, REMOTE_THREADS)


def readers_for(location: str) -> ThreadPoolExecutor:
    """Threads to read with, kept: Arrow gives each new thread memory of its own, which took a fourth of the time of a small read.
    What runs in them waits for nothing else that does."""
    return _readers(threads_for(location))


@cache
def _readers(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "lakewright-readers")


os.register_at_fork(after_in_child=_readers.cache_clear)  # a forked process has none of the threads


def filesystem(io: FileIO, location: str) -> tuple[FileSystem, str]:
    root = local_path(location)
    if root is not None:
        return LocalFileSystem(), root
    from pyiceberg.io.pyarrow import PyArrowFileIO  # takes a second to import

    pyarrow_io = io if isinstance(io, PyArrowFileIO) else PyArrowFileIO(io.properties)
    scheme, netloc, path = PyArrowFileIO.parse_location(location, io.properties)
    return pyarrow_io.fs_by_scheme(scheme, netloc), path


def list_files(io: FileIO, location: str) -> Iterator[StoredFile]:
    """Every file below a location; nothing where it does not exist."""
    root = local_path(location)
    if root is not None:
        prefix = location[: len(location) - len(root)]
        for folder, _, names in os.walk(root):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    stat = os.stat(path)
                except FileNotFoundError:  # deleted since it was listed
                    continue
                yield StoredFile(prefix + path, stat.st_size, stat.st_mtime_ns // 1_000_000)
        return
    if isinstance(io, Listing):
        yield from io.listed(location)
        return
    fs, path = filesystem(io, location)
    parsed = urlparse(location)
    prefix = f"{parsed.scheme}://" if path.startswith(parsed.netloc) else f"{parsed.scheme}://{parsed.netloc}"
    for info in fs.get_file_info(FileSelector(path, recursive=True, allow_not_found=True)):
        if info.type == FileType.File:
            yield StoredFile(prefix + info.path, info.size, (info.mtime_ns or 0) // 1_000_000)


def delete_file(io: FileIO, location: str) -> None:
    """Delete one file; a file that is already gone is fine."""
    root = local_path(location)
    if root is not None:
        try:
            os.unlink(root)
        except FileNotFoundError:
            pass
        return
    try:
        io.delete(location)
    except FileNotFoundError:
        pass


def try_delete(io: FileIO, location: str) -> None:
    """Delete in passing: what cannot be deleted is left to a clean-up, and does not hide the reason it was to be deleted for."""
    try:
        delete_file(io, location)
    except Exception as error:
        log.warning("could not delete %s: %s", location, error)


def delete_tree(io: FileIO, location: str) -> None:
    """Delete everything below a location."""
    root = local_path(location)
    if root is not None:
        shutil.rmtree(root, ignore_errors=True)
        return
    for file in list(list_files(io, location)):
        delete_file(io, file.path)


def prune_empty_folders(location: str) -> None:
    """Remove folders without files, on local disk only: other stores have no folders."""
    root = local_path(location)
    if root is None or not os.path.isdir(root):
        return
    for folder, _, _ in os.walk(root, topdown=False):
        try:
            os.rmdir(folder)
        except OSError:
            pass


def write_atomically(io: FileIO, location: str, data: bytes) -> None:
    """Replace a small file so that a reader sees the old or the new one, never a part."""
    root = local_path(location)
    if root is not None:
        os.makedirs(os.path.dirname(root), exist_ok=True)
        scratch = f"{root}.{os.getpid()}-{threading.get_ident()}.tmp"
        with open(scratch, "wb") as stream:
            stream.write(data)
        os.replace(scratch, root)
        return
    with io.new_output(location).create(overwrite=True) as stream:
        stream.write(data)


def read_bytes(io: FileIO, location: str) -> bytes:
    with io.new_input(location).open() as stream:
        return bytes(stream.read())
