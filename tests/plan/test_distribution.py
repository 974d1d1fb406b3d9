from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from lakewright.options import resolve
from lakewright.plan.distribution import choose_distribution, distribute, distribution_settings, needs_clustering, with_partition_columns
from lakewright.plan.partition_scope import outside_partitions
from lakewright.plan.partitioning import build_sort_order, build_spec
from lakewright.plan.types import schema_from
from lakewright.plan.write_plan import WritePlan
from lakewright.session import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = schema_from("id bigint, p int, t string")
BY_P, BY_VOID = ["p"], ["void(id)"]


def plan(partition_by: list[str] | None = None, sort_by: list[str] | None = None, session: dict[str, str] | None = None, **options: Any) -> WritePlan:
    spec = build_spec(SCHEMA, partition_by) if partition_by else UNPARTITIONED_PARTITION_SPEC
    order = build_sort_order(SCHEMA, sort_by) if sort_by else UNSORTED_SORT_ORDER
    chosen = resolve(options, session or {}, {})
    return WritePlan("db.t", "run", "file:///none", SCHEMA, spec, order, "native", choose_distribution(spec, order, chosen), chosen, {}, None)


def shape(spark: SparkSession, wanted: WritePlan, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The moves and sorts of the physical plan, last one first."""
    df = spark.range(10).selectExpr("id", "cast(id % 3 as int) p", "cast(id as string) t")
    with settings(spark, distribution_settings(wanted, spark)):
        df, partitions = with_partition_columns(wanted, df)
        capsys.readouterr()
        distribute(wanted, df, partitions, clustered=needs_clustering(wanted)).explain()
    return re.findall(r"(?m)^[ :+\-*()\d]*((?:Sort|Exchange) .*)$", capsys.readouterr().out)


@pytest.mark.feature("I5")
@pytest.mark.parametrize(
    ("partition_by", "sort_by", "options", "expected"),
    [
        (None, None, {}, "none"),
        (BY_P, None, {}, "hash"),
        (BY_VOID, None, {}, "none"),
        (None, ["t"], {}, "range"),
        (BY_P, ["t"], {}, "range"),
        (BY_P, ["t"], {"distribution_mode": "hash"}, "hash"),
        (BY_P, None, {"distribution_mode": "range"}, "range"),
        (BY_P, None, {"distribution_mode": "none"}, "none"),
        (None, None, {"distribution_mode": "hash"}, "none"),
        (None, None, {"distribution_mode": "range"}, "none"),
    ],
)
def test_choice(partition_by: list[str] | None, sort_by: list[str] | None, options: dict[str, str], expected: str) -> None:
    assert plan(partition_by, sort_by, **options).distribution == expected


@pytest.mark.feature("I24")
def test_mode_from_the_session() -> None:
    assert plan(BY_P, session={"spark.lakewright.distribution-mode": "none"}).distribution == "none"


@pytest.mark.feature("I5")
def test_nothing_is_moved_or_sorted_without_need(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert shape(spark, plan(), capsys) == []
    assert shape(spark, plan(BY_P, distribution_mode="none", fanout_enabled=True), capsys) == []
    (exchange,) = shape(spark, plan(BY_P, fanout_enabled=True), capsys)
    assert "REBALANCE_PARTITIONS_BY_COL" in exchange and "hashpartitioning(__lw_p0" in exchange
    (sort,) = shape(spark, plan(BY_P, distribution_mode="none"), capsys)
    assert sort.startswith("Sort [__lw_p0") and "false" in sort, "sorted within each task only"


@pytest.mark.feature("I5")
def test_hash_and_range(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    sort, exchange = shape(spark, plan(BY_P), capsys)
    assert sort.startswith("Sort [__lw_p0") and "hashpartitioning" in exchange
    sort, exchange = shape(spark, plan(BY_P, ["t desc nulls last"]), capsys)
    assert "rangepartitioning(__lw_p0" in exchange and "t#" in exchange and "DESC NULLS LAST" in sort
    sort, exchange = shape(spark, plan(None, ["bucket(4, id)", "t"]), capsys)
    assert exchange.startswith("Exchange rangepartitioning(__lw_s0") and sort.startswith("Sort [__lw_s0")


@pytest.mark.feature("I5")
def test_advisory_partition_size(spark: SparkSession) -> None:
    key, least = "spark.sql.adaptive.advisoryPartitionSizeInBytes", "spark.sql.adaptive.coalescePartitions.minPartitionNum"
    asked = distribution_settings(plan(BY_P, advisory_partition_size=12345), spark)
    assert asked[key] == "12345" and least not in asked
    assert int(distribution_settings(plan(BY_P, target_file_size_bytes=10**6), spark)[key]) >= 10**6
    assert distribution_settings(plan(BY_P), spark)[least] == spark.conf.get("spark.sql.shuffle.partitions")
    assert distribution_settings(plan(), spark) == {}


def test_columns_are_those_of_the_table(spark: SparkSession) -> None:
    df: DataFrame = spark.range(3).selectExpr("id", "cast(id as int) p", "'x' as t")
    wanted = plan(["bucket(4, t)"], ["bucket(4, id)"])
    keyed, partitions = with_partition_columns(wanted, df)
    assert distribute(wanted, keyed, partitions, clustered=True).columns == ["id", "p", "t", "__lw_p0"]


def test_rows_outside_partitions(spark: SparkSession) -> None:
    df = spark.createDataFrame([(1, 1, ""), (2, None, "a"), (3, 2, None), (4, None, None)], "id bigint, p int, t string")
    wanted = plan(["p", "t", "void(id)"])
    kept = outside_partitions(wanted, df, [(1, "", None), (None, None, None), (2, "a", None)])
    assert kept.columns == ["id", "p", "t"] and sorted(row.id for row in kept.collect()) == [2, 3]
