"""Several changes in one commit."""

# ruff: noqa: PT012 - a transaction raises when its block ends
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakewright.errors import CommitConflict, CommitOutcomeUnknown, UnsupportedOperation, WriteFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakewright.lake import Lake
    from lakewright.table import Table


def rows(spark: SparkSession, *ids: int, **extra: str) -> DataFrame:
    df = spark.createDataFrame([(n,) for n in ids], "id bigint")
    return df.selectExpr("*", *(f"{value} AS {name}" for name, value in extra.items()))


def ids(table: Table, **how: Any) -> list[int]:
    return sorted(row.id for row in table.read(**how).collect())


def stored(table: Table) -> set[Path]:
    root = Path(table.location.removeprefix("file://"))
    return {p for folder in ("data", "metadata") for p in (root / folder).rglob("*") if p.is_file()}


@pytest.fixture
def table(lake: Lake) -> Table:
    return lake.create_table("db.t", "id bigint")


@pytest.mark.feature("D6")
def test_schema_and_rows_are_one_version(spark: SparkSession, table: Table) -> None:
    versions = len(table.iceberg.metadata.metadata_log)
    with table.transaction() as tx:
        tx.evolve_schema(add={"tip": "double"})
        tx.set_properties({"owner": "me"})
        tx.append(rows(spark, 1, tip="1.5D"))
    assert len(table.iceberg.metadata.metadata_log) == versions + 1
    assert [tuple(row) for row in table.read().collect()] == [(1, 1.5)] and table.properties["owner"] == "me"
    assert tx.commit.added_rows == 1


def test_several_writes_are_one_version_of_several_snapshots(spark: SparkSession, table: Table) -> None:
    table.append(rows(spark, 0))
    with table.transaction() as tx:
        tx.overwrite(rows(spark, 1))
        tx.append(rows(spark, 2))
        tx.append(rows(spark, 3))
    assert ids(table) == [1, 2, 3]
    assert [c.operation for c in tx.commits] == ["overwrite", "append", "append"]
    assert ids(table, snapshot_id=tx.commits[1]) == [1, 2]
    assert table.remove_orphans(older_than_hours=-1).files == ()


def test_nothing_is_seen_before_the_end(spark: SparkSession, lake: Lake, table: Table) -> None:
    with table.transaction() as tx:
        tx.append(rows(spark, 1))
        assert ids(lake.table("db.t")) == []
    assert ids(table) == [1]


def test_an_error_drops_all_of_it(spark: SparkSession, table: Table) -> None:
    before = stored(table)
    with pytest.raises(ZeroDivisionError), table.transaction() as tx:
        tx.evolve_schema(add={"tip": "double"})
        tx.append(rows(spark, 1, tip="1.5D"))
        raise ZeroDivisionError
    assert len(table.refresh().schema.fields) == 1 and ids(table) == [] and stored(table) == before
    assert [row.state for row in table.runs().collect()] == ["failed"]


def test_a_failed_write_drops_the_ones_before_it(spark: SparkSession, table: Table) -> None:
    before = stored(table)
    with pytest.raises(WriteFailed, match="boom"), table.transaction() as tx:
        tx.append(rows(spark, 1))
        tx.append(rows(spark, 2).selectExpr("CAST(raise_error('boom') AS bigint) AS id"))
    assert ids(table) == [] and stored(table) == before


def test_an_overwrite_after_another_write_is_refused(spark: SparkSession, table: Table) -> None:
    with pytest.raises(UnsupportedOperation, match="first write"), table.transaction() as tx:
        tx.append(rows(spark, 1))
        tx.overwrite(rows(spark, 2))
    assert ids(table) == []


def test_a_token_seen_before_does_not_take_new_rows_with_it(spark: SparkSession, table: Table) -> None:
    first = table.append(rows(spark, 1), token="a")
    with table.transaction() as tx:
        tx.append(rows(spark, 1), token="a")
        tx.append(rows(spark, 2), token="b")
    assert tx.commits[0] == first and ids(table) == [1, 2]


def test_a_token_committed_meanwhile_leaves_no_files(spark: SparkSession, lake: Lake, table: Table) -> None:
    with table.transaction() as tx:
        tx.append(rows(spark, 1), token="a")
        lake.table("db.t").append(rows(spark, 1), token="a")
    assert ids(table) == [1] and tx.commit.run_id != tx.run_id
    assert table.remove_orphans(older_than_hours=-1).files == ()


def test_transactions_on_one_table_interleave(spark: SparkSession, lake: Lake, table: Table) -> None:
    other = lake.table("db.t")
    with table.transaction() as one:
        one.append(rows(spark, 1))
        with other.transaction() as two:
            two.evolve_partitions(["bucket(4, id)"])
            two.append(rows(spark, 2))
    assert ids(table) == [1, 2]
    assert {f.spec_id for f in table.files().collect()} == {0, 1}


def test_two_that_merge_different_columns_conflict(spark: SparkSession, lake: Lake, table: Table) -> None:
    with pytest.raises(CommitConflict, match="schema"), table.transaction() as tx:
        tx.append(rows(spark, 1, tip="1.5D"), merge_schema=True)
        lake.table("db.t").append(rows(spark, 2, note="'x'"), merge_schema=True)
    assert [f.name for f in table.refresh().schema.fields] == ["id", "note"] and ids(table) == [2]


def test_a_record_that_cannot_be_written_after_the_commit_is_no_failure(spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **how: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lakewright.commit.runs.Run.finish", full)
    assert table.append(rows(spark, 1)).added_rows == 1
    assert ids(table) == [1]


def test_an_unknown_outcome_keeps_the_files_and_the_record(spark: SparkSession, lake: Lake, table: Table) -> None:
    from tests.commit.stores import Swaps

    def interrupted(swap: Any, call: int) -> None:
        swap()
        raise KeyboardInterrupt

    with Swaps(lake.store, interrupted), pytest.raises(CommitOutcomeUnknown, match="same token"):
        table.append(rows(spark, 1), token="a")
    assert ids(table) == [1]
    assert [row.state for row in table.runs().collect()] == ["running"]
    assert table.append(rows(spark, 1), token="a").added_rows == 1 and ids(table) == [1]
