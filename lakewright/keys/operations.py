"""Operations on keys, each as the write it comes down to: a MERGE of one record for each key, or a plain write where no key can be there yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from pyiceberg.types import DoubleType, FloatType, IcebergType

from lakewright.format.metadata import Metadata
from lakewright.keys.at_hand.choice import may_be_at_hand
from lakewright.keys.batch import Batch, read_batch
from lakewright.keys.combine import DELETED, RESET
from lakewright.keys.definition import NEW, OLD, Definition, definition_of
from lakewright.keys.engines import Engine
from lakewright.keys.index import index_of
from lakewright.keys.partitions import has_buckets, has_partitions, in_partitions, kept_in_partition, partition_is_of_key
from lakewright.keys.plain import bulk, counted, plain
from lakewright.keys.postpone import is_postponed, postpone, require_waiting, taken_in
from lakewright.keys.request import Fitted, KeyRequest, Operation
from lakewright.options import MERGE_MODE, PARTITION_CHANGE, Options
from lakewright.plan.delta import MERGE_ON_READ
from lakewright.plan.request import MAIN, Clause, Command, IntoEmpty, RowRequest, Then, When, WriteMode, WriteRequest
from lakewright.plan.write_plan import most_rows
from lakewright.quoting import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakewright.transaction import Transaction


class ReadAgain(Exception):
    """Keys or ordering of the table got another type since the records were read: they were compared and hashed as they were."""


@dataclass(frozen=True)
class Prepared:
    """Records that were read, checked and combined, and how they go into the table."""

    request: KeyRequest
    definition: Definition
    engine: Engine
    batch: Batch
    records: DataFrame
    options: Options
    read_for: Metadata

    def run(self, tx: Transaction) -> None:
        """Plan and write as a step of the transaction."""
        metadata, waiting = tx.state.metadata, self.request.takes_in
        if self._types(metadata) != self._types(self.read_for):
            raise ReadAgain
        if waiting:
            require_waiting(metadata, waiting, self.definition.table)
        match self.request.operation:
            case Operation.UPSERT if is_postponed(self.options) and self.request.branch == MAIN and not waiting:
                postpone(tx, self)
            case Operation.BULK_INSERT:
                tx.write(*bulk(self.request, self.definition, self._rows, metadata, self._counts))
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
        if waiting:
            if tx.commits and tx.commit.nothing_written:
                tx.say(self.request)
            tx.change(taken_in(waiting, self.definition.table))

    def _types(self, metadata: Metadata) -> list[list[tuple[int, IcebergType]]]:
        definition = definition_of(metadata, self.definition.table)
        return [part.fields for part in (*definition.key, *definition.ordering)]

    def _merge(self, metadata: Metadata) -> RowRequest:
        return RowRequest(
            Command.MERGE,
            self._clauses(metadata),
            source=self.records,
            on=self.definition.same_key(),
            target_alias=OLD,
            source_alias=NEW,
            called=self.request.operation.value,
            only_new=self.request.operation is Operation.INSERT and not self.request.drop_duplicates,
            grown_by=self.records,
            **self.request.common_with(self._counts),
        )

    def plain(self, mode: WriteMode, **how: Any) -> WriteRequest:
        return plain(self.request, mode, self._counts, **how)

    @property
    def _counts(self) -> Mapping[str, str]:
        return counted(self.batch.given, self.batch.source.count)

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
        fitted = {**self._key_values, **kept_in_partition(values, metadata, self.definition, self.options[PARTITION_CHANGE])}
        return Clause(When.MATCHED, Then.UPDATE, condition, {quoted(c): value for c, value in fitted.items()})

    @property
    def _key_values(self) -> Mapping[str, str]:
        """Merging on read whole rows are written: with the key from the record, which is the same, the old files need not be opened for it."""
        if self.options[MERGE_MODE] != MERGE_ON_READ:
            return {}
        plain = [part.column for part in self.definition.key if part.column in self.batch.columns]
        return {c: f"{NEW}.{quoted(c)}" for c in plain if not isinstance(self.definition.schema.find_type(c), FloatType | DoubleType)}

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


def prepare(fitted: Fitted, metadata: Metadata) -> Prepared:
    """Read the records of a request, in the table's types."""
    request, definition, options = fitted.request, fitted.definition, fitted.options
    batch = read_batch(
        request.records,
        fitted.columns,
        definition,
        fitted.engine,
        options,
        delete_when=request.delete_when,
        combine_before=request.combine_before,
        index=index_of(definition, options),
        may_be_at_hand=may_be_at_hand(fitted, metadata),
    )
    return Prepared(request, definition, fitted.engine, batch, fitted.records, options, metadata)
