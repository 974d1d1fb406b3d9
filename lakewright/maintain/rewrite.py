"""A compaction from its plan to the change to commit. Each bin stands for itself: those that others were first at are left out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakewright.commit.change import REPLACE, SnapshotChange
from lakewright.commit.result import COMPACT, ROWS_COPIED
from lakewright.commit.store import TableState
from lakewright.commit.validate import lost_files
from lakewright.errors import StalePlan
from lakewright.format.data_file import DataFile
from lakewright.format.storage import try_delete
from lakewright.maintain.bins import Sizing, plan_bins
from lakewright.plan.combine import Bin, combine_plan, committed
from lakewright.plan.filters import parse_where
from lakewright.plan.overwrite import with_their_deletes
from lakewright.plan.request import CompactRequest
from lakewright.read.scan import FileScan, plan_scan
from lakewright.rows.execute import Phases
from lakewright.rows.row_plan import RowContext
from lakewright.session import time_zone
from lakewright.write.combine import combine

log = logging.getLogger("lakewright")

PREFIX = "lakewright.compact."
FILES_BEFORE, FILES_AFTER, BYTES_BEFORE, BYTES_AFTER, DELETES_MERGED, BINS = (f"{PREFIX}{what}" for what in ("files-before", "files-after", "bytes-before", "bytes-after", "deletes-merged", "bins"))
BINS_LEFT_OUT, FILES_LEFT_OUT = f"{PREFIX}bins-left-out", f"{PREFIX}files-left-out"


@dataclass(frozen=True)
class Rewritten:
    """A bin and the files it became."""

    bin: Bin
    files: tuple[DataFile, ...]

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(scan.data_file.file_path for scan in self.bin.scans)


@dataclass(frozen=True)
class Compaction:
    """What was rewritten on the table as it was read, and as much of it as still holds."""

    context: RowContext
    request: CompactRequest
    bins: tuple[Rewritten, ...]
    left_out: tuple[Bin, ...] = ()

    def after_conflict(self, refused: SnapshotChange, state: TableState) -> Compaction:
        """Without the bins whose files other commits changed meanwhile, and without the files these became.

        Without any bin where nothing of that kind, and no delete file that went meanwhile, can be why the change was refused.
        """
        try:
            change = self.change(state)
            lost = lost_files(state.io, change, state.metadata, state.name)
            is_clear = bool(lost) or change.removed != refused.removed
        except StalePlan:
            lost, is_clear = frozenset(), False
        broken = [one for one in self.bins if not is_clear or not one.paths.isdisjoint(lost)]
        for file in (file for one in broken for file in one.files):
            try_delete(state.io, file.file_path)
        log.info("compaction of %s: other commits changed files of %d of %d bins meanwhile; these are left as they are", state.name, len(broken), len(self.bins))
        kept = tuple(one for one in self.bins if is_clear and one.paths.isdisjoint(lost))
        return replace(self, bins=kept, left_out=(*self.left_out, *(one.bin for one in broken)))

    def change(self, state: TableState) -> SnapshotChange:
        """The commit; delete files go with it that apply to nothing else in the table as it is now."""
        context, metadata = self.context, state.metadata
        scans = [scan for one in self.bins for scan in one.bin.scans]
        added = [file for one in self.bins for file in one.files]
        removed, vectors = with_their_deletes(state, metadata, metadata.head(self.request.branch), scans)
        counts = {
            FILES_BEFORE: len(scans),
            FILES_AFTER: len(added),
            BYTES_BEFORE: sum(scan.data_file.file_size_in_bytes for scan in scans),
            BYTES_AFTER: sum(file.file_size_in_bytes for file in added),
            DELETES_MERGED: len({(delete.path, delete.data_file.content_offset) for scan in scans for delete in scan.deletes}),
            BINS: len(self.bins),
            BINS_LEFT_OUT: len(self.left_out),
            FILES_LEFT_OUT: sum(len(bin_.files) for bin_ in self.left_out),
            ROWS_COPIED: sum(file.record_count for file in added),
        }
        return SnapshotChange(
            operation=REPLACE,
            schema=context.schema,
            specs=context.metadata.specs,
            added=added,
            removed=removed,
            removed_vectors=vectors,
            branch=self.request.branch,
            read_snapshot_id=context.head.snapshot_id if context.head else None,
            token=self.request.token,
            properties={**self.request.snapshot_properties, **{key: str(value) for key, value in counts.items()}},
            command=COMPACT,
        )


def rewrite(context: RowContext, request: CompactRequest, progress: Phases) -> Compaction:
    """Plan the bins and write their files."""
    with progress.phase("plan"):
        chosen = parse_where(request.where, context.schema, context.table, session_tz=time_zone(context.spark), deterministic=True)
        scan = plan_scan(context.state.io, context.metadata, context.head, chosen, with_metrics=True)
        bins = _bins(context, plan_bins(scan.files, context.write.spec.spec_id, Sizing.from_options(context.options)))
    with progress.phase("write"):
        progress.update(f"{sum(len(bin_.files) for bin_ in bins)} files in {len(bins)} bins")
        plan = combine_plan(context.write, context.metadata, [scan for bin_ in bins for scan in bin_.scans])
        made = combine(context.spark, plan, bins)
    return Compaction(context, request, tuple(Rewritten(bin_, files) for bin_, files in zip(bins, made.files, strict=True)))


def _bins(context: RowContext, chosen: Sequence[Sequence[FileScan]]) -> list[Bin]:
    return [Bin(tuple(committed(context.metadata, context.write, scan) for scan in scans)) for scans in chosen]
