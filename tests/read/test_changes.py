"""Incremental queries: what is shown of a range of commits, and what is said of one that is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

import lakewright as lw
from lakewright.commit.change import REPLACE, MetadataChange
from lakewright.commit.result import Commit
from lakewright.commit.store import TableState
from lakewright.errors import ColumnNotFound, DuplicateColumn, InvalidOption, RangeNotFound, RefNotFound
from lakewright.format.lineage import ROW_SEQUENCE, ROW_SEQUENCE_NAME
from lakewright.read.change_range import resolve_range
from lakewright.read.changes import changes
from lakewright.read.layout import placeholder
from lakewright.session import settings
from tests.commit.kit import Kit
from tests.read.changes_kit import SMALL, applied, bag, both_ways, left_to_spark, rolled_back
from tests.read.conftest import OtherTable
from tests.read.test_lineage import with_lineage
from tests.trips import data_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakewright.lake import Lake
    from lakewright.table import Table

DAY = date(2024, 5, 1)
COLUMNS = "id bigint not null, region string, fare double"


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with settings(spark, SMALL):
        yield lw.connect(str(tmp_path_factory.mktemp("changes") / "lake"), spark=spark, progress="off")


def rows(lake: Lake, *values: tuple[Any, ...]) -> DataFrame:
    return lake.spark.createDataFrame(list(values), COLUMNS.replace(" not null", "")).coalesce(1)


def made(lake: Lake, name: str, *commits: list[tuple[Any, ...]], **how: Any) -> tuple[Table, list[Commit]]:
    table = lake.create_table(f"nyc.{name}", COLUMNS, **how)
    return table, [table.append(rows(lake, *values), check_nullability=False) for values in commits]


def log(table: Table, *ends: Any, **how: Any) -> list[tuple[Any, ...]]:
    """Ordinal, kind and values of each change."""
    found = table.changes(*ends, log=True, **how).collect()
    return sorted((row["_change_ordinal"], row["_change_type"], *tuple(row)[:-3]) for row in found)


def latest(table: Table, *ends: Any, **how: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, both_ways(table, *(ends or (None,)), **how)))


@pytest.fixture(scope="module", params=[2, 3], ids=["v2", "v3"])
def told(request: pytest.FixtureRequest, lake: Lake) -> tuple[Table, list[Commit]]:
    """Rows are added, changed twice, deleted and added again, in a table with a key."""
    mode = {f"write.{command}.mode": "merge-on-read" for command in ("delete", "update")}
    table, commits = made(lake, f"told{request.param}", [(1, "eu", 1.0), (2, "us", 2.0), (3, "eu", 3.0)], key=["id"], partition_by=["region"], format_version=request.param, properties=mode)
    commits.append(table.update({"fare": "fare + 10"}, "id <= 2"))
    commits.append(table.update({"fare": "fare + 10"}, "id = 2"))
    commits.append(table.delete("id = 3"))
    commits.append(table.append(rows(lake, (3, "us", 33.0), (4, "us", 4.0)), check_nullability=False))
    return table, commits


@pytest.mark.feature("H7")
def test_each_key_is_shown_once_as_it_was_last_changed(told: tuple[Table, list[Commit]]) -> None:
    table, commits = told
    assert latest(table, commits[0], commits[3]) == [(1, "eu", 11.0), (2, "us", 22.0)]
    assert latest(table, commits[1]) == [(2, "us", 22.0), (3, "us", 33.0), (4, "us", 4.0)]
    assert latest(table) == sorted(map(tuple, table.read().collect()))


@pytest.mark.feature("H7")
def test_the_log_tells_every_change(told: tuple[Table, list[Commit]]) -> None:
    table, commits = told
    found = table.changes(commits[0].snapshot_id, commits[4].snapshot_id, log=True)
    assert found.columns == ["id", "region", "fare", "_change_type", "_change_ordinal", "_commit_snapshot_id"]
    assert dict(found.dtypes)["_change_ordinal"] == "int"
    assert {(row["_change_ordinal"], row["_commit_snapshot_id"]) for row in found.collect()} == {(at, commit.snapshot_id) for at, commit in enumerate(commits[1:])}
    assert log(table, commits[0]) == [
        (0, "update_after", 1, "eu", 11.0),
        (0, "update_after", 2, "us", 12.0),
        (0, "update_before", 1, "eu", 1.0),
        (0, "update_before", 2, "us", 2.0),
        (1, "update_after", 2, "us", 22.0),
        (1, "update_before", 2, "us", 12.0),
        (2, "delete", 3, "eu", 3.0),
        (3, "insert", 3, "us", 33.0),
        (3, "insert", 4, "us", 4.0),
    ]


@pytest.mark.feature("H7")
def test_times_and_ids_name_commits(told: tuple[Table, list[Commit]]) -> None:
    table, commits = told
    second = next(s for s in table._state.metadata.snapshots() if s.snapshot_id == commits[1].snapshot_id)
    moment = datetime.fromtimestamp(second.timestamp_ms / 1000, UTC)
    expected = latest(table, commits[1])
    assert latest(table, str(commits[1].snapshot_id)) == expected
    for since in (moment, moment.isoformat(), second.timestamp_ms, str(second.timestamp_ms)):
        found = resolve_range(table._state.metadata, table.name, since, None, time_zone="UTC")
        assert found.begin is not None and found.begin.snapshot_id == second.snapshot_id, since
    assert latest(table, moment) == expected


@pytest.mark.feature("H7")
def test_a_filter_holds_for_every_image(told: tuple[Table, list[Commit]]) -> None:
    table, commits = told
    assert log(table, commits[0], where="fare > 12") == [(1, "update_after", 2, "us", 22.0), (3, "insert", 3, "us", 33.0)]
    assert log(table, commits[0], where="_change_type = 'delete'") == [(2, "delete", 3, "eu", 3.0)]
    assert latest(table, commits[0], where="region = 'us' and fare < 10") == [(4, "us", 4.0)]
    with pytest.raises(ColumnNotFound, match="nowhere"):
        table.changes(commits[0], where="nowhere = 1")


def test_a_filter_leaves_files_out(lake: Lake) -> None:
    table, commits = made(lake, "pruned", [(1, "eu", 1.0)], [(2, "eu", 2.0), (3, "us", 3.0)], [(4, "us", 4.0)], partition_by=["region"], format_version=3)
    for how in ({}, {"log": True}):
        with left_to_spark():
            found = table.changes(commits[0], where="region = 'eu'", **how)
        assert len(found.inputFiles()) == 1 and [row.id for row in found.collect()] == [2]
    changed = table.update({"fare": "fare + 1"}, "id = 3")
    assert log(table, commits[2], where="region = 'eu'") == [] and changed.added_files == 1


@pytest.mark.feature("H7")
def test_a_glob_chooses_files(lake: Lake) -> None:
    table, commits = made(lake, "globbed", [(1, "eu", 1.0)], [(2, "eu", 2.0), (3, "us", 3.0)], partition_by=["region"])
    assert any("region=eu" in str(file) for file in data_files(table))
    for glob in ("*/region=eu/*", "/data/*region=eu*", f"{table.location}/data/*eu*"):
        assert latest(table, commits[0], path_glob=glob) == [(2, "eu", 2.0)], glob
        assert log(table, commits[0], path_glob=glob) == [(0, "insert", 2, "eu", 2.0)], glob
    assert latest(table, commits[0], path_glob="region=eu") == []


@pytest.mark.feature("H19")
def test_an_empty_range_keeps_its_columns(told: tuple[Table, list[Commit]], lake: Lake) -> None:
    table, commits = told
    empty = lake.create_table(f"nyc.empty{table.name[-1]}", COLUMNS)
    plain = [("id", "bigint"), ("region", "string"), ("fare", "double")]
    added = [("_change_type", "string"), ("_change_ordinal", "int"), ("_commit_snapshot_id", "bigint")]
    for found in (table.changes(commits[-1]), table.changes(commits[1], commits[1]), empty.changes()):
        assert found.dtypes == plain and found.collect() == []
    for found in (table.changes(commits[-1], log=True), table.changes(commits[1], commits[1], log=True), empty.changes(log=True)):
        assert found.dtypes == [*plain, *added] and found.collect() == []


@pytest.mark.feature("H7")
def test_a_rollback_is_told_backwards(lake: Lake) -> None:
    for version in (2, 3):
        table, commits = made(lake, f"rolled{version}", [(1, "eu", 1.0), (2, "us", 2.0)], key=["id"], format_version=version)
        commits += [table.update({"fare": "9"}, "id = 1"), table.delete("id = 2")]
        rolled_back(table, commits[0].snapshot_id or 0)
        undone = [(0, "insert", 2, "us", 2.0), (1, "update_after", 1, "eu", 1.0), (1, "update_before", 1, "eu", 9.0)]
        assert log(table, commits[2]) == undone and latest(table, commits[2]) == []
        assert [row["_commit_snapshot_id"] for row in table.changes(commits[2], log=True).orderBy("_change_ordinal").collect()][:2] == [commits[2].snapshot_id, commits[1].snapshot_id]
        assert log(table, commits[0]) == []
        table.append(rows(lake, (5, "eu", 5.0)), check_nullability=False)
        assert log(table, commits[2]) == [*undone, (2, "insert", 5, "eu", 5.0)]
        assert latest(table, commits[2]) == [(5, "eu", 5.0)]
        assert log(table, commits[0], commits[2]) != [] and latest(table, commits[0], commits[1]) == [(1, "eu", 9.0)]


@pytest.mark.feature("H7")
def test_columns_are_those_of_the_end(lake: Lake) -> None:
    for version in (2, 3):
        table, commits = made(lake, f"evolved{version}", [(1, "eu", 1.0), (2, "us", 2.0)], format_version=version, key=["id"])
        commits.append(table.update({"fare": "3"}, "id = 1"))
        table.evolve_schema(add={"note": "string"}, rename={"fare": "price"}, drop=["region"])
        commits.append(table.update({"note": "'n'"}, "id = 1"))
        assert log(table, commits[0]) == [
            (0, "update_after", 1, 3.0, None),
            (0, "update_before", 1, 1.0, None),
            (1, "update_after", 1, 3.0, "n"),
            (1, "update_before", 1, 3.0, None),
        ]
        assert table.changes(commits[0], commits[1]).columns == ["id", "region", "fare"]
        assert latest(table, commits[0]) == [(1, 3.0, "n")]
        table.evolve_schema(drop=["note"])
        assert [change[0] for change in log(table, commits[0])] == [0, 0]


def test_a_default_is_there_for_older_rows(lake: Lake) -> None:
    table, commits = made(lake, "defaults", [(1, "eu", 1.0), (2, "eu", 2.0)], format_version=3)
    table.evolve_schema(add={"kind": "string"}, defaults={"kind": "plain"})
    table.delete("id = 1")
    assert log(table, commits[0]) == [(0, "delete", 1, "eu", 1.0, "plain")]


def test_keys_inside_structs_and_columns_of_every_kind(lake: Lake) -> None:
    for version in (2, 3):
        table = lake.create_table(f"nyc.nested{version}", "who struct<id: bigint not null, n: string> not null, tags map<string, int>, l array<struct<a: int>>", format_version=version)
        table.evolve_schema(key=["who.id"])
        value = "select named_struct('id', {id}L, 'n', '{n}') as who, map('a', 1, 'b', {b}) as tags, array(named_struct('a', 1)) as l"
        frame = lake.spark.sql(" union all ".join(value.format(id=i, n="x", b=2) for i in (1, 2)))
        first = table.append(frame.coalesce(1), check_nullability=False)
        table.overwrite(lake.spark.sql(f"{value.format(id=1, n='y', b=2)} union all {value.format(id=2, n='x', b=2)}").coalesce(1), check_nullability=False)
        found = table.changes(first, log=True).orderBy("_change_type").collect()
        assert [(row["_change_type"], row.who.id, row.who.n, row.tags) for row in found] == [
            ("update_after", 1, "y", {"a": 1, "b": 2}),
            ("update_before", 1, "x", {"a": 1, "b": 2}),
        ]


def test_an_update_to_the_same_values_is_no_change(lake: Lake) -> None:
    for version, mode in ((2, "copy-on-write"), (3, "copy-on-write"), (3, "merge-on-read")):
        table, commits = made(lake, f"same{version}{mode[0]}", [(1, "eu", 1.0), (2, "eu", 2.0)], format_version=version, properties={"write.update.mode": mode})
        table.update({"fare": "fare"}, "id = 1")
        assert log(table, commits[0]) == []


def test_rows_without_a_key_are_counted(lake: Lake) -> None:
    """In format 2 equal rows cannot be told apart; in format 3 each has an id."""
    for version in (2, 3):
        table, commits = made(lake, f"bag{version}", [(1, "eu", 1.0)] * 3, format_version=version)
        commits.append(table.overwrite(rows(lake, (1, "eu", 1.0), (1, "eu", 1.0), (1, "eu", 5.0)), check_nullability=False))
        found = log(table, commits[0])
        if version == 2:
            assert found == [(0, "delete", 1, "eu", 1.0), (0, "insert", 1, "eu", 5.0)] and latest(table, commits[0]) == [(1, "eu", 5.0)]
        else:
            assert [change[1] for change in found] == ["delete"] * 3 + ["insert"] * 3 and len(latest(table, commits[0])) == 3


def test_a_range_over_an_upgrade(lake: Lake) -> None:
    """Rows get ids with the first commit of format 3; before it they are compared by value."""
    for key in ([], ["id"]):
        table, commits = made(lake, f"upgraded{len(key)}", [(1, "eu", 1.0), (2, "us", 2.0), (3, "us", 3.0)], format_version=2, key=key)
        commits.append(table.update({"fare": "5"}, "id = 1"))
        table.upgrade(3)
        commits += [table.update({"fare": "6"}, "id = 2"), table.update({"fare": "7"}, "id = 2"), table.delete("id = 3")]
        for since in commits[:1]:
            old = bag(table.read(snapshot_id=since).collect())
            assert applied(table.changes(since, log=True).collect(), old) == bag(table.read().collect())
        assert latest(table, commits[0]) == [(1, "eu", 5.0), (2, "us", 7.0)]
        assert latest(table, commits[1]) == [(2, "us", 7.0)]


def test_changes_of_a_branch(lake: Lake) -> None:
    table, commits = made(lake, "branched", [(1, "eu", 1.0)], format_version=3)
    table.create_branch("audit")
    branch = table.append(rows(lake, (2, "eu", 2.0)), branch="audit", check_nullability=False)
    assert latest(table, commits[0]) == [] and latest(table, commits[0], ref="audit") == [(2, "eu", 2.0)]
    on_main = table.append(rows(lake, (3, "eu", 3.0)), check_nullability=False)
    assert log(table, branch, on_main) == [(0, "delete", 2, "eu", 2.0), (1, "insert", 3, "eu", 3.0)]
    assert log(table, on_main, ref="audit") == [(0, "delete", 3, "eu", 3.0), (1, "insert", 2, "eu", 2.0)]
    time = next(s for s in table._state.metadata.snapshots() if s.snapshot_id == branch.snapshot_id).timestamp_ms
    assert latest(table, time - 1, ref="audit") == [(2, "eu", 2.0)]
    with pytest.raises(RefNotFound, match="nothing"):
        table.changes(ref="nothing")


@pytest.mark.feature("H7")
def test_a_range_that_is_not_there(lake: Lake) -> None:
    table, commits = made(lake, "missing", [(1, "eu", 1.0)], [(2, "eu", 2.0)], [(3, "eu", 3.0)])
    table._changed(MetadataChange("expire", lambda metadata: [{"action": "remove-snapshots", "snapshot-ids": [commits[0].snapshot_id]}]))
    earliest = rf"nyc\.missing .*earliest usable commit is snapshot {commits[1].snapshot_id} of 20\d\d-.*Z"
    for asked in ({"since": commits[0]}, {"since": 5}, {"until": commits[0].snapshot_id}, {"since": "2001-01-01"}, {"since": datetime(2001, 1, 1)}, {"until": 10**11}):
        for how in (False, True):
            with pytest.raises(RangeNotFound, match=earliest):
                table.changes(**asked, log=how)
    assert latest(table, commits[1]) == [(3, "eu", 3.0)]
    assert log(table) == [(0, "insert", 1, "eu", 1.0), (0, "insert", 2, "eu", 2.0), (1, "insert", 3, "eu", 3.0)]
    with pytest.raises(RangeNotFound, match="no commit yet"):
        lake.create_table("nyc.nothing", COLUMNS).changes("2024-01-01")


def test_a_range_the_wrong_way_round(told: tuple[Table, list[Commit]]) -> None:
    table, commits = told
    for since, until in ((commits[2], commits[1]), (commits[1].snapshot_id, commits[0]), ("2031-01-01", "2030-01-01")):
        with pytest.raises(InvalidOption, match="later than until"):
            table.changes(since, until)
    with pytest.raises(InvalidOption, match="since is 'soon'"):
        table.changes("soon")
    with pytest.raises(InvalidOption, match="since is True"):
        table.changes(True)


def test_a_column_with_the_name_of_one_of_the_log(lake: Lake) -> None:
    table = lake.create_table("nyc.clash", "id bigint, _change_type string")
    table.append(lake.spark.sql("select 1L as id, 'x' as _change_type"))
    assert latest(table) == [(1, "x")]
    with pytest.raises(DuplicateColumn, match="_change_type"):
        table.changes(log=True)


@pytest.mark.parametrize("version", [2, 3])
def test_rewritten_files_show_no_changes(spark: SparkSession, tmp_path: Path, version: int) -> None:
    """Files of a rewrite hold the lineage of their rows in format 3, as compaction writes them."""
    kit = Kit(tmp_path / "lake", format_version=version)
    first = kit.append((1, "eu", DAY), (2, "eu", DAY))
    second = kit.append((3, "eu", DAY))
    together = kit.file([(1, "eu", DAY), (2, "eu", DAY), (3, "eu", DAY)])
    if version == 3:
        together = with_lineage(together, _row_id=[0, 1, 2], _last_updated_sequence_number=[1, 1, 2])
    kit.publish(kit.change(REPLACE, removed=frozenset(file.file_path for file in kit.live()), added=[together], read_snapshot_id=second.snapshot_id))
    last = kit.append((4, "us", DAY))
    for since, ids in ((first, [3, 4]), (second, [4]), (last, [])):
        found = changes(spark, kit.state, since=since, log=True).collect()
        assert sorted(row.id for row in found) == ids and all(row["_change_type"] == "insert" for row in found)
        assert sorted(row.id for row in changes(spark, kit.state, since=since).collect()) == ids
        assert [row["_change_ordinal"] for row in sorted(found, key=lambda row: row.id)] == list(range(len(ids)))


@pytest.mark.parametrize("keyed", [False, True])
def test_deletes_of_other_engines(spark: SparkSession, other_table: Callable[..., OtherTable], keyed: bool) -> None:
    """An equality delete with a new row beside it, as streams write upserts; a position delete; and both once more on the same file."""
    schema = Schema(NestedField(1, "id", LongType(), required=keyed), NestedField(2, "name", StringType()), identifier_field_ids=[1] if keyed else [])
    table = other_table(schema)
    arrow = pa.schema([pa.field("id", pa.int64(), nullable=not keyed), ("name", pa.string())])
    table.append(pa.table({"id": [1, 2, 3, 4], "name": ["a", "b", "c", "d"]}, schema=arrow))
    data = table.files()[0].data_file
    ids = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    states = [table.metadata]
    table.commit([table.delete_values("upsert", pa.table({"id": [2]}, schema=ids), [1], data)])
    states.append(table.metadata)
    table.add([{"id": 2, "name": "B"}])
    states.append(table.metadata)
    table.commit([table.delete_positions("gone", [(data.file_path, 0)], data), table.delete_values("again", pa.table({"id": [4]}, schema=ids), [1], data)])
    states.append(table.metadata)
    state = TableState(("db", "t"), "", table.metadata, table.io)
    for at, old in enumerate(states):
        before = bag(changes(spark, TableState(("db", "t"), "", old, table.io)).collect())
        found = changes(spark, state, since=old.head().snapshot_id, log=True).collect()  # type: ignore[union-attr]
        assert applied(found, before) == bag([(2, "B"), (3, "c")]), at
    first = states[0].head()
    assert first is not None
    told = sorted((row["_change_ordinal"], row["_change_type"], row.id) for row in changes(spark, state, since=first.snapshot_id, log=True).collect())
    assert told == [(0, "delete", 2), (1, "insert", 2), (2, "delete", 1), (2, "delete", 4)]
    assert bag(changes(spark, state, since=first.snapshot_id).collect()) == bag([(2, "B")])


def test_files_of_changed_rows_alone_are_not_asked_row_by_row(lake: Lake, spark: SparkSession) -> None:
    """Rows that were written with the files they are in, beside rows that were copied into theirs."""
    table = lake.create_table("a.t", "id bigint, v string", format_version=3, properties={"write.update.mode": "merge-on-read"})
    first = table.append(spark.range(10).selectExpr("id", "'old' AS v").coalesce(1))
    table.update({"v": "'new'"}, where="id IN (1, 3)")
    with left_to_spark():
        moved = table.changes(since=first)
    assert ROW_SEQUENCE_NAME not in asked(moved) and sorted(map(tuple, moved.collect())) == [(1, "new"), (3, "new")]
    table.set_properties({"write.update.mode": "copy-on-write"})
    table.update({"v": "'newer'"}, where="id = 2")
    with left_to_spark():
        both = table.changes(since=first)
    assert ROW_SEQUENCE_NAME in asked(both) and sorted(map(tuple, both.collect())) == [(1, "new"), (2, "newer"), (3, "new")]


def asked(rows: DataFrame) -> str:
    return str(rows._jdf.queryExecution().optimizedPlan()).replace(placeholder(ROW_SEQUENCE), ROW_SEQUENCE_NAME)  # type: ignore[operator]
