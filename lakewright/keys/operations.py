"""Operations on keys, each as the write it comes down to: a MERGE of one record for each key, or a plain write where no key can be there yet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from math import ceil
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakewright.errors import InvalidFilter, InvalidOption
from lakewright.format.metadata import Metadata, Snapshot
from lakewright.keys.arrange import NOT_ARRANGED, Arrangement
from lakewright.keys.batch import Batch, read_batch, record_schema
from lakewright.keys.combine import DELETED, RESET
from lakewright.keys.definition import NEW, OLD, Definition, definition_of, read_definition
from lakewright.keys.engines import DELETING, PARTIAL_UPDATE, Engine, Function, engine_of
from lakewright.keys.index import index_of
from lakewright.keys.partitions import has_buckets, has_partitions, in_partitions, kept_in_partition, partition_is_of_key
from lakewright.keys.postpone import emptied, is_postponed, postpone
from lakewright.options import CHECK_NULLABILITY, DISTRIBUTION, MERGE_ENGINE, MERGE_SCHEMA, PARTITION_CHANGE, Options, resolve
from lakewright.plan.names import match_name
from lakewright.plan.request import MAIN, Clause, Command, IntoEmpty, Request, RowRequest, Then, When, WriteMode, WriteRequest
from lakewright.plan.schema import reconcile
from lakewright.plan.write_plan import most_rows
from lakewright.read.native import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakewright.transaction import Transaction

RECORDS, COMBINED, TRUSTED = "lakewright.records", "lakewright.records-combined", "lakewright.trusted"
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
    takes_in: the head of the branch that postponed records are from."""

    operation: Operation
    records: DataFrame
    delete_when: str | Column | None = None
    combine_before: bool = True
    drop_duplicates: bool = False
    function: Function | None = None
    trust: bool = False
    arrange: Arrangement = NOT_ARRANGED
    takes_in: Snapshot | None = None

    @property
    def common(self) -> dict[str, Any]:
        """The fields of every request."""
        return {"branch": self.branch, "token": self.token, "snapshot_properties": self.snapshot_properties, "options": {**self.options, CHECK_NULLABILITY.key: False}}


