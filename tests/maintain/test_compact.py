"""compact() as a user types it: rows and lineage stay, files and deletes become few, on both format versions."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from lakewright.cli.main import app
from lakewright.commit.change import SnapshotChange
from lakewright.commit.publish import publish
from lakewright.errors import ColumnNotFound, CorruptFile, InvalidOption, RefNotFound, UnknownOption
from lakewright.format.data_file import EQUALITY_DELETES, DataFile
from lakewright.maintain import compact as compacting
from lakewright.options import resolve
from lakewright.read.scan import FileScan, plan_scan
from lakewright.write import combine
from tests.faults.strays import strays
from tests.trips import ids

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakewright.lake import Lake
    from lakewright.table import Table

SCHEMA = "id bigint, region string, x double, t string"
LINEAGE = "_row_id", "_last_updated_sequence_number"
MERGE_ON_READ = {f"write.{command}.mode": "merge-on-read" for command in ("delete", "update", "merge")}
VERSIONS = pytest.mark.parametrize("version", [2, 3])
_names = itertools.count()


def rows(spark: SparkSession, start: int, count: int = 10) -> DataFrame:
    return spark.range(start, start + count, 1, 1).selectExpr("id", "if(id % 2 = 0, 'eu', 'us') AS region", "double(id) AS x", "concat('t', id) AS t")


def made(lake: Lake, version: int = 3, appends: int = 3, **how: Any) -> Table:
    table = lake.create_table(f"db.t{next(_names)}", SCHEMA, format_version=version, **{"properties": MERGE_ON_READ, **how})
    for number in range(appends):
        table.append(rows(lake.spark, 10 * number), fanout_enabled=True)
    return table


def content(table: Table, **how: Any) -> list[tuple[Any, ...]]:
    """With lineage where the table has it."""
    columns = [f"`{f.name}`" for f in table.schema.fields] + list(LINEAGE if table._state.metadata.format_version >= 3 else ())
    return sorted((tuple(row) for row in table.read(metadata=True, **how).select(*columns).collect()), key=repr)


def files(table: Table) -> tuple[FileScan, ...]:
    state = table.refresh()._state
    return plan_scan(state.io, state.metadata, state.metadata.head(), with_metrics=True).files


@VERSIONS
@pytest.mark.parametrize("partition_by", [[], ["region"]], ids=["whole", "partitioned"])
@pytest.mark.feature("H4", "H8")
def test_small_files_and_deletes_become_one_file_per_partition(lake: Lake, version: int, partition_by: list[str]) -> None:
    table = made(lake, version, partition_by=partition_by)
    table.delete("id % 5 = 1")
    table.update({"t": "'new'"}, where="id % 7 = 0")
    before, old = content(table), files(table)
    commit = table.compact()
    assert content(table) == before and strays(table) == []
    after = files(table)
    assert len(after) == (2 if partition_by else 1) and not any(file.deletes for file in after)
    summary = {key.removeprefix("lakewright.compact."): value for key, value in commit.summary.items() if key.startswith("lakewright.compact.")}
    assert summary == {
        "files-before": str(len(old)),
        "files-after": str(len(after)),
        "bytes-before": str(sum(file.data_file.file_size_in_bytes for file in old)),
        "bytes-after": str(sum(file.data_file.file_size_in_bytes for file in after)),
        "deletes-merged": str(len({(d.path, d.data_file.content_offset) for file in old for d in file.deletes})),
        "bins": str(len(after)),
        "bins-left-out": "0",
        "files-left-out": "0",
    }
    assert commit.operation == "replace" and commit.summary["lakewright.command"] == "compact"
    assert (commit.added_rows, commit.deleted_rows) == (0, 0) and (commit.added_files, commit.removed_files) == (len(after), len(old))
    assert commit.summary["total-delete-files"] == commit.summary["total-position-deletes"] == "0"


@pytest.mark.feature("H4")
def test_nothing_to_do_says_so(lake: Lake) -> None:
    table = made(lake, appends=0)
    assert table.compact().nothing_written and table.compact().snapshot_id is None
    head = table.append(rows(lake.spark, 0)).snapshot_id
    commit = table.compact()
    assert commit.nothing_written and commit.snapshot_id == head and commit.operation == "compact"


@pytest.mark.feature("H4")
def test_in_spark_tasks(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(lake, partition_by=["region", "bucket(3, id)"])
    before = content(table)
    monkeypatch.setattr(combine, "HERE_FILES", 0)
    commit = table.compact()
    assert content(table) == before and commit.added_files == 6 and strays(table) == []


@pytest.mark.feature("H4")
def test_a_task_that_fails_leaves_the_table_as_it_was(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(lake)
    before = content(table)
    path = Path(files(table)[1].data_file.file_path.removeprefix("file://"))
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    monkeypatch.setattr(combine, "HERE_FILES", 0)
    with pytest.raises(CorruptFile, match=path.name):
        table.compact()
    path.write_bytes(whole)
    assert content(table) == before and strays(table) == []


@VERSIONS
@pytest.mark.feature("H4")
def test_an_evolved_schema(lake: Lake, version: int) -> None:
    table = made(lake, version, appends=2)
    table.evolve_schema(rename={"t": "text"}, add={"n": "int"}, drop=["x"])
    table.append(lake.spark.sql("SELECT 100L AS id, 'eu' AS region, 'new' AS text, 7 AS n"))
    table.evolve_schema(promote={"n": "bigint"}, add={"x": "string"})
    before = content(table)
    table.compact()
    [file] = files(table)
    assert content(table) == before and pq.read_schema(file.data_file.file_path.removeprefix("file://")).names[:5] == ["id", "region", "text", "n", "x"]


@VERSIONS
@pytest.mark.feature("H4")
def test_an_evolved_spec(lake: Lake, version: int) -> None:
    table = made(lake, version, partition_by=["region"])
    table.delete("id = 4")
    table.evolve_partitions(add=["bucket(2, id)"])
    table.append(rows(lake.spark, 100), fanout_enabled=True)
    before = content(table)
    table.compact()
    assert content(table) == before and {file.data_file.spec_id for file in files(table)} == {1}
    assert len(table.partitions().collect()) == 4
    table.compact()
    assert content(table) == before and len(files(table)) == 4


@pytest.mark.feature("H4")
def test_the_sort_order_of_the_table(lake: Lake) -> None:
    table = made(lake, sort_by=["x desc", "t"])
    before = content(table)
    table.compact()
    [file] = files(table)
    stored = pq.read_table(file.data_file.file_path.removeprefix("file://")).column("x").to_pylist()
    assert content(table) == before and stored == sorted(stored, reverse=True) and file.data_file.sort_order_id == table.sort_order.order_id


@VERSIONS
@pytest.mark.feature("H4")
def test_equality_deletes_are_applied_and_go(lake: Lake, version: int) -> None:
    """As other engines write them; those of one partition stay for the other's files."""
    table = made(lake, version, partition_by=["region"])
    eu = next(file.data_file for file in files(table) if file.data_file.partition == ("eu",))
    path = f"{table.location}/data/equality-{version}.parquet"
    deleted = pa.table({"id": [2, 14]}, schema=pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})]))
    pq.write_table(deleted, path.removeprefix("file://"))
    size = Path(path.removeprefix("file://")).stat().st_size
    delete = DataFile(path, 2, size, eu.spec_id, eu.partition, EQUALITY_DELETES, equality_ids=(1,))
    state = table.refresh()._state
    change = SnapshotChange("delete", table.schema, state.metadata.specs, added=[delete], read_snapshot_id=state.metadata.head().snapshot_id)  # type: ignore[union-attr]
    publish(table._lake.store, state, [change], run_id="x", options=resolve({}, {}, {}))
    before = content(table)
    assert len(before) == 28
    commit = table.compact(where="region = 'us'")
    assert content(table) == before and commit.summary["total-equality-deletes"] == "2"
    commit = table.compact()
    assert content(table) == before and commit.summary["total-equality-deletes"] == "0" and commit.summary["total-delete-files"] == "0"


