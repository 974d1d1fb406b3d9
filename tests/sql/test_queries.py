"""SELECT with lake tables anywhere in it, and what of its conditions reaches the choice of files."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lakewright.errors import InvalidOption, RefNotFound, SqlError, TableNotFound, UnsupportedStatement
from tests.sql.conftest import Db


def files_read(db: Db, query: str, args: Any = None, **frames: Any) -> int:
    """How many files of lake tables a query opens."""
    return len(set(db.sql(query, args, **frames).inputFiles()))


@pytest.fixture
def parts(db: Db) -> Db:
    """Ten files of ten rows, one for each value of `part`; `id` runs through all of them."""
    db.sql("CREATE TABLE nyc.p PARTITIONED BY (part) TBLPROPERTIES (VERSION_N) AS SELECT id, cast(id DIV 10 AS int) AS part, concat('n', id) AS name FROM range(100)")
    return db


def test_tables_anywhere_in_a_query(trips: Db) -> None:
    trips.lake.spark.range(3).createOrReplaceTempView("numbers")
    query = """
        WITH fares AS (SELECT region, sum(fare) AS total FROM nyc.trips GROUP BY region), numbers2 (n) AS (SELECT id FROM numbers)
        SELECT t.id, f.total, (SELECT count(*) FROM nyc.trips) AS n
        FROM nyc.trips AS t JOIN fares f ON f.region = t.region, numbers2
        WHERE t.id = numbers2.n AND t.id IN (SELECT id FROM nyc.trips WHERE fare < 25)
        UNION ALL SELECT max(id), 0, 0 FROM nyc.trips ORDER BY id
    """
    assert trips.rows(query) == [(1, 30.0, 4), (2, 30.0, 4), (4, 0.0, 0)]
    assert trips.rows("SELECT nyc.trips.id FROM nyc.trips WHERE nyc.trips.fare = 30") == [(3,)]
    assert trips.rows("FROM nyc.trips SELECT count(*)") == [(4,)] and len(trips.rows("TABLE nyc.trips")) == 4
    assert trips.rows("SELECT extract(YEAR FROM DATE '2024-01-01') FROM nyc.trips LIMIT 1") == [(2024,)]


def test_what_is_not_of_the_lake_runs_unchanged(db: Db) -> None:
    assert db.rows("SELECT 1 AS a, '{x}' AS b") == [(1, "{x}")]
    db.trips("(1, 'eu', 1.0)")
    assert db.rows("SELECT id, '{id} {{' AS braces FROM nyc.trips") == [(1, "{id} {{")]
    db.sql("SET spark.lakewright.test = a")
    assert db.lake.spark.conf.get("spark.lakewright.test") == "a"
    db.lake.spark.conf.unset("spark.lakewright.test")


def test_a_given_frame_is_a_table_and_a_common_table_expression_hides_it(trips: Db) -> None:
    frame = trips.lake.spark.range(5)
    assert trips.rows("SELECT count(*) FROM f", f=frame) == [(5,)]
    assert trips.rows("WITH f AS (SELECT 1) SELECT count(*) FROM f", f=frame) == [(1,)]
    with pytest.raises(InvalidOption, match="DataFrames"):
        trips.sql("SELECT 1", f=5)


def test_time_travel(trips: Db) -> None:
    first = trips.rows("SELECT snapshot_id, committed_at FROM nyc.trips.snapshots")[0]
    time.sleep(0.01)
    trips.sql("ALTER TABLE nyc.trips CREATE TAG before; DELETE FROM nyc.trips WHERE id = 1")
    for version in (f"VERSION AS OF {first[0]}", f"FOR VERSION AS OF '{first[0]}'", "VERSION AS OF 'before'", f"FOR SYSTEM_VERSION AS OF {first[0]}"):
        assert trips.rows(f"SELECT count(*) FROM nyc.trips {version}") == [(4,)], version
    for at in (f"TIMESTAMP AS OF '{first[1]}'", f"FOR SYSTEM_TIME AS OF timestamp '{first[1]}'", "TIMESTAMP AS OF :at"):
        assert trips.rows(f"SELECT count(*) FROM nyc.trips {at} AS t", {"at": first[1]}) == [(4,)], at
    assert trips.rows("SELECT count(*) FROM nyc.trips TIMESTAMP AS OF now()") == [(3,)]
    assert trips.rows("SELECT count(*) FROM nyc.trips.tag_before") == [(4,)]
    with pytest.raises(RefNotFound):
        trips.sql("SELECT * FROM nyc.trips VERSION AS OF 'nothing'")


def test_metadata_tables(trips: Db) -> None:
    trips.sql("DELETE FROM nyc.trips WHERE id = 3")
    assert trips.rows("SELECT operation FROM nyc.trips.snapshots ORDER BY committed_at") == [("append",), ("delete",)]
    assert trips.rows("SELECT count(*) FROM nyc.trips.history WHERE is_current_ancestor") == [(2,)]
    assert trips.rows("SELECT sum(record_count) FROM nyc.trips.files") == [(3,)]
    assert trips.rows("SELECT partition, record_count FROM nyc.trips.partitions ORDER BY 1") == [("region=eu", 2), ("region=null", 1)]
    assert trips.rows("SELECT name FROM nyc.trips.refs") == [("main",)]
    assert trips.rows("SELECT count(*) > 0 FROM nyc.trips.manifests") == [(True,)]
    assert trips.rows("SELECT count(*) FROM nyc.trips.entries WHERE status = 2") == [(1,)]
    assert trips.rows("SELECT state FROM nyc.trips.runs ORDER BY started_at") == [("succeeded",), ("succeeded",)]
    first = trips.rows("SELECT snapshot_id FROM nyc.trips.snapshots")[0][0]
    assert trips.rows(f"SELECT sum(record_count) FROM nyc.trips.files VERSION AS OF {first}") == [(4,)]


@pytest.mark.parametrize(
    ("query", "files"),
    [
        ("SELECT * FROM nyc.p WHERE part = 3", 1),
        ("SELECT * FROM nyc.p WHERE id = 42", 1),
        ("SELECT * FROM nyc.p x WHERE x.id BETWEEN 15 AND 25 AND name <> 'a'", 2),
        ("SELECT * FROM nyc.p WHERE id = :id", 1),
        ("SELECT * FROM nyc.p WHERE nyc.p.part IN (1, 2)", 2),
        ("WITH q AS (SELECT * FROM nyc.p WHERE part = 3) SELECT * FROM q", 1),
        ("SELECT * FROM (SELECT id FROM nyc.p WHERE part = 3) s WHERE id > 0", 1),
        ("SELECT a.id FROM nyc.p a JOIN nyc.p b ON a.id = b.id WHERE a.part = 3 AND b.part = 4", 2),
        ("SELECT id FROM nyc.p WHERE part = 1 UNION ALL SELECT id FROM nyc.p WHERE part = 2", 2),
        ("SELECT * FROM nyc.p WHERE part = 3 OR name = 'x'", 10),
        ("SELECT a.id FROM nyc.p a LEFT JOIN nyc.p b ON a.id = b.id WHERE a.part = 3", 10),
        ("SELECT * FROM nyc.p AS x(part, id, name) WHERE part = 3", 10),
        ("SELECT * FROM nyc.p WHERE id = (SELECT 42)", 10),
    ],
)
def test_conditions_of_a_query_choose_the_files(parts: Db, query: str, files: int) -> None:
    plain = parts.lake.table("nyc.p").read()
    args = {"id": 42} if ":id" in query else None
    assert files_read(parts, query, args) == files
    plain.createOrReplaceTempView("p_plain")
    spark_query = query.replace("nyc.p.part", "part").replace("nyc.p", "p_plain").replace(":id", "42")
    assert sorted(parts.rows(query, args)) == sorted(tuple(r) for r in parts.lake.spark.sql(spark_query).collect())


def test_a_sample_and_a_pivot_are_taken_of_all_rows(parts: Db) -> None:
    assert files_read(parts, "SELECT * FROM nyc.p TABLESAMPLE (5 ROWS) WHERE part = 3") == 10
    assert files_read(parts, "SELECT * FROM (SELECT part, id FROM nyc.p) PIVOT (count(id) FOR part IN (1, 2))") == 10


def test_views_see_new_commits(trips: Db) -> None:
    trips.sql("CREATE TEMPORARY VIEW cheap (number, price) AS SELECT id, fare FROM nyc.trips WHERE fare < :most", {"most": 25})
    trips.sql("CREATE OR REPLACE TEMP VIEW counted AS SELECT count(*) AS n FROM cheap")
    assert trips.rows("SELECT n FROM counted") == [(2,)]
    trips.sql("INSERT INTO nyc.trips VALUES (5, 'eu', 5.0)")
    assert trips.rows("SELECT n FROM counted") == [(3,)] and trips.rows("SELECT max(number) FROM Cheap") == [(5,)]
    trips.sql("MERGE INTO nyc.trips USING cheap ON trips.id = cheap.number WHEN MATCHED THEN DELETE")
    assert trips.rows("SELECT n FROM counted") == [(0,)]
    with pytest.raises(SqlError, match="OR REPLACE"):
        trips.sql("CREATE TEMP VIEW cheap AS SELECT * FROM nyc.trips")
    with pytest.raises(SqlError, match="made of itself"):
        trips.sql("CREATE OR REPLACE TEMP VIEW cheap AS SELECT n, n AS m FROM counted")
    with pytest.raises(UnsupportedStatement, match="TEMPORARY"):
        trips.sql("CREATE VIEW stays AS SELECT * FROM nyc.trips")
    trips.sql("DROP VIEW counted")
    with pytest.raises(TableNotFound):
        trips.sql("SELECT * FROM counted")


def test_tables_of_spark_s_are_written_by_spark(trips: Db, tmp_path: Path) -> None:
    spark = trips.lake.spark
    spark.range(2).write.parquet(f"{tmp_path}/own")
    spark.read.parquet(f"{tmp_path}/own").createOrReplaceTempView("own")
    trips.sql("INSERT INTO own SELECT id FROM nyc.trips WHERE id > 2")
    spark.catalog.refreshTable("own")
    assert sorted(trips.ids("own")) == [0, 1, 3, 4]
    assert trips.rows("DESCRIBE own")[0][:2] == ("id", "bigint")
    assert ("", "own", True) in trips.rows("SHOW TABLES IN default")
    spark.catalog.dropTempView("own")


def test_a_view_of_the_lake_is_described(trips: Db) -> None:
    trips.sql("CREATE TEMP VIEW v AS SELECT id, fare AS price FROM nyc.trips")
    assert trips.rows("DESCRIBE v") == [("id", "bigint", None), ("price", "double", None)]


def test_views_without_lake_tables_are_spark_s(db: Db) -> None:
    db.sql("CREATE OR REPLACE TEMPORARY VIEW ones AS SELECT 1 AS a")
    assert db.lake.spark.sql("SELECT * FROM ones").first()[0] == 1
    db.sql("DROP VIEW ones")
    assert not db.lake.spark.catalog.tableExists("ones")


def test_parameters_are_values_of_their_types(db: Db) -> None:
    given: list[Any] = ["it's; -- 'x' \\ \"y\"", 5, 2**40, 1.5, Decimal("1.20"), True, date(2024, 1, 2), datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), b"\x00'", None, [1, 2]]
    marks = ", ".join("?" * len(given))
    row = db.rows(f"SELECT {marks}", given)[0]
    assert row[:7] == tuple(given[:7]) and row[8:] == (bytearray(b"\x00'"), None, [1, 2]) and row[7].timestamp() == given[7].timestamp()
    assert db.rows("SELECT :a || :b, ':a', \"?\" -- :c ?\n", {"a": "x", "b": "y"}) == [("xy", ":a", "?")]
    with pytest.raises(SqlError, match="no value for :missing"):
        db.sql("SELECT :missing", {"a": 1})
    with pytest.raises(InvalidOption, match="2 values were given"):
        db.sql("SELECT ?", [1, 2])


def test_a_script_runs_in_order_and_gives_the_last_rows(db: Db) -> None:
    rows = db.rows("CREATE TABLE nyc.s (a string) TBLPROPERTIES (VERSION_N); INSERT INTO nyc.s VALUES ('x;y'), ('--'); -- done;\nSELECT a FROM nyc.s ORDER BY a;")
    assert rows == [("--",), ("x;y",)]
    with pytest.raises(SqlError):
        db.sql("DELETE FROM nyc.s; DELETE FRM nyc.s")
    assert len(db.ids("nyc.s", "a")) == 2


def test_explain_tells_our_plan_before_spark_s(parts: Db) -> None:
    def plan(text: str) -> str:
        return str(parts.rows(f"EXPLAIN {text}")[0][0])

    read = plan("SELECT * FROM nyc.p WHERE part = 3")
    assert "Read nyc.p: 1 of 10 files, pruned by (part = 3)" in read and read.index("== Lakewright Plan ==") < read.index("== Physical Plan ==")
    assert "== Analyzed Logical Plan ==" in plan("EXTENDED SELECT * FROM nyc.p")
    insert = plan("INSERT INTO nyc.p SELECT * FROM nyc.p WHERE part = 1")
    assert "Insert into nyc.p, branch main: append" in insert and "distribution: hash" in insert and "1 of 10 files" in insert
    delete = plan("DELETE FROM nyc.p WHERE part = 1 OR id = 95")
    assert "Delete of nyc.p, branch main: copy-on-write, serializable" in delete and "1 dropped whole by their metadata, 1 of 10 read" in delete
    assert "3 of 10 read" in plan("UPDATE nyc.p SET name = 'x' WHERE part < 3")
    merge = plan("MERGE INTO nyc.p t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert "Merge of nyc.p" in merge and "1 of 10 read" in merge and "== Physical Plan ==" in merge
    assert parts.rows("SELECT count(*) FROM nyc.p.snapshots") == [(1,)]
    with pytest.raises(UnsupportedStatement):
        parts.sql("EXPLAIN DROP TABLE nyc.p")


@pytest.mark.parametrize("name", ["select", "odd name", "Ünïcödé", "semi;colon", "quote'd", "back`tick"])
def test_odd_names(db: Db, name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    db.sql(f"CREATE TABLE nyc.{quoted} (id bigint, {quoted} string) TBLPROPERTIES (VERSION_N)")
    db.sql(f"INSERT INTO nyc.{quoted} VALUES (1, 'a'), (2, 'b')")
    db.sql(f"UPDATE nyc.{quoted} SET {quoted} = 'c' WHERE nyc.{quoted}.{quoted} = 'b'")
    db.sql(f"DELETE FROM nyc.{quoted} AS {quoted} WHERE {quoted}.{quoted} = 'a'")
    assert db.rows(f"SELECT {quoted}, {quoted}.{quoted} FROM nyc.{quoted} WHERE {quoted} IS NOT NULL") == [("c", "c")]
    assert db.lake.tables() == [f"nyc.{name}"]
    db.sql(f"DROP TABLE nyc.{quoted}")


def test_a_name_with_a_dot_inside_is_refused(db: Db) -> None:
    with pytest.raises(SqlError, match="no dots"):
        db.sql("CREATE TABLE nyc.`a.b` (id int)")
    with pytest.raises(TableNotFound):
        db.sql("SELECT * FROM nyc.`a.b`")
