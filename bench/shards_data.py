"""Keys and values to be looked up: 64-bit keys in no order, values of 100 bytes that no codec makes smaller."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.places import DATA, made_whole

FILES, VALUE_BYTES, GROUP = 8, 100, 250_000
_ODD = np.uint64(0x9E3779B97F4A7C15)  # times an odd number, modulo 2^64: every key once, and none near its neighbour


def pairs(rows: int) -> list[str]:
    """Paths of `rows` keys and values in 8 Parquet files (10M rows: 1.1 GB)."""
    folder = DATA / f"pairs-{rows}"
    if not folder.exists():
        _make(folder, rows)
    return sorted(str(path) for path in folder.glob("*.parquet"))


def _make(folder: Path, rows: int) -> None:
    with made_whole(folder) as part:
        random = np.random.default_rng(7)
        for n in range(FILES):
            low, high = n * rows // FILES, (n + 1) * rows // FILES
            with pq.ParquetWriter(part / f"part-{n:05d}.parquet", pa.schema({"id": pa.int64(), "payload": pa.binary()}), compression="zstd", use_dictionary=False) as writer:
                for start in range(low, high, GROUP):
                    count = min(GROUP, high - start)
                    keys = (np.arange(start, start + count, dtype=np.uint64) * _ODD).view(np.int64)
                    values = pa.FixedSizeBinaryArray.from_buffers(pa.binary(VALUE_BYTES), count, [None, pa.py_buffer(random.bytes(count * VALUE_BYTES))])
                    writer.write_table(pa.table({"id": keys, "payload": values.cast(pa.binary())}), row_group_size=GROUP)


def keys_of(rows: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The keys of `pairs(rows)`."""
    return (np.arange(rows, dtype=np.uint64) * _ODD).view(np.int64)
