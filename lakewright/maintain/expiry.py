"""Expiry of snapshots: first they leave the metadata, in one commit; then the files that only they referred to are deleted.

Which snapshots are kept follows Iceberg's rules (https://iceberg.apache.org/spec/#snapshot-retention-policy), so the same
table properties and limits of refs hold for every engine. A process killed between the two steps leaves files that
`remove_orphans` finds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from pyiceberg.io import FileIO

from lakewright.commit.change import MetadataChange
from lakewright.commit.refs import unchanged
from lakewright.commit.runs import RUNNING, RunRecord, list_runs, record_path, running_runs
from lakewright.commit.store import Store, TableState
from lakewright.commit.updates import Update, apply, now_ms, remove_ref, remove_snapshots
from lakewright.errors import CorruptFile, InvalidOption, UnsupportedOperation
from lakewright.format.manifests import read_manifest, read_manifest_list
from lakewright.format.metadata import MAIN, Json, Metadata, Snapshot
from lakewright.format.storage import try_delete
from lakewright.maintain.dead_runs import may_live
from lakewright.maintain.reachability import name_of, statistics_files
from lakewright.maintain.recorded import recorded
from lakewright.options import MAX_REF_AGE, MAX_SNAPSHOT_AGE, MIN_SNAPSHOTS, Options
from lakewright.read.tables import CONTENTS

GC_ENABLED = "gc.enabled"
MANIFESTS, MANIFEST_LISTS, STATISTICS = "manifests", "manifest lists", "statistics"
KINDS = (*CONTENTS.values(), MANIFESTS, MANIFEST_LISTS, STATISTICS)
DELETERS = 16
log = logging.getLogger("lakewright")


@dataclass(frozen=True)
class Limits:
    """What is kept where a branch or tag does not say otherwise. Live runs use the snapshots from `keep_since_sequence` on, and write to `live_branches`."""

    now_ms: int
    older_than_ms: int
    retain_last: int
    max_ref_age_ms: int | None
    keep_since_sequence: int | None = None
    live_branches: frozenset[str] = frozenset()


@dataclass(frozen=True)
class UnusedFile:
    path: str
    kind: str
    bytes: int = 0


@dataclass(frozen=True)
class Expired:
    """What an expiry removed, or would remove. `counts`: files by kind. `bytes`: of data files, delete files and manifests."""

    snapshots: tuple[int, ...]
    refs: tuple[str, ...]
    files: tuple[str, ...]
    counts: Mapping[str, int] = field(repr=False)
    bytes: int
    dry_run: bool

    def __str__(self) -> str:
        verb = "would expire" if self.dry_run else "expired"
        return f"{verb} {len(self.snapshots):,} snapshots and {len(self.refs):,} refs; {len(self.files):,} files, {self.bytes / 1024 / 1024:.1f} MiB"


def expire_snapshots(store: Store, state: TableState, options: Options, *, older_than_ms: int | None, retain_last: int | None, dry_run: bool) -> Expired:
    if state.metadata.properties.get(GC_ENABLED, "true").lower() == "false":
        raise UnsupportedOperation(f"{state.name} has {GC_ENABLED}=false, since other tables may use its files, so nothing of it is expired.", table=state.name)
    if retain_last is not None and retain_last < 1:
        raise InvalidOption(f"retain_last is {retain_last}; an expiry of {state.name} keeps at least 1 snapshot.", table=state.name)
    live = [record for record in running_runs(state.io, state.metadata.location) if may_live(record)]
    now = now_ms()
    limits = Limits(
        now_ms=now,
        older_than_ms=now - options[MAX_SNAPSHOT_AGE] if older_than_ms is None else older_than_ms,
        retain_last=options[MIN_SNAPSHOTS] if retain_last is None else retain_last,
        max_ref_age_ms=options[MAX_REF_AGE],
        keep_since_sequence=_oldest_read(state.metadata, live),
        live_branches=frozenset(record.branch for record in live),
    )
    if dry_run:
        after = apply(state.metadata, _updates(state.metadata, limits))
        return _expired(state.metadata, after, _unused(state.io, state.metadata, after), dry_run=True)
    if not _updates(state.metadata, limits):
        _forget_runs(state, limits, options)
        return _expired(state.metadata, state.metadata, [], dry_run=False)
    with recorded(store, state, "expire", options) as run:
        tried: list[Metadata] = []
        published = run.publish(_expiry(limits, tried))
        # What is kept is looked up in the version published, or a newer one: later commits build on that, and on their own files.
        newest = store.load(state.identifier, known=published)
        before = tried[-1] if tried else newest.metadata
        unused = _unused(state.io, before, newest.metadata)
        with ThreadPoolExecutor(DELETERS) as pool:
            list(pool.map(lambda file: try_delete(state.io, file.path), unused))
        _forget_runs(newest, limits, options)
        run.finish(details={"expired_snapshots": len(_removed(before, newest.metadata)), "deleted_files": len(unused)})
    return _expired(before, newest.metadata, unused, dry_run=False)


# What is kept


def retained_refs(metadata: Metadata, limits: Limits) -> dict[str, Json]:
    """Refs whose snapshot is not older than they may be; main always, and what a live run writes to."""
    always = {MAIN, *limits.live_branches}
    return {name: ref for name, ref in metadata.refs.items() if name in always or not _is_too_old(metadata, ref, limits)}


def retained_snapshots(metadata: Metadata, limits: Limits) -> set[int]:
    """The newest of each branch by number and age, what tags point to, what belongs to no ref but is young, and what live runs read."""
    refs = retained_refs(metadata, limits)
    kept: set[int] = set()
    referenced: set[int] = set()
    for ref in refs.values():
        if ref["type"] == "branch":
            kept.update(_of_branch(metadata, ref, limits))
            referenced.update(s.snapshot_id for s in metadata.ancestors(ref["snapshot-id"]))
        else:
            kept.add(ref["snapshot-id"])
            referenced.add(ref["snapshot-id"])
    for snapshot in metadata.snapshots():
        is_young = snapshot.snapshot_id not in referenced and snapshot.timestamp_ms >= limits.older_than_ms
        is_read = limits.keep_since_sequence is not None and snapshot.sequence_number >= limits.keep_since_sequence
        if is_young or is_read:
            kept.add(snapshot.snapshot_id)
    return kept


def _of_branch(metadata: Metadata, ref: Json, limits: Limits) -> Iterator[int]:
    """From the head back to the first that is both too old and beyond the number to keep."""
    least = int(ref.get("min-snapshots-to-keep") or limits.retain_last)
    age = ref.get("max-snapshot-age-ms")
    since = limits.older_than_ms if age is None else limits.now_ms - int(age)
    for number, snapshot in enumerate(metadata.ancestors(ref["snapshot-id"])):
        if number >= least and snapshot.timestamp_ms < since:
            return
        yield snapshot.snapshot_id


def _is_too_old(metadata: Metadata, ref: Json, limits: Limits) -> bool:
    allowed = ref.get("max-ref-age-ms", limits.max_ref_age_ms)
    if not metadata.has_snapshot(ref["snapshot-id"]):
        return True
    return allowed is not None and limits.now_ms - metadata.snapshot(ref["snapshot-id"]).timestamp_ms > int(allowed)


def _oldest_read(metadata: Metadata, live: Iterable[RunRecord]) -> int | None:
    """The sequence number of the oldest snapshot a live run plans on: it, and all that came since, are needed to validate its commit."""
    read = (record.read_snapshot_id for record in live)
    return min((metadata.snapshot(i).sequence_number for i in read if i is not None and metadata.has_snapshot(i)), default=None)


def _expiry(limits: Limits, tried: list[Metadata]) -> MetadataChange:
    """`tried` gets the versions it was tried on that had something to expire; the last is the one before the publish, also if its answer was lost."""

    def updates(metadata: Metadata) -> list[Update]:
        made = _updates(metadata, limits)
        if made:
            tried.append(metadata)
        return made

    return MetadataChange("expire snapshots", updates, lambda metadata: [unchanged(metadata, name) for name in metadata.refs])


def _updates(metadata: Metadata, limits: Limits) -> list[Update]:
    dropped = [remove_ref(name) for name in metadata.refs.keys() - retained_refs(metadata, limits).keys()]
    kept = retained_snapshots(metadata, limits)
    gone = [s.snapshot_id for s in metadata.snapshots() if s.snapshot_id not in kept]
    return [*dropped, *([remove_snapshots(gone)] if gone else [])]


# What only expired snapshots referred to


def _unused(io: FileIO, before: Metadata, after: Metadata) -> list[UnusedFile]:
    """Files of the snapshots that are gone and that no kept one refers to: data and delete files first, then what lists them."""
    gone = _removed(before, after)
    if not gone:
        return []
    kept = {m.manifest_path: m for snapshot in after.snapshots() for m in read_manifest_list(io, snapshot.manifest_list)}
    listed: dict[str, UnusedFile] = {}
    manifests: dict[str, UnusedFile] = {}
    lists: list[UnusedFile] = []
    specs = {**before.specs, **after.specs}
    for snapshot in gone:
        lists.append(UnusedFile(snapshot.manifest_list, MANIFEST_LISTS))
        try:
            for manifest in read_manifest_list(io, snapshot.manifest_list):
                if manifest.manifest_path not in kept and manifest.manifest_path not in manifests:
                    manifests[manifest.manifest_path] = UnusedFile(manifest.manifest_path, MANIFESTS, manifest.manifest_length)
                    for entry in read_manifest(io, manifest, specs, with_metrics=False, live_only=True):
                        file = entry.data_file
                        listed[name_of(file.file_path)] = UnusedFile(file.file_path, CONTENTS[file.content], file.file_size_in_bytes)
        except CorruptFile as error:
            log.warning("files of the expired snapshot %s cannot be told, remove_orphans finds them: %s", snapshot.snapshot_id, error)
    for manifest in kept.values() if listed else ():
        for entry in read_manifest(io, manifest, specs, with_metrics=False, live_only=True):
            listed.pop(name_of(entry.data_file.file_path), None)
    statistics = {name_of(path) for path in statistics_files(after)}
    sketches = [UnusedFile(path, STATISTICS) for path in dict.fromkeys(statistics_files(before)) if name_of(path) not in statistics]
    return [*listed.values(), *sketches, *manifests.values(), *lists]


def _removed(before: Metadata, after: Metadata) -> list[Snapshot]:
    return [snapshot for snapshot in before.snapshots() if not after.has_snapshot(snapshot.snapshot_id)]


def _expired(before: Metadata, after: Metadata, unused: list[UnusedFile], *, dry_run: bool) -> Expired:
    counts = {kind: sum(file.kind == kind for file in unused) for kind in KINDS}
    snapshots = tuple(s.snapshot_id for s in _removed(before, after))
    refs = tuple(sorted(before.refs.keys() - after.refs.keys()))
    return Expired(snapshots, refs, tuple(f.path for f in unused), counts, sum(f.bytes for f in unused), dry_run)


def _forget_runs(state: TableState, limits: Limits, options: Options) -> None:
    """Records of runs go with their snapshot; of those that made none, once they have the age at which snapshots expire by the table's rule."""
    for record in list_runs(state.io, state.metadata.location):
        if record.state == RUNNING or record.finished_ms is None:
            continue
        if record.snapshot_id is None:
            is_over = record.finished_ms < limits.now_ms - options[MAX_SNAPSHOT_AGE]
        else:
            is_over = record.finished_ms < limits.older_than_ms and not state.metadata.has_snapshot(record.snapshot_id)
        if is_over:
            try_delete(state.io, record_path(state.metadata.location, record.run_id))
