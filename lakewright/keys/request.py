"""What is asked of a keyed table, and how its records fit the table: which columns they have, what is their key, which engine merges them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakewright.errors import InvalidFilter, InvalidOption
from lakewright.format.metadata import Metadata, Snapshot
from lakewright.keys.arrange import NOT_ARRANGED, Arrangement
from lakewright.keys.batch import record_schema
from lakewright.keys.definition import Definition, definition_of, read_definition
from lakewright.keys.engines import DELETING, PARTIAL_UPDATE, Engine, Function, engine_of
from lakewright.options import CHECK_NULLABILITY, MERGE_ENGINE, MERGE_SCHEMA, Options, resolve
from lakewright.plan.names import match_name
from lakewright.plan.request import Request, WriteMode
from lakewright.plan.schema import Reconciled, reconcile
from lakewright.quoting import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FAIL, QUARANTINE = "fail", "quarantine"
ON_ERROR = (FAIL, QUARANTINE)


class Operation(Enum):
    UPSERT = "upsert"
    INSERT = "insert"
    DELETE_KEYS = "delete keys"
    INSERT_OVERWRITE = "insert overwrite"
    BULK_INSERT = "bulk insert"
    OVERWRITE = "overwrite"


SAVED = {WriteMode.APPEND: Operation.INSERT, WriteMode.OVERWRITE: Operation.OVERWRITE, WriteMode.OVERWRITE_PARTITIONS: Operation.INSERT_OVERWRITE}


@dataclass(frozen=True)
class KeyRequest(Request):
    """Records for a keyed table. delete_when: which of them delete their key's row. function: merges rows and records instead of the table's engine.
    takes_in: the commits that postponed records are from."""

    operation: Operation
    records: DataFrame
    delete_when: str | Column | None = None
    combine_before: bool = True
    drop_duplicates: bool = False
    function: Function | None = None
    trust: bool = False
    arrange: Arrangement = NOT_ARRANGED
    takes_in: tuple[Snapshot, ...] = ()

    @property
    def common(self) -> dict[str, Any]:
        """The fields of every request."""
        return {"branch": self.branch, "token": self.token, "snapshot_properties": self.snapshot_properties, "options": {**self.options, CHECK_NULLABILITY.key: False}}

    def common_with(self, counts: Mapping[str, str]) -> dict[str, Any]:
        """The same, with what the snapshot says of the records."""
        return {**self.common, "snapshot_properties": {**self.snapshot_properties, **counts}}


@dataclass(frozen=True)
class Fitted:
    """A request before anything of it is read. records: without columns that are none of the table's; columns: what makes them the table's."""

    request: KeyRequest
    definition: Definition
    engine: Engine
    records: DataFrame
    columns: Reconciled
    options: Options

    @property
    def names(self) -> tuple[str, ...]:
        """The table's columns that the records have."""
        return tuple(assign.field.name for assign in self.columns.columns)


def fit(request: KeyRequest, metadata: Metadata, session: Mapping[str, Any], table: str) -> Fitted:
    options = resolve(request.common["options"], session, metadata.properties)
    definition = definition_of(metadata, table)
    records = _of_table(request, definition)
    if options[MERGE_SCHEMA]:
        grown = reconcile(records.schema, metadata.schema, options, table, last_column_id=metadata.last_column_id)
        definition = read_definition(metadata.properties, grown.schema, table)
    deletes = request.operation is Operation.DELETE_KEYS
    if deletes:
        definition = replace(definition, ordering=())
    is_partial = deletes or (request.function is None and options[MERGE_ENGINE] == PARTIAL_UPDATE)
    fitted = reconcile(records.schema, record_schema(definition, records.columns, only_given=is_partial), options, table)
    engine = DELETING if deletes else engine_of(definition, options, [a.field.name for a in fitted.columns], request.function)
    if request.takes_in:  # what the first record of a key does not bring was added when it was postponed
        engine = replace(engine, first={})
    return Fitted(request, definition, engine, records, fitted, options)


def _of_table(request: KeyRequest, definition: Definition) -> DataFrame:
    """The records without columns that only say which of them are deletions, and for deletions by key without any but the key's."""
    names: list[str] = request.records.columns
    if request.operation is Operation.DELETE_KEYS:
        wanted = [source for part in definition.key for source in part.sources]
        return request.records.select(*(quoted(n) for n in names if match_name(n, wanted) is not None))
    if request.delete_when is None:
        return request.records
    known, said = [f.name for f in definition.schema.fields], _named(request.delete_when)
    return request.records.select(*(quoted(n) for n in names if match_name(n, known) is not None or n.lower() not in said))


def _named(condition: str | Column) -> set[str]:
    """The columns a condition names, in lower case; of a Column, all words in it."""
    if not isinstance(condition, str):
        return set(re.findall(r"\w+", str(condition).lower()))
    try:
        return {part.name.lower() for column in sqlglot.parse_one(condition, dialect="spark").find_all(exp.Column) for part in column.parts}
    except (SqlglotError, RecursionError) as error:
        raise InvalidFilter(f"Cannot read delete_when {condition[:200]!r}: {error}") from None


def check_on_error(given: str, table: str) -> None:
    if given not in ON_ERROR:
        raise InvalidOption(f"on_record_error is {given!r}; it takes one of {', '.join(ON_ERROR)}.", table=table)
