"""Indexes: which files may have rows of a batch's keys, so that the others are not read. What an index says is only ever checked against the rows."""

from __future__ import annotations

from lakewright.keys.definition import Definition
from lakewright.keys.index.partitions import PartitionIndex
from lakewright.options import Options
from lakewright.rows.merge_source import Index


def index_of(definition: Definition, options: Options) -> Index | None:
    return PartitionIndex(definition)
