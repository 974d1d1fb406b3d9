"""Small files: inserts fill the ones that are there, so upserts leave no more of them than they found."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright.lake import Lake
from lakewright.table import Table
from tests.keys.kit import keyed, records, rows


def many(lake: Lake, start: int, end: int) -> Any:
    return lake.spark.range(start, end).selectExpr("id", "if(id % 2 = 0, 'eu', 'us') as region", "double(id) as fare", "1 as at")


def data_files(table: Table) -> list[Any]:
    return [row for row in table.files().collect() if row.content == "data"]


@pytest.mark.feature("H8")
@pytest.mark.parametrize(("mode", "version"), [("copy-on-write", 3), ("merge-on-read", 2)])
def test_upserts_in_a_row_leave_one_small_file_for_each_partition(lake: Lake, mode: str, version: int) -> None:
    table = keyed(lake, partition_by=["region"], format_version=version, properties={"write.merge.mode": mode})
    for start in range(0, 60, 10):
        commit = table.upsert(many(lake, start, start + 15).selectExpr("id", "region", "fare", f"at + {start} as at"))
    assert len(data_files(table)) <= 4 and table.read().count() == 65
    assert commit.added_rows == 15, "rows of files that are filled up are neither added nor deleted"
    assert [row.fare for row in table.read().collect() if row.id == 64] == [64.0]


@pytest.mark.feature("H8")
def test_lineage_of_rows_that_were_there_stays(lake: Lake) -> None:
    table = keyed(lake)
    table.upsert(records(lake, (1, "a", 1.0, 1)))
    before = [(row.id, row._row_id, row._last_updated_sequence_number) for row in table.read(metadata=True).collect()]
    commit = table.upsert(records(lake, (2, "b", 2.0, 1)))
    assert len(data_files(table)) == 1
    after = {row.id: (row.id, row._row_id, row._last_updated_sequence_number) for row in table.read(metadata=True).collect()}
    assert after[1] == before[0] and after[2][2] == commit.sequence_number and after[2][1] not in (None, before[0][1])


@pytest.mark.feature("H8")
def test_files_are_filled_up_to_the_target_size(lake: Lake) -> None:
    table = keyed(lake, properties={"write.target-file-size-bytes": "4000", "lakewright.compact.min-file-size": "3000"})
    for start in range(0, 600, 60):
        table.upsert(many(lake, start, start + 60).coalesce(1))
    sizes = [row.file_size_in_bytes for row in data_files(table)]
    assert len(sizes) > 1 and sum(size < 3000 for size in sizes) <= 1 and max(sizes) < 8000
    assert table.read().count() == 600 and len(rows(table)) == 600
