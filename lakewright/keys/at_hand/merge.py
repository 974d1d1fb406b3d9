"""What becomes of records at hand and of the rows they match, as a delta, without a Spark job."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.commit.change import SERIALIZABLE
from lakewright.keys.at_hand.key_codes import Numbers
from lakewright.keys.at_hand.lookup import Flags, Matches, Wanted, columns_of, find_rows
from lakewright.keys.at_hand.records import KeyedRecords
from lakewright.keys.combine import DELETED
from lakewright.keys.definition import Definition
from lakewright.options import MERGE_ISOLATION
from lakewright.plan.delta import (
    ACTION,
    CLAUSE,
    DELETE,
    FILE,
    INSERT,
    MATCH,
    MERGE_ON_READ,
    MOVE,
    NO_FILE,
    POSITION,
    ROW_ID,
    UPDATE,
    DeltaPlan,
    value_column,
)
from lakewright.plan.names import unquoted
from lakewright.plan.request import RowRequest, Then
from lakewright.read.scan import FileScan, plan_scan
from lakewright.rows.matches import already_there
from lakewright.rows.merge_source import MergeSource, is_of_one, pruning_filter
from lakewright.rows.moves import Moves, moves_of
from lakewright.rows.row_plan import RowContext, RowPlan, delta_plan, targets_of, told_lookup
from lakewright.write.arrow_rows import in_file_types
from lakewright.write.delta_at_hand import DeltaAtHand
from lakewright.write.fanout import partitions_of

MOST_KEY_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class RecordsAtHand:
    """Records of the table's types, one for each key, with DELETED."""

    records: KeyedRecords
    definition: Definition

    @property
    def table(self) -> pa.Table:
        return self.records.table

    def planned(self, context: RowContext, request: RowRequest, source: MergeSource) -> RowPlan | None:
        """The rows found and the delta; None where the records lack columns, or where there is so much to read that Spark's tasks should."""
        inserts = any(clause.then is Then.INSERT for clause in request.clauses)
        if not self._fits(context, request, inserts):
            return None
        filter_ = pruning_filter(context, request, source)
        scan = plan_scan(context.state.io, context.metadata, context.head, filter_, with_metrics=True)
        began = time.monotonic()
        files = tuple(source.index.candidates(context, source, scan.files)) if source.index is not None else scan.files
        if self._bytes_of_keys(context, files) > MOST_KEY_BYTES:
            return None
        merge = planned_merge(context, request, self, files, inserts)
        if request.only_new and len(merge.matches):
            raise already_there(self._shown(int(merge.matches.records[0])), context.table)
        lookup = told_lookup(context, files, time.monotonic() - began)
        relies = inserts and bool(files) and (context.options[MERGE_ISOLATION] == SERIALIZABLE or request.is_always_serializable)
        return RowPlan((), files, merge.delta(), merge.plan, filter_, relies_on_matches=relies, lookup=lookup)

    def _fits(self, context: RowContext, request: RowRequest, inserts: bool) -> bool:
        """Whether records bring all columns and replace rows as they are, and key and order are still what they were when the records were read."""
        types = {f.name: f.field_type for f in context.schema.fields}
        if inserts and not types.keys() <= set(self.table.column_names):
            return False
        if any(types.get(name) != self.definition.schema.find_type(name) for name in (*self.key_names, *self.order_names)):
            return False
        updates = [value for clause in request.clauses if clause.then is Then.UPDATE for value in (clause.values or {}).values()]
        return all(isinstance(value, str) and is_of_one(value, request.source_alias) for value in updates)

    @property
    def key_names(self) -> list[str]:
        return [part.column or "" for part in self.definition.key]

    @property
    def order_names(self) -> list[str]:
        return [part.column or "" for part in self.definition.ordering]

    def _bytes_of_keys(self, context: RowContext, files: Sequence[FileScan]) -> int:
        ids = [context.schema.find_field(name).field_id for name in self.key_names]
        return sum(f.data_file.column_sizes.get(i, f.data_file.file_size_in_bytes) for f in files for i in ids)

    def _shown(self, record: int) -> str:
        return ", ".join(f"{name} = {self.table.column(name)[record].as_py()!r}" for name in self.key_names)


