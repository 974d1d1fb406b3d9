"""bulk_insert: no lookup, so only where there are no rows, or on the caller's word; laid out as asked."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lakewright.errors import InvalidOption, StalePlan, UnsupportedOperation
from lakewright.lake import Lake
from tests.keys.kit import keyed, records, rows

A, B = (1, "eu", 1.0, 10), (2, "us", 2.0, 10)


@pytest.mark.feature("H2")
def test_into_a_table_without_rows(lake: Lake) -> None:
    table = keyed(lake)
    table.bulk_insert(records(lake, A, A, B))
    assert rows(table) == [A, B]
    with pytest.raises(UnsupportedOperation, match="it has rows"):
        table.bulk_insert(records(lake, (3, "eu", 3.0, 1)))
    commit = table.bulk_insert(records(lake, A), trust=True)
    assert commit.summary["lakewright.trusted"] == "true" and rows(table) == [A, A, B]
    table.delete()
    table.bulk_insert(records(lake, B))
    assert rows(table) == [B]


def test_into_partitions_without_rows_where_the_key_has_the_partition(lake: Lake) -> None:
    table = keyed(lake, key=["region", "id"], partition_by=["region"])
    table.bulk_insert(records(lake, A))
    table.bulk_insert(records(lake, B))
    with pytest.raises(UnsupportedOperation, match="partitions these rows go into"):
        table.bulk_insert(records(lake, (9, "us", 3.0, 1)))
    other = keyed(lake, partition_by=["region"])
    other.bulk_insert(records(lake, A))
    with pytest.raises(UnsupportedOperation, match="it has rows"):
        other.bulk_insert(records(lake, B))


@pytest.mark.feature("H9", "H22")
def test_rows_are_laid_out_as_asked(lake: Lake) -> None:
    batch = lake.spark.range(200).selectExpr("(id * 7919) % 200 as id", "'eu' as region", "double(id) as fare", "int(id) as at").repartition(4)
    table = keyed(lake)
    table.bulk_insert(batch, by="sort", target_file_size_bytes=1500)
    bounds = sorted((int(row.lower_bounds["id"]), int(row.upper_bounds["id"])) for row in table.files().collect())
    assert len(bounds) > 1 and all(high < low for (_, high), (low, _) in pairwise(bounds)), "files do not overlap"
    hashed = keyed(lake)
    assert hashed.bulk_insert(batch, by="hash", parallelism=3).added_files == 3
    own = keyed(lake)
    assert own.bulk_insert(batch, by=lambda frame: frame.coalesce(1)).added_files == 1
    assert rows(table) == rows(hashed) == rows(own)
    with pytest.raises(InvalidOption, match="by 'size'"):
        keyed(lake).bulk_insert(batch, by="size")


def test_rows_that_came_meanwhile_are_met(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table was without rows when the bulk insert looked, and is not any more when it commits."""
    from lakewright import transaction

    table = keyed(lake)
    other = lake.table(table.name)
    write_files = transaction.write_files

    def late(*given: object) -> object:
        monkeypatch.setattr(transaction, "write_files", write_files)
        other.upsert(records(lake, A))
        return write_files(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(transaction, "write_files", late)
    with pytest.raises((UnsupportedOperation, StalePlan)):
        table.bulk_insert(records(lake, A))
    assert rows(table) == [A]
