"""The embedded databases a shard can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import xxhash

from lakewright.errors import UnsupportedSnapshot
from lakewright.shards.backends.protocol import Backend, LocalFile, Shard, ShardWriter
from lakewright.shards.backends.slate import SlateBackend
from lakewright.shards.backends.sqlite import SqliteBackend
from lakewright.shards.manifest import ShardFile
from lakewright.shards.store import Store

__all__ = ["BACKENDS", "Backend", "LocalFile", "Shard", "ShardWriter", "UploadedShard", "backend_named", "checksum_of_file", "checksum_of_files", "upload_shard"]

BACKENDS: dict[str, Backend] = {backend.name: backend for backend in (SqliteBackend(), SlateBackend())}


def backend_named(name: str) -> Backend:
    if name not in BACKENDS:
        raise UnsupportedSnapshot(f"The backend {name!r} is not known; there are {', '.join(BACKENDS)}.")
    return BACKENDS[name]


class UploadedShard(NamedTuple):
    bytes: int
    checksum: str
    files: tuple[ShardFile, ...]


def upload_shard(store: Store, files: Sequence[LocalFile], path: str) -> UploadedShard:
    """Put the files of a finished writer below a path of the store, where they may be moved from the scratch folder."""
    stored = []
    for file in files:
        checksum, size = checksum_of_file(file.path)
        store.put_file(f"{path}/{file.name}", file.path, move=True)
        stored.append(ShardFile(file.name, size, checksum))
    return UploadedShard(sum(file.bytes for file in stored), checksum_of_files(stored), tuple(stored))


def checksum_of_file(path: str) -> tuple[str, int]:
    """The checksum and size of a local file."""
    digest, size, buffer = xxhash.xxh3_128(), 0, bytearray(1 << 20)
    view = memoryview(buffer)
    with open(path, "rb", buffering=0) as stream:
        while read := stream.readinto(buffer):
            digest.update(view[:read])
            size += read
    return digest.hexdigest(), size


def checksum_of_files(files: Sequence[ShardFile]) -> str:
    """The checksum of a shard: over the names and checksums of its files."""
    return xxhash.xxh3_128_hexdigest("\n".join(f"{file.name} {file.checksum}" for file in files).encode())