@pytest.mark.feature("H4")
def test_where_takes_the_files_that_may_match(lake: Lake) -> None:
    table = made(lake, partition_by=["region"])
    table.compact(where="region = 'eu' AND id < 15")
    counts = {file.data_file.partition[0]: 0 for file in files(table)}
    for file in files(table):
        counts[file.data_file.partition[0]] += 1
    assert counts == {"eu": 2, "us": 3}
    with pytest.raises(ColumnNotFound, match="nope"):
        table.compact(where="nope = 1")


def test_options_are_checked_before_anything_is_done(lake: Lake) -> None:
    table = made(lake, appends=1)
    with pytest.raises(InvalidOption, match="compact.delete-ratio"):
        table.compact(compact_delete_ratio=2)
    with pytest.raises(UnknownOption, match="compact"):
        table.compact(compact_nope=1)
    with pytest.raises(RefNotFound, match="nope"):
        table.compact(branch="nope")


@pytest.mark.feature("H4")
def test_of_a_branch_and_by_token(lake: Lake) -> None:
    table = made(lake)
    table.create_branch("audit")
    table.append(rows(lake.spark, 50), branch="audit")
    first = table.compact(branch="audit", token="once", snapshot_properties={"who": "me"})
    assert first.removed_files == 4 and len(files(table)) == 3 and first.summary["who"] == "me"
    assert table.compact(branch="audit", token="once").snapshot_id == first.snapshot_id


