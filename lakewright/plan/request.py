"""What was asked: every entry (Python, Data Source, command line) builds one of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MAIN = "main"


class WriteMode(Enum):
    APPEND = "append"
    OVERWRITE = "overwrite"
    OVERWRITE_PARTITIONS = "overwrite-partitions"


@dataclass(frozen=True)
class WriteRequest:
    """A write of a DataFrame. `where` limits an overwrite; None means the whole table."""

    mode: WriteMode
    where: str | Column | None = None
    overwrite_schema: bool = False
    branch: str = MAIN
    token: str | None = None
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


class Command(Enum):
    DELETE = "delete"
    UPDATE = "update"
    MERGE = "merge"


class When(Enum):
    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_MATCHED_BY_SOURCE = "not matched by source"


class Then(Enum):
    DELETE = "delete"
    UPDATE = "update"
    INSERT = "insert"


@dataclass(frozen=True)
class Clause:
    """WHEN … [AND condition] THEN …. values: column to expression; None stands for all columns, from the source's of the same names."""

    when: When
    then: Then
    condition: str | Column | None = None
    values: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return f"WHEN {self.when.value.upper()} THEN {self.then.value.upper()}"


@dataclass(frozen=True)
class RowRequest:
    """A DELETE or UPDATE of the rows `where` selects (one clause says what happens to them), or a MERGE of a source."""

    command: Command
    clauses: tuple[Clause, ...]
    where: str | Column | None = None
    source: DataFrame | None = None
    on: str | Column | None = None
    target_alias: str = "t"
    source_alias: str = "s"
    branch: str = MAIN
    token: str | None = None
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CompactRequest:
    """A compaction of the files that may hold rows `where` selects; None: of all."""

    where: str | Column | None = None
    branch: str = MAIN
    token: str | None = None
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
