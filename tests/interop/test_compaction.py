"""Compacted tables in engines we did not write: the same rows, the same row ids, and histories that go on from there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.interop import lineage, readers
from tests.interop.canonical import canonical
from tests.interop.peer import Peer
from tests.interop.places import Place

SCHEMA = "id bigint, region string, fare double, note string, tags array<string>"
MERGE_ON_READ = {f"write.{command}.mode": "merge-on-read" for command in ("delete", "update", "merge")}
VERSIONS = pytest.mark.parametrize("version", [2, 3])
# Every row group is copied; those too small are joined, as they are here by default.
WAYS = pytest.mark.parametrize("how", [{"compact_min_row_group_size": 0}, {}], ids=["copied", "joined"])


def rows(place: Place, first: int) -> Any:
    columns = ("id", "elt(1 + id % 3, 'eu', 'us', null) AS region", "if(id % 9 = 4, double('NaN'), id / 4) AS fare", "concat('note ', id) AS note", "if(id % 5 = 0, null, array('a', null, string(id))) AS tags")
    return place.lake.spark.range(first, first + 40, 1, 1).selectExpr(*columns)


def agree(peer: Peer, place: Place, table: Any, version: int) -> list[str]:
    """What all readers say the rows are."""
    ours = canonical(table.read().toArrow())
    assert canonical(readers.spark_runtime(peer, place, table)) == ours
    assert canonical(readers.duck(table)) == ours
    if version == 2:
        assert canonical(readers.pyiceberg(table)) == ours
    return ours


def lineages(peer: Peer, place: Place, table: Any, version: int) -> list[lineage.Lineage]:
    if version == 2:
        return []
    found = [lineage.ours(table), lineage.of_the_runtime(peer, place, table), lineage.of_duckdb(table)]
    assert found[0] == found[1] == found[2]
    return found


@pytest.mark.feature("H4")
@VERSIONS
@WAYS
def test_compacted_tables_read_equal(place_of: Callable[[str], Place], peer: Peer, version: int, how: dict[str, Any]) -> None:
    place = place_of("local")
    name = f"compacted.t{version}_{len(how)}"
    table = place.lake.create_table(name, SCHEMA, partition_by=["region"], format_version=version, properties=MERGE_ON_READ)
    for first in (0, 40, 80):
        table.append(rows(place, first), engine="arrow", fanout_enabled=True)
    table.delete("id % 7 = 3")
    table.update({"note": "'changed'"}, where="id between 30 and 50")
    table.evolve_schema(rename={"note": "remark"}, add={"extra": "int"})
    peer.sql(f"DELETE FROM {place.name}.{name} WHERE id % 11 = 5")
    before, known = agree(peer, place, table, version), lineages(peer, place, table, version)
    commit = table.compact(**how)
    assert commit.added_files == 3 and commit.summary["total-delete-files"] == "0"
    assert agree(peer, place, table, version) == before and lineages(peer, place, table, version) == known
    # The runtime goes on from there, and what it leaves is compacted again.
    peer.sql(f"UPDATE {place.name}.{name} SET extra = 7 WHERE id < 12")
    before, known = agree(peer, place, table, version), lineages(peer, place, table, version)
    assert table.compact(**how).operation == "replace"
    assert agree(peer, place, table, version) == before and lineages(peer, place, table, version) == known


@pytest.mark.feature("H4")
@VERSIONS
def test_equality_deletes_of_the_runtime_are_applied(place_of: Callable[[str], Place], peer: Peer, version: int) -> None:
    place = place_of("local")
    name = f"{place.name}.compacted.equality{version}"
    peer.sql(f"CREATE TABLE {name} (id int, region string) USING iceberg PARTITIONED BY (region) TBLPROPERTIES ('format-version' = '{version}')")
    for first in (0, 10):
        peer.sql(f"INSERT INTO {name} SELECT int(id), if(id % 2 = 0, 'eu', 'us') FROM range({first}, {first + 10})")
    peer.equality_delete(name, ["id"], [[2], [14]], {"region": "eu"})
    peer.sql(f"INSERT INTO {name} VALUES (2, 'eu')")
    table = place.lake.table(f"compacted.equality{version}")
    before, known = canonical(table.read().toArrow()), lineage.of_the_runtime(peer, place, table) if version == 3 else None
    assert len(before) == 19
    commit = table.compact()
    assert commit.summary["total-equality-deletes"] == "0" and commit.added_files == 2
    assert agree(peer, place, table, version) == before
    assert known is None or lineage.of_the_runtime(peer, place, table) == known == lineage.ours(table)
