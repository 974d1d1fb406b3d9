"""The demo: a table of taxi trips, from its first row to a look back in time."""

from __future__ import annotations

import tempfile
import time
from typing import TYPE_CHECKING

from lakewright.cli.output import console, describe, frame, snapshots
from lakewright.lake import connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRIPS = 200_000


def run(folder: str | None = None) -> None:
    """Each step prints what it does and what came of it."""
    began = time.monotonic()
    place = folder or tempfile.mkdtemp(prefix="lakewright-demo-")
    console.rule("[bold]Lakewright demo")
    console.print(f"A lake is a folder: [bold]{place}[/bold]. Starting Spark on this machine …")
    lake = connect(place, progress="off")
    january = trips(lake.spark, "2024-01-01", 31)

    console.rule("1. Create a table and append a month of trips")
    table = lake.create_table("nyc.trips", january.schema, partition_by=["day(pickup_at)"], sort_by=["pickup_at"], replace=True)
    first = table.append(january)
    console.print(f"appended {first.added_rows:,} rows in {first.added_files} files as snapshot {first.snapshot_id}")
    describe(table)

    console.rule("2. A day came with wrong fares: overwrite that day, and no other")
    corrected = january.filter("date(pickup_at) = '2024-01-15'").selectExpr("* except (fare)", "cast(fare * 1.1 as decimal(9,2)) as fare").select(january.columns)
    second = table.overwrite_partitions(corrected)
    console.print(f"replaced {second.deleted_rows:,} rows by {second.added_rows:,}; {second.removed_files} of {first.added_files} files changed")

    console.rule("3. New data brings a new column")
    february = trips(lake.spark, "2024-02-01", 3).selectExpr("*", "cast(fare * 0.18 as decimal(9,2)) as tip")
    third = table.append(february, merge_schema=True)
    console.print(f"appended {third.added_rows:,} rows; columns are now {', '.join(f.name for f in table.schema.fields)}")
    frame(table.read().groupBy("vendor").agg({"*": "count", "fare": "avg", "tip": "avg"}).orderBy("vendor"))

    console.rule("4. Look back")
    for name, commit in (("before the correction", first), ("after it", second), ("now", third)):
        total = table.read("pickup_at >= '2024-01-15' and pickup_at < '2024-01-16'", snapshot_id=commit).selectExpr("sum(fare)").first()
        console.print(f"fares of 15 January {name}: {total[0] if total else None:,}")
    snapshots(table)

    console.rule("5. Any Iceberg engine reads it")
    console.print(f"metadata: {table.iceberg.metadata_location}", soft_wrap=True)
    console.print(f"PyIceberg counts {table.iceberg.scan().count():,} rows, Spark {table.read().count():,}.")
    console.print(f"Done in {time.monotonic() - began:.0f} s. Look around: lakewright show nyc.trips --lake {place}", soft_wrap=True)


def trips(spark: SparkSession, first_day: str, days: int) -> DataFrame:
    """Trips that look like trips: busy evenings, a few vendors, fares that grow with distance. The same ones at each run."""
    return (
        spark.range(TRIPS // 31 * days)
        .selectExpr(
            "id as trip_id",
            f"timestamp'{first_day} 00:00:00' + make_dt_interval(0, 0, 0, floor(86400 * {days} * pow(rand(7), 0.9))) as pickup_at",
            "element_at(array('Amber', 'Birch', 'Cedar'), 1 + int(3 * rand(11))) as vendor",
            "1 + int(4 * pow(rand(13), 3)) as passengers",
            "round(0.5 + 14 * pow(rand(17), 2), 2) as miles",
        )
        .selectExpr("*", "cast(3.0 + miles * 2.65 as decimal(9,2)) as fare")
    )
