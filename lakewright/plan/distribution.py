"""Which task gets which rows, and in what order it gets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform, TruncateTransform, VoidTransform

from lakewright.options import ADVISORY_PARTITION_SIZE, BUCKET_MODE, DISTRIBUTION, FANOUT, TARGET_FILE_SIZE, Options
from lakewright.plan.partition_codes import code_column
from lakewright.plan.transform_columns import source_column, with_transform
from lakewright.plan.write_plan import WritePlan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PARTITION_PREFIX, SORT_PREFIX = "__lw_p", "__lw_s"
# Shuffled rows are compressed by row and with a fast codec; the same rows take less than half in Parquet.
SHUFFLE_EXPANSION = 2


def choose_distribution(spec: PartitionSpec, sort_order: SortOrder, options: Options) -> str:
    """none, hash or range: what was asked for, else range when sorted, hash when partitioned, none otherwise."""
    asked: str | None = options[DISTRIBUTION]
    partitioned, is_sorted = bool(partition_fields(spec)), not sort_order.is_unsorted
    if asked is None and options[BUCKET_MODE] == "unaware":
        return "range" if is_sorted else "none"
    if asked is None:
        return "range" if is_sorted else "hash" if partitioned else "none"
    if (asked == "hash" and not partitioned) or (asked == "range" and not partitioned and not is_sorted):
        return "none"
    return asked


def partition_fields(spec: PartitionSpec) -> list[tuple[int, PartitionField]]:
    """The fields that tell rows apart, with their place in the spec; void fields do not."""
    return [(index, field) for index, field in enumerate(spec.fields) if not isinstance(field.transform, VoidTransform)]


def distribution_settings(plan: WritePlan, spark: SparkSession) -> dict[str, str]:
    """Session settings under which `distribute` and the job after it must run.

    A partition is one task's wherever it lands, so after a hash many small tasks write the same files as few large ones, and
    leave no core idle at the end; after a range each task begins files of its own.
    """
    if plan.distribution == "none":
        return {}
    asked = plan.options[ADVISORY_PARTITION_SIZE]
    size = asked or plan.options[TARGET_FILE_SIZE] * SHUFFLE_EXPANSION
    wanted = {"spark.sql.adaptive.enabled": "true", "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(size)}
    if plan.distribution == "hash" and asked is None:
        wanted["spark.sql.adaptive.coalescePartitions.minPartitionNum"] = str(spark.conf.get("spark.sql.shuffle.partitions"))
    return wanted


def with_partition_columns(plan: WritePlan, df: DataFrame) -> tuple[DataFrame, list[str]]:
    """Adds the code of each partition field as a column, `__lw_p0` for the first of the spec."""
    from pyspark.sql import functions as F

    names = []
    for index, field in partition_fields(plan.spec):
        name = f"{PARTITION_PREFIX}{index}"
        source = plan.schema.find_field(field.source_id).field_type
        df = with_transform(df, name, field.transform, source, source_column(plan.schema, field.source_id))
        if isinstance(field.transform, IdentityTransform | TruncateTransform):
            df = df.withColumn(name, code_column(source, F.col(name)))
        names.append(name)
    return df, names


def distribute(plan: WritePlan, df: DataFrame, partition_columns: list[str], *, clustered: bool) -> DataFrame:
    """Moves and sorts rows as the plan says; `clustered` asks that rows of one partition come one after another."""
    from pyspark.sql import functions as F

    columns = df.columns
    df, order = _with_sort_columns(plan, df)
    partitions = [F.col(name) for name in partition_columns]
    if plan.distribution == "hash":
        df = df.hint("rebalance", *partitions)
    elif plan.distribution == "range":
        df = df.repartitionByRange(*(column.asc_nulls_first() for column in partitions), *order)
    if order or (clustered and partitions):
        df = df.sortWithinPartitions(*(column.asc_nulls_first() for column in partitions), *order)
    return df.select(*(_quoted(name) for name in columns)) if df.columns != columns else df


def needs_clustering(plan: WritePlan) -> bool:
    """Whether the writer wants rows sorted by partition, rather than a file open for each."""
    return bool(partition_fields(plan.spec)) and not plan.options[FANOUT]


def _with_sort_columns(plan: WritePlan, df: DataFrame) -> tuple[DataFrame, list[Column]]:
    from pyspark.sql import functions as F

    order: list[Column] = []
    for index, field in enumerate(plan.sort_order.fields):
        column = source_column(plan.schema, field.source_id)
        if not isinstance(field.transform, IdentityTransform):
            name = f"{SORT_PREFIX}{index}"
            df = with_transform(df, name, field.transform, plan.schema.find_field(field.source_id).field_type, column)
            column = F.col(name)
        order.append(_ordered(column, field))
    return df, order


def _ordered(column: Column, field: SortField) -> Column:
    first = field.null_order == NullOrder.NULLS_FIRST
    if field.direction == SortDirection.ASC:
        return column.asc_nulls_first() if first else column.asc_nulls_last()
    return column.desc_nulls_first() if first else column.desc_nulls_last()


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
