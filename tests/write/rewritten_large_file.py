"""Rewrite a file of 1 GB with row groups of 64 MB as one task does. Run as its own process: `python -m tests.write.rewritten_large_file <folder> <case>`.

Prints by how many bytes the process grew at its peak, and how many rows the delta changed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from lakewright.format.data_file import DataFile
from lakewright.options import resolve
from lakewright.plan.delta import ACTION, CLAUSE, COPY_ON_WRITE, DELETE, FILE, MERGE_ON_READ, MOVE, POSITION, ROW_ID, UPDATE, TargetFile, value_column
from lakewright.plan.types import schema_from
from lakewright.plan.write_plan import WritePlan
from lakewright.read.arrow_scan import ArrowFile
from lakewright.read.scan import FileScan
from lakewright.write.arrow_rows import file_schema
from lakewright.write.delta_task import materialise_batches
from tests.write.delta_kit import Kit

SCHEMA = schema_from("id bigint, " + ", ".join(f"n{i} bigint" for i in range(9)) + ", t string")
GROUPS, GROUP_ROWS = 17, 780_000
ROWS = GROUPS * GROUP_ROWS
# Of each case: the action, how many rows, the column they get new values of, whether the old file's bytes are of no use.
CASES = {
    "update a number": (UPDATE, 200_000, "n3", False),
    "update a text": (UPDATE, 200_000, "t", False),
    "delete": (DELETE, 200_000, "", False),
    "delete, file streamed": (DELETE, 200_000, "", True),
    "update 5 million rows": (UPDATE, 5_000_000, "n3", False),
    "delete 5 million rows": (DELETE, 5_000_000, "", False),
    "move 5 million rows": (MOVE, 5_000_000, "n3", False),
}


def make(path: Path) -> None:
    chance, schema = np.random.default_rng(0), file_schema(SCHEMA)
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=False, store_schema=False) as writer:
        for group in range(GROUPS):
            numbers = [pa.array(chance.integers(0, 2**62, GROUP_ROWS)) for _ in range(10)]
            ids = pa.array(np.arange(group * GROUP_ROWS, (group + 1) * GROUP_ROWS))
            columns = [ids, *numbers[:9], numbers[9].cast(pa.string()).cast(schema.field("t").type)]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=GROUP_ROWS)


def delta(action: int, count: int, column: str) -> Iterator[pa.RecordBatch]:
    for at in range(0, count, 65_536):
        positions = np.arange(at, min(at + 65_536, count), dtype=np.int64) * (ROWS // count)
        size = len(positions)
        columns = {FILE: np.zeros(size, np.int32), POSITION: positions, ACTION: np.full(size, action, np.int32), CLAUSE: np.zeros(size, np.int32), ROW_ID: positions}
        arrays = {name: pa.array(values) for name, values in columns.items()}
        if column:
            values = pa.array(positions)
            arrays[value_column(SCHEMA.find_field(column).field_id)] = values.cast(pa.string()) if column == "t" else values
        yield pa.RecordBatch.from_pydict(arrays)


def high_water() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def run(folder: Path, case: str) -> tuple[int, int]:
    action, count, column, streamed = CASES[case]
    path = folder / "old.parquet"
    write = WritePlan("db.t", "run", f"file://{folder}/run", SCHEMA, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "arrow", "none", resolve({}, {}, {}), {}, None)
    kit = Kit(write, mode=MERGE_ON_READ if action == MOVE else COPY_ON_WRITE, version=3)
    # A file of another partition spec is not grafted.
    file = DataFile(f"file://{path}", ROWS, path.stat().st_size, 99 if streamed else 0, first_row_id=0)
    kit.targets = [TargetFile(ArrowFile(FileScan(file, 3, 1), {}))]
    ids = {f.name: f.field_id for f in SCHEMA.fields}
    values = (ids[column],) if column else ()
    fetched = tuple(i for i in ids.values() if i not in values) if action == MOVE else ()
    plan = replace(kit.plan(), values=values, assigned=() if action == MOVE else values, fetched=fetched, inserts=False)
    Path("/proc/self/clear_refs").write_text("5")
    before = high_water()
    message = materialise_batches(plan, delta(action, count, column), 0, 0, 0)
    grown = high_water() - before
    made = sum(f.record_count for f in message.files)
    assert made == {UPDATE: ROWS, DELETE: ROWS - count, MOVE: count}[action], made
    for written in message.files:
        Path(written.file_path.removeprefix("file://")).unlink()
    return grown, sum(message.counts.values())


if __name__ == "__main__":
    print(*run(Path(sys.argv[1]), sys.argv[2]))
