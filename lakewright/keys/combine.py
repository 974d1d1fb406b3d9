"""Several records of one key in a batch, combined as if they had come one after another, in the table's order of records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewright.errors import UnsupportedOperation
from lakewright.keys.definition import NEW, OLD, Definition
from lakewright.keys.engines import Engine
from lakewright.options import SHUFFLE_PARALLELISM, Options
from lakewright.quoting import quoted
from lakewright.rows.kept import kept
from lakewright.rows.merge_source import SOURCE_ROW

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DELETED, RESET = "_lw_deleted", "_lw_reset"
ORDER, RECORD, RANK = "_lw_order", "_lw_record", "_lw_rank"


def combine(rows: DataFrame, definition: Definition, engine: Engine, options: Options, *, most: int) -> DataFrame:
    """One record for each key. Those of one ordering value are in the order they came in."""
    from pyspark.sql import functions as F

    keys = [F.expr(part.of(None)).alias(f"_lw_key{n}") for n, part in enumerate(definition.key)]
    order = ([definition.order_of(None) or ""] if definition.ordering else []) + [SOURCE_ROW]
    placed = rows.select(*keys, F.expr(f"struct({', '.join(order)})").alias(ORDER), F.struct(*(F.col(quoted(c)) for c in rows.columns)).alias(RECORD))
    names = [f"_lw_key{n}" for n in range(len(keys))]
    tasks = options[SHUFFLE_PARALLELISM]
    placed = placed if tasks is None else placed.repartition(tasks, *names)
    if engine.takes_latest:
        return placed.groupBy(*names).agg(F.max_by(RECORD, ORDER).alias(RECORD)).select(f"{RECORD}.*")
    if engine.function is not None:
        return _one_by_one(placed, names, engine, most)
    listed = placed.groupBy(*names).agg(F.array_sort(F.collect_list(F.struct(ORDER, RECORD))).alias("_lw_all"))
    records = listed.select(F.expr(f"transform(_lw_all, x -> x.{RECORD})").alias("_lw_all"))
    return records.select(F.expr(_folded(rows, engine)).alias(RECORD)).select(f"{RECORD}.*")


def _folded(rows: DataFrame, engine: Engine) -> str:
    """SQL that takes the sorted list `_lw_all` to one record: RESET says that a deletion among them leaves nothing of an earlier row."""
    own = [f for f in rows.schema.fields if f.name not in (DELETED, RESET)]
    merged = {f.name: engine.values.get(f.name, f"{OLD}.{quoted(f.name)}") for f in own}
    taken = {f.name: f"{NEW}.{quoted(f.name)}" for f in own}
    types = {f.name: f.dataType.simpleString() for f in own if f.dataType.typeName() not in ("struct", "array", "map")}

    def record(values: dict[str, str], deleted: str, reset: str) -> str:
        cast = {name: f"cast({text} as {types[name]})" if name in types else text for name, text in values.items()}
        fields = [(DELETED, deleted), (RESET, reset), *cast.items()]
        by_name = dict(fields)
        return f"struct({', '.join(f'{by_name[f.name]} as {quoted(f.name)}' for f in rows.schema.fields)})"

    step = (
        f"case when {NEW}.{DELETED} then {record(taken, 'true', 'true')} "
        f"when {OLD}.{DELETED} then {record(taken, 'false', 'true')} "
        f"else {record(merged, 'false', f'{OLD}.{RESET}')} end"
    )
    return f"aggregate(slice(_lw_all, 2, size(_lw_all)), _lw_all[0], ({OLD}, {NEW}) -> {step})"


def _one_by_one(placed: DataFrame, names: list[str], engine: Engine, most: int) -> DataFrame:
    """With a function of the user's own: the second record of each key into the first, the third into that, and so on."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from lakewright.keys.function import merged_by

    if most > MOST_ROUNDS:
        raise UnsupportedOperation(
            f"A batch has up to {most} records of one key, and a merge function takes them one by one, {MOST_ROUNDS} at most; combine them beforehand or write smaller batches."
        )
    ranked = kept(placed.withColumn(RANK, F.row_number().over(Window.partitionBy(*names).orderBy(ORDER))))
    made = ranked.where(F.col(RANK) == 1).select(*names, RECORD)
    for rank in range(2, most + 1):
        following = ranked.where(F.col(RANK) == rank).select(*names, F.col(RECORD).alias("_lw_next"))
        both = made.join(following, names, "left")
        old, new = F.col(RECORD), F.col("_lw_next")
        record = merged_by(engine, both.schema[RECORD].dataType)(old, new)
        made = kept(both.select(*names, F.when(new.isNull(), old).otherwise(_after_deletion(old, new, record)).alias(RECORD)))
    return made.select(f"{RECORD}.*")


def _after_deletion(old: Column, new: Column, merged: Column) -> Column:
    from pyspark.sql import functions as F

    taken = new.withField(RESET, F.lit(True))
    together = merged.withField(DELETED, F.lit(False)).withField(RESET, old.getField(RESET))
    return F.when(new.getField(DELETED) | old.getField(DELETED), taken).otherwise(together)


MOST_ROUNDS = 100
