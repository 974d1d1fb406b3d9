"""Row lineage: which commit last changed a row, also where the row was copied since."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.format.data_file import DataFile
from lakewright.format.lineage import ROW_ID, ROW_ID_NAME, ROW_SEQUENCE, ROW_SEQUENCE_NAME
from lakewright.format.storage import local_path
from lakewright.read.frame import to_dataframe
from lakewright.read.scan import plan_scan
from tests.commit.kit import Kit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = date(2024, 5, 1)


def with_lineage(file: DataFile, **columns: list[int | None]) -> DataFile:
    """The file with row ids and sequence numbers of its own, as copy-on-write leaves it."""
    local = Path(local_path(file.file_path) or "")
    table = pq.read_table(local)
    for name, field_id in ((ROW_ID_NAME, ROW_ID), (ROW_SEQUENCE_NAME, ROW_SEQUENCE)):
        table = table.append_column(pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(field_id)}), pa.array(columns[name], pa.int64()))
    pq.write_table(table, local)
    return replace(file, file_size_in_bytes=local.stat().st_size)


@pytest.mark.feature("I25")
@pytest.mark.parametrize("engine", ["native", "arrow"])
def test_a_copied_row_keeps_its_id_and_its_commit(spark: SparkSession, tmp_path: Path, engine: str) -> None:
    kit = Kit(tmp_path / "lake", format_version=3)
    first = kit.append((1, "eu", DAY), (2, "eu", DAY), (3, "eu", DAY))
    kit.append((4, "eu", DAY))
    old = kit.live()[0]
    copied = with_lineage(kit.file([(1, "eu", DAY), (20, "eu", DAY), (5, "eu", DAY)]), _row_id=[0, 1, None], _last_updated_sequence_number=[1, None, None])
    last = kit.overwrite([old], copied)
    frame = to_dataframe(spark, kit.state.io, kit.metadata, plan_scan(kit.state.io, kit.metadata, kit.metadata.head()), engine=engine, metadata_columns=True)
    shown = frame.where("id <> 4").selectExpr("id", "_row_id", "_last_updated_sequence_number", "_commit_id", "unix_millis(_commit_time)").collect()
    times = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in kit.metadata.snapshots()}
    assert sorted(tuple(row) for row in shown) == [
        (1, 0, 1, first.snapshot_id, times[first.snapshot_id or 0]),
        (5, 4 + 2, 3, last.snapshot_id, times[last.snapshot_id or 0]),
        (20, 1, 3, last.snapshot_id, times[last.snapshot_id or 0]),
    ]
