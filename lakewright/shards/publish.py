"""Making a snapshot the current one: its manifest is stored, then the pointer `_CURRENT` is swapped for one to it.

The swap is conditional on the pointer this publisher knew, so that none of two publishers overwrites the other unseen.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from lakewright.errors import (
    CorruptSnapshot,
    CurrentMoved,
    ObjectMissing,
    PublishCurrentError,
    PublishManifestError,
    ShardStoreError,
    SnapshotNotFound,
    StoreConflict,
)
from lakewright.shards.manifest import Manifest, sealed, unsealed, write_manifest
from lakewright.shards.store import Store

CURRENT = "_CURRENT"
WAITS = (1.0, 2.0, 4.0)
REMEMBERED = 200  # manifests that were current; older ones are still listed, and go back to by number
Sleep = Callable[[float], object]
T = TypeVar("T")


@dataclass(frozen=True)
class Pointer:
    """What `_CURRENT` says. `sequence` counts its moves, also back to an older version; `published` are the manifests that were current,
    this one last; `token` is the store's name for this state of it."""

    manifest_ref: str
    version: int
    sequence: int
    published_ms: int
    publish_id: str
    published: tuple[str, ...] = ()
    token: str = ""


def current(store: Store) -> Pointer | None:
    """The pointer, or None where nothing was published."""
    try:
        stored = store.get(CURRENT)
    except ObjectMissing:
        return None
    body = unsealed(stored.data, store.full(CURRENT))
    try:
        return Pointer(**{**body, "published": tuple(body["published"])}, token=stored.version)
    except (TypeError, KeyError) as error:
        raise CorruptSnapshot(f"{store.full(CURRENT)} is not as this version writes it: {error}.", url=store.url) from error


def required(store: Store) -> Pointer:
    found = current(store)
    if found is None:
        raise SnapshotNotFound(f"No snapshot is published at {store.url}. Build one with lw.shards.write or lakewright shards build.", url=store.url)
    return found


def next_version(pointer: Pointer | None) -> int:
    """The version for the manifest that is to follow; never one that was used, also after a rollback."""
    return 1 if pointer is None else pointer.sequence + 1


def publish(store: Store, manifest: Manifest, *, expected: Pointer | None, sleep: Sleep = time.sleep) -> Pointer:
    """Store the manifest and make it current in place of `expected`. What fails is tried again after 1, 2 and 4 seconds.

    `CurrentMoved`: another publisher was faster. `PublishManifestError`: the manifest could not be stored. `PublishCurrentError`:
    it is stored and the pointer was not moved.
    """
    try:
        ref = _retried(lambda: write_manifest(store, manifest), sleep)
    except ShardStoreError as error:
        raise PublishManifestError(f"The manifest {store.full(manifest.ref)} could not be stored: {error} Readers see what they saw before.", url=store.url) from error
    return point_to(store, ref, manifest.version, expected=expected, sleep=sleep)


def point_to(store: Store, manifest_ref: str, version: int, *, expected: Pointer | None, sleep: Sleep = time.sleep) -> Pointer:
    """Move the pointer from `expected` to a stored manifest."""
    before = [ref for ref in expected.published if ref != manifest_ref] if expected else []
    pointer = Pointer(manifest_ref, version, next_version(expected), time.time_ns() // 1_000_000, uuid.uuid4().hex, (*before[-REMEMBERED:], manifest_ref))
    looked = iter((False, True, True, True))

    def swap() -> Pointer:
        # An answer that did not come may have been a yes: from the second time on, look first.
        if next(looked) and (done := _moved(store, pointer, expected)):
            return done
        try:
            token = store.put_if(CURRENT, _content(pointer), expected.token if expected else None)
        except StoreConflict:
            found = _moved(store, pointer, expected)
            if found is None:
                raise
            return found
        return replace(pointer, token=token)

    try:
        return _retried(swap, sleep)
    except CurrentMoved:
        raise
    except ShardStoreError as error:
        try:
            if done := _moved(store, pointer, expected):
                return done
        except ShardStoreError:
            pass
        message = f"{store.full(CURRENT)} could not be moved: {error} The manifest is safe at {manifest_ref}; readers see what they saw before, unless the last attempt was carried out without an answer."
        raise PublishCurrentError(message, manifest_ref=manifest_ref, url=store.url) from error


def _moved(store: Store, pointer: Pointer, expected: Pointer | None) -> Pointer | None:
    """The pointer where it is ours already, None where it is still the expected one; an error where it is another's."""
    found = current(store)
    if found is not None and found.publish_id == pointer.publish_id:
        return found
    if (found.token if found else None) == (expected.token if expected else None):
        return None
    now = f"version {found.version} ({found.manifest_ref})" if found else "nothing"
    raise CurrentMoved(
        f"Another publisher moved {store.full(CURRENT)} meanwhile: it points to {now}. It stays; build again on top of it if this snapshot is to follow.",
        manifest_ref=pointer.manifest_ref,
        url=store.url,
    )


def _retried(act: Callable[[], T], sleep: Sleep) -> T:
    for wait in WAITS:
        try:
            return act()
        except ShardStoreError:
            sleep(wait)
    return act()


def _content(pointer: Pointer) -> bytes:
    body = {name: getattr(pointer, name) for name in ("manifest_ref", "version", "sequence", "published_ms", "publish_id", "published")}
    return sealed(body)
