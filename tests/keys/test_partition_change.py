"""A key whose record belongs to another partition: moved, kept or refused, and never two rows."""

from __future__ import annotations

import pytest

from lakewright.errors import InvalidOption, PartitionChanged
from lakewright.lake import Lake
from tests.keys.kit import keyed, records, rows

A, B = (1, "eu", 1.0, 10), (2, "eu", 2.0, 10)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_moved(lake: Lake, mode: str, version: int) -> None:
    table = keyed(lake, partition_by=["region"], format_version=version, properties={"write.merge.mode": mode})
    table.upsert(records(lake, A, B))
    before = {row["id"]: row["_row_id"] for row in table.read(metadata=True).collect()} if version == 3 else {}
    table.upsert(records(lake, (1, "us", 1.5, 11), (2, "eu", 2.5, 11)))
    assert rows(table) == [(1, "us", 1.5, 11), (2, "eu", 2.5, 11)]
    assert any("us" in row["partition"] for row in table.files().collect() if row["content"] == "data")
    if version == 3:
        assert {row["id"]: row["_row_id"] for row in table.read(metadata=True).collect()} == before, "a row that moves is the same row"


def test_kept(lake: Lake) -> None:
    table = keyed(lake, partition_by=["truncate(10, at)", "region"], properties={"lakewright.partition-change": "keep"})
    table.upsert(records(lake, A, B))
    table.upsert(records(lake, (1, "us", 1.5, 11), (2, "eu", 2.5, 12)))
    assert rows(table) == [(1, "eu", 1.5, 10), (2, "eu", 2.5, 12)]


def test_refused(lake: Lake) -> None:
    table = keyed(lake, partition_by=["region"], properties={"lakewright.partition-change": "error"})
    table.upsert(records(lake, A, B))
    table.upsert(records(lake, (2, "eu", 2.5, 11)))
    with pytest.raises(PartitionChanged, match="key 1 belongs to another partition"):
        table.upsert(records(lake, (1, "us", 1.5, 11), (2, "eu", 9.0, 12)))
    assert rows(table) == [A, (2, "eu", 2.5, 11)]


def test_a_policy_that_is_none(lake: Lake) -> None:
    with pytest.raises(InvalidOption, match="move, keep, error"):
        keyed(lake, properties={"lakewright.partition-change": "split"})