@pytest.mark.feature("H8")
def test_large_files_are_split(lake: Lake) -> None:
    table = made(lake, appends=0)
    table.append(rows(lake.spark, 0, 20_000), row_group_limit=2000, engine="arrow")
    before = content(table)
    [file] = files(table)
    table.compact(target_file_size_bytes=file.data_file.file_size_in_bytes // 4)
    assert content(table) == before and 3 <= len(files(table)) <= 5


@VERSIONS
@pytest.mark.feature("H4")
def test_an_upgraded_table_gets_row_ids(lake: Lake, version: int) -> None:
    table = made(lake, 2)
    table.delete("id = 3")
    table.upgrade(3)
    if version == 3:
        table.append(rows(lake.spark, 100))
    before = content(table)
    table.compact()
    after = content(table)
    assert [row[:4] for row in after] == [row[:4] for row in before] and len({row[4] for row in after}) == len(after) and None not in {row[4] for row in after}
    assert version == 2 or after == before


@pytest.mark.feature("H4")
def test_reads_as_of_the_last_compaction(lake: Lake) -> None:
    table = made(lake)
    first = ids(table)
    table.delete("id = 1")
    assert ids(table, optimized=True) == first, "the newest snapshot without delete files"
    table.compact()
    without = ids(table)
    assert ids(table, optimized=True) == without == [i for i in first if i != 1]
    table.delete("id = 2")
    table.evolve_schema(add={"n": "int"})
    assert ids(table, optimized=True) == without and "n" in table.read(optimized=True).columns
    table.delete("id = 3", delete_mode="copy-on-write")
    assert 2 not in ids(table, optimized=True), "it was rewritten without its deletes, so the newest is read"
    copied = made(lake, properties={})
    copied.delete("id = 1")
    assert ids(copied, optimized=True) == ids(copied)


@pytest.mark.feature("H4")
def test_inline_after_so_many_commits(lake: Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    table = made(lake, appends=0, properties={**MERGE_ON_READ, "lakewright.compact.after-commits": "3"})
    for number in range(2):
        table.append(rows(lake.spark, 10 * number))
    commit = table.delete("id = 1")
    assert commit.operation != "replace" and table._state.metadata.head().summary["lakewright.command"] == "compact"  # type: ignore[union-attr]
    assert len(files(table)) == 1 and len(ids(table)) == 19
    table.append(rows(lake.spark, 30))
    table.append(rows(lake.spark, 40))
    assert len(files(table)) == 3
    monkeypatch.setattr(compacting, "compact", lambda *_: 1 / 0)
    commit = table.append(rows(lake.spark, 50))
    assert not commit.nothing_written and len(files(table)) == 4 and "the write is committed" in caplog.text


@pytest.mark.feature("H4")
def test_in_the_background(lake: Lake, spark: SparkSession) -> None:
    table = made(lake)
    before = content(table)
    commit = table.compact_async().result(timeout=60)
    assert commit.operation == "replace" and content(table) == before and len(files(table)) == 1
    assert isinstance(table.compact_async(where="nope = 1").exception(timeout=60), ColumnNotFound)


@VERSIONS
@pytest.mark.feature("H4")
def test_in_sql_under_both_names(lake: Lake, version: int) -> None:
    table = made(lake, version)
    table.delete("id = 1")
    size = sum(file.data_file.file_size_in_bytes for file in files(table))
    answer = lake.sql(f"CALL lakewright.rewrite_data_files(table => '{table.name}', where => 'id < 100')").collect()
    assert [row.asDict() for row in answer] == [
        {"rewritten_data_files_count": 3, "added_data_files_count": 1, "rewritten_bytes_count": size, "failed_data_files_count": 0, "removed_delete_files_count": 1}
    ]
    assert [tuple(row) for row in lake.sql(f"CALL lakewright.compact('{table.name}')").collect()] == [(0, 0, 0, 0, 0)]


@pytest.mark.feature("H4")
def test_on_the_command_line(lake: Lake, spark: SparkSession) -> None:
    table = made(lake)
    for expected in (f"3 files of {table.name} became 1", f"nothing to compact in {table.name}"):
        result = CliRunner().invoke(app, ["compact", table.name, "--lake", lake.location.removeprefix("file://")])
        assert result.exit_code == 0 and expected in result.stdout.replace("\n", " "), result.output
