"""MERGE: a source joined with the table, and what each clause does to the rows that match and those that do not.

The source is read once: it is checkpointed, with a number for each row, before anything looks at it. The table side of the join
is only ever filtered or joined with the source, never shuffled for a source small enough to be broadcast; source rows without a
match are then those whose number did not come out of the join.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.types import NestedField

from lakewright.commit.change import SERIALIZABLE
from lakewright.errors import InvalidOption, NullInRequiredColumn
from lakewright.options import MERGE_ISOLATION
from lakewright.plan.conversion import Assign
from lakewright.plan.delta import ACTION, CLAUSE, DELETE, FILE, INSERT, MATCH, NO_FILE, POSITION, ROW_ID, value_column
from lakewright.plan.project import assigned_value
from lakewright.plan.request import Clause, RowRequest, Then, When
from lakewright.plan.types import spark_type
from lakewright.quoting import quoted
from lakewright.read.scan import plan_scan
from lakewright.rows.expressions import assignments, condition_of, explaining, require_deterministic
from lakewright.rows.kept import kept
from lakewright.rows.matches import require_new
from lakewright.rows.merge_source import SOURCE_HASH, SOURCE_ROW, MergeSource, is_of_one, named_in, pruning_filter
from lakewright.rows.merge_values import clause_values
from lakewright.rows.moves import Moves, moves_of, top_level, update_action
from lakewright.rows.row_plan import Located, RowContext, RowPlan, delta_plan, delta_rows, locate, no_rows, told_lookup

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Values = dict[int, "Column"]
MATCHED = "_lw_matched"


def plan_merge(context: RowContext, request: RowRequest, source: MergeSource) -> RowPlan:
    check_clauses(request, context.table)
    at_hand = source.at_hand.planned(context, request, source) if source.at_hand is not None else None
    return _joined_by_spark(context, request, source) if at_hand is None else at_hand


def _joined_by_spark(context: RowContext, request: RowRequest, source: MergeSource) -> RowPlan:
    merge = _Merge(context, request, source)
    keep_all = any(c.when is When.NOT_MATCHED_BY_SOURCE for c in request.clauses)
    read_filter = AlwaysTrue() if keep_all else pruning_filter(context, request, source)
    scan = plan_scan(context.state.io, context.metadata, context.head, read_filter, with_metrics=True)
    began = time.monotonic()
    files = scan.files if source.index is None or keep_all else tuple(source.index.candidates(context, source, scan.files))
    lookup = told_lookup(context, files, time.monotonic() - began) if source.index is not None else {}
    plan = merge.planned(locate(context, files), keep_all, read_filter) if files else merge.inserts_only(read_filter)
    if request.only_new:
        require_new(plan, source, request, context.table)
    return replace(plan, lookup=lookup)


@dataclass(frozen=True)
class _Merge:
    context: RowContext
    request: RowRequest
    source: MergeSource

    def inserts_only(self, read_filter: BooleanExpression) -> RowPlan:
        target = no_rows(self.context).alias(self.request.target_alias)
        joined = self._joined(target, keep_all=False)
        updates = self._updates(target, joined)
        self._choice(target, joined, updates, Moves.NONE)
        inserted = self._inserted(self.source.rows)
        values = self._all_fields
        plan = delta_plan(self.context, (), (), values=tuple(values), assigned=(), once=False, inserts=True)
        return RowPlan(delta=inserted, plan=plan, filter=read_filter)

    def planned(self, located: Located, keep_all: bool, read_filter: BooleanExpression) -> RowPlan:
        from pyspark.sql import functions as F

        request, context = self.request, self.context
        target = located.rows.alias(request.target_alias)
        joined = self._joined(target, keep_all)
        updates = self._updates(target, joined)
        assigned = tuple(f.field_id for f in context.schema.fields if any(f.field_id in values for values in updates.values()))
        moves = moves_of(context, located.files, assigned) if updates else Moves.NONE
        inserts = any(c.then is Then.INSERT for c in request.clauses)
        fields = [f for f in context.schema.fields if inserts or f.field_id in assigned]
        number, action = self._choice(target, joined, updates, moves)
        chosen = located.numbered(context.spark, joined.withColumns({CLAUSE: number, ACTION: action}).where(F.col(ACTION).isNotNull()))
        if inserts and self._is_of_source_alone and self._is_broadcast:
            matches = kept(delta_rows(context, chosen, ACTION, CLAUSE, {}, also=[SOURCE_ROW]))
            delta = self._by_source_row(matches, updates)
        else:
            values = {f.field_id: self._chosen_value(f, updates, assigned) for f in fields}
            with explaining("merge", context.table):
                changed = delta_rows(context, chosen, ACTION, CLAUSE, values, also=[SOURCE_ROW] if inserts else [])
            matches = kept(changed) if inserts else changed
            delta = self._with_inserts(matches) if inserts else changed
        plan = delta_plan(context, located.files, located.targets, values=[f.field_id for f in fields], assigned=assigned, once=self._once, moves=moves, inserts=inserts)
        relies = inserts and (context.options[MERGE_ISOLATION] == SERIALIZABLE or request.is_always_serializable)
        return RowPlan((), located.files, delta, plan, read_filter, located.rows, relies, matches if inserts else None)

    @cached_property
    def _is_of_source_alone(self) -> bool:
        """Whether no new value needs the row it replaces, and each source row has at most one of those, as with operations on keys."""
        clauses = self.request.clauses
        if self.request.called is None or any(clause.when is When.NOT_MATCHED_BY_SOURCE for clause in clauses):
            return False
        values = [value for clause in clauses if clause.then is Then.UPDATE for value in (clause.values or {}).values()]
        return (not values or any(clause.then is Then.INSERT for clause in clauses)) and all(is_of_one(value, self.request.source_alias) for value in values)

    @cached_property
    def _is_broadcast(self) -> bool:
        """Whether each task gets the source: where new values are of the source alone, only what finds a match and says what becomes of it."""
        return self.source.is_small(self._judging_columns if self._is_of_source_alone else None)

    @property
    def _judging_columns(self) -> list[str]:
        metadata, schema = self.context.metadata, self.context.schema
        partition = {f.source_id for spec in metadata.specs.values() for f in spec.fields}
        moving = [f.name for f in schema.fields if any(top_level(self.context, source) == f.field_id for source in partition)]
        conditions = (clause.condition for clause in self.request.clauses)
        return [SOURCE_ROW, SOURCE_HASH, *moving, *named_in((self.request.on, *conditions), self.source.rows.columns)]

    def _by_source_row(self, matches: DataFrame, updates: Mapping[int, Values]) -> DataFrame:
        """Each source row with the place of its match: one to change, or without a place one to insert."""
        from pyspark.sql import functions as F

        places = matches.withColumnRenamed(SOURCE_ROW, MATCHED)
        rows = self.source.rows.alias(self.request.source_alias).join(F.broadcast(places), F.col(SOURCE_ROW) == F.col(MATCHED), "left")
        rows = rows.withColumn(CLAUSE, F.when(F.col(FILE).isNull(), self._insert_number).otherwise(F.col(CLAUSE))).where(f"{FILE} is not null or {CLAUSE} is not null")
        place = {FILE: f"coalesce({FILE}, {NO_FILE})", POSITION: POSITION, ACTION: f"coalesce({ACTION}, {INSERT})", CLAUSE: CLAUSE, ROW_ID: ROW_ID}
        return self._as_delta(rows, place, self._source_values(rows, updates))

    def _joined(self, target: DataFrame, keep_all: bool) -> DataFrame:
        from pyspark.sql import functions as F

        source = F.broadcast(self.source.rows) if self._is_broadcast else self.source.rows
        with explaining("on of the merge", self.context.table):
            return target.join(source.alias(self.request.source_alias), self.source.condition(self.request, self.context.schema, by_hash=self._is_broadcast), "left" if keep_all else "inner")

    def _updates(self, target: DataFrame, joined: DataFrame) -> dict[int, Values]:
        """New values by clause; a row that is not in the source has only the table's columns to take them from."""
        rows = {When.MATCHED: joined, When.NOT_MATCHED_BY_SOURCE: target}
        return {n: self._values(rows[clause.when], clause, self._old) for n, clause in self._numbered if clause.then is Then.UPDATE}

    @property
    def _numbered(self) -> list[tuple[int, Clause]]:
        return list(enumerate(self.request.clauses))

    @property
    def _all_fields(self) -> list[int]:
        return [f.field_id for f in self.context.schema.fields]

    @property
    def _once(self) -> bool:
        """A row that several source rows match is deleted by all of them alike; any other outcome would be a matter of luck."""
        matched = [c for c in self.request.clauses if c.when is When.MATCHED]
        return bool(matched) and not (len(matched) == 1 and matched[0].then is Then.DELETE and matched[0].condition is None)

    def _choice(self, target: DataFrame, joined: DataFrame, updates: Mapping[int, Values], moves: Moves) -> tuple[Column, Column]:
        """The clause that applies to a joined row, and its action: MATCH where no clause does, null for a row the source does not have."""
        from pyspark.sql import functions as F

        is_match = F.col(SOURCE_ROW).isNotNull()
        number, action = F.lit(None).cast("int"), F.when(is_match, F.lit(MATCH))
        for n, clause in reversed(self._numbered):
            if clause.when is When.NOT_MATCHED:
                continue
            applies = (is_match if clause.when is When.MATCHED else ~is_match) & condition_of(clause.condition)
            number = F.when(applies, F.lit(n)).otherwise(number)
            action = F.when(applies, F.lit(DELETE) if clause.then is Then.DELETE else update_action(self.context, moves, updates[n], self._old)).otherwise(action)
        with explaining("condition of the merge", self.context.table):
            joined.select(number, action)
            target.select(*(condition_of(c.condition) for c in self.request.clauses if c.when is When.NOT_MATCHED_BY_SOURCE))
        return number, action

    def _values(self, rows: DataFrame, clause: Clause, old: Callable[[NestedField], Column]) -> Values:
        values = clause_values(clause, self.context, self.request, self.source)
        what = f"{clause} clause"
        return assignments(rows, values, self.context.schema, self.context.options, alias=self.request.target_alias, old=old, what=what, table=self.context.table)

    def _chosen_value(self, field: NestedField, updates: Mapping[int, Values], assigned: tuple[int, ...]) -> Column:
        """A column's value in the delta: that of the clause at hand, its present one where only other clauses assign it."""
        from pyspark.sql import functions as F

        empty = _nothing(field)
        if field.field_id not in assigned:
            return empty
        cases = ((n, values.get(field.field_id, self._old(field))) for n, values in updates.items())
        return reduce(lambda rest, case: F.when(F.col(CLAUSE) == case[0], case[1]).otherwise(rest), cases, empty)

    def _with_inserts(self, changed: DataFrame) -> DataFrame:
        """The changed rows, and the source rows without a match, for which both they and the delta are needed: they were kept."""
        from pyspark.sql import functions as F

        matched = changed.select(F.col(SOURCE_ROW).alias(MATCHED)).where(F.col(MATCHED).isNotNull())
        inserted = self._inserted(self.source.rows.join(matched, F.col(SOURCE_ROW) == F.col(MATCHED), "left_anti"))
        return changed.drop(SOURCE_ROW).unionByName(inserted)

    def _inserted(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        rows = rows.alias(self.request.source_alias)
        with explaining("condition of the merge", self.context.table):
            rows = rows.withColumn(CLAUSE, self._insert_number).where(F.col(CLAUSE).isNotNull())
        place = {FILE: str(NO_FILE), POSITION: "null", ACTION: str(INSERT), CLAUSE: CLAUSE, ROW_ID: "null"}
        return self._as_delta(rows, place, self._source_values(rows, {}))

    @property
    def _inserts(self) -> list[tuple[int, Clause]]:
        return [(n, c) for n, c in self._numbered if c.then is Then.INSERT]

    @property
    def _insert_number(self) -> Column:
        """The clause that inserts a source row without a match."""
        from pyspark.sql import functions as F

        return reduce(lambda rest, nc: F.when(condition_of(nc[1].condition), F.lit(nc[0])).otherwise(rest), reversed(self._inserts), F.lit(None).cast("int"))

    def _source_values(self, rows: DataFrame, updates: Mapping[int, Values]) -> Values:
        """The value of each column by the clause at hand: one expression where all clauses that assign it take it over as it is."""
        inserts = self._inserts
        given = {**updates, **{n: self._values(rows, clause, _nothing) for n, clause in inserts}}
        return {f.field_id: self._source_value(f, given, [c for n, c in inserts if f.field_id not in given[n]]) for f in self.context.schema.fields}

    def _source_value(self, field: NestedField, given: Mapping[int, Values], leaving_out: list[Clause]) -> Column:
        from pyspark.sql import functions as F

        taken_over = f"{self.request.source_alias}.{quoted(field.name)}"
        texts = {(clause.values or {}).get(quoted(field.name)) for n, clause in self._numbered if n in given}
        if self.request.called is not None and not leaving_out and taken_over in texts and texts <= {taken_over, None}:
            return F.expr(taken_over)
        cases = [(n, values[field.field_id]) for n, values in given.items() if field.field_id in values]
        return reduce(lambda rest, case: F.when(F.col(CLAUSE) == case[0], case[1]).otherwise(rest), cases, self._missing(field, leaving_out))

    def _as_delta(self, rows: DataFrame, place: Mapping[str, str], values: Values) -> DataFrame:
        from pyspark.sql import functions as F

        kinds = {FILE: "int", POSITION: "bigint", ACTION: "int", CLAUSE: "int", ROW_ID: "bigint"}
        return rows.select(
            *(F.expr(f"{kinds[name]}({text}) as {name}") for name, text in place.items()),
            *(values[f.field_id].cast(spark_type(f.field_type, nullable=True)).alias(value_column(f.field_id)) for f in self.context.schema.fields),
        )

    def _missing(self, field: NestedField, leaving_out: list[Clause]) -> Column:

        if leaving_out and field.required and field.write_default is None:
            raise NullInRequiredColumn(
                f"{self.context.table} requires column {field.name!r}, which the {leaving_out[0]} clause leaves out; give it a value there.", table=self.context.table, column=field.name
            )
        return assigned_value(None, Assign(field, field.name, None)) if leaving_out else _nothing(field)

    def _old(self, field: NestedField) -> Column:
        from pyspark.sql import functions as F

        return F.col(f"{quoted(self.request.target_alias)}.{quoted(field.name)}")


def _nothing(field: NestedField) -> Column:
    """The value of a column before its row is there."""
    from pyspark.sql import functions as F

    return F.lit(None).cast(spark_type(field.field_type, nullable=True))


def check_clauses(request: RowRequest, table: str) -> None:
    """What can be told to be wrong with a MERGE before anything is read."""
    if not request.clauses:
        raise InvalidOption(f"The merge into {table} has no clause; add one, such as when_matched_update_all().", table=table)
    if request.target_alias.lower() == request.source_alias.lower():
        raise InvalidOption(f"Table and source of the merge into {table} are both called {request.source_alias!r}; give one another alias.", table=table)
    require_deterministic(request.on, "on", table)
    for when in When:
        same = [c for c in request.clauses if c.when is when]
        for clause in same:
            require_deterministic(clause.condition, f"condition of {clause}", table)
        early = next((c for c in same[:-1] if c.condition is None), None)
        if early is not None:
            raise InvalidOption(f"{early} of the merge into {table} has no condition, so the {when.value} clauses after it never apply; put it last.", table=table)