def planned_merge(context: RowContext, request: RowRequest, at_hand: RecordsAtHand, files: tuple[FileScan, ...], inserts: bool) -> _Merge:
    """With the matches found."""
    schema = context.schema
    names = {unquoted(name) for clause in request.clauses if clause.then is Then.UPDATE for name in clause.values or {}}
    assigned = [f.field_id for f in schema.fields if f.name in names]
    moves = moves_of(context, files, assigned) if assigned else Moves.NONE
    values = [f.field_id for f in schema.fields] if inserts else assigned
    plan = delta_plan(context, files, targets_of(context, files), values=values, assigned=assigned, once=True, moves=moves, inserts=inserts, together=context.mode == MERGE_ON_READ)
    order = in_file_types(at_hand.table, at_hand.order_names, schema)
    wanted = Wanted(at_hand.records.places, order, columns_of(schema, at_hand.key_names), columns_of(schema, at_hand.order_names), context.has_row_ids)
    return _Merge(context, request, at_hand, plan, moves, find_rows(context.state.io, plan, wanted))


@dataclass(frozen=True)
class _Merge:
    context: RowContext
    request: RowRequest
    at_hand: RecordsAtHand
    plan: DeltaPlan
    moves: Moves
    matches: Matches

    def delta(self) -> DeltaAtHand:
        """Rows to insert, then changed ones by file and position."""
        matches, actions, clauses = self._outcomes()
        inserted = self._inserted() if self.plan.inserts else np.empty(0, np.int64)
        new = len(inserted)
        places = {
            FILE: pa.array(np.concatenate((np.full(new, NO_FILE), matches.targets)), pa.int32()),
            POSITION: pa.concat_arrays([pa.nulls(new, pa.int64()), pa.array(matches.positions, pa.int64())]),
            ACTION: pa.array(np.concatenate((np.full(new, INSERT), actions)), pa.int32()),
            CLAUSE: _numbered(np.concatenate((np.full(new, self._clause(Then.INSERT)), clauses))),
            ROW_ID: pa.concat_arrays([pa.nulls(new, pa.int64()), pc.if_else(pa.array(actions == MOVE), matches.row_ids, pa.scalar(None, pa.int64()))]),
        }
        schema = self.context.schema
        values = {value_column(i): self.at_hand.table.column(schema.find_column_name(i)) for i in self.plan.values}
        return DeltaAtHand(pa.table(places), pa.table(values), np.concatenate((inserted, matches.records)))

    def _outcomes(self) -> tuple[Matches, Numbers, Numbers]:
        """What becomes of each row that is matched, and by which clause; -1 where by none."""
        matches, request = self.matches, self.request
        actions, clauses = np.full(len(matches), MATCH), np.full(len(matches), -1)
        fresh, deleted = matches.is_fresh, self._deleted[matches.records]
        if (delete := self._clause(Then.DELETE)) >= 0:
            gone = fresh & deleted if request.clauses[delete].condition is not None else np.ones(len(matches), dtype=bool)
            actions[gone], clauses[gone] = DELETE, delete
        if (update := self._clause(Then.UPDATE)) >= 0:
            changed = fresh & ~deleted
            actions[changed], clauses[changed] = np.where(self._stays(matches), UPDATE, MOVE)[changed], update
        return matches, actions, clauses

    def _inserted(self) -> Numbers:
        left = ~self._deleted
        left[self.matches.records] = False
        return np.flatnonzero(left)

    def _clause(self, then: Then) -> int:
        return next((n for n, clause in enumerate(self.request.clauses) if clause.then is then), -1)

    @cached_property
    def _deleted(self) -> Flags:
        flags: Flags = self.at_hand.table.column(DELETED).to_numpy().astype(bool)
        return flags

    def _stays(self, matches: Matches) -> Flags:
        """Whether each matched row can stay in its file: with the record's values it is of the same partition."""
        if self.moves is not Moves.SOME:
            return np.full(len(matches), self.moves is Moves.NONE)
        files = [target.file.scan.data_file for target in self.plan.files]
        of_record, of_target = partitions_of(self.context.write.spec, self.context.schema, self.at_hand.table, files)
        stays: Flags = of_target[matches.targets] == of_record[matches.records]
        return stays


def _numbered(clauses: Numbers) -> pa.Array:
    return pa.array(clauses, pa.int32(), mask=clauses < 0)
