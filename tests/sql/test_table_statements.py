"""CREATE, DROP, ALTER, SHOW, DESCRIBE and CALL, on both format versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewright.errors import IllegalEvolution, NamespaceNotEmpty, RefNotFound, SchemaError, SqlError, TableExists, TableNotFound
from tests.sql.conftest import Db


def test_create_table(db: Db) -> None:
    db.sql(
        "CREATE TABLE nyc.trips (id bigint NOT NULL COMMENT 'the key', at timestamp, tags array<string>, place struct<x: int, y: double>) USING iceberg "
        "PARTITIONED BY (days(at), bucket(4, id)) ORDERED BY (at DESC NULLS LAST) COMMENT 'taxis' TBLPROPERTIES (VERSION_N, 'a.b' = 'c')"
    )
    table = db.lake.table("nyc.trips")
    assert table.schema.find_field("id").required and table.schema.find_field("id").doc == "the key"
    assert [str(f.transform) for f in table.spec.fields] == ["day", "bucket[4]"]
    assert str(table.sort_order.fields[0].direction) == "DESC"
    assert table.properties["a.b"] == "c" and table.properties["comment"] == "taxis"
    assert table._state.metadata.format_version == db.version


def test_create_table_clustered_by(db: Db) -> None:
    db.sql("CREATE TABLE nyc.trips (id bigint) CLUSTERED BY (id) INTO 8 BUCKETS TBLPROPERTIES (VERSION_N)")
    assert [str(f.transform) for f in db.lake.table("nyc.trips").spec.fields] == ["bucket[8]"]


def test_create_table_location(db: Db, tmp_path: Path) -> None:
    db.sql(f"CREATE TABLE nyc.trips (id bigint) LOCATION '{tmp_path}/elsewhere' TBLPROPERTIES (VERSION_N)")
    db.sql("INSERT INTO nyc.trips VALUES (1)")
    assert (tmp_path / "elsewhere" / "metadata").is_dir() and db.ids() == [1]


def test_create_table_primary_key(db: Db) -> None:
    db.sql("CREATE TABLE nyc.trips (id bigint, region string, PRIMARY KEY (id, region) NOT ENFORCED) TBLPROPERTIES (VERSION_N)")
    schema = db.lake.table("nyc.trips").schema
    assert schema.identifier_field_names() == {"id", "region"} and all(f.required for f in schema.fields)


def test_create_table_default(db: Db) -> None:
    statement = "CREATE TABLE nyc.trips (id bigint, region string DEFAULT 'eu', at date DEFAULT DATE '2024-02-03') TBLPROPERTIES (VERSION_N)"
    if db.version == 2:
        with pytest.raises(IllegalEvolution, match="format version 3"):
            db.sql(statement)
        return
    db.sql(statement)
    db.sql("INSERT INTO nyc.trips (id) VALUES (1)")
    db.sql("INSERT INTO nyc.trips VALUES (2, NULL, NULL)")
    assert [str(v) for v in db.rows("SELECT region, at FROM nyc.trips ORDER BY id")[0]] == ["eu", "2024-02-03"]
    assert db.rows("SELECT region FROM nyc.trips WHERE id = 2") == [(None,)]


def test_create_table_if_not_exists(db: Db) -> None:
    db.trips("(1, 'eu', 1.0)")
    db.sql("CREATE TABLE IF NOT EXISTS nyc.trips (other string)")
    assert db.column_names("nyc.trips") == ["id", "region", "fare"]
    with pytest.raises(TableExists, match="CREATE TABLE IF NOT EXISTS"):
        db.sql("CREATE TABLE nyc.trips (other string)")


def test_create_or_replace_table(db: Db) -> None:
    db.trips("(1, 'eu', 1.0)")
    db.sql("CREATE OR REPLACE TABLE nyc.trips (id bigint, note string) TBLPROPERTIES (VERSION_N)")
    assert db.column_names("nyc.trips") == ["id", "note"] and db.ids() == []
    assert len(db.rows("SELECT * FROM nyc.trips.snapshots")) == 1
    with pytest.raises(TableNotFound, match="CREATE OR REPLACE"):
        db.sql("REPLACE TABLE nyc.nothing (id bigint)")


def test_create_table_as_select_is_one_commit(db: Db) -> None:
    db.sql("CREATE TABLE nyc.made PARTITIONED BY (part) TBLPROPERTIES (VERSION_N) AS SELECT id, id % 2 AS part FROM range(10)")
    assert db.ids("nyc.made") == list(range(10))
    assert db.rows("SELECT operation FROM nyc.made.snapshots") == [("append",)]
    assert len(list(Path(db.lake.table("nyc.made").location.removeprefix("file://"), "metadata").glob("*.metadata.json"))) == 1


def test_replace_table_as_select_is_one_commit_and_may_read_itself(db: Db) -> None:
    db.trips("(1, 'eu', 10.0)", "(2, 'us', 20.0)")
    versions = Path(db.lake.table("nyc.trips").location.removeprefix("file://"), "metadata")
    before = len(list(versions.glob("*.metadata.json")))
    db.sql("CREATE OR REPLACE TABLE nyc.trips PARTITIONED BY (truncate(1, region)) AS SELECT region, fare * 2 AS fare FROM nyc.trips")
    assert sorted(db.rows("SELECT * FROM nyc.trips")) == [("eu", 20.0), ("us", 40.0)]
    assert len(list(versions.glob("*.metadata.json"))) == before + 1
    db.sql("REPLACE TABLE nyc.trips AS SELECT 1 AS one")
    assert db.rows("SELECT * FROM nyc.trips") == [(1,)]


def test_create_table_like(db: Db) -> None:
    db.sql("CREATE TABLE nyc.trips (id bigint NOT NULL, at timestamp, PRIMARY KEY (id) NOT ENFORCED) PARTITIONED BY (days(at)) ORDERED BY (id) TBLPROPERTIES (VERSION_N, 'a' = 'b')")
    db.sql("CREATE TABLE nyc.copy LIKE nyc.trips")
    one, other = db.lake.table("nyc.trips"), db.lake.table("nyc.copy")
    assert other.schema == one.schema and other.spec == one.spec and other.sort_order.fields == one.sort_order.fields and other.properties["a"] == "b"


def test_drop_table(db: Db) -> None:
    db.trips("(1, 'eu', 1.0)")
    folder = Path(db.lake.table("nyc.trips").location.removeprefix("file://"))
    db.sql("DROP TABLE nyc.trips")
    assert db.lake.tables() == [] and any(folder.rglob("*.parquet"))
    with pytest.raises(TableNotFound):
        db.sql("DROP TABLE nyc.trips")
    db.sql("DROP TABLE IF EXISTS nyc.trips")


def test_drop_table_purge(db: Db) -> None:
    db.trips("(1, 'eu', 1.0)")
    folder = Path(db.lake.table("nyc.trips").location.removeprefix("file://"))
    db.sql("DROP TABLE nyc.trips PURGE")
    assert not any(folder.rglob("*.parquet"))


def test_rename_table(db: Db) -> None:
    db.trips("(1, 'eu', 1.0)")
    db.sql("ALTER TABLE nyc.trips RENAME TO rides")
    assert db.ids("nyc.rides") == [1]
    db.sql("ALTER TABLE nyc.rides RENAME TO other.rides")
    assert db.ids("other.rides") == [1]


def test_alter_columns(trips: Db) -> None:
    trips.sql("ALTER TABLE nyc.trips ADD COLUMNS (n int COMMENT 'number' AFTER id, place struct<x: int>)")
    trips.sql("ALTER TABLE nyc.trips ADD COLUMN place.y double")
    trips.sql("ALTER TABLE nyc.trips ALTER COLUMN n TYPE bigint")
    trips.sql("ALTER TABLE nyc.trips ALTER COLUMN n COMMENT 'a long one'")
    trips.sql("ALTER TABLE nyc.trips ALTER COLUMN place.y FIRST")
    trips.sql("ALTER TABLE nyc.trips RENAME COLUMN place.x TO east")
    trips.sql("ALTER TABLE nyc.trips ALTER COLUMN fare AFTER region")
    schema = trips.lake.table("nyc.trips").schema
    assert [f.name for f in schema.fields] == ["id", "n", "region", "fare", "place"]
    assert schema.find_field("n").doc == "a long one" and str(schema.find_field("n").field_type) == "long"
    assert [f.name for f in schema.find_field("place").field_type.fields] == ["y", "east"]  # type: ignore[union-attr]
    trips.sql("ALTER TABLE nyc.trips DROP COLUMN place.y")
    trips.sql("ALTER TABLE nyc.trips DROP COLUMNS (n, place)")
    trips.sql("ALTER TABLE nyc.trips DROP COLUMN IF EXISTS nothing")
    assert trips.column_names("nyc.trips") == ["id", "region", "fare"] and trips.ids() == [1, 2, 3, 4]
    with pytest.raises(IllegalEvolution):
        trips.sql("ALTER TABLE nyc.trips ALTER COLUMN id TYPE int")


def test_alter_column_nullability(db: Db) -> None:
    db.sql("CREATE TABLE nyc.trips (id bigint NOT NULL) TBLPROPERTIES (VERSION_N)")
    db.sql("ALTER TABLE nyc.trips ALTER COLUMN id DROP NOT NULL")
    db.sql("INSERT INTO nyc.trips VALUES (NULL)")
    with pytest.raises(SqlError, match="cannot be made NOT NULL"):
        db.sql("ALTER TABLE nyc.trips ALTER COLUMN id SET NOT NULL")


def test_alter_column_default(db: Db) -> None:
    db.sql("CREATE TABLE nyc.trips (id bigint) TBLPROPERTIES (VERSION_N)")
    if db.version == 2:
        with pytest.raises(IllegalEvolution, match="format version 3"):
            db.sql("ALTER TABLE nyc.trips ADD COLUMN n int DEFAULT 5")
        return
    db.sql("INSERT INTO nyc.trips VALUES (1)")
    db.sql("ALTER TABLE nyc.trips ADD COLUMN n int DEFAULT 5")
    db.sql("ALTER TABLE nyc.trips ALTER COLUMN n SET DEFAULT 6")
    db.sql("INSERT INTO nyc.trips (id) VALUES (2)")
    db.sql("ALTER TABLE nyc.trips ALTER COLUMN n DROP DEFAULT")
    db.sql("INSERT INTO nyc.trips (id) VALUES (3)")
    assert db.rows("SELECT id, n FROM nyc.trips ORDER BY id") == [(1, 5), (2, 6), (3, None)]


def test_set_and_unset_properties(trips: Db) -> None:
    trips.sql("ALTER TABLE nyc.trips SET TBLPROPERTIES ('write.merge.mode' = 'merge-on-read', 'a' = 'b')")
    trips.sql("ALTER TABLE nyc.trips UNSET TBLPROPERTIES ('a')")
    properties = trips.lake.table("nyc.trips").properties
    assert properties["write.merge.mode"] == "merge-on-read" and "a" not in properties
    with pytest.raises(SqlError, match="has no property 'a'"):
        trips.sql("ALTER TABLE nyc.trips UNSET TBLPROPERTIES ('a')")
    trips.sql("ALTER TABLE nyc.trips UNSET TBLPROPERTIES IF EXISTS ('a')")
    trips.sql("ALTER TABLE nyc.trips SET TBLPROPERTIES ('format-version' = '3')")
    assert trips.lake.table("nyc.trips")._state.metadata.format_version == 3


def test_partition_fields(trips: Db) -> None:
    trips.sql("ALTER TABLE nyc.trips ADD PARTITION FIELD bucket(4, id) AS shard")
    trips.sql("ALTER TABLE nyc.trips REPLACE PARTITION FIELD shard WITH truncate(10, id)")
    trips.sql("ALTER TABLE nyc.trips DROP PARTITION FIELD region")
    kept = [str(f.transform) for f in trips.lake.table("nyc.trips").spec.fields if str(f.transform) != "void"]
    assert kept == ["truncate[10]"]
    trips.sql("INSERT INTO nyc.trips VALUES (15, 'eu', 1.0)")
    assert trips.ids() == [1, 2, 3, 4, 15]


def test_write_order(trips: Db) -> None:
    trips.sql("ALTER TABLE nyc.trips WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY id DESC, fare NULLS LAST")
    table = trips.lake.table("nyc.trips")
    assert len(table.sort_order.fields) == 2 and table.properties["write.distribution-mode"] == "hash"
    trips.sql("ALTER TABLE nyc.trips WRITE UNORDERED")
    assert trips.lake.table("nyc.trips").sort_order.is_unsorted


def test_identifier_fields(db: Db) -> None:
    db.sql("CREATE TABLE nyc.trips (id bigint NOT NULL, region string NOT NULL, fare double) TBLPROPERTIES (VERSION_N)")
    db.sql("ALTER TABLE nyc.trips SET IDENTIFIER FIELDS id, region")
    assert db.lake.table("nyc.trips").schema.identifier_field_names() == {"id", "region"}
    db.sql("ALTER TABLE nyc.trips DROP IDENTIFIER FIELDS region")
    assert db.lake.table("nyc.trips").schema.identifier_field_names() == {"id"}
    with pytest.raises(SchemaError, match="'fare'"):
        db.sql("ALTER TABLE nyc.trips SET IDENTIFIER FIELDS fare")
    with pytest.raises(SchemaError, match="not part of the key"):
        db.sql("ALTER TABLE nyc.trips DROP IDENTIFIER FIELDS region")


def test_branches_and_tags(trips: Db) -> None:
    first = trips.rows("SELECT snapshot_id FROM nyc.trips.snapshots")[0][0]
    trips.sql("ALTER TABLE nyc.trips CREATE BRANCH audit RETAIN 7 DAYS WITH SNAPSHOT RETENTION 3 SNAPSHOTS 2 DAYS")
    trips.sql(f"ALTER TABLE nyc.trips CREATE TAG eoy AS OF VERSION {first} RETAIN 365 DAYS")
    trips.sql("ALTER TABLE nyc.trips CREATE BRANCH IF NOT EXISTS audit")
    trips.sql("INSERT INTO nyc.trips.branch_audit VALUES (9, 'eu', 9.0)")
    assert trips.ids("nyc.trips.branch_audit") == [1, 2, 3, 4, 9] and trips.ids() == [1, 2, 3, 4]
    day = 86_400_000
    found = trips.rows("SELECT name, type, max_reference_age_in_ms, min_snapshots_to_keep, max_snapshot_age_in_ms FROM nyc.trips.refs ORDER BY name")
    assert found == [("audit", "branch", 7 * day, 3, 2 * day), ("eoy", "tag", 365 * day, None, None), ("main", "branch", None, None, None)]
    trips.sql(f"ALTER TABLE nyc.trips CREATE OR REPLACE BRANCH audit AS OF VERSION {first}")
    assert trips.ids("nyc.trips.branch_audit") == [1, 2, 3, 4]
    trips.sql("DELETE FROM nyc.trips WHERE id = 1")
    trips.sql("ALTER TABLE nyc.trips REPLACE TAG eoy")
    assert trips.ids("nyc.trips.tag_eoy") == [2, 3, 4]
    trips.sql("ALTER TABLE nyc.trips DROP BRANCH audit")
    trips.sql("ALTER TABLE nyc.trips DROP TAG eoy")
    trips.sql("ALTER TABLE nyc.trips DROP BRANCH IF EXISTS audit")
    with pytest.raises(RefNotFound):
        trips.sql("ALTER TABLE nyc.trips DROP BRANCH audit")
    with pytest.raises(RefNotFound, match="CREATE OR REPLACE BRANCH"):
        trips.sql("ALTER TABLE nyc.trips REPLACE BRANCH audit")


def test_namespaces(db: Db) -> None:
    db.sql("CREATE NAMESPACE a; CREATE DATABASE IF NOT EXISTS a; CREATE SCHEMA b")
    assert db.rows("SHOW NAMESPACES") == [("a",), ("b",)] and db.rows("SHOW DATABASES LIKE 'a*'") == [("a",)]
    db.trips(name="a.trips")
    with pytest.raises(NamespaceNotEmpty):
        db.sql("DROP NAMESPACE a")
    db.sql("DROP NAMESPACE a CASCADE; DROP NAMESPACE IF EXISTS a; DROP SCHEMA b")
    assert db.rows("SHOW NAMESPACES") == []


def test_show_tables(trips: Db) -> None:
    trips.trips(name="nyc.other")
    assert trips.rows("SHOW TABLES IN nyc") == [("nyc", "other", False), ("nyc", "trips", False)]
    assert trips.rows("SHOW TABLES IN nyc LIKE 't*'") == [("nyc", "trips", False)]


def test_show_partitions_properties_columns_and_statement(trips: Db) -> None:
    assert [row[0] for row in trips.rows("SHOW PARTITIONS nyc.trips")] == ["region=eu", "region=null", "region=us"]
    assert ("format-version", str(trips.version)) in trips.rows("SHOW TBLPROPERTIES nyc.trips")
    assert trips.rows("SHOW TBLPROPERTIES nyc.trips ('format-version')") == [("format-version", str(trips.version))]
    assert trips.rows("SHOW COLUMNS IN nyc.trips") == [("id",), ("region",), ("fare",)]


def test_show_create_table_makes_the_same_table(db: Db) -> None:
    db.sql("CREATE TABLE nyc.`odd name` (id bigint NOT NULL COMMENT 'it''s', `a b` string, at timestamp, PRIMARY KEY (id) NOT ENFORCED) PARTITIONED BY (days(at), bucket(4, `a b`)) ORDERED BY (id DESC) TBLPROPERTIES (VERSION_N, 'k' = 'it\\'s')")
    before = db.lake.table("nyc.odd name")
    statement = db.rows("SHOW CREATE TABLE nyc.`odd name`")[0][0]
    db.sql("DROP TABLE nyc.`odd name` PURGE")
    db.sql(statement)
    after = db.lake.table("nyc.odd name")
    assert after.schema == before.schema and after.spec == before.spec and after.sort_order.fields == before.sort_order.fields and after.properties == before.properties


def test_describe(trips: Db) -> None:
    assert trips.rows("DESCRIBE TABLE nyc.trips")[:4] == [("id", "bigint", None), ("region", "string", None), ("fare", "double", None), ("", "", "")]
    assert ("Part 0", "region", "") in trips.rows("DESC nyc.trips")
    assert ("Provider", "iceberg", "") in trips.rows("DESCRIBE EXTENDED nyc.trips")
    assert trips.rows("DESCRIBE nyc.trips fare") == [("col_name", "fare"), ("data_type", "double"), ("comment", None)]


def test_analyze(db: Db) -> None:
    db.sql("CREATE TABLE nyc.t TBLPROPERTIES (VERSION_N) AS SELECT id, id % 7 AS week, cast(id AS string) AS name, id / 2 AS half, cast(id % 3 AS decimal(9, 2)) AS third, id % 2 = 0 AS even, date_add(DATE '1969-12-01', cast(id % 11 AS int)) AS day, cast(NULL AS int) AS nothing FROM range(1000)")
    counted = dict(db.rows("ANALYZE TABLE nyc.t COMPUTE STATISTICS FOR ALL COLUMNS"))
    assert counted == {"id": 1000, "week": 7, "name": 1000, "half": 1000, "third": 3, "even": 2, "day": 11, "nothing": 0}
    statistics = db.lake.table("nyc.t").iceberg.metadata.statistics
    assert [blob.properties["ndv"] for blob in statistics[0].blob_metadata][:2] == ["1000", "7"]
    assert db.rows("ANALYZE TABLE nyc.t COMPUTE STATISTICS FOR COLUMNS week") == [("week", 7)]


@pytest.mark.feature("H4")
def test_call_compact(trips: Db) -> None:
    for procedure in ("compact", "rewrite_data_files"):
        before = len(trips.rows("SELECT * FROM nyc.trips"))
        trips.sql("INSERT INTO nyc.trips VALUES (71, 'eu', 1.5), (72, 'us', 2.5)")
        trips.sql("INSERT INTO nyc.trips VALUES (73, 'eu', 1.5), (74, 'us', 2.5)")
        [(rewritten, added, size, failed, _)] = trips.rows(f"CALL lakewright.{procedure}(table => 'nyc.trips', where => \"region = 'eu'\")")
        assert rewritten > added == 1 and size > 0 and failed == 0
        assert len(trips.rows("SELECT * FROM nyc.trips")) == before + 4


def test_call(trips: Db) -> None:
    assert trips.rows("CALL lakewright.remove_orphans(table => 'nyc.trips', older_than_hours => 72, dry_run => true)") == []
    assert trips.rows("CALL lakewright.upgrade('nyc.trips', 3)") == [("nyc.trips", 3)]
    assert trips.lake.table("nyc.trips")._state.metadata.format_version == 3
