"""Removing what no kept snapshot uses, and nothing that a live build may still publish."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from lakewright.errors import LakewrightError, ShardError
from lakewright.shards.manifest import Manifest
from lakewright.shards.publish import current
from lakewright.shards.store import Store, StoredObject
from lakewright.shards.versions import Version, versions

log = logging.getLogger("lakewright")
SHARDS = "shards"
RUN = "run_id="


@dataclass(frozen=True)
class CleanupResult:
    """What went, or would go in a dry run. `dead_runs`: builds that did not renew their lease and can no longer publish. `unknown_runs`: left, since no run record tells of them."""

    dry_run: bool
    kept_versions: tuple[int, ...]
    manifests: tuple[str, ...]
    files: tuple[str, ...]
    bytes: int
    dead_runs: tuple[str, ...]
    unknown_runs: tuple[str, ...]
    failed: tuple[str, ...] = ()


def clean_losers(store: Store, manifest: Manifest, run_id: str) -> tuple[str, ...]:
    """Remove what attempts of a run wrote that are not in its manifest. What cannot be removed is logged, and left to `cleanup`."""
    try:
        used = _files((manifest,))
        losers = [file.path for file in store.list(f"{SHARDS}/{RUN}{run_id}") if file.path not in used]
        gone = tuple(path for path in losers if _deleted(store, path))
        store.prune(f"{SHARDS}/{RUN}{run_id}")
    except (ShardError, OSError) as error:
        log.warning("could not remove what other attempts of run %s left at %s: %s", run_id, store.url, error)
        return ()
    return gone


def cleanup(store: Store, *, keep: int = 10, older_than: timedelta | None = None, dry_run: bool = True, run_registry_prefix: str = "runs") -> CleanupResult:
    """Remove versions past the newest `keep`, and files of runs that are over which no kept version uses.

    The current version is always kept; with `older_than`, so is every younger one. A live run's files and manifest stay; a run that
    did not renew its lease is marked, so that it cannot publish any more, before its files go.
    """
    if keep < 1:
        raise ShardError(f"keep is {keep}; the current version always stays, so it takes a number from 1.", url=store.url)
    live, dead, ended = _runs(store, run_registry_prefix)
    known = versions(store)
    kept = [*_kept(known, keep, older_than), *(v for v in known if v.run_id in live)]
    unreadable = [version for version in kept if version.manifest is None]
    if unreadable:
        raise ShardError(f"Nothing was removed: what version {unreadable[0].version} uses is not known. {unreadable[0].problem}", url=store.url)
    going = [version for version in known if version not in kept]
    used = _files(version.manifest for version in kept if version.manifest is not None)
    files, unknown = _unused(store, used, live, dead | ended)
    gone_runs = tuple(sorted(({_run_of(file.path) for file in files} | {version.run_id for version in going}) & dead))
    planned = CleanupResult(
        dry_run=dry_run,
        kept_versions=tuple(sorted({version.version for version in kept})),
        manifests=tuple(version.manifest_ref for version in going),
        files=tuple(file.path for file in files),
        bytes=sum(file.size for file in files),
        dead_runs=gone_runs,
        unknown_runs=tuple(sorted(unknown)),
    )
    return planned if dry_run else _carried_out(store, planned, run_registry_prefix)


def _kept(known: list[Version], keep: int, older_than: timedelta | None) -> list[Version]:
    newest = sorted(known, key=lambda version: (version.was_published, version.version), reverse=True)[:keep]
    young = time.time_ns() // 1_000_000 - int(older_than.total_seconds() * 1000) if older_than is not None else None
    return [v for v in known if v.is_current or v in newest or (young is not None and v.created_ms >= young)]


def _carried_out(store: Store, planned: CleanupResult, folder: str) -> CleanupResult:
    failed: list[str] = []
    for run_id in planned.dead_runs:
        _mark(store, run_id, folder)
    # Manifests first: a rollback then refuses them, and one that came in between is found by looking at the pointer again.
    saved = {ref: store.get(ref).data for ref in planned.manifests}
    failed += [ref for ref in planned.manifests if not _deleted(store, ref)]
    pointer = current(store)
    if pointer is not None and pointer.manifest_ref in saved:
        store.put(pointer.manifest_ref, saved[pointer.manifest_ref])
        raise ShardError(f"{store.url} was rolled back to version {pointer.version} while it was cleaned up; that version was put back and no file was removed. Run it again.", url=store.url)
    failed += [path for path in planned.files if not _deleted(store, path)]
    store.prune(SHARDS)
    return CleanupResult(**{**vars(planned), "failed": tuple(failed)})


def _runs(store: Store, folder: str) -> tuple[set[str], set[str], set[str]]:
    """The runs that are alive, those that died, and those that are over."""
    from lakewright.commit.runs import RUNNING
    from lakewright.shards.registry import runs

    records = runs(store, folder)
    live = {record.run_id for record in records if record.alive}
    dead = {record.run_id for record in records if record.state == RUNNING} - live
    return live, dead, {record.run_id for record in records} - live - dead


def _unused(store: Store, used: set[str], live: set[str], removable: set[str]) -> tuple[list[StoredObject], set[str]]:
    unused, unknown = [], set()
    for file in store.list(SHARDS):
        run_id = _run_of(file.path)
        if file.path in used or run_id in live:
            continue
        if run_id in removable:
            unused.append(file)
        else:
            unknown.add(run_id)
    return unused, unknown


def _files(manifests: Iterable[Manifest]) -> set[str]:
    return {f"{entry.path}/{file.name}" for manifest in manifests for entry in manifest.shards for file in entry.files}


def _run_of(path: str) -> str:
    return next((part.removeprefix(RUN) for part in path.split("/") if part.startswith(RUN)), "")


def _mark(store: Store, run_id: str, folder: str) -> None:
    from lakewright.commit.runs import mark_path
    from lakewright.format.storage import write_atomically
    from lakewright.shards.registry import run_io

    write_atomically(run_io(store), mark_path(store.url, run_id, folder), b"")


def _deleted(store: Store, path: str) -> bool:
    try:
        store.delete(path)
    except (LakewrightError, OSError) as error:
        log.warning("could not remove %s: %s", store.full(path), error)
        return False
    return True
