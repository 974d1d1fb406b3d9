"""The versions at a place: listing them, going back to one, and checking one whole."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

from lakewright.errors import CorruptSnapshot, ShardError, SnapshotNotFound, UnsupportedSnapshot
from lakewright.shards.backends import Shard, backend_named, checksum_of_file
from lakewright.shards.keys import Key
from lakewright.shards.manifest import FOLDER, Manifest, ShardEntry, read_manifest
from lakewright.shards.publish import Pointer, current, point_to, required
from lakewright.shards.store import Store


@dataclass(frozen=True)
class Version:
    """A stored version. `was_published`: it was current once; one that was not is of a publisher that lost or died. `manifest` is None,
    and `problem` tells why, where it cannot be read."""

    version: int
    run_id: str
    manifest_ref: str
    is_current: bool
    was_published: bool
    manifest: Manifest | None
    problem: str | None = None

    @property
    def created_ms(self) -> int:
        return self.manifest.created_ms if self.manifest else 0


@dataclass(frozen=True)
class Verification:
    """What a check of a version found. `routing_checked`: whether the shard of every key was computed anew."""

    version: int
    shards: int
    rows: int
    bytes: int
    routing_checked: bool
    problems: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        return not self.problems


def versions(store: Store) -> list[Version]:
    """Every stored version, oldest first."""
    pointer = current(store)
    refs = sorted(file.path for file in store.list(FOLDER) if file.path.endswith(".json"))
    return [_version(store, ref, pointer) for ref in refs]


def rollback(store: Store, version: int | None = None) -> Pointer:
    """Make an older version current again; the one before the current unless named. Its files are looked for first."""
    pointer = required(store)
    target = _chosen(store, pointer, version)
    missing = [problem for entry in _manifest(target).shards for problem in _sizes(store, entry)]
    if missing:
        raise CorruptSnapshot(f"Version {target.version} of {store.url} is not whole any more: {missing[0]}. Choose another one.", url=store.url)
    moved = point_to(store, target.manifest_ref, target.version, expected=pointer)
    read_manifest(store, target.manifest_ref)  # a clean-up may have been faster; it then puts it back, or this says so
    return moved


def verify(store: Store, version: int | None = None) -> Verification:
    """Read a version whole: checksums, counts, order and bounds of the keys, and that each lies in the shard it is looked for in."""
    pointer = required(store)
    if version is None:
        manifest = read_manifest(store, pointer.manifest_ref)
    else:
        manifest = _manifest(_named(store, version))
    problems: list[str] = []
    for entry in manifest.shards:
        if entry.path is not None:
            problems += _shard_problems(store, manifest, entry)
    return Verification(manifest.version, manifest.num_shards, manifest.rows, manifest.bytes, manifest.routing.uses_only_key, tuple(problems))


def _version(store: Store, ref: str, pointer: Pointer | None) -> Version:
    number, _, run_id = os.path.basename(ref).removesuffix(".json").partition("-")
    is_current = pointer is not None and pointer.manifest_ref == ref
    was_published = pointer is not None and ref in pointer.published
    try:
        return Version(int(number), run_id, ref, is_current, was_published, read_manifest(store, ref))
    except (CorruptSnapshot, UnsupportedSnapshot) as error:
        return Version(int(number), run_id, ref, is_current, was_published, None, str(error))


def _chosen(store: Store, pointer: Pointer, version: int | None) -> Version:
    if version is not None:
        return _named(store, version)
    before = [v for v in versions(store) if v.version < pointer.version and v.was_published and v.manifest is not None]
    if not before:
        raise SnapshotNotFound(f"{store.url} has no version before {pointer.version} to go back to.", url=store.url)
    return before[-1]


def _named(store: Store, version: int) -> Version:
    known = versions(store)
    found = [v for v in known if v.version == version]
    # Two publishers may have stored a manifest of one number; the one that lost was never current.
    chosen = next((v for v in found if v.was_published), found[0] if len(found) == 1 else None)
    if chosen is None:
        among = ", ".join(f"{v.version} ({v.run_id})" for v in known)
        raise SnapshotNotFound(f"{store.url} has {'several manifests' if found else 'no manifest'} of version {version}; there are {among or 'none'}.", url=store.url)
    return chosen


def _manifest(version: Version) -> Manifest:
    if version.manifest is None:
        raise CorruptSnapshot(str(version.problem))
    return version.manifest


def _sizes(store: Store, entry: ShardEntry) -> Iterator[str]:
    if entry.path is None:
        return
    found = {file.path: file.size for file in store.list(entry.path)}
    for file in entry.files:
        size = found.get(f"{entry.path}/{file.name}")
        if size != file.bytes:
            yield f"{entry.path}/{file.name} of shard {entry.shard_id} {'is not there' if size is None else f'has {size} bytes instead of {file.bytes}'}"


def _shard_problems(store: Store, manifest: Manifest, entry: ShardEntry) -> list[str]:
    missing = list(_sizes(store, entry))
    if missing:
        return missing
    with tempfile.TemporaryDirectory(prefix="lakewright-verify-") as scratch:
        folder = store.local_path(str(entry.path)) or scratch
        for file in entry.files:
            place = os.path.join(folder, file.name)
            if folder == scratch:
                os.makedirs(os.path.dirname(place), exist_ok=True)
                store.get_to_file(f"{entry.path}/{file.name}", place)
            if checksum_of_file(place)[0] != file.checksum:
                return [f"{entry.path}/{file.name} of shard {entry.shard_id} was changed since it was written: its checksum does not match"]
        try:
            shard = backend_named(manifest.backend).open(folder, manifest.key_type)
            try:
                return list(_row_problems(shard, manifest, entry))
            finally:
                shard.close()
        except ShardError as error:
            return [f"shard {entry.shard_id}: {error}"]


def _row_problems(shard: Shard, manifest: Manifest, entry: ShardEntry) -> Iterator[str]:
    rows, first, last = 0, None, None
    strays: list[Key] = []
    routed = manifest.routing.uses_only_key
    for key, _ in shard.scan():
        rows, last = rows + 1, key
        if first is None:
            first = key
        if routed and manifest.routing.shard_of(key) != entry.shard_id:
            strays.append(key)
    if rows != entry.rows:
        yield f"shard {entry.shard_id} has {rows} rows instead of {entry.rows}"
    if (first, last) != (entry.min_key, entry.max_key):
        yield f"shard {entry.shard_id} has keys from {first!r} to {last!r} instead of {entry.min_key!r} to {entry.max_key!r}"
    if strays:
        yield f"shard {entry.shard_id} has {len(strays)} keys of other shards, like {strays[0]!r}"