@dataclass(frozen=True)
class Prepared:
    """Records that were read, checked and combined, and how they go into the table."""

    request: KeyRequest
    definition: Definition
    engine: Engine
    batch: Batch
    records: DataFrame
    options: Options

    @property
    def counts(self) -> dict[str, str]:
        return {RECORDS: str(self.batch.given), COMBINED: str(self.batch.given - self.batch.source.count)}

    def run(self, tx: Transaction) -> None:
        """Plan and write as a step of the transaction."""
        metadata = tx.state.metadata
        match self.request.operation:
            case Operation.UPSERT if is_postponed(self.options) and self.request.branch == MAIN and not self.request.takes_in:
                postpone(tx, self)
            case Operation.BULK_INSERT:
                tx.write(*self._bulk(metadata))
            case Operation.OVERWRITE:
                tx.write(self.plain(WriteMode.OVERWRITE), self._rows)
            case Operation.INSERT_OVERWRITE if not has_partitions(metadata):
                tx.write(self.plain(WriteMode.OVERWRITE), self._rows)
            case Operation.INSERT_OVERWRITE if not has_buckets(metadata) and partition_is_of_key(metadata, self.definition):
                tx.write(self.plain(WriteMode.OVERWRITE_PARTITIONS), self._rows)
            case Operation.UPSERT | Operation.INSERT if not tx.has_rows(self.request.branch):
                tx.write(self.plain(WriteMode.APPEND, into_empty=IntoEmpty.TABLE), self._first_rows(metadata))
            case _:
                tx.change_rows(self._merge(metadata), self.batch.source)
        wrote_nothing = any(commit.nothing_written for commit in tx.commits)
        if self.request.takes_in is not None and not wrote_nothing:  # else no snapshot says that it was taken in
            tx.change(emptied(self.request.takes_in.snapshot_id))

    def _merge(self, metadata: Metadata) -> RowRequest:
        return RowRequest(
            Command.MERGE,
            self._clauses(metadata),
            source=self.batch.source.rows,
            on=self.definition.same_key(),
            target_alias=OLD,
            source_alias=NEW,
            called=self.request.operation.value,
            only_new=self.request.operation is Operation.INSERT and not self.request.drop_duplicates,
            grown_by=self.records,
            **self._common,
        )

    def plain(self, mode: WriteMode, **how: Any) -> WriteRequest:
        """A write that meets no key: the batch has each once, and the table has none of them, or only in what is replaced."""
        return WriteRequest(mode, keys_checked=True, called=self.request.operation.value, **how, **self._common)

    def _bulk(self, metadata: Metadata) -> tuple[WriteRequest, DataFrame]:
        into = None if self.request.trust else IntoEmpty.PARTITIONS if partition_is_of_key(metadata, self.definition) and has_partitions(metadata) else IntoEmpty.TABLE
        rows, order, distribution = self.request.arrange.applied(self._rows, self.definition, metadata)
        request = self.plain(WriteMode.APPEND, into_empty=into, arranged=order)
        options = {**request.options, **({DISTRIBUTION.key: distribution} if distribution else {})}
        return replace(request, options=options, snapshot_properties={**request.snapshot_properties, **({TRUSTED: "true"} if self.request.trust else {})}), rows

    @property
    def _common(self) -> dict[str, Any]:
        common = self.request.common
        return {**common, "snapshot_properties": {**common["snapshot_properties"], **self.counts}}

    @property
    def _rows(self) -> DataFrame:
        from pyspark.sql import functions as F

        rows = self.batch.source.rows.where(~F.col(DELETED)) if self.batch.has_deletes else self.batch.source.rows
        return rows.select(*map(quoted, self.batch.columns))

    def _first_rows(self, metadata: Metadata) -> DataFrame:
        """Where buckets are filled by number of rows, in as many tasks as there will be buckets; partitions are put together later anyway."""
        most = most_rows(self.options)
        return self._rows if most is None or metadata.spec.fields else self._rows.repartition(max(1, ceil(self.batch.source.count / most)))

    def _clauses(self, metadata: Metadata) -> tuple[Clause, ...]:
        insert = Clause(When.NOT_MATCHED, Then.INSERT, self._not_deleted(), {quoted(c): f"{NEW}.{quoted(c)}" for c in self.batch.columns})
        match self.request.operation:
            case Operation.DELETE_KEYS:
                return (Clause(When.MATCHED, Then.DELETE),)
            case Operation.INSERT:
                return (insert,)
            case Operation.INSERT_OVERWRITE:
                replaced = Clause(When.NOT_MATCHED_BY_SOURCE, Then.DELETE, in_partitions(self._rows, metadata))
                return (self._update({c: f"{NEW}.{quoted(c)}" for c in self._own_columns}, None, metadata), insert, replaced)
        return (*self._matched(metadata), insert)

    def _not_deleted(self, *also: str) -> str | None:
        conditions = [*([f"NOT {NEW}.{DELETED}"] if self.batch.has_deletes else []), *(c for c in also if c != "true")]
        return " AND ".join(conditions) or None

    def _matched(self, metadata: Metadata) -> list[Clause]:
        engine, fresh = self.engine, self.definition.is_not_late
        clauses = []
        if self.batch.has_deletes:
            clauses.append(Clause(When.MATCHED, Then.DELETE, f"{NEW}.{DELETED} AND {fresh}"))
        if self.batch.has_deletes and not engine.takes_latest:
            clauses.append(self._update({c: f"{NEW}.{quoted(c)}" for c in self._own_columns}, self._not_deleted(f"{NEW}.{RESET}", fresh), metadata))
        merged = self._function_values() if engine.function is not None else engine.values
        if merged:
            condition = self._not_deleted(*([f"NOT {NEW}.{RESET}"] if self.batch.has_deletes else [])) if engine.takes_late else self._not_deleted(fresh)
            clauses.append(self._update(merged, condition, metadata))
        return clauses

    def _update(self, values: Mapping[str, Any], condition: str | None, metadata: Metadata) -> Clause:
        fitted = kept_in_partition(values, metadata, self.definition, self.options[PARTITION_CHANGE])
        return Clause(When.MATCHED, Then.UPDATE, condition, {quoted(c): value for c, value in fitted.items()})

    @property
    def _own_columns(self) -> list[str]:
        return [c for c in self.batch.columns if c not in self.definition.key_columns]

    def _function_values(self) -> dict[str, Any]:
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructType

        from lakewright.keys.function import merged_by

        columns = self.batch.columns
        record = StructType([self.batch.source.rows.schema[c] for c in columns])
        old, new = (F.struct(*(F.col(f"{alias}.{quoted(c)}").alias(c) for c in columns)) for alias in (OLD, NEW))
        merged = merged_by(self.engine, record)(old, new)
        return {c: merged.getField(c) for c in self._own_columns}


def prepare(request: KeyRequest, metadata: Metadata, session: Mapping[str, Any], table: str) -> Prepared:
    """Read the records of a request, in the table's types."""
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
    if request.takes_in is not None:  # what the first record of a key does not bring was added when it was postponed
        engine = replace(engine, first={})
    batch = read_batch(request.records, fitted, definition, engine, options, delete_when=request.delete_when, combine_before=request.combine_before, index=index_of(definition, options))
    return Prepared(request, definition, engine, batch, records, options)


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
