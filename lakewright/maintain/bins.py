"""Which data files a compaction rewrites, and which of them together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lakewright.format.data_file import DataFile
from lakewright.options import COMPACT_DELETE_RATIO, COMPACT_MAX_FILE, COMPACT_MIN_FILE, COMPACT_MIN_INPUTS, COMPACT_OLD_SPECS, TARGET_FILE_SIZE, Options
from lakewright.plan.write_plan import most_rows
from lakewright.read.deletes import only_path
from lakewright.read.prune import partition_key
from lakewright.read.scan import FileScan

# Of the target size. A bin that is full by its last small file is below what counts as large.
SMALL, FULL, LARGE = 0.75, 0.9, 1.8
# Rows of one partition of an older spec may be of many of the present one: the more of them are at hand, the larger the files of each.
OLD_SPEC_BINS = 8


@dataclass(frozen=True)
class Sizing:
    """What makes a file one to rewrite; sizes in bytes, or in rows where the table's buckets are filled by number."""

    target: int
    small: float
    large: float
    delete_ratio: float = 0.0
    min_inputs: int = 2
    old_specs: bool = False
    by_rows: bool = False

    @staticmethod
    def from_options(options: Options) -> Sizing:
        rows = most_rows(options)
        if rows is not None:
            return Sizing(rows, SMALL * rows, float("inf"), options[COMPACT_DELETE_RATIO], options[COMPACT_MIN_INPUTS], options[COMPACT_OLD_SPECS], by_rows=True)
        target = options[TARGET_FILE_SIZE]
        return Sizing(
            target,
            options[COMPACT_MIN_FILE] or SMALL * target,
            options[COMPACT_MAX_FILE] or LARGE * target,
            options[COMPACT_DELETE_RATIO],
            options[COMPACT_MIN_INPUTS],
            options[COMPACT_OLD_SPECS],
        )

    def size(self, file: DataFile) -> int:
        return file.record_count if self.by_rows else file.file_size_in_bytes

    def live(self, scan: FileScan) -> float:
        """Of the file's live rows, as far as its deletes say how many they are."""
        return self.size(scan.data_file) * (1 - deleted_share(scan))


def plan_bins(files: Iterable[FileScan], spec_id: int, sizing: Sizing) -> list[tuple[FileScan, ...]]:
    """Files to be rewritten together, partition by partition; a file on its own only for its deletes, its size or its spec."""
    groups: dict[tuple[int, tuple[Any, ...]], list[FileScan]] = defaultdict(list)
    for scan in files:
        if is_candidate(scan, spec_id, sizing):
            groups[scan.data_file.spec_id, partition_key(scan.data_file.partition)].append(scan)
    chosen: list[tuple[FileScan, ...]] = []
    for (of_spec, _), members in groups.items():
        full, alone = (FULL * sizing.target, sizing.small) if of_spec == spec_id else (OLD_SPEC_BINS * sizing.target, float("inf"))
        chosen += [tuple(bin_) for bin_ in packed(members, full, alone, sizing) if _is_worth_it(bin_, spec_id, sizing)]
    return chosen


def is_candidate(scan: FileScan, spec_id: int, sizing: Sizing) -> bool:
    return sizing.size(scan.data_file) < sizing.small or _on_its_own(scan, spec_id, sizing)


def packed(files: Iterable[FileScan], full: float, alone: float, sizing: Sizing) -> Iterator[list[FileScan]]:
    """Neighbours, in the order they were added, until they are as much as one file should have; one that is `alone` enough stays so."""
    bin_: list[FileScan] = []
    used = 0.0
    for scan in sorted(files, key=lambda scan: (scan.sequence_number, scan.data_file.file_path)):
        size = sizing.live(scan)
        if size >= alone:
            yield [scan]
            continue
        bin_.append(scan)
        used += size
        if used >= full:
            yield bin_
            bin_, used = [], 0.0
    if bin_:
        yield bin_


def deleted_share(scan: FileScan) -> float:
    """Of its rows, those that vectors and position deletes of this file alone delete."""
    path, rows = scan.data_file.file_path, scan.data_file.record_count
    deleted = sum(delete.data_file.record_count for delete in scan.deletes if delete.is_position and only_path(delete.data_file) == path)
    return min(1.0, deleted / rows) if rows else 0.0


def _is_worth_it(bin_: Sequence[FileScan], spec_id: int, sizing: Sizing) -> bool:
    return len(bin_) >= max(2, sizing.min_inputs) or any(_on_its_own(scan, spec_id, sizing) for scan in bin_)


def _on_its_own(scan: FileScan, spec_id: int, sizing: Sizing) -> bool:
    """Whether the file is rewritten whatever stands beside it."""
    is_old = sizing.old_specs and scan.data_file.spec_id != spec_id
    return sizing.size(scan.data_file) > sizing.large or _has_deletes(scan, sizing.delete_ratio) or is_old


def _has_deletes(scan: FileScan, ratio: float) -> bool:
    """Of deletes that are not of this file alone it is not known how many rows they take, nor whether any."""
    path = scan.data_file.file_path
    counted = all(delete.is_position and only_path(delete.data_file) == path for delete in scan.deletes)
    return bool(scan.deletes) and (not counted or deleted_share(scan) >= ratio)
