"""Bucket modes: where rows lie, and that it changes nothing about which rows there are."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright.errors import InvalidOption
from lakewright.lake import Lake
from lakewright.table import Table
from tests.keys.kit import SCHEMA, keyed, records, rows

A, B, C = (1, "eu", 1.0, 10), (2, "us", 2.0, 10), (3, "eu", 3.0, 10)


def in_mode(lake: Lake, mode: str, **how: Any) -> Table:
    properties = {"lakewright.bucket-mode": mode, **how.pop("properties", {})}
    return keyed(lake, properties=properties, **how)


def many(lake: Lake, start: int, end: int) -> Any:
    return lake.spark.range(start, end).selectExpr("id", "'eu' as region", "double(id) as fare", "1 as at")


@pytest.mark.feature("P5")
def test_fixed_buckets_are_partitions_by_the_hash_of_the_key(lake: Lake) -> None:
    table = in_mode(lake, "fixed", properties={"lakewright.bucket": "4"})
    assert [str(f.transform) for f in table.spec.fields] == ["bucket[4]"]
    commit = table.upsert(many(lake, 0, 100))
    assert commit.added_files == 4, "one writer for each bucket"
    table.upsert(records(lake, (7, "us", 0.0, 2)))
    assert table.read().count() == 100 and rows(table, where="id = 7") == [(7, "us", 0.0, 2)]


@pytest.mark.feature("P5")
def test_fixed_buckets_are_rescaled(lake: Lake) -> None:
    table = in_mode(lake, "fixed", properties={"lakewright.bucket": "4"})
    table.upsert(many(lake, 0, 50))
    before = rows(table)
    table.set_properties({"lakewright.bucket": 16})
    assert [str(f.transform) for f in table.spec.fields] == ["bucket[16]"] and rows(table) == before
    table.upsert(records(lake, (7, "us", 0.0, 2), (70, "us", 0.0, 2)))
    assert len(rows(table)) == 51 and rows(table, where="id = 7") == [(7, "us", 0.0, 2)]


@pytest.mark.feature("P5")
def test_unaware_tables_take_rows_as_they_come(lake: Lake) -> None:
    spread = many(lake, 0, 40).repartition(2)
    plain = lake.create_table("keys.unaware", SCHEMA, partition_by=["truncate(20, id)"], properties={"lakewright.bucket-mode": "unaware"})
    assert plain.append(spread).added_files == 4, "both tasks write both partitions"
    assert plain.append(spread, distribution_mode="hash").added_files == 2


def live_rows(table: Table) -> list[int]:
    return sorted(row.record_count for row in table.files().collect() if row.content == "data")


@pytest.mark.feature("P5")
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_dynamic_buckets_are_filled_before_others_are_begun(lake: Lake, mode: str) -> None:
    table = in_mode(lake, "dynamic", properties={"lakewright.bucket.target-rows": "100", "write.merge.mode": mode})
    table.upsert(many(lake, 0, 250))
    assert len(live_rows(table)) == 3 and max(live_rows(table)) <= 100
    before = len(live_rows(table))
    table.upsert(many(lake, 250, 260))
    assert len(live_rows(table)) == before and sum(live_rows(table)) == 260
    table.upsert(many(lake, 260, 400))
    assert (len(live_rows(table)), sum(live_rows(table))) == (4, 400) and max(live_rows(table)) <= 100
    table.upsert(many(lake, 100, 105).selectExpr("id", "region", "fare", "at + 1 as at"))
    assert table.read().count() == 400 and table.read("at = 2").count() == 5


@pytest.mark.feature("P5")
def test_key_dynamic_finds_keys_in_every_partition(lake: Lake) -> None:
    table = in_mode(lake, "key-dynamic", partition_by=["region"], properties={"lakewright.bucket.target-rows": "100"})
    table.bulk_insert(records(lake, A, B, C))
    table.upsert(records(lake, (1, "us", 1.5, 11), (4, "asia", 4.0, 1)))
    assert rows(table) == [(1, "us", 1.5, 11), B, C, (4, "asia", 4.0, 1)]


@pytest.mark.parametrize(
    ("mode", "how", "told"),
    [
        ("fixed", {}, "does not say how many"),
        ("fixed", {"key": ["concat(region, id)"], "properties": {"lakewright.bucket": "4"}}, "no column to hash"),
        ("dynamic", {"partition_by": ["region"]}, "use key-dynamic"),
        ("key-dynamic", {"partition_by": ["bucket(2, id)"]}, "use dynamic"),
        ("unaware", {}, "has a key"),
        ("striped", {}, "one of none, fixed"),
        ("postpone", {"properties": {"lakewright.bucket": "0"}}, "above 0"),
    ],
)
def test_modes_that_do_not_fit(lake: Lake, mode: str, how: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidOption, match=told):
        in_mode(lake, mode, **how)


@pytest.mark.parametrize("mode", ["fixed", "dynamic", "key-dynamic", "postpone"])
def test_buckets_by_key_need_a_key(lake: Lake, mode: str) -> None:
    with pytest.raises(InvalidOption, match="key"):
        lake.create_table("keys.none", SCHEMA, properties={"lakewright.bucket-mode": mode, "lakewright.bucket": "4"})
    table = lake.create_table(f"keys.none_{mode.replace('-', '_')}", SCHEMA)
    with pytest.raises(InvalidOption, match="key"):
        table.set_properties({"lakewright.bucket-mode": mode})
