"""Few changed rows are read here and handed to Spark; many, and what only Spark compares, are left to it."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, LongType, NestedField, UUIDType

import lakewright as lw
from lakewright.errors import CorruptFile
from lakewright.format.lineage import ROW_SEQUENCE, ROW_SEQUENCE_NAME
from lakewright.read import few_rows, hand_over
from lakewright.read.hand_over import SETTINGS
from lakewright.read.newer_rows import newer_groups
from lakewright.session import settings
from tests.read.changes_kit import bag, both_ways, left_to_spark
from tests.trips import data_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakewright.lake import Lake

pytestmark = pytest.mark.usefixtures("compiled")

EVERY_TYPE = """
    id bigint NOT NULL, flag boolean, small int, ratio float, amount double, price decimal(9, 2), long_price decimal(38, 10), name string COMMENT 'as told',
    raw binary, day date, at timestamp, local timestamp_ntz, who struct<name: string, ages: array<int>>, tags map<string, struct<n: int>>
"""
ROWS = """
    SELECT id, id % 3 = 0, cast(id AS int), if(id = 4, float('NaN'), cast(id / 4 AS float)), if(id = 5, double('-Infinity'), id / 8), cast(id / 4 AS decimal(9, 2)),
        cast('1234567890123456789.0123456789' AS decimal(38, 10)), if(id = 6, '', concat('näme ', id)), cast(concat('b', id) AS binary), date'1969-12-30' + cast(id AS int),
        timestamp'1969-12-31 23:59:59.123456' + make_dt_interval(id), timestamp_ntz'0001-01-01 00:00:00.000001' + make_dt_interval(id),
        if(id = 7, NULL, named_struct('name', if(id = 8, NULL, 'x'), 'ages', array(1, NULL, cast(id AS int)))), if(id = 9, NULL, map('a', named_struct('n', cast(id AS int)), 'b', NULL))
    FROM range({}, {})
