"""Statements of SQL that make and fill a table at once, and ANALYZE: what is left when they fail, and when two run at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakewright as lw
from lakewright.errors import CatalogUnavailable, WriteFailed
from lakewright.lake import Lake
from tests.faults.strays import strays

BROKEN = "SELECT if(id = 7, raise_error('bad row'), id) AS id FROM range(10)"


def test_a_table_whose_query_fails_is_not_made(lake: Lake) -> None:
    with pytest.raises(WriteFailed, match="bad row"):
        lake.sql(f"CREATE TABLE n.t AS {BROKEN}")
    assert lake.tables() == []
    assert not [p for p in Path(lake.location.removeprefix("file://")).rglob("*") if p.is_file() and "catalog" not in p.name]
    lake.sql("CREATE TABLE n.t AS SELECT 1 AS id")
    assert lake.table("n.t").read().count() == 1


def test_a_replacement_whose_query_fails_leaves_the_table_as_it_was(lake: Lake) -> None:
    lake.sql("CREATE TABLE n.t PARTITIONED BY (id) AS SELECT 1 AS id, 'a' AS word")
    before = lake.table("n.t")._state
    with pytest.raises(WriteFailed, match="bad row"):
        lake.sql(f"CREATE OR REPLACE TABLE n.t AS {BROKEN}")
    table = lake.table("n.t")
    assert table._state.metadata_location == before.metadata_location and strays(table) == []
    assert [tuple(r) for r in table.read().collect()] == [(1, "a")]


def test_a_script_stops_at_the_statement_that_fails(lake: Lake) -> None:
    with pytest.raises(WriteFailed):
        lake.sql(f"CREATE TABLE n.t (id bigint); INSERT INTO n.t VALUES (1); INSERT INTO n.t {BROKEN}; INSERT INTO n.t VALUES (2)")
    assert [r.id for r in lake.table("n.t").read().collect()] == [1]


def test_rows_appended_while_a_table_is_replaced_are_before_it_or_after(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The append comes between the plan of the replacement and its publish: the replacement wins as a whole, on a line of its own."""
    lake.sql("CREATE TABLE n.t AS SELECT 1 AS id")
    other = lw.connect(lake.location.removeprefix("file://"), spark=lake.spark, progress="off")
    from lakewright import transaction

    written = transaction.write_files

    def with_an_append(plan: Any, rows: Any) -> Any:
        monkeypatch.setattr(transaction, "write_files", written)
        other.sql("INSERT INTO n.t VALUES (2)")
        return written(plan, rows)

    monkeypatch.setattr(transaction, "write_files", with_an_append)
    lake.sql("REPLACE TABLE n.t AS SELECT 3 AS id")
    assert [r.id for r in lake.table("n.t").read().collect()] == [3] and strays(lake.table("n.t")) == []
    lake.sql("INSERT INTO n.t VALUES (4)")
    assert sorted(r.id for r in lake.table("n.t").read().collect()) == [3, 4]


def test_statistics_that_were_not_published_are_cleaned_up(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.sql("CREATE TABLE n.t AS SELECT id FROM range(10)")
    table = lake.table("n.t")

    def unreachable(*args: Any, **how: Any) -> Any:
        raise CatalogUnavailable("The catalog did not answer.")

    with monkeypatch.context() as patched:
        patched.setattr(type(lake.store), "swap", unreachable)
        with pytest.raises(CatalogUnavailable):
            lake.sql("ANALYZE TABLE n.t COMPUTE STATISTICS")
    table.remove_orphans(older_than_hours=0)
    assert strays(table) == [] and not table._state.metadata.raw.get("statistics")
    lake.sql("ANALYZE TABLE n.t COMPUTE STATISTICS; ANALYZE TABLE n.t COMPUTE STATISTICS")
    table.refresh()
    assert len(table._state.metadata.raw["statistics"]) == 1
    table.remove_orphans(older_than_hours=0)
    assert strays(table) == [] and Path(table._state.metadata.raw["statistics"][0]["statistics-path"].removeprefix("file://")).exists()
