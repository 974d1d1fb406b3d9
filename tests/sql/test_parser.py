"""Statements as they are read, before anything is looked up."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright.errors import SqlError, UnsupportedStatement
from lakewright.plan.request import Then, When
from lakewright.sql import statements as st
from lakewright.sql.parser import parse


def one(sql: str) -> Any:
    (found,) = parse(sql)
    return found


# Rows


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("INSERT INTO n.t SELECT 1", {"query": "SELECT 1"}),
        ("INSERT INTO TABLE n.t VALUES (1, 'a;b')", {"query": "VALUES (1, 'a;b')"}),
        ("insert into n.t (a, `b c`) select 1, 2", {"columns": ("a", "b c")}),
        ("INSERT INTO n.t (SELECT 1)", {"query": "(SELECT 1)", "columns": None}),
        ("INSERT INTO n.t BY NAME SELECT 1 AS a", {"by_name": True}),
        ("INSERT WITH SCHEMA EVOLUTION INTO n.t SELECT 1", {"evolve": True}),
        ("INSERT OVERWRITE n.t SELECT 1", {"overwrite": True}),
        ("INSERT OVERWRITE TABLE n.t PARTITION (c = 'v', d) SELECT 1", {"overwrite": True, "partition": [("c", "'v'"), ("d", None)]}),
        ("INSERT INTO n.t REPLACE WHERE a > 1 AND b IN (SELECT x FROM y) SELECT 2", {"replace_where": "a > 1 AND b IN (SELECT x FROM y)", "query": "SELECT 2"}),
        ("INSERT INTO n.t WITH q AS (SELECT 1) SELECT * FROM q", {"query": "WITH q AS (SELECT 1) SELECT * FROM q"}),
    ],
)
def test_insert(sql: str, expected: dict[str, Any]) -> None:
    found = one(sql)
    assert isinstance(found, st.Insert) and found.table.parts == ("n", "t")
    for key, value in expected.items():
        got = getattr(found, key)
        if key in ("query", "replace_where"):
            got = got.text
        elif key == "partition":
            got = [(p.column.text, p.value and p.value.text) for p in got]
        assert got == value, key


def test_delete_and_update() -> None:
    found = one("DELETE FROM n.t AS x WHERE x.a = 1 AND EXISTS (SELECT 1 FROM u WHERE u.id = x.id)")
    assert (found.table.text, found.alias, found.where.text[:7]) == ("n.t", "x", "x.a = 1")
    assert one("DELETE FROM n.t").where is None and one("DELETE FROM n.t y WHERE true").alias == "y"
    found = one("UPDATE n.t z SET z.a = CASE WHEN b = 1, c THEN 2 END, s.`x y` = (SELECT max(q) FROM r WHERE true) WHERE a = 'WHERE'")
    assert [(v.target.parts, v.value.text) for v in found.values] == [
        (("z", "a"), "CASE WHEN b = 1, c THEN 2 END"),
        (("s", "x y"), "(SELECT max(q) FROM r WHERE true)"),
    ]
    assert found.where.text == "a = 'WHERE'"


def test_merge_with_every_clause() -> None:
    found = one(
        """MERGE WITH SCHEMA EVOLUTION INTO n.t AS t USING (SELECT * FROM u WHERE x = 1) s ON t.id = s.id AND s.k <=> CASE WHEN t.k THEN 1 END
        WHEN MATCHED AND CASE WHEN s.op = 'D' THEN true END THEN DELETE
        WHEN MATCHED THEN UPDATE SET t.a = s.a, b = concat('WHEN', s.b)
        WHEN NOT MATCHED BY TARGET AND s.op <> 'D' THEN INSERT (id, a) VALUES (s.id, coalesce(s.a, 0))
        WHEN NOT MATCHED THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND t.old THEN UPDATE SET a = 0
        WHEN NOT MATCHED BY SOURCE THEN DELETE"""
    )
    assert (found.evolve, found.alias, found.source.text, found.source_alias) == (True, "t", "(SELECT * FROM u WHERE x = 1)", "s")
    assert found.on.text == "t.id = s.id AND s.k <=> CASE WHEN t.k THEN 1 END"
    assert [(c.when, c.then, c.condition and c.condition.text, c.values and [(v.target.text, v.value.text) for v in c.values]) for c in found.clauses] == [
        (When.MATCHED, Then.DELETE, "CASE WHEN s.op = 'D' THEN true END", None),
        (When.MATCHED, Then.UPDATE, None, [("t.a", "s.a"), ("b", "concat('WHEN', s.b)")]),
        (When.NOT_MATCHED, Then.INSERT, "s.op <> 'D'", [("id", "s.id"), ("a", "coalesce(s.a, 0)")]),
        (When.NOT_MATCHED, Then.INSERT, None, None),
        (When.NOT_MATCHED_BY_SOURCE, Then.UPDATE, "t.old", [("a", "0")]),
        (When.NOT_MATCHED_BY_SOURCE, Then.DELETE, None, None),
    ]


def test_the_source_of_a_merge_may_be_a_table_at_a_version() -> None:
    found = one("MERGE INTO n.t USING n.u VERSION AS OF 12 AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *")
    assert (found.source.text, found.source_alias, found.alias) == ("n.u VERSION AS OF 12", "s", None)


# Tables


def test_create_table() -> None:
    found = one(
        """CREATE TABLE IF NOT EXISTS n.t (
            id bigint NOT NULL COMMENT 'the; key', s struct<a: int, b: array<string>>, m map<string, decimal(9, 2)>,
            d date DEFAULT date '2020-01-01' COMMENT 'x', PRIMARY KEY (id, d) NOT ENFORCED)
        USING iceberg PARTITIONED BY (region, bucket(4, id), days(ts)) ORDERED BY (id DESC NULLS LAST, d)
        LOCATION '/x' COMMENT 'hi' TBLPROPERTIES ('a' = 'b', write.format.default = 'parquet', n = 5, flag = TRUE)"""
    )
    assert [(c.name.text, c.type.text, c.required, c.comment, c.default and c.default.text) for c in found.columns] == [
        ("id", "bigint", True, "the; key", None),
        ("s", "struct<a: int, b: array<string>>", False, None, None),
        ("m", "map<string, decimal(9, 2)>", False, None, None),
        ("d", "date", False, "x", "date '2020-01-01'"),
    ]
    assert (found.key, found.partition_by, found.order_by) == (("id", "d"), ("region", "bucket(4, id)", "days(ts)"), ("id DESC NULLS LAST", "d"))
    assert found.properties == {"a": "b", "write.format.default": "parquet", "n": "5", "flag": "true"}
    assert (found.location, found.comment, found.if_not_exists, found.replace) == ("/x", "hi", True, False)


def test_create_table_as() -> None:
    found = one("CREATE OR REPLACE TABLE n.t PARTITIONED BY (truncate(2, s)) AS SELECT 1 AS s, 2")
    assert (found.replace, found.create, found.partition_by, found.query.text) == (True, True, ("truncate(2, s)",), "SELECT 1 AS s, 2")
    found = one("REPLACE TABLE n.t AS WITH q AS (SELECT 1) SELECT * FROM q")
    assert (found.replace, found.create, found.query.text) == (True, False, "WITH q AS (SELECT 1) SELECT * FROM q")
    found = one("CREATE TABLE n.t (id int) PARTITIONED BY (day date, id) CLUSTERED BY (id) INTO 8 BUCKETS")
    assert [c.name.text for c in found.columns] == ["id", "day"] and found.partition_by == ("day", "id", "bucket(8, id)")


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("RENAME TO n.u", ("RenameTable", {"to": "n.u"})),
        ("RENAME COLUMN a.b TO c", ("RenameColumn", {"name": "a.b", "to": "c"})),
        ("DROP COLUMN IF EXISTS a", ("DropColumns", {"names": ["a"], "if_exists": True})),
        ("DROP COLUMNS (a, b.c)", ("DropColumns", {"names": ["a", "b.c"]})),
        ("ALTER COLUMN a TYPE decimal(12, 2)", ("AlterColumn", {"name": "a", "type": "decimal(12, 2)"})),
        ("ALTER COLUMN a COMMENT 'x'", ("AlterColumn", {"comment": "x"})),
        ("ALTER COLUMN a DROP NOT NULL", ("AlterColumn", {"nullable": True})),
        ("ALTER COLUMN a SET NOT NULL", ("AlterColumn", {"nullable": False})),
        ("ALTER COLUMN a FIRST", ("AlterColumn", {"place": ("FIRST", None)})),
        ("ALTER COLUMN s.a AFTER b", ("AlterColumn", {"place": ("AFTER", "b")})),
        ("ALTER COLUMN a SET DEFAULT 5 + 1", ("AlterColumn", {"default": "5 + 1"})),
        ("SET TBLPROPERTIES ('a' = 'b')", ("SetProperties", {"properties": {"a": "b"}})),
        ("UNSET TBLPROPERTIES IF EXISTS ('a', b.c)", ("SetProperties", {"properties": {"a": None, "b.c": None}})),
        ("ADD PARTITION FIELD bucket(4, id) AS b", ("PartitionField", {"add": "bucket(4, id) AS b", "drop": None})),
        ("DROP PARTITION FIELD days(ts)", ("PartitionField", {"drop": "days(ts)"})),
        ("REPLACE PARTITION FIELD days(ts) WITH hours(ts) AS h", ("PartitionField", {"drop": "days(ts)", "add": "hours(ts) AS h"})),
        ("WRITE ORDERED BY a DESC NULLS LAST, truncate(2, b)", ("WriteOrder", {"order_by": ("a DESC NULLS LAST", "truncate(2, b)"), "distribution": "range"})),
        ("WRITE LOCALLY ORDERED BY a", ("WriteOrder", {"distribution": None})),
        ("WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY a", ("WriteOrder", {"order_by": ("a",), "distribution": "hash"})),
        ("WRITE UNORDERED", ("WriteOrder", {"order_by": ()})),
        ("SET IDENTIFIER FIELDS id, s.a", ("IdentifierFields", {"add": ("id", "s.a")})),
        ("DROP IDENTIFIER FIELDS id", ("IdentifierFields", {"drop": ("id",)})),
        ("CREATE BRANCH audit", ("Ref", {"verb": "CREATE", "kind": "branch", "name": "audit", "version": None})),
        ("CREATE OR REPLACE TAG `2020-01` AS OF VERSION 12 RETAIN 7 DAYS", ("Ref", {"kind": "tag", "name": "2020-01", "version": 12, "replace": True, "retain_ms": 604_800_000})),
        ("CREATE BRANCH IF NOT EXISTS b RETAIN 1 HOURS WITH SNAPSHOT RETENTION 3 SNAPSHOTS 2 DAYS", ("Ref", {"lenient": True, "keep_snapshots": 3, "keep_ms": 172_800_000})),
        ("REPLACE BRANCH b AS OF VERSION 5", ("Ref", {"verb": "REPLACE", "version": 5})),
        ("DROP TAG IF EXISTS x", ("Ref", {"verb": "DROP", "kind": "tag", "lenient": True})),
    ],
)
def test_alter(action: str, expected: tuple[str, dict[str, Any]]) -> None:
    found = one(f"ALTER TABLE n.t {action}")
    assert type(found.action).__name__ == expected[0]
    for key, value in expected[1].items():
        got = getattr(found.action, key)
        if key == "names":
            got = [n.text for n in got]
        assert getattr(got, "text", got) == value, key


def test_add_columns() -> None:
    found = one("ALTER TABLE n.t ADD COLUMNS (a int COMMENT 'x' FIRST, s.b struct<c: int> AFTER a, d string NOT NULL DEFAULT 'q')").action
    assert [(c.name.text, c.type.text, c.comment, c.place, c.required, c.default and c.default.text) for c in found.columns] == [
        ("a", "int", "x", ("FIRST", None), False, None),
        ("s.b", "struct<c: int>", None, ("AFTER", "a"), False, None),
        ("d", "string", None, None, True, "'q'"),
    ]
    assert [c.name.text for c in one("ALTER TABLE n.t ADD COLUMN a int").action.columns] == ["a"]


# Looks


def test_looks() -> None:
    assert (one("SHOW TABLES IN n LIKE 't*'").name.text, one("SHOW TABLES IN n LIKE 't*'").pattern) == ("n", "t*")
    assert one("SHOW DATABASES").what == "NAMESPACES" and one("SHOW PARTITIONS n.t").what == "PARTITIONS"
    assert one("SHOW TBLPROPERTIES n.t ('a.b')").key == "a.b" and one("SHOW CREATE TABLE n.t").what == "CREATE TABLE"
    assert one("DESC FORMATTED n.t").extended and one("DESCRIBE TABLE EXTENDED n.t a.b").column.text == "a.b"
    assert isinstance(one("ANALYZE TABLE n.t COMPUTE STATISTICS FOR ALL COLUMNS"), st.Analyze)
    found = one("CALL lakewright.expire(table => 'n.t', older_than => timestamp '2020-01-01', 5)")
    assert [(name, value.text) for name, value in found.arguments] == [("table", "'n.t'"), ("older_than", "timestamp '2020-01-01'"), (None, "5")]
    found = one("EXPLAIN FORMATTED DELETE FROM n.t WHERE a = 1")
    assert found.style == "FORMATTED" and isinstance(found.explained, st.Delete)


# What is left to Spark, and what is wrong


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1", "WITH q AS (SELECT 1) SELECT * FROM q", "SET x = 1", "CACHE TABLE x", "CREATE GLOBAL TEMPORARY VIEW v AS SELECT 1", "DROP FUNCTION f",
        "CREATE FUNCTION f AS 'x'", "SHOW FUNCTIONS", "DESCRIBE FUNCTION abs", "DESCRIBE QUERY SELECT 1", "ANALYZE TABLES COMPUTE STATISTICS", "VALUES (1)", "(SELECT 1)",
    ],
)  # fmt: skip
def test_anything_else_is_spark_s(sql: str) -> None:
    found = one(sql)
    assert isinstance(found, st.Query) and found.text.text == sql


def test_scripts() -> None:
    script = "CREATE NAMESPACE IF NOT EXISTS n; -- one\nDROP TABLE IF EXISTS n.t PURGE;\n\nTRUNCATE TABLE n.u; ;"
    assert [type(s).__name__ for s in parse(script)] == ["Namespace", "DropTable", "Truncate"]
    assert parse("  -- nothing\n ;") == []


@pytest.mark.parametrize(
    ("sql", "message", "column"),
    [
        ("DELETE n.t", "Expected FROM, found 'n'", 8),
        ("UPDATE n.t SET", "Expected the column to set, found the end", 15),
        ("UPDATE n.t SET a 1", "Expected =", 18),
        ("UPDATE n.t SET a = WHERE b", "Expected a value", 20),
        ("MERGE INTO n.t USING s ON", "Expected the condition of ON", 26),
        ("MERGE INTO n.t USING s ON a = b", "Expected WHEN", 32),
        ("MERGE INTO n.t USING s ON a WHEN NOT MATCHED THEN UPDATE SET a = 1", "Expected INSERT", 51),
        ("MERGE INTO n.t USING s ON a WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)", "2 columns are named and 1 values", 75),
        ("MERGE INTO n.t USING s ON a WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", "no values for \\*", 72),
        ("INSERT INTO n.t", "Expected VALUES or a query", 16),
        ("DROP TABLE n.t CASCADE", "does not belong here, found 'CASCADE'", 16),
        ("CREATE TABLE n.t (id)", "Expected a type", 21),
        ("CREATE TABLE n.t (id int", "Expected \\)", 25),
        ("ALTER TABLE n.t WRITE", "Expected ORDERED BY", 22),
        ("ALTER TABLE n.t CREATE BRANCH b RETAIN 5 WEEKS", "Expected DAYS", 47),
        ("DELETE FROM n.t WHERE (a = 1", "Expected \\)", 29),
    ],
)
def test_errors_point_at_the_place(sql: str, message: str, column: int) -> None:
    with pytest.raises(SqlError, match=message) as raised:
        parse(sql)
    assert raised.value.position == column, str(raised.value)
    *_, text, caret = str(raised.value).splitlines()
    assert text == sql and caret == " " * (column - 1) + "^"


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("CREATE TABLE n.t (a int) USING delta", "leave out USING delta"),
        ("CREATE TABLE n.t (a int GENERATED ALWAYS AS (1))", "generated columns"),
        ("ALTER TABLE n.t ADD PARTITION (a = 1)", "ADD PARTITION FIELD"),
        ("ALTER TABLE n.t DROP PARTITION (a = 1)", "DELETE FROM"),
        ("ALTER TABLE n.t RECOVER PARTITIONS", "columns, properties, partition fields"),
        ("CREATE NAMESPACE n COMMENT 'x'", "a name and nothing else"),
    ],
)
def test_what_is_not_supported_says_what_to_use(sql: str, message: str) -> None:
    with pytest.raises(UnsupportedStatement, match=message):
        parse(sql)