"""
NULLS = "SELECT id" + ", NULL" * 13 + " FROM range(20, 22)"


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return lw.connect(str(tmp_path_factory.mktemp("few") / "lake"), spark=spark, progress="off")


def is_read_here(rows: DataFrame) -> bool:
    plan = str(rows._jdf.queryExecution().optimizedPlan())  # type: ignore[operator]
    return "LocalRelation" in plan or "LogicalRDD" in plan


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.feature("H7")
def test_values_of_every_type_are_those_that_spark_reads(lake: Lake, mode: str) -> None:
    table = lake.create_table(f"every.{mode[:4]}", EVERY_TYPE, key=["id"], properties={f"write.{c}.mode": mode for c in ("delete", "update", "merge")})
    table.append(_named(lake, table, ROWS.format(0, 12)))
    begin = table.append(_named(lake, table, NULLS))
    table.upsert(_named(lake, table, ROWS.format(3, 15)))
    found = table.changes(begin)
    assert is_read_here(found)
    rows = both_ways(table, begin)
    assert sorted(row.id for row in rows) == list(range(3, 15))
    assert found.schema["name"].metadata == {"comment": "as told"}
    assert len(both_ways(table, None)) == 17


def test_values_that_spark_has_no_type_for(lake: Lake) -> None:
    """A UUID is shown as its text, bytes of a fixed length as bytes."""
    table = lake.create_table("few.others", Schema(NestedField(1, "id", LongType()), NestedField(2, "u", UUIDType()), NestedField(3, "f", FixedType(4))), format_version=3)
    rows = "SELECT {0}L AS id, '0b8a7c9e-2f4d-4e6a-9b1c-00000000000{0}' AS u, cast('abc{0}' AS binary) AS f"
    begin = table.append(lake.spark.sql(rows.format(1)))
    table.append(lake.spark.sql(f"{rows.format(2)} UNION ALL SELECT 3L, NULL, NULL").coalesce(1))
    assert is_read_here(table.changes(begin))
    assert sorted(map(tuple, both_ways(table, begin))) == [(2, "0b8a7c9e-2f4d-4e6a-9b1c-000000000002", bytearray(b"abc2")), (3, None, None)]


def _named(lake: Lake, table: Any, sql: str) -> DataFrame:
    return lake.spark.sql(sql).toDF(*(field.name for field in table.schema.fields)).coalesce(1)


def test_columns_by_their_ids(lake: Lake) -> None:
    """Renamed, added with a default, dropped and made anew: older files are read by what their columns are."""
    table = lake.create_table("few.evolved", "id bigint, a string, b string", format_version=3)
    begin = table.append(lake.spark.sql("SELECT 1L AS id, 'a' AS a, 'b' AS b"))
    table.append(lake.spark.sql("SELECT 2L AS id, 'a2' AS a, 'b2' AS b"))
    table.evolve_schema(rename={"a": "c"}, drop=["b"])
    table.evolve_schema(add={"b": "string", "n": "int"}, defaults={"n": 7})
    table.append(lake.spark.sql("SELECT 3L AS id, 'c3' AS c, 'b3' AS b, 8 AS n"))
    assert is_read_here(table.changes(begin))
    assert bag(both_ways(table, begin)) == bag([(2, "a2", None, 7), (3, "c3", "b3", 8)])


def test_deleted_rows_are_left_out_and_filters_hold(lake: Lake) -> None:
    modes = {f"write.{c}.mode": "merge-on-read" for c in ("delete", "update", "merge")}
    table = lake.create_table("few.deleted", "id bigint, v string", key=["id"], properties=modes)
    begin = table.append(lake.spark.range(20).selectExpr("id", "'old' AS v").coalesce(1))
    table.upsert(lake.spark.range(5, 15).selectExpr("id", "'new' AS v"))
    table.delete("id IN (6, 16)")
    table.update({"v": "'newer'"}, where="id = 7")
    assert bag(both_ways(table, begin)) == bag([(n, "newer" if n == 7 else "new") for n in range(5, 15) if n != 6])
    assert [row.id for row in both_ways(table, begin, where="v = 'newer'")] == [7]


def test_row_groups_without_a_change_are_not_read(lake: Lake) -> None:
    """Changed rows of a rewritten file stand in a row group of their own."""
    modes = {f"write.{c}.mode": "copy-on-write" for c in ("delete", "update", "merge")}
    table = lake.create_table("few.apart", "id bigint, v string", key=["id"], properties=modes)
    begin = table.append(lake.spark.range(20_000).selectExpr("id", "sha1(string(id)) AS v").coalesce(1))
    before = set(data_files(table))
    table.upsert(lake.spark.range(100, 200).selectExpr("id", "sha1(string(-id)) AS v"))
    (path,) = set(data_files(table)) - before
    parquet = pq.ParquetFile(path)
    assert parquet.metadata.num_row_groups == 2 and newer_groups(parquet, begin.sequence_number) == [1]
    found = table.changes(begin)
    assert is_read_here(found) and found.count() == 100
    assert len(both_ways(table, begin)) == 100


def test_statistics_that_say_too_little_leave_nothing_out(tmp_path: Path) -> None:
    lineage = pa.field(ROW_SEQUENCE_NAME, pa.int64(), metadata={"PARQUET:field_id": str(ROW_SEQUENCE)})
    for name, column, kept in (("older", [1, 2], []), ("newer", [1, 4], [0]), ("null", [1, None], [0])):
        pq.write_table(pa.table({ROW_SEQUENCE_NAME: column}, schema=pa.schema([lineage])), tmp_path / name)
        assert newer_groups(pq.ParquetFile(tmp_path / name), 3) == kept, name
    pq.write_table(pa.table({ROW_SEQUENCE_NAME: [1, 2]}, schema=pa.schema([lineage])), tmp_path / "untold", write_statistics=False)
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "none")
    assert newer_groups(pq.ParquetFile(tmp_path / "untold"), 3) == [0]
    assert newer_groups(pq.ParquetFile(tmp_path / "none"), 3) == [0]


def test_many_rows_are_left_to_spark(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create_table("few.many", "id bigint", format_version=3)
    begin = table.append(lake.spark.range(10))
    table.append(lake.spark.range(10, 20))
    assert is_read_here(table.changes(begin))
    for name, most in (("MOST", few_rows._Size(9, 1 << 30)), ("MOST", few_rows._Size(1 << 30, 9)), ("MOST_HELD", 9), ("MOST_FILES", 0)):
        with monkeypatch.context() as changed:
            changed.setattr(few_rows, name, most)
            rows = table.changes(begin)
        assert not is_read_here(rows)
        assert sorted(row.id for row in rows.collect()) == list(range(10, 20))


def test_more_than_a_megabyte_goes_to_one_task_for_each_core(lake: Lake) -> None:
    table = lake.create_table("few.megabytes", "id bigint, v string", format_version=3)
    begin = table.append(lake.spark.range(1).selectExpr("id", "'' AS v"))
    table.append(lake.spark.range(60_000).selectExpr("id", "repeat(cast(id AS string), 4) AS v").coalesce(1))
    rows = table.changes(begin)
    assert is_read_here(rows) and rows.rdd.getNumPartitions() == lake.spark.sparkContext.defaultParallelism
    assert rows.selectExpr("sum(id)", "count(DISTINCT v)").first() == (60_000 * 59_999 // 2, 60_000)


@pytest.mark.parametrize("kind", ["encrypted", "with long offsets"])
def test_sessions_that_take_no_plain_file(lake: Lake, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    table = lake.create_table(f"few.{kind[:4]}", "id bigint, v string", format_version=3)
    begin = table.append(lake.spark.range(1).selectExpr("id", "'' AS v"))
    table.append(lake.spark.range(60_000).selectExpr("id", "repeat(cast(id AS string), 4) AS v").coalesce(1))
    monkeypatch.setattr(lake.spark.sparkContext, "_encryption_enabled", kind == "encrypted")
    monkeypatch.setattr(hand_over, "NamedTemporaryFile", None)
    with settings(lake.spark, {hand_over.LONG_OFFSETS: str(kind != "encrypted").lower()}):
        found = table.changes(begin).selectExpr("sum(id)", "count_if(v = repeat(cast(id AS string), 4))").first()
    assert found == (60_000 * 59_999 // 2, 60_000)


def test_the_session_is_as_before_also_where_another_thread_holds_a_setting(lake: Lake) -> None:
    table = lake.create_table("few.settings", "id bigint", format_version=3)
    begin = table.append(lake.spark.range(1))
    table.append(lake.spark.range(1, 3))
    before = {key: lake.spark.conf.get(key) for key in SETTINGS}
    held, done = Event(), Event()

    def hold() -> None:
        with settings(lake.spark, dict.fromkeys(SETTINGS, "77")):
            held.set()
            done.wait(60)

    other = Thread(target=hold)
    other.start()
    assert held.wait(60)
    try:
        assert sorted(row.id for row in table.changes(begin).collect()) == [1, 2]
    finally:
        done.set()
        other.join()
    assert {key: lake.spark.conf.get(key) for key in SETTINGS} == before


def test_a_missing_file_is_named(lake: Lake) -> None:
    table = lake.create_table("few.missing", "id bigint", format_version=3)
    begin = table.append(lake.spark.range(1))
    before = set(data_files(table))
    table.append(lake.spark.range(1, 2).coalesce(1))
    (path,) = set(data_files(table)) - before
    path.unlink()
    with pytest.raises(CorruptFile, match=path.name):
        table.changes(begin)
    with left_to_spark(), pytest.raises(Exception, match=path.name):
        table.changes(begin).collect()
