"""Position delete files of format 2: Parquet files of (data file, position), sorted."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from lakewright.format.data_file import POSITION_DELETES, DataFile
from lakewright.format.deletion_vector import Positions
from lakewright.format.metrics import split_offsets

FILE_PATH, POSITION = "file_path", "pos"
FILE_PATH_ID, POSITION_ID = 2147483546, 2147483545
SCHEMA = pa.schema(
    [
        pa.field(FILE_PATH, pa.dictionary(pa.int32(), pa.string()), nullable=False, metadata={"PARQUET:field_id": str(FILE_PATH_ID)}),
        pa.field(POSITION, pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(POSITION_ID)}),
    ]
)
ROWS_AT_ONCE = 262_144


def write_position_deletes(
    io: FileIO,
    path: str,
    rows: Iterable[tuple[str, Positions]],
    *,
    spec_id: int,
    partition: tuple[Any, ...],
    compression: str = "zstd",
    compression_level: int | None = None,
) -> DataFile:
    """Write one file of deletes: data files as manifests name them, in ascending order, each with its positions, ascending too.

    Paths are kept whole in the bounds, by which readers know a file that is about one data file.
    """
    ranges: list[tuple[str, int, int]] = []
    footers: list[pq.FileMetaData] = []
    codec = "none" if compression == "uncompressed" else compression
    settings: dict[str, Any] = {"compression": codec, "compression_level": compression_level, "store_schema": False, "use_dictionary": [FILE_PATH]}
    with io.new_output(path).create(overwrite=True) as stream:
        with pq.ParquetWriter(stream, SCHEMA, metadata_collector=footers, **settings) as writer:
            for batch in _batches(rows, ranges):
                writer.write_batch(batch, row_group_size=ROWS_AT_ONCE)
        size = int(stream.tell())
    if not ranges:
        raise ValueError(f"No positions were given to write into {path}.")
    return _data_file(path, size, footers[0], ranges, spec_id, partition)


def _batches(rows: Iterable[tuple[str, Positions]], ranges: list[tuple[str, int, int]]) -> Iterator[pa.RecordBatch]:
    """Rows of several data files share a batch; `ranges` receives the least and greatest position of each."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for data_file, positions in rows:
        if not len(positions):
            continue
        if ranges and data_file.encode() <= ranges[-1][0].encode():
            raise ValueError(f"Deletes of {data_file} come after those of {ranges[-1][0]}; they must be given in the order of the paths.")
        if np.any(positions[1:] <= positions[:-1]):
            raise ValueError(f"Deleted positions of {data_file} do not ascend.")
        ranges.append((data_file, int(positions[0]), int(positions[-1])))
        for start in range(0, len(positions), ROWS_AT_ONCE):
            waiting.append(_batch(data_file, positions[start : start + ROWS_AT_ONCE]))
            count += waiting[-1].num_rows
            if count >= ROWS_AT_ONCE:
                yield _joined(waiting)
                waiting, count = [], 0
    if waiting:
        yield _joined(waiting)


def _batch(data_file: str, positions: Positions) -> pa.RecordBatch:
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(positions), np.int32)), pa.array([data_file]))
    return pa.RecordBatch.from_arrays([names, pa.array(positions, pa.int64())], schema=SCHEMA)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches).unify_dictionaries().combine_chunks().to_batches()[0]


def _data_file(path: str, size: int, footer: pq.FileMetaData, ranges: list[tuple[str, int, int]], spec_id: int, partition: tuple[Any, ...]) -> DataFile:
    groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
    columns = (FILE_PATH_ID, POSITION_ID)
    least, greatest = min(low for _, low, _ in ranges), max(high for _, _, high in ranges)
    return DataFile(
        file_path=path,
        record_count=footer.num_rows,
        file_size_in_bytes=size,
        spec_id=spec_id,
        partition=partition,
        content=POSITION_DELETES,
        column_sizes={field: sum(group.column(at).total_compressed_size for group in groups) for at, field in enumerate(columns)},
        value_counts=dict.fromkeys(columns, footer.num_rows),
        null_value_counts=dict.fromkeys(columns, 0),
        lower_bounds={FILE_PATH_ID: ranges[0][0].encode(), POSITION_ID: struct.pack("<q", least)},
        upper_bounds={FILE_PATH_ID: ranges[-1][0].encode(), POSITION_ID: struct.pack("<q", greatest)},
        split_offsets=split_offsets(footer),
        referenced_data_file=ranges[0][0] if len(ranges) == 1 else None,
    )
