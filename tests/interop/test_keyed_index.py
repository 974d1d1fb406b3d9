"""Another engine rewrites the files of a keyed table and writes bloom filters: indexes follow, and no result changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.peer import Peer
from tests.interop.places import Place
from tests.keys.index_kit import all_files, candidates, contents, files_with, frame, index_folder, load
from tests.keys.test_index_filters import filters

ROWS = {f"k{n:03}": n for n in range(200)}
ASKED, IS_ASKED = {"k100": -1, "k100 or so": -2}, "k = 'k100'"


@pytest.mark.feature("H3")
def test_upserts_after_the_runtime_rewrote_the_files(place_of: Callable[[str], Place], peer: Peer) -> None:
    place = place_of("local")
    table = place.lake.create_table("suite.rewritten", "k string, v bigint", key=["k"], properties={"lakewright.index": "record"})
    load(table, frame(table, ROWS), by_range=False)
    assert candidates(table, frame(table, ASKED)) == files_with(table, IS_ASKED)
    before = all_files(table)
    peer.sql(f"CALL {place.name}.system.rewrite_data_files(table => 'suite.rewritten', options => map('rewrite-all', 'true', 'max-file-group-size-bytes', '3000'))")
    assert not before & all_files(table)
    assert candidates(table, frame(table, ASKED)) >= files_with(table, IS_ASKED)
    table.upsert(frame(table, {"k007": 70, "new": 1}))
    peer.sql(f"DELETE FROM {place.name}.suite.rewritten WHERE v % 2 = 1")
    peer.sql(f"INSERT INTO {place.name}.suite.rewritten VALUES ('theirs', 5)")
    table.upsert(frame(table, {"k007": 71, "k009": 90, "theirs": 6}))
    expected = {**{k: v for k, v in {**ROWS, "k007": 70}.items() if v % 2 == 0}, "k007": 71, "k009": 90, "theirs": 6}
    assert contents(table) == expected
    assert (index_folder(table) / "pointer.json").exists()


@pytest.mark.feature("H18")
def test_filters_written_by_the_runtime_are_used(place_of: Callable[[str], Place], peer: Peer) -> None:
    place = place_of("local")
    properties: dict[str, Any] = {"write.parquet.bloom-filter-enabled.column.k": "true", "write.parquet.bloom-filter-max-bytes": "1024", "write.distribution-mode": "none"}
    table = place.lake.create_table("suite.filtered", "k string, v bigint", key=["k"], properties=properties, format_version=2)
    for part in range(6):
        rows = ", ".join(f"('{k}', {v})" for k, v in ROWS.items() if v % 6 == part or v in (part, 199 - part))
        peer.sql(f"INSERT INTO {place.name}.suite.filtered SELECT /*+ COALESCE(1) */ * FROM VALUES {rows} AS t(k, v)")
    assert len(all_files(table)) >= 6 and all(filters(path)["k"] for path in all_files(table))
    found = candidates(table, frame(table, ASKED), index="range")
    assert files_with(table, IS_ASKED) <= found and len(found) <= 3
