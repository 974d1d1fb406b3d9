"""The shards of a record index: written, looked into and merged by Python tasks, each of which has one shard at a time.

A task reads a shard whole, since only then does its checksum tell whether it is as it was written.
"""

from __future__ import annotations

import io as streams
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from lakewright.format.local_io import open_io
from lakewright.keys.index.record.pointer import Damaged, Part, Run, read_part, write_part

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HASH, FILE, SHARD = "hash", "file", "shard"
WRITTEN = f"{SHARD} int, rows bigint, name string, size bigint, checksum bigint"
FOUND = f"run int, {FILE} int, damage string"
MOST_TASKS = 64
ENTRIES = pa.schema([(HASH, pa.int64()), (FILE, pa.int32())])

Place = tuple[Mapping[str, Any], str]
"""The properties of the table's FileIO, and the table's location."""


def sharded(rows: DataFrame, shards: int) -> DataFrame:
    """Rows with a hash, those of a shard in one task. The number of tasks is given, since Spark would put small shards into one."""
    from pyspark.sql import functions as F

    return rows.withColumn(SHARD, F.pmod(HASH, F.lit(shards)).cast("int")).repartition(min(shards, MOST_TASKS), SHARD)


def write_shards(place: Place, entries: DataFrame, shards: int) -> tuple[int, dict[int, Part]]:
    """Entries of hash and file number as the shards of a run; gives their number and the shards that are not empty."""

    def write(rows: pa.Table) -> pa.Table:
        return _told(rows[SHARD][0].as_py(), rows.num_rows, _written(place, rows.select([HASH, FILE]).cast(ENTRIES)))

    return _collected(sharded(entries, shards).groupBy(SHARD).applyInArrow(write, WRITTEN))


def merge_shards(spark: SparkSession, place: Place, runs: Sequence[Run], numbers: Sequence[np.ndarray[Any, np.dtype[np.int32]]], shards: int) -> tuple[int, dict[int, Part]]:
    """The shards of several runs as those of one. numbers: for each run the new number of each of its files, -1 for those that are gone."""

    def merged(io: FileIO, shard: int) -> pa.Table:
        found = [(read_shard(io, place[1], run.shards[shard]), new) for run, new in zip(runs, numbers, strict=True) if shard in run.shards]
        kept = [rows.set_column(1, FILE, pa.array(new[rows[FILE].to_numpy()], pa.int32())) for rows, new in found]
        together = pa.concat_tables(kept) if kept else ENTRIES.empty_table()
        return together.filter(pc.greater_equal(together[FILE], 0))

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        io = open_io(*place)
        for batch in batches:
            for shard in batch.column(0).to_pylist():
                rows = merged(io, shard)
                if rows.num_rows:
                    yield from _told(shard, rows.num_rows, _written(place, rows)).to_batches()

    return _collected(spark.range(0, shards, 1, min(shards, MOST_TASKS)).mapInArrow(merge, WRITTEN))


def look_up(place: Place, hashes: DataFrame, runs: Sequence[Run], shards: int) -> set[tuple[int, int]]:
    """Run and number of each file that has one of the hashes. Only shards that hashes fall into are read. Raises Damaged."""
    from pyspark.sql import functions as F

    def look(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        shard, wanted, io = key[0].as_py(), np.unique(rows[HASH].to_numpy()), open_io(*place)
        found: list[tuple[int, int, str | None]] = []
        for number, run in enumerate(runs):
            if shard in run.shards:
                try:
                    entries = read_shard(io, place[1], run.shards[shard])
                except Damaged as damage:
                    found.append((number, -1, str(damage)))
                    continue
                hits = np.isin(entries[HASH].to_numpy(), wanted)
                found += [(number, file, None) for file in np.unique(entries[FILE].to_numpy()[hits]).tolist()]
        columns = list(zip(*found, strict=True)) if found else [(), (), ()]
        return pa.table({"run": pa.array(columns[0], pa.int32()), FILE: pa.array(columns[1], pa.int32()), "damage": pa.array(columns[2], pa.string())})

    rows = sharded(hashes, shards).groupBy(SHARD).applyInArrow(look, FOUND).groupBy("run", FILE).agg(F.max("damage").alias("damage")).collect()
    damaged = next((row.damage for row in rows if row.damage is not None), None)
    if damaged is not None:
        raise Damaged(damaged)
    return {(row.run, row.file) for row in rows}


def read_shard(io: FileIO, location: str, part: Part) -> pa.Table:
    try:
        return pq.read_table(pa.BufferReader(read_part(io, location, part)))
    except pa.ArrowException as error:
        raise Damaged(f"{part.name} is no Parquet file: {error}") from error


def _written(place: Place, entries: pa.Table) -> Part:
    sink = streams.BytesIO()
    pq.write_table(entries.sort_by(HASH), sink, compression="zstd", use_dictionary=[FILE])
    return write_part(open_io(*place), place[1], sink.getvalue(), "parquet")


def _told(shard: int, rows: int, part: Part) -> pa.Table:
    kinds = [pa.int32(), pa.int64(), pa.string(), pa.int64(), pa.int64()]
    values = (shard, rows, part.name, part.size, part.checksum)
    return pa.table([pa.array([value], kind) for value, kind in zip(values, kinds, strict=True)], names=[SHARD, "rows", "name", "size", "checksum"])


def _collected(told: DataFrame) -> tuple[int, dict[int, Part]]:
    rows = told.collect()
    return sum(row.rows for row in rows), {row.shard: Part(row.name, row.size, row.checksum) for row in rows}
