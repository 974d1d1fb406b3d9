"""upsert, insert, delete_keys and insert_overwrite: one row for each key, and the right one."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
import pytest

from lakewright.errors import DuplicateKey, UnsupportedOperation
from lakewright.lake import Lake
from lakewright.rows import merge_source
from lakewright.session import settings
from lakewright.table import Table
from tests.keys.kit import SCHEMA, keyed, records, rows
from tests.read.changes_kit import left_to_spark

MODES = pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
A, B, C = (1, "eu", 1.0, 10), (2, "us", 2.0, 10), (3, "eu", 3.0, 10)


@pytest.fixture
def table(lake: Lake) -> Table:
    made = keyed(lake)
    made.upsert(records(lake, A, B))
    return made


@pytest.mark.feature("H1", "H2")
@MODES
@pytest.mark.parametrize("version", [2, 3])
def test_rows_are_replaced_and_added(lake: Lake, mode: str, version: int) -> None:
    table = keyed(lake, format_version=version, properties={"write.merge.mode": mode})
    assert table.upsert(records(lake, A, B)).added_rows == 2
    commit = table.upsert(records(lake, (2, "us", 2.5, 11), C))
    assert (commit.added_rows, commit.deleted_rows, commit.summary["lakewright.command"]) == (2, 1, "upsert")
    assert rows(table) == [A, (2, "us", 2.5, 11), C]


@MODES
@pytest.mark.parametrize("bytes_a_record", [0, 90, 1000], ids=["shuffled", "without its values", "whole"])
def test_however_the_batch_gets_to_the_tasks(lake: Lake, monkeypatch: pytest.MonkeyPatch, mode: str, bytes_a_record: int) -> None:
    wide = SCHEMA + ", a string, b string, c string, d string"
    table = keyed(lake, wide, partition_by=["region"], properties={"write.merge.mode": mode})
    table.bulk_insert(records(lake, *((n, "eu" if n % 2 else "us", 1.0, 1, *"wxyz") for n in range(20)), schema=wide))
    batch = [(n, "eu", 2.0, 0 if n == 4 else 2, *"1234") for n in range(0, 24, 2)]
    monkeypatch.setattr(merge_source, "BROADCAST_BYTES", bytes_a_record * len(batch))
    sizes: list[bool] = []
    real = merge_source.MergeSource.is_small
    monkeypatch.setattr(merge_source.MergeSource, "is_small", lambda self, columns=None: sizes.append(real(self, columns)) or sizes[-1])
    commit = table.upsert(records(lake, *batch, schema=wide), delete_when="id = 6", driver_batch_size_bytes=0)
    expected = {n: (n, "eu" if n % 2 else "us", 1.0, 1, *"wxyz") for n in range(20)} | {row[0]: row for row in batch if row[0] != 4}
    del expected[6]
    assert rows(table) == sorted(expected.values(), key=repr)
    assert (commit.added_rows, commit.deleted_rows) == (10, 9) and set(sizes) == {bytes_a_record > 0}


def test_a_keyed_table_has_format_3_and_says_its_key_to_other_engines(lake: Lake) -> None:
    table = keyed(lake)
    assert table.iceberg.metadata.format_version == 3
    assert table.schema.identifier_field_names() == {"id"} and table.schema.find_field("id").required


@pytest.mark.feature("H1")
@MODES
def test_a_late_record_changes_nothing(lake: Lake, mode: str) -> None:
    table = keyed(lake, properties={"write.merge.mode": mode})
    table.upsert(records(lake, A))
    assert table.upsert(records(lake, (1, "us", 9.0, 9))).nothing_written
    table.upsert(records(lake, (1, "us", 9.0, 10)))
    assert rows(table) == [(1, "us", 9.0, 10)], "of two with one ordering value the later wins"


@pytest.mark.feature("H17")
def test_records_of_one_key_are_combined_first(lake: Lake) -> None:
    table = keyed(lake)
    commit = table.upsert(records(lake, (1, "a", 1.0, 5), (1, "b", 2.0, 7), (1, "c", 3.0, 7), (1, "d", 4.0, 6)), shuffle_parallelism=3)
    assert rows(table) == [(1, "c", 3.0, 7)]
    assert (commit.summary["lakewright.records"], commit.summary["lakewright.records-combined"]) == ("4", "3")


@pytest.mark.feature("H17")
def test_a_batch_that_is_to_be_trusted_is_checked(lake: Lake, table: Table) -> None:
    with pytest.raises(DuplicateKey, match="several records of one key"):
        table.upsert(records(lake, C, C), combine_before=False)
    table.upsert(records(lake, C), combine_before=False)
    assert rows(table) == [A, B, C]


def test_without_an_ordering_the_last_to_come_wins(lake: Lake) -> None:
    table = keyed(lake, ordering=())
    table.upsert(records(lake, (1, "a", 1.0, 5), (1, "b", 2.0, 1)))
    table.upsert(records(lake, (1, "c", 3.0, 0)))
    assert rows(table) == [(1, "c", 3.0, 0)]


@MODES
def test_records_may_delete(lake: Lake, mode: str) -> None:
    table = keyed(lake, properties={"write.merge.mode": mode})
    table.upsert(records(lake, A, B, C))
    batch = lake.spark.createDataFrame([(1, "D", 11), (2, "D", 9), (4, "D", 11)], "id bigint, op string, at int")
    table.upsert(batch, delete_when="op = 'D'")
    assert rows(table) == [B, C], "the deletion of 2 is late, that of 4 has no row"
    again = lake.spark.createDataFrame([(2, "us", 1.0, 20, "U"), (2, None, None, 21, "D"), (3, None, None, 20, "D"), (3, "eu", 9.0, 21, "U")], SCHEMA + ", op string")
    table.upsert(again, delete_when=again.op == "D")
    assert rows(table) == [(3, "eu", 9.0, 21)]


@pytest.mark.feature("H2")
def test_insert_refuses_or_leaves_out_keys_that_are_there(lake: Lake, table: Table) -> None:
    with pytest.raises(DuplicateKey, match="id = 2") as error:
        table.insert(records(lake, (2, "us", 0.0, 99), C))
    assert error.value.table == table.name and rows(table) == [A, B]
    assert table.insert(records(lake, (2, "us", 0.0, 99), C), drop_duplicates=True).added_rows == 1
    assert rows(table) == [A, B, C]


def test_append_to_a_keyed_table_is_insert(lake: Lake, table: Table) -> None:
    with pytest.raises(DuplicateKey):
        table.append(records(lake, A))
    table.append(records(lake, C))
    assert rows(table) == [A, B, C]


@pytest.mark.feature("H2")
@MODES
def test_keys_are_deleted(lake: Lake, mode: str) -> None:
    table = keyed(lake, properties={"write.delete.mode": mode, "write.merge.mode": mode})
    table.upsert(records(lake, A, B, C))
    commit = table.delete_keys(lake.spark.createDataFrame([(1, "x"), (1, "y"), (7, "z")], "id bigint, note string"))
    assert (commit.deleted_rows, rows(table)) == (1, [B, C])
    assert table.delete_keys(lake.spark.createDataFrame([(99,)], "id bigint")).nothing_written


@pytest.mark.parametrize("partition_by", [[], ["region"], ["region", "bucket(4, id)"]])
def test_insert_overwrite_replaces_partitions_and_keys_elsewhere(lake: Lake, partition_by: list[str]) -> None:
    table = keyed(lake, partition_by=partition_by)
    table.upsert(records(lake, A, B, C, (4, "asia", 4.0, 10), (5, "asia", 5.0, 10)))
    table.insert_overwrite(records(lake, (9, "eu", 9.0, 1), (4, "eu", 4.5, 1)))
    new = [(4, "eu", 4.5, 1), (9, "eu", 9.0, 1)]
    assert rows(table) == (sorted([B, (5, "asia", 5.0, 10), *new], key=repr) if partition_by else new)


def test_insert_overwrite_where_the_key_has_the_partition(lake: Lake) -> None:
    table = keyed(lake, key=["region", "id"], partition_by=["region"])
    table.upsert(records(lake, A, B, C))
    table.overwrite_partitions(records(lake, (1, "eu", 9.0, 1), (1, "eu", 9.5, 2)))
    assert rows(table) == [(1, "eu", 9.5, 2), B]


def test_overwrite_combines_too(lake: Lake, table: Table) -> None:
    table.overwrite(records(lake, (7, "eu", 1.0, 1), (7, "eu", 2.0, 2)))
    assert rows(table) == [(7, "eu", 2.0, 2)]


def test_lake_write_makes_a_keyed_table(lake: Lake) -> None:
    name = "keys.written"
    lake.write(records(lake, A, (1, "us", 9.0, 11)), name, key="id", ordering=["at"])
    assert rows(lake.table(name)) == [(1, "us", 9.0, 11)]
    with pytest.raises(DuplicateKey):
        lake.write(records(lake, A), name)
    lake.write(records(lake, B, B), name, mode="overwrite")
    assert rows(lake.table(name)) == [B]


def test_a_token_commits_once(lake: Lake, table: Table) -> None:
    first = table.upsert(records(lake, C), token="batch-7")
    assert table.upsert(records(lake, (3, "us", 0.0, 99)), token="batch-7").snapshot_id == first.snapshot_id
    assert rows(table) == [A, B, C]


def test_a_branch_gets_its_own_rows(lake: Lake, table: Table) -> None:
    table.create_branch("audit")
    table.upsert(records(lake, C), branch="audit")
    assert (rows(table), rows(table, ref="audit")) == ([A, B], [A, B, C])


def test_schema_grows_with_the_records(lake: Lake, table: Table) -> None:
    batch = lake.spark.createDataFrame([(1, "eu", 1.5, 11, "late")], SCHEMA + ", note string")
    table.upsert(batch, merge_schema=True)
    assert rows(table) == [(1, "eu", 1.5, 11, "late"), (*B, None)]


@pytest.mark.feature("H15")
@pytest.mark.parametrize(
    ("key", "ordering", "replaced"),
    [
        (["region", "id"], ["at", "fare"], (1, "eu", 7.0, 10)),
        (["region", "date_format(day, 'yyyy-MM')"], "at", (5, "eu", 7.0, 10)),
        ("place.city, id", "place.rank", (1, "eu", 7.0, 10)),
    ],
    ids=["composite", "expression", "nested"],
)
def test_keys_and_orderings_of_every_kind(lake: Lake, key: Any, ordering: Any, replaced: tuple[Any, ...]) -> None:
    schema = "id bigint, region string, fare double, at int, day date, place struct<city string not null, rank int> not null"
    table = keyed(lake, schema, key=key, ordering=ordering)

    def batch(values: tuple[Any, ...], day: str, rank: int) -> Any:
        frame = lake.spark.createDataFrame([(*values, day, rank)], SCHEMA + ", day string, rank int")
        return frame.selectExpr("id", "region", "fare", "at", "date(day) as day", "named_struct('city', coalesce(region, 'x'), 'rank', rank) as place")

    table.upsert(batch((1, "eu", 1.0, 10), "2024-03-01", 1))
    table.upsert(batch(replaced, "2024-03-31", 2))
    table.upsert(batch((1, "us", 8.0, 10), "2024-03-31", 0))
    assert [row[:4] for row in rows(table)] == [replaced, (1, "us", 8.0, 10)] or [row[:4] for row in rows(table)] == [(1, "us", 8.0, 10), replaced]


def test_plain_statements_leave_keys_alone(lake: Lake, table: Table) -> None:
    with pytest.raises(UnsupportedOperation, match="assigns the key"):
        table.update({"id": "id + 1"})
    with pytest.raises(UnsupportedOperation, match="look its key up"):
        table.merge(records(lake, C), on="t.id = s.id + 1").when_not_matched_insert_all().execute()
    with pytest.raises(UnsupportedOperation, match="look its key up"):
        table.merge(records(lake, C), on="t.id = s.id").when_not_matched_insert({"id": "s.id + 1", "at": "s.at"}).execute()
    with pytest.raises(UnsupportedOperation, match="has a key"), table.transaction() as tx:
        tx.append(records(lake, C))
    table.update({"fare": "fare + 1"}, where="id = 1")
    assert rows(table) == [(1, "eu", 2.0, 10), B]


def test_a_merge_that_looks_keys_up_inserts_each_once(lake: Lake, table: Table) -> None:
    merge = table.merge(records(lake, C, B), on="s.`ID` = t.id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute()
    assert rows(table) == [A, B, C]
    with pytest.raises(DuplicateKey, match="several rows of one key: id = 4"):
        table.merge(records(lake, (4, "x", 1.0, 1), (4, "y", 1.0, 1)), on="t.id = s.id").when_not_matched_insert_all().execute()
    assert rows(table) == [A, B, C]


def test_in_sql(lake: Lake, table: Table) -> None:
    lake.sql(f"UPSERT INTO {table.name} VALUES (1, 'us', 1.5D, 11), (3, 'eu', 3.0D, 10)")
    with pytest.raises(DuplicateKey):
        lake.sql(f"INSERT INTO {table.name} VALUES (3, 'eu', 3.0D, 10)")
    assert rows(table) == [(1, "us", 1.5, 11), B, C]
    lake.sql(f"INSERT OVERWRITE {table.name} VALUES (3, 'eu', 3.0D, 10)")
    assert rows(table) == [C]
    name = f"{table.name}_sql"
    lake.sql(f"CREATE TABLE {name} (id bigint, v int) TBLPROPERTIES ('lakewright.key' = 'id')")
    lake.sql(f"UPSERT INTO {name} (id, v) SELECT 1L, 1; UPSERT INTO {name} BY NAME SELECT 2 AS v, 1L AS id")
    assert rows(lake.table(name)) == [(1, 2)] and lake.table(name).schema.identifier_field_names() == {"id"}
    with pytest.raises(UnsupportedOperation, match="has no key"):
        lake.sql(f"CREATE TABLE {name}_plain (id bigint); UPSERT INTO {name}_plain VALUES (1)")


@pytest.mark.feature("H7")
@pytest.mark.parametrize("by_id", ["true", "false"])
def test_what_a_copying_commit_changed_is_read_without_the_rows_it_copied(lake: Lake, by_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Changed rows have a row group of their own, however often there were some before; the others are left out by what the footer says of them."""
    table = keyed(lake, properties={"write.merge.mode": "copy-on-write"})
    table.bulk_insert(lake.spark.range(12_000).selectExpr("id", "concat('region ', id) as region", "rand(3) as fare", "1 as at").coalesce(1))
    for at in (2, 3, 4):
        commit = table.upsert(lake.spark.range(7 * at, 12_000, 1_000).selectExpr("id", "concat('new ', id) as region", f"double({at}) as fare", f"{at} as at"))
        (file,) = [row for row in table.files().collect() if row.content == "data"]
        footer = pq.read_metadata(file.file_path.removeprefix("file://"))
        assert [footer.row_group(group).num_rows for group in range(footer.num_row_groups)] == [11_988, 12]
    with settings(lake.spark, {"spark.sql.parquet.fieldId.read.enabled": by_id}), left_to_spark():
        changed = table.changes(since=commit.parent_id)
        assert sorted((row.id, row.region, row.fare) for row in changed.collect()) == [(i, f"new {i}", 4.0) for i in range(28, 12_000, 1_000)]
        changed.explain()
    pushed = capsys.readouterr().out.split("PushedFilters")[1].splitlines()[0]
    assert "IsNull(_last_updated_sequence_number)" in pushed and "GreaterThan(_last_updated_sequence_number" in pushed
    assert table.read().count() == 12_000
