"""The records of one keyed operation: read once, in the table's types, checked, and combined to one for each key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from lakewright.errors import ColumnNotFound, DuplicateKey, NullKey
from lakewright.keys.at_hand.key_codes import KeyCodes
from lakewright.keys.at_hand.merge import RecordsAtHand
from lakewright.keys.at_hand.records import brought_here, combined, nulls_in
from lakewright.keys.combine import DELETED, RESET, combine
from lakewright.keys.definition import NEW, Definition
from lakewright.keys.engines import Engine
from lakewright.options import DRIVER_BATCH_SIZE, Options
from lakewright.plan.conversion import Assign
from lakewright.plan.names import did_you_mean, match_name
from lakewright.plan.project import projected_columns
from lakewright.plan.schema import Reconciled
from lakewright.plan.types import spark_type
from lakewright.quoting import quoted
from lakewright.read.prune import optional_schema
from lakewright.rows.expressions import condition_of, explaining
from lakewright.rows.kept import kept
from lakewright.rows.merge_source import HASHED, RANGED, SOURCE_HASH, SOURCE_ROW, Index, MergeSource, SourceKey, worth_hashing
from lakewright.write.arrow_rows import in_file_types

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class Batch:
    """source: one record for each key, with the table's columns that the records have, and DELETED. given: how many came."""

    source: MergeSource
    columns: tuple[str, ...]
    given: int
    has_deletes: bool


def read_batch(
    df: DataFrame,
    fitted: Reconciled,
    definition: Definition,
    engine: Engine,
    options: Options,
    *,
    delete_when: str | Column | None = None,
    combine_before: bool = True,
    index: Index | None = None,
    may_be_at_hand: bool = False,
) -> Batch:
    """Read the records. Raises NullKey, and DuplicateKey where duplicates are not to be combined."""

    rows = _typed(df, fitted, definition, engine, delete_when)
    columns, has_deletes = tuple(a.field.name for a in fitted.columns), delete_when is not None
    held = partial(_held, definition=definition)
    here = brought_here(rows, held, options[DRIVER_BATCH_SIZE]) if may_be_at_hand else held(rows)
    if isinstance(here, pa.Table):
        return _at_hand(here, rows, columns, definition, has_deletes, combine_before, index)
    return _in_spark(here, columns, definition, engine, options, has_deletes, combine_before, index)


def _typed(df: DataFrame, fitted: Reconciled, definition: Definition, engine: Engine, delete_when: str | Column | None) -> DataFrame:
    """The records in the table's types, and whether each is a deletion. What is inside a column may be null: it is where the column is, and Arrow refuses that otherwise."""
    from pyspark.sql import functions as F

    with explaining("delete_when", definition.table):
        deleted = F.lit(False) if delete_when is None else condition_of(delete_when)
        rows = df.select(*map(_nullable_inside, projected_columns(fitted), fitted.columns), deleted.alias(DELETED))
    return rows.withColumns({column: F.expr(text).cast(rows.schema[column].dataType) for column, text in engine.first.items()}) if engine.first else rows


def _nullable_inside(column: Column, assign: Assign) -> Column:
    kind = assign.field.field_type
    return column if kind.is_primitive else column.cast(spark_type(kind, nullable=True)).alias(assign.field.name)


def _held(rows: DataFrame, definition: Definition) -> DataFrame:
    """The records numbered in the order they come in, with a hash of their keys, and kept."""
    from pyspark.sql import functions as F

    hashed = F.xxhash64(*(F.expr(part.of(None)) for part in definition.key))
    return kept(rows.withColumns({RESET: F.lit(False), SOURCE_ROW: F.monotonically_increasing_id(), SOURCE_HASH: hashed}), eager=False)


def _in_spark(
    rows: DataFrame, columns: tuple[str, ...], definition: Definition, engine: Engine, options: Options, has_deletes: bool, combine_before: bool, index: Index | None
) -> Batch:
    found = looked_at(rows, definition)
    require_keys(found["nulls"], found["rows"], definition)
    count = found["rows"]
    if count and found["most"] > 1:
        if not combine_before and _has_duplicates(rows, definition):
            raise _duplicates(definition.table)
        rows = kept(combine(rows, definition, engine, options, most=found["most"]), eager=False)
        count = rows.count()
    return Batch(MergeSource(lambda: rows, columns, count, _ranges(found, definition), _hashed(definition), index), columns, found["rows"], has_deletes)


