"""Deleted positions in a native scan: bitmaps of a few thousand rows each, found by a number that stands for the file.

The file's number is its size, which costs nothing per row, where that can be asked for on local disk; else the hash of its name.
Bitmaps that are no large matter are an array in which each row is looked up (`deleted_bits`); so is it nearly always. Others,
and those of files with equal numbers, are joined: a bitmap's key is the number of its file XOR its own, so that Spark joins on one
long, for which it has a fast hash map; a row is deleted where its bit is set and the names are equal too, whatever the numbers are.
"""

from __future__ import annotations

import os
import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import xxhash
from pyiceberg.io import FileIO
from pyroaring import BitMap64

from lakewright.format.deletion_vector import to_array
from lakewright.format.local_io import open_io
from lakewright.format.storage import local_path
from lakewright.read.deleted_bits import CHUNK, CHUNK_BITS, WORDS, DeletedBits, chunk_bits
from lakewright.read.deletes import DeleteFile
from lakewright.read.layout import FILE, FILE_SIZE, POSITION
from lakewright.read.paths import reported_path, spark_path
from lakewright.read.positions import DeletedPositions
from lakewright.read.scan import FileScan, without_metrics

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

CHUNKS_AT_ONCE = 2_048
BYTES_BESIDE_BITS = 200  # of a chunk's row: the name of its file, above all
ARRAY_BYTES = 16 * 1024 * 1024
DRIVER_POSITIONS = 5_000_000
DRIVER_FILES = 1_000
DRIVER_BYTES = 256 * 1024 * 1024
BROADCAST_BYTES = 1024 * 1024 * 1024
MOST_TASKS = 64
OF, NUMBER, BITS, KEY, SIZE = "_lw_deleted_of", "_lw_deleted_chunk", "_lw_deleted_bits", "_lw_deleted_key", "_lw_deleted_size"
SIZE_SHIFT = 24  # room for the numbers of bitmaps
SPARK_SEED = 42  # of its xxhash64
ID, TASK = "id", "task"
CHUNKS = pa.schema([(OF, pa.string()), (NUMBER, pa.int64()), (BITS, pa.list_(pa.int64()))])
CHUNKS_DDL = f"{OF} string, {NUMBER} bigint, {BITS} array<bigint>"

Target = tuple[str, FileScan]


def without_positions(spark: SparkSession, io: FileIO, files: Sequence[FileScan], frame: DataFrame) -> DataFrame:
    """The rows that no vector and no position delete file removes. The frame has FILE and POSITION."""
    from pyspark.sql import functions as F

    targets = [(reported_path(spark_path(spark, file.data_file.file_path)), _by_position(file)) for file in files]
    if not any(file.deletes for _, file in targets):
        return frame
    size = _bytes(targets)
    deleted = _positions(io, targets) if size <= DRIVER_BYTES and _are_few(targets) else None
    if deleted is not None and size <= ARRAY_BYTES:
        sizes = _sizes(targets)
        bits = DeletedBits.of([(sizes[name] if sizes else _hash(name), found) for name, found in deleted.items()])
        if bits is not None:
            return frame.where(bits.is_live(spark, FILE_SIZE if sizes else f"xxhash64({FILE})", POSITION))
    targets = [(name, file) for name, file in targets if file.deletes]
    chunks = _from_tasks(spark, io, targets) if deleted is None else _from_driver(spark, deleted)
    chunks, of_deleted, own = _file_numbers(spark, targets, chunks)
    chunks = chunks.select(of_deleted.bitwiseXOR(F.col(NUMBER)).alias(KEY), OF, BITS)
    if size <= BROADCAST_BYTES:
        chunks = F.broadcast(chunks)
    file, position = F.col(FILE), F.col(POSITION)
    # Equality, said so that Spark does not take the names for a second join key.
    same_file = file.startswith(F.col(OF)) & F.col(OF).startswith(file)
    found = own.bitwiseXOR(F.shiftright(position, CHUNK_BITS)) == F.col(KEY)
    return frame.join(chunks, found & is_set(position) & same_file, "left_anti")


def _hash(name: str) -> int:
    """As Spark hashes a text."""
    unsigned = int(xxhash.xxh64_intdigest(name.encode(), seed=SPARK_SEED))
    return unsigned - (1 << 64) if unsigned >> 63 else unsigned


def _file_numbers(spark: SparkSession, targets: Sequence[Target], chunks: DataFrame) -> tuple[DataFrame, Column, Column]:
    """The bitmaps, and a number for the file of each and for that of each row scanned."""
    from pyspark.sql import functions as F

    sizes = _sizes(targets)
    if sizes is None:
        return chunks, F.xxhash64(OF), F.xxhash64(FILE)
    known = spark.createDataFrame(pa.table({OF: pa.array(sizes, pa.string()), SIZE: pa.array(sizes.values(), pa.int64())}))
    return chunks.join(F.broadcast(known), OF), F.shiftleft(SIZE, SIZE_SHIFT), F.shiftleft(FILE_SIZE, SIZE_SHIFT)


