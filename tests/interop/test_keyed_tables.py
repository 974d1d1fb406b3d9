"""Keyed tables, after each operation on their keys, in engines that others wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.interop import readers
from tests.interop.canonical import canonical
from tests.interop.lineage import of_duckdb, of_the_runtime, ours
from tests.interop.peer import Peer
from tests.interop.places import Place

SCHEMA = "id bigint, region string, fare double, at int"
BUCKETS = {
    "none": {},
    "fixed": {"lakewright.bucket-mode": "fixed", "lakewright.bucket": "2"},
    "key-dynamic": {"lakewright.bucket-mode": "key-dynamic", "lakewright.bucket.target-rows": "3"},
}


def batch(place: Place, *rows: tuple[Any, ...], schema: str = SCHEMA) -> Any:
    return place.lake.spark.createDataFrame(list(rows), schema).coalesce(1)


def same_everywhere(place: Place, peer: Peer, table: Any) -> list[tuple[Any, ...]]:
    """Our rows, which every other reader has too."""
    rows = table.read().toArrow()
    assert canonical(readers.spark_runtime(peer, place, table)) == canonical(rows)
    assert canonical(readers.duck(table)) == canonical(rows)
    assert canonical(readers.pyiceberg(table)) == canonical(rows)
    return sorted(tuple(row.values()) for row in rows.to_pylist())


@pytest.mark.feature("H1", "H2", "P5")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("buckets", BUCKETS)
def test_every_reader_has_one_row_for_each_key(place_of: Callable[[str], Place], peer: Peer, buckets: str, mode: str, version: int) -> None:
    place = place_of("local")
    properties = {"write.merge.mode": mode, "write.delete.mode": mode, **BUCKETS[buckets]}
    name = f"keyed.{buckets.replace('-', '_')}_{mode.replace('-', '_')}_{version}"
    table = place.lake.create_table(name, SCHEMA, key="id", ordering="at", partition_by=["region"], format_version=version, properties=properties)
    table.upsert(batch(place, (1, "eu", 1.0, 1), (2, "us", 2.0, 1), (3, "eu", 3.0, 1), (1, "eu", 1.5, 2)))
    assert same_everywhere(place, peer, table) == [(1, "eu", 1.5, 2), (2, "us", 2.0, 1), (3, "eu", 3.0, 1)]
    table.upsert(batch(place, (1, "us", 9.0, 3, "U"), (3, None, None, 5, "D"), (2, "us", 0.0, 0, "U"), (4, "asia", 4.0, 1, "U"), schema=SCHEMA + ", op string"), delete_when="op = 'D'")
    assert same_everywhere(place, peer, table) == [(1, "us", 9.0, 3), (2, "us", 2.0, 1), (4, "asia", 4.0, 1)]
    table.delete_keys(batch(place, (2,), schema="id bigint"))
    table.insert(batch(place, (5, "eu", 5.0, 1), (6, "us", 6.0, 1)))
    table.compact()
    assert same_everywhere(place, peer, table) == [(1, "us", 9.0, 3), (4, "asia", 4.0, 1), (5, "eu", 5.0, 1), (6, "us", 6.0, 1)]
    if buckets == "fixed":
        table.set_properties({"lakewright.bucket": 3})
        table.upsert(batch(place, (5, "eu", 5.5, 2)))
        table.compact(compact_old_specs=True)
        assert same_everywhere(place, peer, table)[2] == (5, "eu", 5.5, 2)
        assert {row.spec_id for row in table.files().collect()} == {table.spec.spec_id}


@pytest.mark.feature("H1", "H7")
def test_rows_set_apart_in_a_rewritten_file_are_read_with_their_lineage(place_of: Callable[[str], Place], peer: Peer) -> None:
    """A file as copy-on-write upserts leave it: old rows in one row group, and those that changed last in another."""
    place = place_of("local")
    table = place.lake.create_table("keyed.apart", SCHEMA, key="id", ordering="at", format_version=3, properties={"write.merge.mode": "copy-on-write"})
    table.bulk_insert(place.lake.spark.range(12_000).selectExpr("id", "concat('region ', id) as region", "rand(3) as fare", "1 as at").coalesce(1))
    before = of_the_runtime(peer, place, table)
    for at in (2, 3):
        commit = table.upsert(place.lake.spark.range(7 * at, 12_000, 1_000).selectExpr("id", "'new' as region", "double(id) as fare", f"{at} as at"))
        (file,) = [row.file_path for row in table.files().collect() if row.content == "data"]
        assert pq.read_metadata(file.removeprefix("file://")).num_row_groups == 2
    found = same_everywhere(place, peer, table)
    assert len(found) == 12_000 and sum(row[1] == "new" for row in found) == 24
    after = of_the_runtime(peer, place, table)
    assert after == of_duckdb(table) == ours(table)
    assert {key: row_id for key, (row_id, _) in after.items()} == {key: row_id for key, (row_id, _) in before.items()}
    assert sorted(key for key, (_, last) in after.items() if last == commit.sequence_number) == list(range(21, 12_000, 1_000))
    assert sorted(row.id for row in table.changes(since=commit.parent_id).collect()) == list(range(21, 12_000, 1_000))


@pytest.mark.feature("H1", "H7")
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_new_and_changed_rows_of_a_small_batch_are_read_with_their_lineage(place_of: Callable[[str], Place], peer: Peer, mode: str) -> None:
    """Merging on read they are in one file, in which only rows that were there before say their row id."""
    place = place_of("local")
    table = place.lake.create_table(f"keyed.together_{mode[0]}", SCHEMA, key="id", ordering="at", format_version=3, properties={"write.merge.mode": mode})
    table.upsert(batch(place, *((n, "eu", 1.0, 1) for n in range(4))))
    before = of_the_runtime(peer, place, table)
    commit = table.upsert(batch(place, (1, "us", 2.0, 2), (2, "eu", 0.0, 0), (7, "eu", 7.0, 1), (9, "us", 9.0, 1)))
    assert commit.added_rows == 3 or mode == "copy-on-write"
    assert same_everywhere(place, peer, table) == [(0, "eu", 1.0, 1), (1, "us", 2.0, 2), (2, "eu", 1.0, 1), (3, "eu", 1.0, 1), (7, "eu", 7.0, 1), (9, "us", 9.0, 1)]
    after = of_the_runtime(peer, place, table)
    assert after == of_duckdb(table) == ours(table) and {key: after[key][0] for key in before} == {key: row_id for key, (row_id, _) in before.items()}
    assert sorted(key for key, (_, last) in after.items() if last == commit.sequence_number) == [1, 7, 9]


@pytest.mark.feature("P5")
def test_postponed_rows_are_seen_after_a_compaction(place_of: Callable[[str], Place], peer: Peer) -> None:
    place = place_of("local")
    table = place.lake.create_table("keyed.postponed", SCHEMA, key="id", ordering="at", properties={"lakewright.bucket-mode": "postpone", "lakewright.bucket": "2"})
    table.insert(batch(place, (1, "eu", 1.0, 1)))
    table.upsert(batch(place, (1, "eu", 1.5, 2), (2, "us", 2.0, 1)))
    assert same_everywhere(place, peer, table) == [(1, "eu", 1.0, 1)]
    table.compact()
    assert same_everywhere(place, peer, table) == [(1, "eu", 1.5, 2), (2, "us", 2.0, 1)]