def _at_hand(table: pa.Table, rows: DataFrame, columns: tuple[str, ...], definition: Definition, has_deletes: bool, combine_before: bool, index: Index | None) -> Batch:
    names = [part.column or "" for part in definition.key]
    keys = in_file_types(table, names, definition.schema)
    require_keys(nulls_in(keys), len(table), definition)
    codes = KeyCodes(keys)
    if not combine_before and codes.count < len(table):
        raise _duplicates(definition.table)
    records = combined(table, codes, definition)
    ranges = {name: None if not len(table) else tuple(pc.min_max(table.column(name)).as_py().values()) for name in _ranged(definition)}

    def in_spark() -> DataFrame:
        return _held(rows.sparkSession.createDataFrame(records.table, rows.schema), definition)

    source = MergeSource(in_spark, columns, len(records.table), ranges, _hashed(definition), index, RecordsAtHand(records, definition))
    return Batch(source, columns, records.given, has_deletes)


def _duplicates(table: str) -> DuplicateKey:
    return DuplicateKey(f"The batch for {table} has several records of one key, and combine_before=False says it has not. Leave that out to have them combined.", table=table)


def looked_at(rows: DataFrame, definition: Definition) -> Any:
    """Number of records, of those without a key, the most that may share one, and the range of each key column."""
    from pyspark.sql import functions as F

    keys = [F.expr(part.of(None)) for part in definition.key]
    is_null = reduce(or_, (key.isNull() for key in keys))
    ranged = _ranged(definition)
    low = [F.min(quoted(name)).alias(f"low{n}") for n, name in enumerate(ranged)]
    high = [F.max(quoted(name)).alias(f"high{n}") for n, name in enumerate(ranged)]
    hashed = rows.groupBy(F.xxhash64(*keys)).agg(F.count("*").alias("n"), F.count_if(is_null).alias("nulls"), *low, *high)
    bounds = [bound for n in range(len(ranged)) for bound in (F.min(f"low{n}").alias(f"low{n}"), F.max(f"high{n}").alias(f"high{n}"))]
    found = hashed.agg(F.coalesce(F.sum("n"), F.lit(0)).alias("rows"), F.coalesce(F.max("n"), F.lit(0)).alias("most"), F.coalesce(F.sum("nulls"), F.lit(0)).alias("nulls"), *bounds)
    return found.collect()[0]


def require_keys(nulls: int, of: int, definition: Definition) -> None:
    """Raise NullKey if a record has none."""
    if nulls:
        raise NullKey(
            f"{nulls} of {of} records for {definition.table} have no key ({', '.join(part.text for part in definition.key)} is null); filter them out, "
            "or give on_record_error='quarantine' to set them aside. Nothing was written.",
            table=definition.table,
            column=definition.key[0].text,
        )


def _has_duplicates(rows: DataFrame, definition: Definition) -> bool:
    from pyspark.sql import functions as F

    keys = [F.expr(part.of(None)) for part in definition.key]
    named = [key.alias(f"k{n}") for n, key in enumerate(keys)]
    return bool(rows.select(*named).groupBy(*(f"k{n}" for n in range(len(keys)))).count().where(F.col("count") > 1).head(1))


def _ranged(definition: Definition) -> list[str]:
    return [part.column for part in definition.key if part.column is not None and part.is_top_level and isinstance(_type(definition, part.column), RANGED)]


def _ranges(found: Any, definition: Definition) -> dict[str, tuple[Any, Any] | None]:
    return {name: None if found[f"low{n}"] is None else (found[f"low{n}"], found[f"high{n}"]) for n, name in enumerate(_ranged(definition))}


def _hashed(definition: Definition) -> tuple[SourceKey, ...]:
    """The key's columns, unless it has a part that is none."""
    columns = [part.column for part in definition.key if part.column is not None and part.is_top_level]
    types = [_type(definition, name) for name in columns]
    if len(columns) < len(definition.key) or not all(isinstance(kind, HASHED) for kind in types):
        return ()
    return worth_hashing([SourceKey(part.column or "", kind, part.of(NEW)) for part, kind in zip(definition.key, types, strict=True)])


def _type(definition: Definition, column: str) -> Any:
    return definition.schema.find_field(column).field_type


def record_schema(definition: Definition, given: Iterable[str], *, only_given: bool) -> Schema:
    """What records have to fit: the table's columns, or those of them that are given; all may be null here, as records of deletions are."""
    names = list(given)
    for part in (*definition.key, *definition.ordering):
        for source in part.sources:
            if match_name(source, names) is None:
                raise ColumnNotFound(
                    f"Records for {definition.table} need column {source!r}, which is part of its key or ordering. {did_you_mean(source, names)}", table=definition.table, column=source
                )
    schema = optional_schema(definition.schema)
    if not only_given:
        return schema
    return Schema(*(f for f in schema.fields if match_name(f.name, names) is not None), schema_id=schema.schema_id)
