"""The counts in a snapshot's summary: what it added and removed, and the totals that follow from its parent's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from lakewright.format.data_file import DATA, POSITION_DELETES, DataFile

TOTALS = {
    "total-data-files": ("added-data-files", "deleted-data-files"),
    "total-records": ("added-records", "deleted-records"),
    "total-files-size": ("added-files-size", "removed-files-size"),
    "total-delete-files": ("added-delete-files", "removed-delete-files"),
    "total-position-deletes": ("added-position-deletes", "removed-position-deletes"),
    "total-equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
}


class Tally:
    """Counts files as they are added to and removed from a snapshot."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._partitions: set[tuple[int, tuple[object, ...]]] = set()

    def add(self, files: Iterable[DataFile]) -> None:
        for file in files:
            self._count(file, "added", "added")

    def remove(self, file: DataFile) -> None:
        self._count(file, "deleted" if file.content == DATA else "removed", "removed")

    @property
    def changed_partitions(self) -> int:
        return len(self._partitions)

    def _count(self, file: DataFile, verb: str, size_verb: str) -> None:
        self._partitions.add((file.spec_id, file.partition))
        self.counts[f"{size_verb}-files-size"] += file.content_size_in_bytes or 0 if file.is_vector else file.file_size_in_bytes
        if file.content == DATA:
            self.counts[f"{verb}-data-files"] += 1
            self.counts[f"{verb}-records"] += file.record_count
            return
        kind = "position" if file.content == POSITION_DELETES else "equality"
        self.counts[f"{verb}-delete-files"] += 1
        self.counts[f"{verb}-dvs" if file.is_vector else f"{verb}-{kind}-delete-files"] += 1
        self.counts[f"{verb}-{kind}-deletes"] += file.record_count


def summarise(operation: str, tally: Tally, parent: Mapping[str, str], properties: Mapping[str, str]) -> dict[str, str]:
    """The summary of a snapshot. A parent without totals (some writers leave them out) gives none either."""
    summary = {**properties, "operation": operation, **{k: str(v) for k, v in tally.counts.items() if v}}
    summary["changed-partition-count"] = str(tally.changed_partitions)
    for total, (added, removed) in TOTALS.items():
        if not parent or total in parent:
            summary[total] = str(int(parent.get(total, "0")) + tally.counts[added] - tally.counts[removed])
    return summary
