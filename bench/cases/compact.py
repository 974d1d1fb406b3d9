"""Compaction of the lineitem table, format 3, in many small files, whose row groups are joined, and in fewer ones, whose bytes can be copied."""

from __future__ import annotations

from bench.cases import Case, Entry, Scale
from bench.cases.row_level import agreed
from bench.contenders import ICEBERG_ROWS, LAKEWRIGHT_ROWS
from bench.data import lineitem
from bench.row_changes import COPY_ON_WRITE, Change

MANY, FEWER = 200, 24


def compact_many(scale: Scale) -> Case:
    return _case(scale, "compact-many", MANY)


def compact_fewer(scale: Scale) -> Case:
    return _case(scale, "compact-fewer", FEWER)


def _case(scale: Scale, name: str, files: int) -> Case:
    params = Change("compact", COPY_ON_WRITE, files=files).params(lineitem(scale.rows))
    entries = tuple(Entry(contender, "change-rows", params) for contender in (LAKEWRIGHT_ROWS, ICEBERG_ROWS))
    return Case(name, f"compact {scale.rows:,} rows in {files} files", entries, agreed)
