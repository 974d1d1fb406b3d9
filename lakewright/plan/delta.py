"""The delta: which rows of which files change, and to what. Every row-level operation produces one; materialisers act on it.

A delta is a DataFrame with the columns below, one row for each changed, removed or added row. Rows of a target file are
known by (file, position) and never pass through Spark whole unless they move to another file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.partitioning import PartitionSpec

from lakewright.plan.write_plan import WritePlan
from lakewright.read.arrow_scan import ArrowFile, ArrowRead

FILE, POSITION, ACTION, CLAUSE, ROW_ID = "_lw_target", "_lw_pos", "_lw_action", "_lw_clause", "_lw_row_id"
DELTA_COLUMNS = (FILE, POSITION, ACTION, CLAUSE, ROW_ID)
NO_FILE = -1  # FILE of an inserted row
MATCH, DELETE, UPDATE, MOVE, INSERT = range(5)
COPY_ON_WRITE, MERGE_ON_READ = "copy-on-write", "merge-on-read"


def value_column(field_id: int) -> str:
    """Where a delta holds the new value of a top-level column."""
    return f"_lw_c{field_id}"


@dataclass(frozen=True)
class TargetFile:
    """A file, or a run of row groups of a large one, that the delta may touch; its place in `DeltaPlan.files` is the delta's FILE.

    is_new: the file is of the commit that is being made, so what it does not say of its rows' lineage they get from that commit.
    """

    file: ArrowFile
    row_groups: tuple[int, int] | None = None  # from, up to
    first_position: int = 0
    is_new: bool = False


@dataclass(frozen=True)
class DeltaPlan:
    """How a delta is materialised. It pickles, since tasks get it whole.

    Actions: MATCH changes nothing and only counts as a match; DELETE removes the row; UPDATE gives it new values for
    `assigned`, in place; MOVE removes it and writes a whole new row, which keeps its ROW_ID, with `fetched` columns taken from
    the old file; INSERT writes a new row.
    `values`: top-level field ids the delta has value columns for, in this order, after DELTA_COLUMNS.
    `once`: two delta rows for one position are an error, rather than the same deletion twice.
    `in_one_task`: one task has all rows of the delta at hand, so that none has to be moved.
    `together`: rows to insert go into one file with moved ones of their partition.
    """

    write: WritePlan
    read: ArrowRead
    specs: Mapping[int, PartitionSpec]
    files: tuple[TargetFile, ...]
    mode: str
    format_version: int
    values: tuple[int, ...]
    assigned: tuple[int, ...]
    once: bool = True
    fetched: tuple[int, ...] = ()
    inserts: bool = True
    in_one_task: bool = False
    together: bool = False
