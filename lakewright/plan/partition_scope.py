"""Rows by their partition: whether it is one of a given set, and whether it stays the same when they get new values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import IcebergType, NestedField

from lakewright.plan.distribution import partition_fields, with_partition_columns
from lakewright.plan.partition_codes import code_column, is_counted
from lakewright.plan.transform_columns import source_path, transformed
from lakewright.plan.types import spark_type
from lakewright.plan.write_plan import WritePlan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def stays(schema: Schema, spec: PartitionSpec, values: Mapping[int, Column], old: Callable[[NestedField], Column]) -> Column:
    """Whether a row that gets these values, by the id of their column, is of the same partition as before. Of a bucket's source only the
    same value is taken to stay."""
    from pyspark.sql import functions as F

    same = []
    for _, field in partition_fields(spec):
        path = source_path(schema, field.source_id)
        top = schema.find_field(path[0])
        if top.field_id in values:
            before, after = (reduce(lambda value, name: value.getField(name), path[1:], value) for value in (old(top), values[top.field_id]))
            if not isinstance(field.transform, BucketTransform):
                source_type = schema.find_field(field.source_id).field_type
                before, after = (transformed(field.transform, source_type, value) for value in (before, after))
            same.append(before.eqNullSafe(after))
    return reduce(and_, same) if same else F.lit(True)


def outside_partitions(plan: WritePlan, rows: DataFrame, partitions: Iterable[tuple[Any, ...]]) -> DataFrame:
    """Rows whose partition under the plan's spec is none of these; values in Iceberg's internal form, null equal to null."""
    from pyspark.sql import functions as F

    columns = rows.columns
    keyed, names = with_partition_columns(plan, rows)
    codes = _codes(plan, rows, partitions, [f"{name}_other" for name in names])
    same = F.lit(True)
    for name in names:
        same = same & F.col(name).eqNullSafe(F.col(f"{name}_other"))
    return keyed.join(F.broadcast(codes), same, "left_anti").select(*(f"`{name.replace('`', '``')}`" for name in columns))


def _codes(plan: WritePlan, rows: DataFrame, partitions: Iterable[tuple[Any, ...]], names: list[str]) -> DataFrame:
    """The given partitions as the codes that rows are compared by."""
    import pyspark.sql.types as spark
    from pyspark.sql import functions as F

    fields = partition_fields(plan.spec)
    kinds: list[IcebergType] = [field.transform.result_type(plan.schema.find_type(field.source_id)) for _, field in fields]
    schema = spark.StructType(
        [spark.StructField(name, spark.LongType() if is_counted(kind) else spark_type(kind), True) for name, kind in zip(names, kinds, strict=True)]
    )
    values = [tuple(_plain(partition[index], kind) for (index, _), kind in zip(fields, kinds, strict=True)) for partition in partitions]
    given = rows.sparkSession.createDataFrame(values, schema)
    return given.select(*(F.col(name) if is_counted(kind) else code_column(kind, F.col(name)).alias(name) for name, kind in zip(names, kinds, strict=True)))


def _plain(value: Any, kind: IcebergType) -> Any:
    if is_counted(kind) and value is not None:
        return int(value)
    return str(value) if isinstance(value, UUID) else value
