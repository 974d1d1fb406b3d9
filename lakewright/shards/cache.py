"""Local copies of shards from stores that are not local, checked when they come, within a size.

A copy's folder is named after the shard's checksum, so a shard that was carried over to a new version is not fetched again, and
readers of several processes can share a folder. Who uses a copy holds a shared lock on it; only one without a user is removed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from lakewright.errors import CorruptSnapshot, ObjectMissing, ShardStoreError
from lakewright.shards.backends import checksum_of_file
from lakewright.shards.manifest import ShardEntry
from lakewright.shards.store import Store

DEFAULT_BYTES = 10 << 30


@dataclass
class Copy:
    """A shard's local folder while it is used. `close` lets go of it."""

    folder: str
    lock: IO[bytes] | None = None

    def close(self) -> None:
        lock, self.lock = self.lock, None
        if lock is not None:
            lock.close()


class ShardCache:
    """`folder`: kept for the next reader; a temporary one, removed at the end, unless given."""

    def __init__(self, folder: str | None = None, max_bytes: int = DEFAULT_BYTES, verify: bool = True) -> None:
        if max_bytes < 1:
            raise ShardStoreError(f"cache_bytes is {max_bytes}; it takes a number from 1.")
        self.max_bytes, self._verify = max_bytes, verify
        self._temporary = None if folder else tempfile.mkdtemp(prefix="lakewright-shards-")
        self.folder = os.path.abspath(folder or str(self._temporary))
        os.makedirs(self.folder, exist_ok=True)
        self._making_room = threading.Lock()

    def open(self, store: Store, entry: ShardEntry, give_up: Callable[[], bool] = bool) -> Copy:
        """The shard's files in a local folder: where they are, if the store is local, else a copy.

        Where there is no room for one, `give_up` is asked to let go of another copy, until it has none.
        """
        local = store.local_path(str(entry.path))
        if local is not None:
            self._check(local, entry, store.url)
            return Copy(local)
        name = os.path.join(self.folder, str(entry.checksum))
        lock = open(f"{name}.lock", "ab")  # noqa: SIM115
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)
            if not os.path.isdir(name) or not self._is_whole(name, entry):
                while not self.make_room(entry.bytes) and give_up():
                    pass
                self._fetch(store, entry, name)
            os.utime(name)
            return Copy(name, lock)
        except OSError as error:
            lock.close()
            raise ShardStoreError(f"Shard {entry.shard_id} could not be copied to {name}: {error}.", url=store.url, shard_id=entry.shard_id) from error
        except BaseException:
            lock.close()
            raise

    def used_bytes(self) -> int:
        return sum(size for _, _, size in self._copies())

    def make_room(self, wanted: int) -> bool:
        """Remove copies no one uses, the longest unused first, until `wanted` more bytes fit; whether they do."""
        with self._making_room:
            copies = sorted(self._copies())
            used = sum(size for _, _, size in copies)
            for _, name, size in copies:
                if used + wanted <= self.max_bytes:
                    break
                if self._removed(name):
                    used -= size
            return used + wanted <= self.max_bytes

    def close(self) -> None:
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _copies(self) -> list[tuple[int, str, int]]:
        found = []
        for entry in os.scandir(self.folder):
            if entry.is_dir() and not entry.name.startswith("."):
                try:
                    size = sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(entry.path) for name in names)
                    found.append((entry.stat().st_mtime_ns, entry.path, size))
                except FileNotFoundError:  # removed meanwhile
                    continue
        return found

    def _removed(self, name: str) -> bool:
        with open(f"{name}.lock", "ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            going = os.path.join(self.folder, f".{uuid.uuid4().hex}")
            try:
                os.rename(name, going)
            except FileNotFoundError:
                return True
            shutil.rmtree(going, ignore_errors=True)
        return True

    def _fetch(self, store: Store, entry: ShardEntry, name: str) -> None:
        coming = os.path.join(self.folder, f".{uuid.uuid4().hex}")
        try:
            for file in entry.files:
                target = os.path.join(coming, file.name)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                try:
                    store.get_to_file(f"{entry.path}/{file.name}", target)
                except ObjectMissing as error:
                    raise CorruptSnapshot(f"Shard {entry.shard_id} is not whole: {error}", url=store.url, shard_id=entry.shard_id) from error
            self._check(coming, entry, store.url)
            try:
                os.rename(coming, name)
            except OSError:
                if not self._is_whole(name, entry):  # there was a damaged one
                    shutil.rmtree(name, ignore_errors=True)
                    os.rename(coming, name)
        finally:
            shutil.rmtree(coming, ignore_errors=True)

    def _is_whole(self, folder: str, entry: ShardEntry) -> bool:
        try:
            self._check(folder, entry, folder)
        except CorruptSnapshot:
            return False
        return True

    def _check(self, folder: str, entry: ShardEntry, url: str) -> None:
        for file in entry.files:
            path = os.path.join(folder, file.name)
            try:
                size = os.path.getsize(path)
                checksum = checksum_of_file(path)[0] if self._verify and size == file.bytes else file.checksum
            except OSError as error:
                raise CorruptSnapshot(f"Shard {entry.shard_id} is not whole: {path} cannot be read ({error.strerror}).", url=url, shard_id=entry.shard_id) from error
            if size != file.bytes or checksum != file.checksum:
                what = f"has {size} bytes instead of {file.bytes}" if size != file.bytes else "does not match its checksum"
                raise CorruptSnapshot(f"Shard {entry.shard_id} is damaged: {path} {what}. Roll back to another version, or build it again.", url=url, shard_id=entry.shard_id)
