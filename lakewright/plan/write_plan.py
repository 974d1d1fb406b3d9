"""What will be done: a plan declares, the functions of write/ and commit/ act on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder

from lakewright.options import Options
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
