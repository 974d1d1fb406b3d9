"""How much memory a graft takes, measured in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

PREPARE = """
import io
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
from lakewright.format.graft import GraftWriter
from tests.format.graft_kit import SETTINGS, column

NAMES = [f"c{place}" for place in range(8)]
SCHEMA = pa.schema([column(name, pa.int64(), place) for place, name in enumerate(NAMES, 1)])
chance = np.random.default_rng(1)

def batches(count):
    for _ in range(count):
        yield pa.RecordBatch.from_arrays([pa.array(chance.integers(0, 1 << 20, 50_000)) for _ in NAMES], schema=SCHEMA)

class Nowhere:
    def write(self, data):
        return len(data)
"""
ENCODE = """
empty = io.BytesIO()
pq.write_table(SCHEMA.empty_table(), empty, store_schema=False)
writer = GraftWriter(empty, Nowhere(), keep=None, changed=pa.schema([]), settings=SETTINGS)
assert writer.encode_group(batches(100)) == 5_000_000
size, footer = writer.close()
assert footer.num_row_groups == 1
"""
COPY = """
import tempfile
with tempfile.TemporaryFile() as file:
    with pq.ParquetWriter(file, SCHEMA, compression="none", use_dictionary=False) as writer:
        for _ in range(4):
            writer.write_table(pa.Table.from_batches(batches(10)))
    pa.default_memory_pool().release_unused()
    import tracemalloc
    tracemalloc.start()
    writer = GraftWriter(file, Nowhere(), keep=None, changed=pa.schema([]), settings=SETTINGS)
    for group in range(writer.num_row_groups):
        writer.copy_group(group)
    assert writer.close()[0] > 120_000_000
    print(tracemalloc.get_traced_memory()[1])
"""


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", PREPARE + script], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.feature("I15")
def test_a_row_group_is_encoded_in_a_part_of_the_memory_its_rows_take() -> None:
    peak = int(run(ENCODE + "print(pa.default_memory_pool().max_memory())"))
    assert peak < 160_000_000 < 5_000_000 * 8 * 8


def test_chunks_are_copied_in_pieces() -> None:
    assert int(run(COPY)) < 20_000_000
