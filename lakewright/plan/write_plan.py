"""What will be done: a plan declares, the functions of write/ and commit/ act on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder

from lakewright.options import BUCKET_MODE, BUCKET_TARGET_ROWS, Options
from lakewright.plan.blooms import Bloom


@dataclass(frozen=True)
class WritePlan:
    """How rows become files. It pickles, since tasks get it whole."""

    table: str
    run_id: str
    data_prefix: str
    schema: Schema
    spec: PartitionSpec
    sort_order: SortOrder
    engine: str
    distribution: str
    options: Options
    io_properties: Mapping[str, str] = field(repr=False)  # may hold secrets
    bytes_per_row: float | None
    blooms: Mapping[str, Bloom] = field(default_factory=dict)


def most_rows(options: Options) -> int | None:
    """How many rows a data file is filled to, where the table says that by number."""
    return options[BUCKET_TARGET_ROWS] if options[BUCKET_MODE] in ("dynamic", "key-dynamic") else None
