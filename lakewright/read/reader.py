"""A read request into a DataFrame: resolve the snapshot, prune, open."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from lakewright.call_sites import no_call_sites
from lakewright.commit.result import Commit
from lakewright.commit.store import TableState
from lakewright.plan.filters import parse_where, resolving
from lakewright.read.frame import to_dataframe
from lakewright.read.scan import plan_scan
from lakewright.read.timetravel import optimized_snapshot, read_schema, resolve
from lakewright.session import time_zone

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@no_call_sites()
def read(
    spark: SparkSession,
    state: TableState,
    *,
    where: str | Column | None = None,
    snapshot_id: int | Commit | None = None,
    as_of: datetime | str | int | Commit | None = None,
    ref: str | None = None,
    metadata_columns: bool = False,
    optimized: bool = False,
) -> DataFrame:
    zone = time_zone(spark)
    snapshot = resolve(state.metadata, snapshot_id=snapshot_id, as_of=as_of, ref=ref, time_zone=zone)
    snapshot = optimized_snapshot(state.metadata, snapshot) if optimized else snapshot
    schema = read_schema(state.metadata, snapshot, snapshot_id=snapshot_id, as_of=as_of, ref=ref)
    chosen = parse_where(where, schema, state.name, session_tz=zone)
    scan = plan_scan(state.io, state.metadata, snapshot, chosen, schema=schema)
    with resolving(where, state.name):
        return to_dataframe(spark, state.io, state.metadata, scan, schema=schema, where=chosen.sql, metadata_columns=metadata_columns)
