"""Format 3 and row-level changes through each catalog: tables are created, upgraded, changed, and continued by the Iceberg Spark runtime."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from tests.interop import lineage, readers
from tests.interop.canonical import canonical
from tests.interop.peer import Peer
from tests.interop.places import Place
from tests.interop.statements import FLAT_ROWS, MERGE_ON_READ, MIXED, SHORT

Told = Callable[[str], list[dict[int, Any]]]
EVERYWHERE = ("postgres", "rest", "hive", "s3", "s3native")


@pytest.mark.feature("I14", "I25")
@pytest.mark.parametrize("where", EVERYWHERE)
def test_a_table_of_format_3_is_created_changed_and_continued(where: str, place_of: Callable[[str], Place], peer: Peer, told: Told) -> None:
    place = place_of(where)
    table = SHORT.ours(place, "formats.created", 3, MIXED)
    ledger = lineage.Ledger()
    for turn, (statement, expected) in enumerate(zip(SHORT.statements, told(SHORT.name), strict=True)):
        if turn in (4, 5):
            statement.theirs(peer, f"{place.name}.{table.name}")
        else:
            statement.ours(place, table)
        _check(peer, place, table, expected)
        found = lineage.ours(table)
        assert lineage.of_the_runtime(peer, place, table) == found
        ledger.step(expected, found, table.iceberg.metadata.last_sequence_number)


@pytest.mark.feature("I16", "I25")
@pytest.mark.parametrize("where", EVERYWHERE)
def test_a_table_of_format_2_is_upgraded(where: str, place_of: Callable[[str], Place], peer: Peer, told: Told) -> None:
    place = place_of(where)
    table = SHORT.ours(place, "formats.upgraded", 2, MERGE_ON_READ)
    kinds = set()
    for turn, (statement, expected) in enumerate(zip(SHORT.statements, told(SHORT.name), strict=True)):
        if turn == 3:
            table.upgrade(3)
            assert {row_id for row_id, _ in lineage.of_the_runtime(peer, place, table).values()} == {row_id for row_id, _ in lineage.ours(table).values()} == {None}
        statement.ours(place, table)
        _check(peer, place, table, expected)
        if turn >= 3:
            assert lineage.of_the_runtime(peer, place, table) == lineage.ours(table)
        kinds |= {row["file_format"] for row in peer.sql(f"SELECT file_format FROM {place.name}.{table.name}.delete_files").to_pylist()}
    assert kinds == {"PARQUET", "PUFFIN"}


def _check(peer: Peer, place: Place, table: Any, expected: dict[int, Any]) -> None:
    rows = table.read().toArrow()
    assert lineage.by_id(rows) == expected
    assert canonical(readers.spark_runtime(peer, place, table)) == canonical(rows)


@pytest.mark.feature("I13", "I25")
@pytest.mark.parametrize("where", ["local", "postgres", "rest", "hive"])
def test_branches_merged_into_at_once_give_no_row_id_twice(where: str, place_of: Callable[[str], Place], peer: Peer) -> None:
    place = place_of(where)
    table = SHORT.ours(place, "formats.branches", 3, MERGE_ON_READ)
    table.append(place.lake.spark.sql(FLAT_ROWS.format(start=0, end=6)))
    table.create_branch("audit")
    before, start = lineage.ours(table), Barrier(2, timeout=120)

    def merge(branch: str, first: int) -> None:
        own = place.lake.table(table.name)
        for turn in range(3):
            source = place.lake.spark.sql(f"SELECT cast(if(id = 0, {turn}, {first} + id) AS int) AS id FROM range({turn * 3 + 1}) UNION ALL SELECT cast({first * 10 + turn} AS int)")
            start.wait()
            own.merge(source, on="t.id = s.id", branch=branch).when_matched_update({"region": "'m'"}).when_not_matched_insert({"id": "s.id"}).execute()

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(merge, "main", 100), pool.submit(merge, "audit", 100)]:
            done.result()
    main, audit = (_at(table, branch) for branch in ("main", "audit"))
    assert main.keys() == audit.keys()
    assert len(main) == 6 + 6 + 3
    for found in (main, audit):
        assert {key: found[key][0] for key in before} == {key: row_id for key, (row_id, _) in before.items()}
    new = [found[key][0] for found in (main, audit) for key in found.keys() - before.keys()]
    assert len(set(new)) == len(new) == 18
    assert set(new).isdisjoint(row_id for row_id, _ in before.values())
    for branch, found in (("main", main), ("audit", audit)):
        assert lineage.in_rows(peer.sql(f"SELECT {lineage.COLUMNS} FROM {place.name}.{table.name} VERSION AS OF '{branch}'")) == found


def _at(table: Any, branch: str) -> lineage.Lineage:
    return lineage.in_rows(table.read(ref=branch, metadata=True).select(*lineage.COLUMNS.split(", ")).toArrow())
