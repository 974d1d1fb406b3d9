"""What a statement says, before anything is looked up. Expressions and queries stay the text they were."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakewright.plan.request import Then, When
from lakewright.sql.cursor import Name, Slice


@dataclass(frozen=True)
class Statement:
    """start: where it begins in the text."""

    start: int


@dataclass(frozen=True)
class Query(Statement):
    """Anything that Spark runs itself once the lake's tables in it are known to it."""

    text: Slice


@dataclass(frozen=True)
class Explain(Statement):
    style: str
    explained: Statement


# Rows


@dataclass(frozen=True)
class PartitionValue:
    """`c = 'v'`, or `c` alone, whose values the query gives."""

    column: Name
    value: Slice | None


@dataclass(frozen=True)
class Insert(Statement):
    table: Name
    query: Slice
    overwrite: bool = False
    partition: tuple[PartitionValue, ...] = ()
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    evolve: bool = False
    replace_where: Slice | None = None
    if_not_exists: bool = False
    upsert: bool = False


@dataclass(frozen=True)
class Delete(Statement):
    table: Name
    alias: str | None
    where: Slice | None


@dataclass(frozen=True)
class Assignment:
    target: Name
    value: Slice


@dataclass(frozen=True)
class Update(Statement):
    table: Name
    alias: str | None
    values: tuple[Assignment, ...]
    where: Slice | None


@dataclass(frozen=True)
class MergeClause:
    """values: None stands for `*`."""

    when: When
    then: Then
    condition: Slice | None
    values: tuple[Assignment, ...] | None


@dataclass(frozen=True)
class Merge(Statement):
    """source: a table's name or a query in brackets."""

    table: Name
    alias: str | None
    source: Slice
    source_alias: str | None
    on: Slice
    clauses: tuple[MergeClause, ...]
    evolve: bool = False


@dataclass(frozen=True)
class Truncate(Statement):
    table: Name
    partition: tuple[PartitionValue, ...] = ()


# Tables


@dataclass(frozen=True)
class Column:
    name: Name
    type: Slice
    required: bool = False
    comment: str | None = None
    default: Slice | None = None
    place: tuple[str, str | None] | None = None  # FIRST, or AFTER and a name


@dataclass(frozen=True)
class CreateTable(Statement):
    table: Name
    columns: tuple[Column, ...] = ()
    partition_by: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    location: str | None = None
    comment: str | None = None
    query: Slice | None = None
    replace: bool = False
    create: bool = True
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateLike(Statement):
    table: Name
    like: Name
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropTable(Statement):
    table: Name
    if_exists: bool = False
    purge: bool = False


@dataclass(frozen=True)
class Namespace(Statement):
    """CREATE or DROP."""

    verb: str
    name: Name
    lenient: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class CreateView(Statement):
    """A view; all of it as text too, for one that is Spark's."""

    name: Name
    query: Slice
    text: Slice
    columns: tuple[str, ...] = ()
    replace: bool = False
    temporary: bool = False


@dataclass(frozen=True)
class DropView(Statement):
    name: Name
    text: Slice


@dataclass(frozen=True)
class Alter(Statement):
    table: Name
    action: object


@dataclass(frozen=True)
class RenameTable:
    to: Name


@dataclass(frozen=True)
class AddColumns:
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class DropColumns:
    names: tuple[Name, ...]
    if_exists: bool = False


@dataclass(frozen=True)
class RenameColumn:
    name: Name
    to: str


@dataclass(frozen=True)
class AlterColumn:
    """What is to change; None for what is not."""

    name: Name
    type: Slice | None = None
    comment: str | None = None
    nullable: bool | None = None
    place: tuple[str, str | None] | None = None
    default: Slice | None = None
    drop_default: bool = False


@dataclass(frozen=True)
class SetProperties:
    """None removes a property."""

    properties: dict[str, str | None]
    if_exists: bool = True


@dataclass(frozen=True)
class PartitionField:
    """add and drop: transforms as they were written; a replacement has both."""

    add: str | None = None
    drop: str | None = None


@dataclass(frozen=True)
class WriteOrder:
    """order_by: empty for UNORDERED. distribution: the mode to set, None to leave it."""

    order_by: tuple[str, ...]
    distribution: str | None = None


@dataclass(frozen=True)
class IdentifierFields:
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ref:
    """CREATE, REPLACE or DROP of a branch or tag."""

    verb: str
    kind: str
    name: str
    version: int | None = None
    lenient: bool = False
    replace: bool = False
    retain_ms: int | None = None
    keep_snapshots: int | None = None
    keep_ms: int | None = None


# Looks


@dataclass(frozen=True)
class Show(Statement):
    """what: TABLES, NAMESPACES, PARTITIONS, TBLPROPERTIES, CREATE TABLE, COLUMNS."""

    what: str
    name: Name | None = None
    pattern: str | None = None
    key: str | None = None


@dataclass(frozen=True)
class Describe(Statement):
    table: Name
    extended: bool = False
    column: Name | None = None


@dataclass(frozen=True)
class Analyze(Statement):
    """columns: None for all of them."""

    table: Name
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Call(Statement):
    procedure: Name
    arguments: tuple[tuple[str | None, Slice], ...]
