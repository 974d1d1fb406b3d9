"""The place of a snapshot: a folder on local disk, or anything obstore reaches. Paths are below its url, with slashes."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import xxhash

from lakewright.errors import ObjectMissing, ShardStoreError, StoreConflict

# What PyIceberg calls the settings of S3, and what obstore does. Those not given come from the environment, as AWS_….
_S3_OPTIONS = {
    "s3.endpoint": "endpoint",
    "s3.access-key-id": "access_key_id",
    "s3.secret-access-key": "secret_access_key",
    "s3.session-token": "session_token",
    "s3.region": "region",
    "client.region": "region",
}
_NOT_NEEDED = ("s3.path-style-access",)  # obstore asks by path unless told
_RETRIES: Any = {"max_retries": 2, "retry_timeout": timedelta(seconds=20)}  # publishing tries again by itself


@dataclass(frozen=True)
class Stored:
    """An object and the token of its version, for `put_if`."""

    data: bytes
    version: str


@dataclass(frozen=True, slots=True)
class StoredObject:
    path: str
    size: int
    modified_ms: int


class Store(ABC):
    """What publishing and reading need of a store. Pickled as its url and options."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        self.url, self.options = url, dict(options)

    def __reduce__(self) -> tuple[Any, ...]:
        return open_store, (self.url, self.options)

    def full(self, path: str) -> str:
        return f"{self.url}/{path}"

    @abstractmethod
    def get(self, path: str) -> Stored:
        """An object; `ObjectMissing` where there is none."""

    @abstractmethod
    def get_to_file(self, path: str, target: str) -> None:
        """Copy an object to a local file."""

    @abstractmethod
    def put(self, path: str, data: bytes) -> None:
        """Make or replace an object: readers see the old one or the new one whole."""

    @abstractmethod
    def put_file(self, path: str, source: str, move: bool = False) -> None:
        """The same from a local file, which may be moved away where that is cheaper than a copy."""

    @abstractmethod
    def put_if(self, path: str, data: bytes, expected: str | None) -> str:
        """Replace the version `expected`, or make an object where None; `StoreConflict` where another is there. Returns the new version."""

    @abstractmethod
    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Every object below a folder."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete an object; one that is gone is fine."""

    @abstractmethod
    def exists(self, path: str) -> bool: ...

    def local_path(self, path: str) -> str | None:
        """Where the object is a local file."""
        return None

    def prune(self, prefix: str) -> None:  # noqa: B027
        """Remove folders without files, where a store has folders."""


def open_store(url: str, options: Mapping[str, str] | None = None) -> Store:
    """The store at a path, `file://`, `s3://bucket/prefix` or another url that obstore knows."""
    given = dict(options or {})
    place = str(url).rstrip("/") or "/"
    if place.startswith("file://"):
        place = place.removeprefix("file://")
    if "://" not in place:
        return LocalStore(os.path.abspath(os.path.expanduser(place)), given)
    return ObjectStore(place, given)


