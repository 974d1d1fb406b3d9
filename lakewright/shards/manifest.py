"""The manifest of a snapshot: which shards it has, where, and how keys and values are to be understood. Never changed once written.

It carries the checksum of its own content, and those of the files of every shard.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import xxhash

from lakewright.errors import CorruptSnapshot, InvalidRouting, MissingShards, ObjectMissing, StoreConflict, UnsupportedSnapshot
from lakewright.shards.keys import KEY_TYPES, Key, KeyType, key_from_json, key_to_json
from lakewright.shards.routing import Routing, routing_from_json
from lakewright.shards.store import Store
from lakewright.shards.values import ValueCodec

FORMAT_VERSION = 1
FOLDER = "manifests"


@dataclass(frozen=True)
class ShardFile:
    """A file of a shard; its name is below the shard's path."""

    name: str
    bytes: int
    checksum: str


@dataclass(frozen=True)
class ShardEntry:
    """One shard. A shard without rows has no path and no files. `run_id` and `attempt` tell who wrote it, also where it was carried over."""

    shard_id: int
    path: str | None = None
    rows: int = 0
    bytes: int = 0
    min_key: Key | None = None
    max_key: Key | None = None
    checksum: str | None = None
    files: tuple[ShardFile, ...] = ()
    run_id: str | None = None
    attempt: int | None = None

    def to_json(self) -> dict[str, Any]:
        if self.path is None:
            return {"shard_id": self.shard_id}
        return {
            "shard_id": self.shard_id,
            "path": self.path,
            "rows": self.rows,
            "bytes": self.bytes,
            "min_key": key_to_json(self.min_key),
            "max_key": key_to_json(self.max_key),
            "checksum": self.checksum,
            "files": [[file.name, file.bytes, file.checksum] for file in self.files],
            "run_id": self.run_id,
            "attempt": self.attempt,
        }

    @classmethod
    def from_json(cls, described: Mapping[str, Any], key_type: KeyType) -> ShardEntry:
        if "path" not in described:
            return cls(described["shard_id"])
        keys: dict[str, Any] = {name: key_from_json(described[name], key_type) for name in ("min_key", "max_key")}
        plain: dict[str, Any] = {name: described[name] for name in ("shard_id", "path", "rows", "bytes", "checksum", "run_id", "attempt")}
        return cls(**plain, **keys, files=tuple(ShardFile(*file) for file in described["files"]))


@dataclass(frozen=True)
class Manifest:
    version: int
    run_id: str
    created_ms: int
    routing: Routing
    key_type: KeyType
    key_column: str
    backend: str
    codec: ValueCodec
    shards: tuple[ShardEntry, ...]
    source_table: str | None = None
    source_snapshot_id: int | None = None
    config_digest: str | None = None
    format_version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        found = [entry.shard_id for entry in self.shards]
        if found != list(range(self.routing.num_shards)):
            missing = tuple(sorted(set(range(self.routing.num_shards)) - set(found)))
            raise MissingShards(f"A snapshot of {self.routing.num_shards} shards needs each of them once, in order; {_listed(missing) or 'one comes twice'}.", missing=missing)

    @property
    def rows(self) -> int:
        return sum(entry.rows for entry in self.shards)

    @property
    def bytes(self) -> int:
        return sum(entry.bytes for entry in self.shards)

    @property
    def num_shards(self) -> int:
        return len(self.shards)

    @property
    def ref(self) -> str:
        return f"{FOLDER}/{self.version:012d}-{self.run_id}.json"

    def to_json(self) -> dict[str, Any]:
        return {
            "format_version": self.format_version,
            "version": self.version,
            "run_id": self.run_id,
            "created_ms": self.created_ms,
            "routing": self.routing.to_json(),
            "key_type": self.key_type,
            "key_column": self.key_column,
            "backend": self.backend,
            "value": self.codec.to_json(),
            "rows": self.rows,
            "bytes": self.bytes,
            "source_table": self.source_table,
            "source_snapshot_id": self.source_snapshot_id,
            "config_digest": self.config_digest,
            "shards": [entry.to_json() for entry in self.shards],
        }


def write_manifest(store: Store, manifest: Manifest) -> str:
    """Store a manifest and return its ref; one that is there with the same content is fine."""
    data = sealed(manifest.to_json())
    try:
        store.put_if(manifest.ref, data, None)
    except StoreConflict:
        if store.get(manifest.ref).data != data:
            raise
    return manifest.ref


def read_manifest(store: Store, ref: str) -> Manifest:
    """The manifest at a ref, checked."""
    try:
        data = store.get(ref).data
    except ObjectMissing:
        raise CorruptSnapshot(f"The manifest {store.full(ref)} is not there. Roll back to another version.", url=store.url) from None
    return parsed_manifest(data, store.full(ref))


def parsed_manifest(data: bytes, place: str) -> Manifest:
    body = unsealed(data, place)
    if body.get("format_version") != FORMAT_VERSION:
        raise UnsupportedSnapshot(f"{place} has the format version {body.get('format_version')!r}; this version reads {FORMAT_VERSION}. Read it with a newer one.", url=place)
    if body["key_type"] not in KEY_TYPES:
        raise UnsupportedSnapshot(f"{place} has keys of type {body['key_type']!r}, which this version does not know. Read it with a newer one.", url=place)
    try:
        return Manifest(
            version=body["version"],
            run_id=body["run_id"],
            created_ms=body["created_ms"],
            routing=routing_from_json(body["routing"]),
            key_type=body["key_type"],
            key_column=body["key_column"],
            backend=body["backend"],
            codec=ValueCodec.from_json(body["value"]),
            shards=tuple(ShardEntry.from_json(entry, body["key_type"]) for entry in body["shards"]),
            source_table=body["source_table"],
            source_snapshot_id=body["source_snapshot_id"],
            config_digest=body["config_digest"],
        )
    except InvalidRouting as error:
        raise UnsupportedSnapshot(f"The routing of {place} does not work here: {error}", url=place) from error
    except (KeyError, TypeError, ValueError, MissingShards) as error:
        raise CorruptSnapshot(f"The manifest {place} is not as this version writes it: {error!r}. Roll back to another version.", url=place) from error


def sealed(body: Mapping[str, Any]) -> bytes:
    """JSON with the checksum of its content as last field."""
    text = _canonical(body)
    return (text[:-1] + f',"checksum":"{xxhash.xxh3_128_hexdigest(text.encode())}"}}').encode()


def unsealed(data: bytes, place: str) -> dict[str, Any]:
    try:
        body = json.loads(data)
        checksum = body.pop("checksum")
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise CorruptSnapshot(f"{place} cannot be read: {error!r}.", url=place) from error
    if xxhash.xxh3_128_hexdigest(_canonical(body).encode()) != checksum:
        raise CorruptSnapshot(f"{place} was changed since it was written: its checksum does not match.", url=place)
    return dict(body)


def _canonical(body: Mapping[str, Any]) -> str:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=True)


def _listed(missing: tuple[int, ...]) -> str:
    return f"{', '.join(map(str, missing[:20]))}{' and more' if len(missing) > 20 else ''} missing" if missing else ""
