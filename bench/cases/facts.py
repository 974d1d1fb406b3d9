"""What must be the same whoever did the work, read back by engines that did not do it."""

from __future__ import annotations

import os
from typing import Any

from pyiceberg.table import StaticTable

from bench.cases import Outcome
from bench.data import checksum, lineitem_columns


def written_rows(outcome: Outcome, full: bool) -> dict[str, Any]:
    """Rows of the files that the table references; in a full check also a checksum of all their values."""
    files = referenced_files(outcome)
    outcome["file_count"], outcome["bytes"] = len(files), sum(os.path.getsize(file) for file in files)
    return checksum(files, lineitem_columns() if full else None)


def committed_files(outcome: Outcome, full: bool) -> dict[str, Any]:
    """Files and rows that the published snapshot counts; in a full check, counted again from its manifests."""
    snapshot = _table(outcome).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    counted = {"files": int(snapshot.summary["total-data-files"] or 0), "rows": int(snapshot.summary["total-records"] or 0)}
    if full:
        tasks = list(_table(outcome).scan().plan_files())
        counted |= {"planned": len({task.file.file_path for task in tasks}), "planned_rows": sum(task.file.record_count for task in tasks)}
    return counted


def opened(outcome: Outcome, full: bool) -> dict[str, Any]:
    return {key: outcome[key] for key in ("files_opened", "rows") if key in outcome}


def referenced_files(outcome: Outcome) -> list[str]:
    if "files" in outcome:
        return list(outcome["files"])
    return [local_path(task.file.file_path) for task in _table(outcome).scan().plan_files()]


def local_path(uri: str) -> str:
    return "/" + uri.removeprefix("file:").lstrip("/")


def _table(outcome: Outcome) -> StaticTable:
    return StaticTable.from_metadata(outcome["metadata"])
