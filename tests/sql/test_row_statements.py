"""INSERT, DELETE, UPDATE, MERGE and TRUNCATE, on both format versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lakewright.errors import (
    DuplicateColumn,
    DuplicateKey,
    NotABranch,
    NullInRequiredColumn,
    RowsOutsideFilter,
    SchemaError,
    SqlError,
    TypeMismatch,
    UnsupportedStatement,
    WriteFailed,
)
from tests.sql.conftest import Db

DYNAMIC = "spark.sql.sources.partitionOverwriteMode"


@contextmanager
def dynamic(spark: Any) -> Iterator[None]:
    before = spark.conf.get(DYNAMIC)
    spark.conf.set(DYNAMIC, "dynamic")
    try:
        yield
    finally:
        spark.conf.set(DYNAMIC, before)


@pytest.mark.feature("H1")
def test_upsert(db: Db) -> None:
    db.sql("CREATE TABLE nyc.keyed (id bigint, v int, at int) TBLPROPERTIES ('lakewright.key' = 'id', 'lakewright.ordering' = 'at', VERSION_N)")
    db.sql("UPSERT INTO nyc.keyed VALUES (1, 10, 1), (2, 20, 1), (1, 11, 2)")
    db.sql("UPSERT INTO nyc.keyed (at, id, v) VALUES (0, 2, 99), (1, 3, 30)")
    db.sql("UPSERT INTO nyc.keyed BY NAME SELECT 5 AS at, 3L AS id, 31 AS v")
    assert db.rows("SELECT id, v FROM nyc.keyed ORDER BY id") == [(1, 11), (2, 20), (3, 31)]
    with pytest.raises(DuplicateKey, match="id = 3"):
        db.sql("INSERT INTO nyc.keyed VALUES (3, 0, 9)")


@pytest.mark.feature("P2")
def test_insert_by_position(db: Db) -> None:
    db.trips()
    db.sql("INSERT INTO nyc.trips VALUES (1, 'eu', 1.5), (2, 'us', 2)")
    db.sql("INSERT INTO TABLE nyc.trips SELECT id, 'xx', NULL FROM range(3, 5)")
    assert sorted(db.rows("SELECT * FROM nyc.trips")) == [(1, "eu", 1.5), (2, "us", 2.0), (3, "xx", None), (4, "xx", None)]
    with pytest.raises(SchemaError, match="not enough"):
        db.sql("INSERT INTO nyc.trips VALUES (1)")
    with pytest.raises(SchemaError, match="too many"):
        db.sql("INSERT INTO nyc.trips VALUES (1, 'eu', 1.0, 4)")


def test_insert_with_a_column_list(db: Db) -> None:
    db.trips()
    db.sql("INSERT INTO nyc.trips (fare, ID) VALUES (7, 1)")
    assert db.rows("SELECT * FROM nyc.trips") == [(1, None, 7.0)]
    with pytest.raises(DuplicateColumn):
        db.sql("INSERT INTO nyc.trips (id, id) VALUES (1, 2)")
    with pytest.raises(SchemaError, match="Did you mean region"):
        db.sql("INSERT INTO nyc.trips (id, regin) VALUES (1, 'eu')")


def test_fields_of_structs_go_by_position_as_columns_do(db: Db) -> None:
    db.sql("CREATE TABLE nyc.n (id int, p struct<x: bigint, y: bigint>, ps array<struct<x: int>>) TBLPROPERTIES (VERSION_N)")
    db.sql("INSERT INTO nyc.n VALUES (1, named_struct('y', 5, 'x', 6), array(named_struct('a', 7)))")
    db.sql("INSERT INTO nyc.n (p, id) VALUES (named_struct('y', 5, 'x', 6), 2)")
    db.sql("INSERT INTO nyc.n BY NAME SELECT named_struct('y', 5, 'x', 6) AS p, 3 AS id")
    assert db.rows("SELECT id, p.x, p.y, ps[0].x FROM nyc.n ORDER BY id") == [(1, 5, 6, 7), (2, 5, 6, None), (3, 6, 5, None)]
    with pytest.raises(SchemaError, match="p of nyc.n takes 2 fields here"):
        db.sql("INSERT INTO nyc.n (p) VALUES (named_struct('x', 5))")


def test_insert_by_name(db: Db) -> None:
    db.trips()
    db.sql("INSERT INTO nyc.trips BY NAME SELECT 'eu' AS region, 1 AS id")
    assert db.rows("SELECT * FROM nyc.trips") == [(1, "eu", None)]
    with pytest.raises(SchemaError, match="'nothing'"):
        db.sql("INSERT INTO nyc.trips BY NAME SELECT 1 AS nothing")


def test_insert_with_schema_evolution(db: Db) -> None:
    db.sql("CREATE TABLE nyc.trips (id int, region string) TBLPROPERTIES (VERSION_N); INSERT INTO nyc.trips VALUES (1, 'eu')")
    db.sql("INSERT WITH SCHEMA EVOLUTION INTO nyc.trips BY NAME SELECT 5000000000 AS id, 'us' AS region, 1.5D AS tip")
    assert sorted(db.rows("SELECT * FROM nyc.trips")) == [(1, "eu", None), (5000000000, "us", 1.5)]


def test_insert_casts_as_spark_does(db: Db) -> None:
    db.sql("CREATE TABLE nyc.c (i int, l bigint, d double, m decimal(6, 2), s string, t timestamp, n struct<a: bigint, b: double>) TBLPROPERTIES (VERSION_N)")
    db.sql("INSERT INTO nyc.c VALUES (1L, 2, 1.25, 3.14159, 42, DATE '2024-01-01', named_struct('a', 1, 'b', 2.0D))")
    row = db.rows("SELECT i, l, d, cast(m AS string), s, cast(t AS string), n.a FROM nyc.c")[0]
    assert row == (1, 2, 1.25, "3.14", "42", "2024-01-01 00:00:00", 1)
    with pytest.raises(TypeMismatch, match="'i'"):
        db.sql("INSERT INTO nyc.c (i) VALUES ('1')")
    with pytest.raises((TypeMismatch, WriteFailed), match="3000000000"):
        db.sql("INSERT INTO nyc.c (i) VALUES (3000000000)")
    assert db.rows("SELECT count(*) FROM nyc.c") == [(1,)]


def test_insert_null_into_a_required_column(db: Db) -> None:
    db.sql("CREATE TABLE nyc.trips (id bigint NOT NULL, region string) TBLPROPERTIES (VERSION_N)")
    db.sql("INSERT INTO nyc.trips SELECT nullif(id, -1), 'eu' FROM range(2)")
    with pytest.raises(NullInRequiredColumn):
        db.sql("INSERT INTO nyc.trips SELECT nullif(id, 1), 'eu' FROM range(2)")
    with pytest.raises(NullInRequiredColumn):
        db.sql("INSERT INTO nyc.trips (region) VALUES ('eu')")
    assert db.ids() == [0, 1]


@pytest.mark.feature("P2")
def test_insert_overwrite_all(trips: Db) -> None:
    trips.sql("INSERT OVERWRITE nyc.trips VALUES (9, 'us', 9.0)")
    assert trips.ids() == [9]


@pytest.mark.feature("D7")
def test_insert_overwrite_static_partition(trips: Db) -> None:
    trips.sql("INSERT OVERWRITE nyc.trips PARTITION (region = 'eu') SELECT id + 10, fare FROM nyc.trips WHERE region = 'eu'")
    assert trips.rows("SELECT id, region FROM nyc.trips ORDER BY id") == [(3, "us"), (4, None), (11, "eu"), (12, "eu")]
    trips.sql("INSERT OVERWRITE TABLE nyc.trips PARTITION (region = NULL) VALUES (40, 0.0)")
    assert trips.ids() == [3, 11, 12, 40]
    with pytest.raises(SqlError, match="not partitioned by the values"):
        trips.sql("INSERT OVERWRITE nyc.trips PARTITION (fare = 1.0) VALUES (1, 'eu')")


@pytest.mark.feature("D7")
def test_insert_overwrite_mixed_partitions(db: Db) -> None:
    db.sql("CREATE TABLE nyc.m (id int, a string, b string) PARTITIONED BY (a, b) TBLPROPERTIES (VERSION_N)")
    db.sql("INSERT INTO nyc.m VALUES (1, 'x', 'p'), (2, 'x', 'q'), (3, 'y', 'p')")
    db.sql("INSERT OVERWRITE nyc.m PARTITION (a = 'x', b) SELECT 9, 'p'")
    assert db.rows("SELECT * FROM nyc.m ORDER BY id") == [(3, "y", "p"), (9, "x", "p")]
    with dynamic(db.lake.spark):
        db.sql("INSERT OVERWRITE nyc.m PARTITION (a = 'y', b) SELECT 10, 'q'")
        assert db.ids("nyc.m") == [3, 9, 10]


def test_insert_overwrite_dynamic_partitions(trips: Db) -> None:
    with dynamic(trips.lake.spark):
        trips.sql("INSERT OVERWRITE nyc.trips VALUES (20, 'us', 1.0)")
    assert trips.ids() == [1, 2, 4, 20]


def test_insert_into_a_partition(trips: Db) -> None:
    trips.sql("INSERT INTO nyc.trips PARTITION (region = 'eu') VALUES (5, 50.0)")
    assert trips.rows("SELECT * FROM nyc.trips WHERE id = 5") == [(5, "eu", 50.0)]


def test_insert_replace_where(trips: Db) -> None:
    trips.sql("INSERT INTO nyc.trips REPLACE WHERE fare >= 20 SELECT 7, 'eu', 70.0")
    assert trips.ids() == [1, 4, 7]
    with pytest.raises(RowsOutsideFilter):
        trips.sql("INSERT INTO nyc.trips REPLACE WHERE fare >= 20 VALUES (8, 'eu', 1.0)")
    assert trips.ids() == [1, 4, 7]


def test_insert_into_a_branch(trips: Db) -> None:
    trips.sql("ALTER TABLE nyc.trips CREATE BRANCH audit; ALTER TABLE nyc.trips CREATE TAG done")
    trips.sql("INSERT INTO nyc.trips.branch_audit VALUES (9, 'eu', 9.0); DELETE FROM nyc.trips.branch_audit WHERE id = 1")
    trips.sql("UPDATE nyc.trips.branch_audit SET fare = 0 WHERE id = 2")
    assert trips.ids("nyc.trips.branch_audit") == [2, 3, 4, 9] and trips.ids() == [1, 2, 3, 4]
    with pytest.raises(NotABranch):
        trips.sql("INSERT INTO nyc.trips.tag_done VALUES (9, 'eu', 9.0)")
    with pytest.raises(UnsupportedStatement, match="cannot be written"):
        trips.sql("DELETE FROM nyc.trips.files")


def test_delete(trips: Db) -> None:
    answer = trips.rows("DELETE FROM nyc.trips WHERE fare > 15 AND region = 'eu'")
    assert answer[0][0] in ("overwrite", "delete") and answer[0][2:] == (0, 0, 1)
    trips.sql("DELETE FROM nyc.trips AS t WHERE t.fare IS NULL")
    assert trips.ids() == [1, 3]
    trips.sql("DELETE FROM nyc.trips")
    assert trips.ids() == []


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("id IN (SELECT id FROM gone)", [2, 4]),
        ("id NOT IN (SELECT id FROM gone)", [1, 3]),
        ("id NOT IN (SELECT id FROM nulls)", [1, 2, 3, 4]),
        ("EXISTS (SELECT 1 FROM gone g WHERE g.id = trips.id AND g.id > 1)", [1, 2, 4]),
        ("fare > (SELECT avg(fare) FROM nyc.trips)", [1, 2, 4]),
        ("fare = (SELECT max(u.fare) FROM nyc.trips u WHERE u.region = nyc.trips.region)", [1, 4]),
        ("region = 'eu' AND id IN (SELECT id FROM gone)", [2, 3, 4]),
    ],
)
def test_delete_with_subqueries(trips: Db, where: str, left: list[int]) -> None:
    gone = trips.sql("SELECT * FROM VALUES (1L), (3L) AS g(id)")
    nulls = trips.sql("SELECT * FROM VALUES (1L), (NULL) AS g(id)")
    trips.sql(f"DELETE FROM nyc.trips WHERE {where}", gone=gone, nulls=nulls)
    assert trips.ids() == left


def test_update(trips: Db) -> None:
    trips.sql("UPDATE nyc.trips SET fare = fare * 2, region = upper(region) WHERE id <= 2")
    trips.sql("UPDATE nyc.trips AS t SET t.fare = (SELECT max(fare) FROM nyc.trips) WHERE t.id IN (SELECT id FROM nyc.trips WHERE fare IS NULL)")
    assert trips.rows("SELECT * FROM nyc.trips ORDER BY id") == [(1, "EU", 20.0), (2, "EU", 40.0), (3, "us", 30.0), (4, None, 40.0)]
    trips.sql("UPDATE nyc.trips SET nyc.trips.fare = 1, region = DEFAULT")
    assert trips.rows("SELECT DISTINCT region, fare FROM nyc.trips") == [(None, 1.0)]


def test_update_of_a_nested_field(db: Db) -> None:
    db.sql("CREATE TABLE nyc.n (id int, p struct<x: int, y: struct<z: string>>) TBLPROPERTIES (VERSION_N); INSERT INTO nyc.n VALUES (1, named_struct('x', 1, 'y', named_struct('z', 'a')))")
    db.sql("UPDATE nyc.n SET p.y.z = 'b', p.x = p.x + 1")
    assert db.rows("SELECT p.x, p.y.z FROM nyc.n") == [(2, "b")]


MERGE = """
MERGE INTO nyc.trips AS t USING (SELECT * FROM updates WHERE id > 0) AS s ON t.id = s.id
WHEN MATCHED AND s.op = 'D' THEN DELETE
WHEN MATCHED THEN UPDATE SET fare = s.fare, t.region = coalesce(s.region, t.region)
WHEN NOT MATCHED AND s.op <> 'D' THEN INSERT (id, region, fare) VALUES (s.id, s.region, s.fare)
WHEN NOT MATCHED BY SOURCE AND t.region IS NULL THEN DELETE
WHEN NOT MATCHED BY SOURCE THEN UPDATE SET fare = -1
"""


def test_merge(trips: Db) -> None:
    updates = trips.sql("SELECT * FROM VALUES (1L, 'D', NULL, 0D), (2L, 'U', NULL, 5D), (8L, 'I', 'us', 8D), (9L, 'D', 'us', 9D) AS u(id, op, region, fare)")
    answer = trips.rows(MERGE, updates=updates)
    assert answer[0][2:] == (1, 2, 2)
    assert trips.rows("SELECT * FROM nyc.trips ORDER BY id") == [(2, "eu", 5.0), (3, "us", -1.0), (8, "us", 8.0)]


def test_merge_star_and_schema_evolution(trips: Db) -> None:
    source = trips.sql("SELECT * FROM VALUES (1L, 'xx', 1D, 'new'), (7L, 'yy', 7D, 'new') AS s(id, region, fare, note)")
    trips.sql("MERGE WITH SCHEMA EVOLUTION INTO nyc.trips USING source ON trips.id = source.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *", source=source)
    assert trips.rows("SELECT * FROM nyc.trips WHERE note IS NOT NULL ORDER BY id") == [(1, "xx", 1.0, "new"), (7, "yy", 7.0, "new")]


def test_merge_from_a_lake_table_with_subqueries_in_its_conditions(trips: Db) -> None:
    trips.trips("(1, 'eu', 100.0)", "(3, 'us', 300.0)", "(5, 'us', 500.0)", name="nyc.news")
    trips.sql(
        "MERGE INTO nyc.trips t USING nyc.news s ON t.id = s.id "
        "WHEN MATCHED AND t.id IN (SELECT id FROM nyc.news WHERE fare > 200) THEN UPDATE SET fare = s.fare + (SELECT count(*) FROM nyc.news) "
        "WHEN NOT MATCHED AND s.fare > (SELECT avg(fare) FROM nyc.news) THEN INSERT *"
    )
    assert trips.rows("SELECT id, fare FROM nyc.trips ORDER BY id") == [(1, 10.0), (2, 20.0), (3, 303.0), (4, None), (5, 500.0)]


def test_merge_from_an_earlier_version_into_a_branch(trips: Db) -> None:
    first = trips.rows("SELECT snapshot_id FROM nyc.trips.snapshots")[0][0]
    trips.sql("DELETE FROM nyc.trips WHERE id = 1; ALTER TABLE nyc.trips CREATE BRANCH fix")
    trips.sql(f"MERGE INTO nyc.trips.branch_fix t USING nyc.trips VERSION AS OF {first} s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
    assert trips.ids("nyc.trips.branch_fix") == [1, 2, 3, 4] and trips.ids() == [2, 3, 4]


def test_truncate(trips: Db) -> None:
    trips.sql("TRUNCATE TABLE nyc.trips PARTITION (region = 'eu')")
    assert trips.ids() == [3, 4]
    trips.sql("TRUNCATE TABLE nyc.trips")
    assert trips.ids() == []


def test_a_row_statement_is_one_snapshot(trips: Db) -> None:
    before = trips.rows("SELECT count(*) FROM nyc.trips.snapshots")[0][0]
    trips.sql("UPDATE nyc.trips SET fare = 1 WHERE id IN (SELECT id FROM nyc.trips)")
    assert trips.rows("SELECT count(*) FROM nyc.trips.snapshots") == [(before + 1,)]


def test_a_column_is_assigned_once(trips: Db) -> None:
    with pytest.raises(SqlError, match="fare is assigned twice"):
        trips.sql("UPDATE nyc.trips SET fare = 1, fare = 2")


def test_a_merge_names_its_source_as_a_whole(trips: Db) -> None:
    trips.trips("(1, 'xx', 99.0)", name="nyc.late")
    trips.sql("MERGE INTO nyc.trips USING nyc.late ON nyc.trips.id = nyc.late.id WHEN MATCHED AND nyc.late.fare > 90 THEN UPDATE SET fare = nyc.late.fare")
    assert trips.rows("SELECT fare FROM nyc.trips WHERE id = 1") == [(99.0,)]
