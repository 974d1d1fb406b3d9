"""Small files: what an upsert adds goes into existing small files of its partitions, in the same commit, so that it leaves no more than it found."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

from lakewright.format.data_file import DataFile
from lakewright.format.storage import try_delete
from lakewright.maintain.bins import Sizing
from lakewright.plan.combine import Bin, combine_plan, committed, uncommitted
from lakewright.read.prune import partition_key
from lakewright.read.scan import FileScan, plan_scan
from lakewright.rows.row_plan import RowContext
from lakewright.write.combine import combine
from lakewright.write.delta_messages import Materialised


def fold(context: RowContext, made: Materialised) -> tuple[Materialised, tuple[FileScan, ...]]:
    """The files with small ones among them combined with existing small ones, and the latter, which go."""
    sizing = Sizing.from_options(context.options)
    new: dict[tuple[Any, ...], list[DataFile]] = defaultdict(list)
    for file in made.added:
        if file.spec_id == context.write.spec.spec_id and sizing.size(file) < _room(sizing):
            new[partition_key(file.partition)].append(file)
    if not new:
        return made, ()
    old = _small_files(context, made, sizing, new.keys())
    bins = [bin_ for partition, files in new.items() if (bin_ := _bin(context, files, old[partition], sizing)) is not None]
    if not bins:
        return made, ()
    gone = tuple(scan for bin_ in bins for scan in bin_.scans)
    done = combine(context.spark, combine_plan(context.write, context.metadata, gone), bins)
    folded = {target.file.scan.data_file.file_path for bin_ in bins for target in bin_.files if target.is_new}
    for path in folded:
        try_delete(context.state.io, path)
    kept = tuple(file for file in made.added if file.file_path not in folded)
    combined = [file for files in done.files for file in files]
    carried = sum(file.record_count for file in combined) - sum(file.record_count for file in made.added if file.file_path in folded)
    return replace(made, added=(*kept, *combined), copied=made.copied + carried), gone


def _small_files(context: RowContext, made: Materialised, sizing: Sizing, partitions: Any) -> dict[tuple[Any, ...], list[FileScan]]:
    """Existing files with room, fullest first, that this commit does not change otherwise."""
    found: dict[tuple[Any, ...], list[FileScan]] = defaultdict(list)
    for scan in plan_scan(context.state.io, context.metadata, context.head, with_metrics=True).files:
        file = scan.data_file
        is_free = file.file_path not in made.touched and file.file_path not in made.replaced
        if file.spec_id == context.write.spec.spec_id and partition_key(file.partition) in partitions and is_free and sizing.live(scan) < _room(sizing):
            found[partition_key(file.partition)].append(scan)
    for files in found.values():
        files.sort(key=lambda scan: (-sizing.live(scan), scan.data_file.file_path))
    return found


def _bin(context: RowContext, new: list[DataFile], old: list[FileScan], sizing: Sizing) -> Bin | None:
    """New files and as many of the old as fit in one file with them, one in any case, or all where buckets are filled by number;
    None where there is nothing to combine."""
    used = float(sum(map(sizing.size, new)))
    chosen = []
    for scan in old:
        if sizing.by_rows or used + sizing.live(scan) <= sizing.target:
            chosen.append(scan)
            used += sizing.live(scan)
    if old and not chosen:
        chosen = [old[-1]]
    if len(new) + len(chosen) < 2:
        return None
    targets = [*(committed(context.metadata, context.write, scan) for scan in chosen), *(uncommitted(context.metadata, context.write, file) for file in new)]
    return Bin(tuple(targets))


def _room(sizing: Sizing) -> float:
    """Below which a file has room: buckets are filled to the last row, files by size about."""
    return sizing.target if sizing.by_rows else sizing.small