class LocalStore(Store):
    """A folder. Names that begin with a dot are its own: locks, and files not yet whole."""

    def get(self, path: str) -> Stored:
        with _local(self.full(path)):
            data = Path(self.full(path)).read_bytes()
        return Stored(data, _version(data))

    def get_to_file(self, path: str, target: str) -> None:
        with _local(self.full(path)):
            shutil.copyfile(self.full(path), target)

    def put(self, path: str, data: bytes) -> None:
        self._replace(path, data)

    def put_file(self, path: str, source: str, move: bool = False) -> None:
        target = self.full(path)
        with _local(target):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if move and os.stat(source).st_dev == os.stat(os.path.dirname(target)).st_dev:
                os.replace(source, target)
                return
            scratch = _scratch(target)
            shutil.copyfile(source, scratch)
            os.replace(scratch, target)

    def put_if(self, path: str, data: bytes, expected: str | None) -> str:
        target = self.full(path)
        with _local(target), _locked(target):
            try:
                found = _version(Path(target).read_bytes())
            except FileNotFoundError:
                found = None
            if found != expected:
                raise StoreConflict(f"{target} {'changed' if found else 'is not there any more'} since it was looked at.", url=self.url)
            self._replace(path, data)
        return _version(data)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        for folder, folders, names in os.walk(self.full(prefix)):
            folders.sort()
            for name in sorted(names):
                if name.startswith("."):
                    continue
                path = os.path.join(folder, name)
                try:
                    stat = os.stat(path)
                except FileNotFoundError:  # deleted since it was listed
                    continue
                yield StoredObject(os.path.relpath(path, self.url), stat.st_size, stat.st_mtime_ns // 1_000_000)

    def delete(self, path: str) -> None:
        with _local(self.full(path)):
            Path(self.full(path)).unlink(missing_ok=True)

    def exists(self, path: str) -> bool:
        return os.path.isfile(self.full(path))

    def local_path(self, path: str) -> str | None:
        return self.full(path)

    def prune(self, prefix: str) -> None:
        for folder, _, _ in os.walk(self.full(prefix), topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                pass

    def _replace(self, path: str, data: bytes) -> None:
        target = self.full(path)
        with _local(target):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            scratch = _scratch(target)
            with open(scratch, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(scratch, target)


class ObjectStore(Store):
    """What obstore reaches; conditional puts are the store's own."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        super().__init__(url, options)
        from obstore.store import from_url

        http = {"allow_http": True} if options.get("s3.endpoint", "").startswith("http://") else {}
        with _remote(url):
            self._store: Any = from_url(url, config=_config(url, options), client_options=http or None, retry_config=_RETRIES)  # type: ignore[call-overload]

    def get(self, path: str) -> Stored:
        with _remote(self.full(path)):
            found = self._store.get(path)
            data = bytes(found.bytes())
            return Stored(data, _tag(found.meta))

    def get_to_file(self, path: str, target: str) -> None:
        with _remote(self.full(path)), open(target, "wb") as stream:
            for chunk in self._store.get(path).stream():
                stream.write(chunk)

    def put(self, path: str, data: bytes) -> None:
        with _remote(self.full(path)):
            self._store.put(path, data)

    def put_file(self, path: str, source: str, move: bool = False) -> None:
        with _remote(self.full(path)):
            self._store.put(path, Path(source))

    def put_if(self, path: str, data: bytes, expected: str | None) -> str:
        with _remote(self.full(path)):
            mode: Any = "create" if expected is None else json.loads(expected)
            return _tag(self._store.put(path, data, mode=mode))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        with _remote(self.full(prefix)):
            for batch in self._store.list(prefix):
                for found in batch:
                    yield StoredObject(found["path"], found["size"], int(found["last_modified"].timestamp() * 1000))

    def delete(self, path: str) -> None:
        try:
            with _remote(self.full(path)):
                self._store.delete(path)
        except ObjectMissing:
            pass

    def exists(self, path: str) -> bool:
        try:
            with _remote(self.full(path)):
                self._store.head(path)
        except ObjectMissing:
            return False
        return True


def _config(url: str, options: Mapping[str, str]) -> dict[str, str]:
    if not url.startswith(("s3://", "s3a://")):
        return dict(options)
    unknown = [name for name in options if name not in _S3_OPTIONS and name not in _NOT_NEEDED]
    if unknown:
        raise ShardStoreError(f"The storage option {', '.join(sorted(unknown))} is not known; S3 takes {', '.join(_S3_OPTIONS)}.", url=url)
    return {_S3_OPTIONS[name]: value for name, value in options.items() if name in _S3_OPTIONS}


def _version(data: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(data)


def _tag(meta: Mapping[str, Any]) -> str:
    """What tells this version from others: stores go by one of the two, or both."""
    return json.dumps({name: meta[name] for name in ("e_tag", "version") if meta.get(name)})


def _scratch(target: str) -> str:
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{name}.{os.getpid()}-{threading.get_ident()}.tmp")


@contextmanager
def _locked(target: str) -> Iterator[None]:
    """One writer at a time, also among threads; a holder that dies lets go."""
    folder, name = os.path.split(target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f".{name}.lock"), "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _local(place: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise ObjectMissing(f"{place} is not there.", url=place) from None
    except OSError as error:
        raise ShardStoreError(f"{place} cannot be read or written: {error}.", url=place) from error


@contextmanager
def _remote(place: str) -> Iterator[None]:
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

    try:
        yield
    except FileNotFoundError:
        raise ObjectMissing(f"{place} is not there.", url=place) from None
    except (AlreadyExistsError, PreconditionError) as error:
        raise StoreConflict(f"{place} changed since it was looked at.", url=place) from error
    except (BaseError, OSError, ValueError) as error:
        raise ShardStoreError(f"The store does not answer for {place}: {str(error).splitlines()[0]}.", url=place) from error