def _sizes(targets: Sequence[Target]) -> dict[str, int] | None:
    """The size of each file by the name Spark calls it; None where asking for them would be a request each."""
    sizes = {}
    for name, file in targets:
        place = local_path(file.data_file.file_path)
        if place is None or not os.path.exists(place):
            return None
        sizes[name] = os.path.getsize(place)
    return sizes


def is_set(position: Column) -> Column:
    from pyspark.sql import functions as F

    place = position.bitwiseAND(F.lit(CHUNK - 1)).cast("int")
    return F.getbit(F.get(F.col(BITS), F.shiftright(place, 6)), place.bitwiseAND(F.lit(63))) == 1


def _by_position(file: FileScan) -> FileScan:
    return replace(file, data_file=without_metrics(file.data_file), deletes=tuple(d for d in file.deletes if d.is_position))


def _deletes(targets: Iterable[Target]) -> dict[tuple[str, str | None], DeleteFile]:
    """Each vector and each delete file once."""
    return {(d.path, d.data_file.referenced_data_file): d for _, file in targets for d in file.deletes}


def _are_few(targets: Sequence[Target]) -> bool:
    deletes = _deletes(targets)
    return len({path for path, _ in deletes}) <= DRIVER_FILES and sum(d.data_file.record_count for d in deletes.values()) <= DRIVER_POSITIONS


def _bytes(targets: Sequence[Target]) -> int:
    """How much all bitmaps together may take."""
    chunks = (min(sum(d.data_file.record_count for d in file.deletes), ceil(file.data_file.record_count / CHUNK)) for _, file in targets)
    return sum(chunks) * (CHUNK // 8 + BYTES_BESIDE_BITS)


def _from_driver(spark: SparkSession, deleted: dict[str, BitMap64]) -> DataFrame:
    batches = [batch for name, positions in deleted.items() for batch in chunks_of(name, positions)]
    return spark.createDataFrame(pa.Table.from_batches(batches, CHUNKS) if batches else CHUNKS.empty_table())


def _from_tasks(spark: SparkSession, io: FileIO, targets: Sequence[Target]) -> DataFrame:
    blobs = [pickle.dumps((dict(io.properties), share)) for share in _shares(targets)]
    tasks = spark.createDataFrame(pa.table({ID: pa.array(range(len(blobs)), pa.int32()), TASK: pa.array(blobs, pa.binary())}))
    return tasks.repartitionById(len(blobs), ID).select(TASK).mapInArrow(_read_tasks, CHUNKS_DDL)


def _read_tasks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for blob in batch.column(0).to_pylist():
            properties, share = pickle.loads(blob)
            yield from _read(open_io(properties, share[0][1].data_file.file_path), share)


def _shares(targets: Sequence[Target]) -> list[list[Target]]:
    """Shares for tasks, each vector and each delete file in one of them, with all that it applies to."""
    said: dict[tuple[str, str | None], list[Target]] = defaultdict(list)
    for name, file in targets:
        for delete in file.deletes:
            said[delete.path, delete.data_file.referenced_data_file].append((name, replace(file, deletes=(delete,))))
    heaviest_first = sorted(said.values(), key=lambda one: -one[0][1].deletes[0].data_file.record_count)
    return [[target for one in heaviest_first[at::MOST_TASKS] for target in one] for at in range(min(MOST_TASKS, len(said)))]


def _read(io: FileIO, targets: Sequence[Target]) -> Iterator[pa.RecordBatch]:
    """The bitmaps of a share. Deletes of one file that are in several shares make several bitmaps with one key, of which any may match."""
    for name, positions in _positions(io, targets).items():
        yield from chunks_of(name, positions)


def _positions(io: FileIO, targets: Sequence[Target]) -> dict[str, BitMap64]:
    deleted = DeletedPositions(io)
    deleted.load(file for _, file in targets)
    found: dict[str, BitMap64] = defaultdict(BitMap64)
    for name, file in targets:
        found[name] |= deleted.of(file)
    return found


def chunks_of(name: str, positions: BitMap64) -> Iterator[pa.RecordBatch]:
    """The bitmaps of a file: only of chunks with a deleted row."""
    array = to_array(positions)
    starts = np.flatnonzero(np.diff(array >> CHUNK_BITS, prepend=np.int64(-1)))
    for at in range(0, len(starts), CHUNKS_AT_ONCE):
        end = starts[at + CHUNKS_AT_ONCE] if at + CHUNKS_AT_ONCE < len(starts) else len(array)
        numbers, bits = chunk_bits(array[starts[at] : end])
        lists = pa.ListArray.from_arrays(pa.array(np.arange(0, bits.size + 1, WORDS, dtype=np.int32)), pa.array(bits.reshape(-1)))
        yield pa.RecordBatch.from_arrays([pa.repeat(pa.scalar(name), len(numbers)), pa.array(numbers), lists], schema=CHUNKS)
