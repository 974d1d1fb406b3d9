"""What was asked: every entry (Python, Data Source, command line) builds one of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from pyiceberg.io import FileIO
from pyiceberg.table.sorting import SortOrder

from lakewright.format.data_file import DataFile

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MAIN = "main"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What every request has."""

    branch: str = MAIN
    token: str | None = None
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


class WriteMode(Enum):
    APPEND = "append"
    OVERWRITE = "overwrite"
    OVERWRITE_PARTITIONS = "overwrite-partitions"


class IntoEmpty(Enum):
    TABLE = "table"
    PARTITIONS = "partitions"


@dataclass(frozen=True)
class Written:
    """Files that are not committed yet, and what reads their rows."""

    io: FileIO
    files: Sequence[DataFile]
    rows: Callable[[], DataFrame]


@dataclass(frozen=True)
class WriteRequest(Request):
    """A write of a DataFrame. `where` limits an overwrite; None means the whole table.

    keys_checked: whether the rows of a keyed table are known to have one row for each key. into_empty: the rows, or their partitions,
    may only go where there are none. arranged: an order for these rows other than the table's. makes_branch: a branch
    that is not there begins with them. checked: looks at what was written and may refuse it;
    what it says goes to the snapshot.
    """

    mode: WriteMode
    where: str | Column | None = None
    overwrite_schema: bool = False
    keys_checked: bool = False
    into_empty: IntoEmpty | None = None
    arranged: SortOrder | None = None
    called: str | None = None
    makes_branch: bool = False
    checked: Callable[[Written], Mapping[str, str]] | None = None

    @property
    def name(self) -> str:
        return self.called or self.mode.value


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
class RowRequest(Request):
    """A DELETE or UPDATE of the rows `where` selects (one clause says what happens to them), or a MERGE of a source.

    called: the operation on keys that this is, if it is one: those are always serializable, since a key must not come in twice.
    only_new: a source row with a match is an error. unique: fields of which no two inserted rows may have the same values.
    grown_by: rows whose columns the table is to have under merge-schema.
    """

    command: Command
    clauses: tuple[Clause, ...]
    where: str | Column | None = None
    source: DataFrame | None = None
    on: str | Column | None = None
    target_alias: str = "t"
    source_alias: str = "s"
    called: str | None = None
    only_new: bool = False
    unique: tuple[int, ...] = ()
    grown_by: DataFrame | None = None

    @property
    def name(self) -> str:
        return self.called or self.command.value

    @property
    def is_always_serializable(self) -> bool:
        """Whether it adds keys to a keyed table."""
        return self.called is not None or bool(self.unique)

@dataclass(frozen=True)
class CompactRequest(Request):
    """A compaction of the files that may hold rows `where` selects; None: of all."""

    where: str | Column | None = None
