"""A change into a snapshot: its manifests, its manifest list and its summary."""

from __future__ import annotations

import itertools
import secrets
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyiceberg.io import FileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from lakewright.commit.change import SnapshotChange
from lakewright.commit.removal import Removal
from lakewright.commit.result import COMMAND, RUN_ID, TOKEN
from lakewright.commit.summary import Tally, summarise
from lakewright.commit.updates import now_ms
from lakewright.format.data_file import ADDED, DATA, DELETED, EXISTING, DataFile, ManifestEntry, ManifestFile
from lakewright.format.manifests import assign_row_ids, read_manifest, read_manifest_list, write_manifest, write_manifest_list
from lakewright.format.metadata import Json, Metadata, Snapshot
from lakewright.format.storage import try_delete
from lakewright.options import MANIFEST_MERGE, MANIFEST_MIN_COUNT, MANIFEST_TARGET_SIZE, Options

ENTRIES_PER_MANIFEST = 10_000
REMEMBERED_LISTS = 16
_lists: OrderedDict[str, list[ManifestFile]] = OrderedDict()  # by path, those this process wrote last


def new_snapshot_id() -> int:
    return secrets.randbits(63) or 1


@dataclass
class SnapshotBuilder:
    """Builds one change on whatever head it is given, as often as the publish is retried.

    The snapshot id stays the same over all attempts, so that a publish whose outcome was unclear can be recognised; the
    manifests of added files are written once and kept. `numbers` names the manifests, and is one for all builders of a run.
    """

    io: FileIO
    change: SnapshotChange
    run_id: str
    options: Options
    numbers: Iterator[int] = field(default_factory=itertools.count)
    snapshot_id: int = field(default_factory=new_snapshot_id)
    _added: list[ManifestFile] | None = None
    _scratch: list[str] = field(default_factory=list)
    _lasting: list[str] = field(default_factory=list)

    def build(self, base: Metadata, attempt: int) -> Json:
        """The snapshot as JSON, with every file it needs written."""
        head = base.head_if_any(self.change.branch)
        inherited = self._manifests(head) if head else []
        tally = Tally()
        tally.add(self.change.added)
        kept = self._without_removed(base, inherited, tally)
        manifests = [*self._added_manifests(base), *self._merged(base, kept)]
        lineage: Json = {}
        if base.format_version >= 3:
            manifests, next_row_id = assign_row_ids(manifests, base.next_row_id)
            lineage = {"first-row-id": base.next_row_id, "added-rows": next_row_id - base.next_row_id}
        sequence_number = base.last_sequence_number + 1
        path = f"{base.location}/metadata/snap-{self.snapshot_id}-{attempt}-{self.run_id}.avro"
        parent_id = head.snapshot_id if head else None
        self._scratch.append(path)
        listed = write_manifest_list(
            self.io,
            path,
            snapshot_id=self.snapshot_id,
            parent_id=parent_id,
            sequence_number=sequence_number,
            manifests=manifests,
            format_version=base.format_version,
            first_row_id=lineage.get("first-row-id"),
        )
        _remember(path, listed)
        snapshot: Json = {
            "snapshot-id": self.snapshot_id,
            "sequence-number": sequence_number,
            "timestamp-ms": max(now_ms(), int(base.raw.get("last-updated-ms", 0)) + 1),
            "manifest-list": path,
            "summary": self._summary(head, tally),
            "schema-id": base.current_schema_id,
            **lineage,
        }
        if parent_id is not None:
            snapshot["parent-snapshot-id"] = parent_id
        return snapshot

    def discard_attempt(self) -> None:
        """Delete what the last attempt wrote for its own head; the manifests of added files stay for the next one."""
        for path in self._scratch:
            try_delete(self.io, path)
        self._scratch.clear()

    def discard_all(self) -> None:
        self.discard_attempt()
        for path in self._lasting:
            try_delete(self.io, path)
        self._lasting.clear()
        self._added = None

    def keep_attempt(self) -> None:
        """Forget what the last attempt wrote without deleting it: it may have been published."""
        self._scratch.clear()

    def _manifests(self, head: Snapshot) -> list[ManifestFile]:
        """Of the snapshot to build on; often it is the one this process made last."""
        known = _lists.get(head.manifest_list)
        return read_manifest_list(self.io, head.manifest_list) if known is None else known

    def _summary(self, head: Snapshot | None, tally: Tally) -> dict[str, str]:
        own = {RUN_ID: self.run_id}
        own |= {key: value for key, value in ((TOKEN, self.change.token), (COMMAND, self.change.command)) if value}
        return summarise(self.change.operation, tally, head.summary if head else {}, {**self.change.properties, **own})

    def _added_manifests(self, base: Metadata) -> list[ManifestFile]:
        if self._added is None:
            added = []
            for (spec_id, content), files in _files_by_kind(self.change.added).items():
                for start in range(0, len(files), ENTRIES_PER_MANIFEST):
                    chunk = files[start : start + ENTRIES_PER_MANIFEST]
                    entries = (ManifestEntry(ADDED, self.snapshot_id, None, None, replace(f, first_row_id=None)) for f in chunk)
                    added.append(self._write(base, base.specs[spec_id], content, entries, self._lasting))
            self._added = added
        return self._added

    def _without_removed(self, base: Metadata, manifests: Sequence[ManifestFile], tally: Tally) -> list[ManifestFile]:
        """The manifests to carry on, those with removed files written anew; every removed file must be found."""
        removal = Removal(self.change)
        kept = []
        for manifest in manifests:
            if not manifest.has_live_files:
                continue
            live = (e.data_file for e in self._entries(base, manifest, with_metrics=False) if e.status != DELETED)
            changes = removal.concerns(manifest) and removal.among(live)
            kept.append(self._rewritten(base, manifest, removal, tally) if changes else manifest)
        removal.check()
        return kept

    def _rewritten(self, base: Metadata, manifest: ManifestFile, removal: Removal, tally: Tally) -> ManifestFile:
        def entries() -> Iterator[ManifestEntry]:
            for entry in self._entries(base, manifest):
                if entry.status == DELETED:
                    continue
                if removal.takes(entry.data_file):
                    tally.remove(entry.data_file)
                    yield replace(entry, status=DELETED, snapshot_id=self.snapshot_id)
                else:
                    yield replace(entry, status=EXISTING)

        return self._write(base, base.specs[manifest.partition_spec_id], manifest.content, entries(), self._scratch)

    def _merged(self, base: Metadata, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """Small manifests of one kind, once enough have gathered, as few larger ones."""
        if not self.options[MANIFEST_MERGE]:
            return manifests
        result = []
        for (spec_id, content), group in _by_kind(manifests).items():
            small = [m for m in group if m.manifest_length < self.options[MANIFEST_TARGET_SIZE] and m.added_snapshot_id != self.snapshot_id]
            if len(small) < self.options[MANIFEST_MIN_COUNT]:
                result.extend(group)
                continue
            names = {m.manifest_path for m in small}
            result.extend(m for m in group if m.manifest_path not in names)
            for bin_ in _packed(small, self.options[MANIFEST_TARGET_SIZE]):
                result.append(bin_[0] if len(bin_) == 1 else self._combined(base, base.specs[spec_id], content, bin_))
        return result

    def _combined(self, base: Metadata, spec: PartitionSpec, content: int, manifests: Iterable[ManifestFile]) -> ManifestFile:
        live = (replace(e, status=EXISTING) for m in manifests for e in self._entries(base, m) if e.status != DELETED)
        return self._write(base, spec, content, live, self._scratch)

    def _entries(self, base: Metadata, manifest: ManifestFile, with_metrics: bool = True) -> Iterator[ManifestEntry]:
        return read_manifest(self.io, manifest, base.specs, with_metrics=with_metrics)

    def _write(self, base: Metadata, spec: PartitionSpec, content: int, entries: Iterable[ManifestEntry], noted: list[str]) -> ManifestFile:
        path = f"{base.location}/metadata/{self.run_id}-m{next(self.numbers)}.avro"
        noted.append(path)
        return write_manifest(
            self.io,
            path,
            spec=spec,
            schema=_schema_of(spec, base),
            content=content,
            snapshot_id=self.snapshot_id,
            entries=entries,
            format_version=base.format_version,
        )


def _remember(path: str, manifests: list[ManifestFile]) -> None:
    _lists[path] = manifests
    while len(_lists) > REMEMBERED_LISTS:
        _lists.popitem(last=False)


def _files_by_kind(files: Iterable[DataFile]) -> Mapping[tuple[int, int], list[DataFile]]:
    """By spec and by what a manifest holds: 0 data, 1 deletes. In the order of their names, so that row ids do not hang on which task ended first."""
    groups: dict[tuple[int, int], list[DataFile]] = {}
    for file in sorted(files, key=lambda f: f.file_path):
        groups.setdefault((file.spec_id, int(file.content != DATA)), []).append(file)
    return groups


def _schema_of(spec: PartitionSpec, base: Metadata) -> Schema:
    """The newest schema that still has the columns of a spec: an old spec outlives its columns."""
    sources = {f.source_id for f in spec.fields}
    newest_first = [base.schema, *sorted(base.schemas.values(), key=lambda s: s.schema_id, reverse=True)]
    return next((s for s in newest_first if sources <= s._lazy_id_to_field.keys()), base.schema)


def _by_kind(manifests: Iterable[ManifestFile]) -> Mapping[tuple[int, int], list[ManifestFile]]:
    groups: dict[tuple[int, int], list[ManifestFile]] = {}
    for manifest in manifests:
        groups.setdefault((manifest.partition_spec_id, manifest.content), []).append(manifest)
    return groups


def _packed(manifests: Iterable[ManifestFile], target: int) -> Iterator[list[ManifestFile]]:
    """Neighbours together, each bin up to the target size, so that the order of commits stays."""
    bin_: list[ManifestFile] = []
    size = 0
    for manifest in manifests:
        if bin_ and size + manifest.manifest_length > target:
            yield bin_
            bin_, size = [], 0
        bin_.append(manifest)
        size += manifest.manifest_length
    if bin_:
        yield bin_
