"""What is wrong with a statement: the type of the error, its place in the text, and what it says.

In the statements below `«` marks the place that the error must point at; it is taken out before they run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import lakewright as lw
from lakewright.errors import (
    ColumnNotFound,
    DuplicateColumn,
    IllegalEvolution,
    InvalidFilter,
    InvalidOption,
    InvalidTransform,
    LakewrightError,
    NamespaceExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    NotABranch,
    RefNotFound,
    SchemaError,
    SqlError,
    TableExists,
    TableNotFound,
    TypeMismatch,
    UnsupportedOperation,
    UnsupportedStatement,
)
from tests.trips import D1, SCHEMA, content, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Case = tuple[str, type[LakewrightError], str]
NEAR = "Did you mean nyc.trips"
MERGE = "MERGE INTO nyc.trips t USING nyc.zones s ON t.id = s.id WHEN"


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    lake = lw.connect(str(tmp_path_factory.mktemp("errors") / "lake"), spark=spark, progress="off")
    for name, parts in (("nyc.trips", ["region"]), ("nyc.zones", [])):
        table = lake.create_table(name, SCHEMA, partition_by=parts)
        table.append(rows(spark, (1, "eu", D1)).coalesce(1))
        table.create_tag("v")
    return lake


@pytest.fixture
def untouched(lake: Any) -> Iterator[Any]:
    before = state(lake)
    yield lake
    assert state(lake) == before


def state(lake: Any) -> Any:
    return lake.namespaces(), sorted(lake.views), {name: lake.table(name).iceberg.metadata_location for name in lake.tables()}


def check(lake: Any, marked: str, kind: type[LakewrightError], message: str, args: Any = None) -> None:
    sql, at = marked.replace("«", ""), marked.index("«")
    with pytest.raises(LakewrightError) as raised:
        lake.sql(sql, args)
    error = raised.value
    assert type(error) is kind, error
    assert message in str(error)
    line = sql.count("\n", 0, at) + 1
    position = at - (sql.rfind("\n", 0, at) + 1) + 1
    assert (error.line, error.position) == (line, position), error
    *_, shown, caret = str(error).splitlines()
    assert f"(line {line}, column {position})" in str(error)
    if len(sql.split("\n")[line - 1]) <= 120:
        assert shown == sql.split("\n")[line - 1] and caret == " " * (position - 1) + "^"


MISSING_TABLES: list[Case] = [
    (sql, TableNotFound, NEAR)
    for sql in (
        "SELECT * FROM «nyc.tripz",
        "SELECT * FROM nyc.trips t JOIN «nyc.tripz z ON t.id = z.id",
        "WITH q AS (SELECT * FROM «nyc.tripz) SELECT * FROM q",
        "SELECT id FROM nyc.trips WHERE id IN (SELECT id FROM «nyc.tripz)",
        "TABLE «nyc.tripz",
        "SELECT * FROM «trips",
        "EXPLAIN SELECT * FROM «nyc.tripz",
        "EXPLAIN DELETE FROM «nyc.tripz",
        "INSERT INTO «nyc.tripz VALUES (1)",
        "INSERT INTO nyc.trips SELECT * FROM «nyc.tripz",
        "DELETE FROM «nyc.tripz WHERE id = 1",
        "DELETE FROM nyc.trips WHERE id IN (SELECT id FROM «nyc.tripz)",
        "UPDATE «nyc.tripz SET id = 1",
        "MERGE INTO «nyc.tripz t USING nyc.zones s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "MERGE INTO nyc.trips t USING «nyc.tripz s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "MERGE INTO nyc.trips t USING (SELECT * FROM «nyc.tripz) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "TRUNCATE TABLE «nyc.tripz",
        "CREATE TABLE nyc.x AS SELECT * FROM «nyc.tripz",
        "CREATE TABLE nyc.x LIKE «nyc.tripz",
        "CREATE TEMPORARY VIEW v AS SELECT * FROM «nyc.tripz",
        "DROP TABLE «nyc.tripz",
        "ALTER TABLE «nyc.tripz RENAME TO nyc.x",
        "SHOW CREATE TABLE «nyc.tripz",
        "SHOW PARTITIONS «nyc.tripz",
        "SHOW COLUMNS IN «nyc.tripz",
        "SHOW TBLPROPERTIES «nyc.tripz",
        "DESCRIBE «nyc.tripz",
        "ANALYZE TABLE «nyc.tripz COMPUTE STATISTICS",
        "CALL lakewright.upgrade«('nyc.tripz', 3)",
        "SELECT * FROM «`nyc.trips`",
    )
]

COLUMNS: list[Case] = [
    ("SELECT id,\n  «nope\nFROM nyc.trips", SqlError, "Did you mean one of the following? [`id`, `day`, `region`]"),
    ("SELECT * FROM nyc.trips WHERE «nope = 1", SqlError, "`nope` cannot be resolved"),
    ("SELECT «t.nope FROM nyc.trips t", SqlError, "`t`.`nope`"),
    ("INSERT INTO nyc.trips (id, «idd) VALUES (1, 2)", ColumnNotFound, "Did you mean id?"),
    ("INSERT INTO nyc.trips («id, id) VALUES (1, 2)", DuplicateColumn, "one name"),
    ("INSERT INTO «nyc.trips VALUES (1)", SchemaError, "takes 3 columns here (id, region, day), and the query gives 1"),
    ("INSERT INTO «nyc.trips VALUES ('abc', 'eu', DATE '2020-01-01')", TypeMismatch, "Column 'id' of nyc.trips is long"),
    ("INSERT INTO nyc.trips VALUES (1, 'eu', «nope)", SqlError, "`nope` cannot be resolved"),
    ("INSERT OVERWRITE nyc.trips PARTITION («nope = 1) VALUES (1, DATE '2020-01-01')", SqlError, "partitioned by the values of region"),
    ("INSERT OVERWRITE nyc.trips PARTITION («day = 1) VALUES (1, 'eu')", SqlError, "is not partitioned by the values of such a column"),
    ("INSERT INTO nyc.trips REPLACE WHERE «nope = 1 VALUES (1, 'eu', DATE '2020-01-01')", ColumnNotFound, "no column 'nope'"),
    ("TRUNCATE TABLE nyc.trips PARTITION («nope = 1)", SqlError, "PARTITION names 'nope'"),
    ("TRUNCATE TABLE nyc.trips PARTITION («region)", SqlError, "Give a value for region"),
    ("DELETE FROM nyc.trips\nWHERE id = 1\n  AND «regoin = 'eu'", ColumnNotFound, "Did you mean region?"),
    ("DELETE FROM nyc.trips AS t WHERE «x.id = 1", ColumnNotFound, "'x.id'"),
    ("DELETE FROM nyc.trips WHERE id IN (SELECT «nope FROM nyc.zones)", InvalidFilter, "`nope` cannot be resolved"),
    ("DELETE FROM nyc.trips WHERE «id = array(1)", InvalidFilter, "incompatible types"),
    ("DELETE FROM nyc.trips WHERE «nofn(id)", InvalidFilter, "`nofn`"),
    ("DELETE FROM nyc.trips WHERE «rand() > 1", InvalidFilter, "may give another answer next time"),
    ("DELETE FROM nyc.trips WHERE «id + 1", InvalidFilter, "is not a boolean"),
    ("UPDATE nyc.trips SET «nope = 1", ColumnNotFound, "There are: id, region, day"),
    ("UPDATE nyc.trips SET «nope = DEFAULT", ColumnNotFound, "There are: id, region, day"),
    ("UPDATE nyc.trips SET id = «nope", ColumnNotFound, "[`id`, `day`, `region`]. Nothing was changed"),
    ("UPDATE nyc.trips SET id = 1, «id = 2", SqlError, "assigned twice"),
    ("UPDATE nyc.trips SET «id = 'abc'", TypeMismatch, "is long, and the value given for it is string"),
    ("UPDATE nyc.trips SET id = 1 WHERE «nope = 1", ColumnNotFound, "no column 'nope'"),
    ("EXPLAIN UPDATE nyc.trips SET id = «nope", ColumnNotFound, "`nope`"),
    ("MERGE INTO nyc.trips t USING nyc.zones s\n  ON «t.nope = s.id\nWHEN MATCHED THEN DELETE", ColumnNotFound, "`t`.`nope`"),
    ("MERGE INTO nyc.trips t USING nyc.zones s ON «id = s.id WHEN MATCHED THEN DELETE", InvalidFilter, "ambiguous"),
    (f"{MERGE} MATCHED AND «s.nope THEN DELETE", ColumnNotFound, "`s`.`nope`"),
    (f"{MERGE} MATCHED THEN UPDATE SET «nope = 1", ColumnNotFound, "no column 'nope'"),
    (f"{MERGE} MATCHED THEN UPDATE SET id = «s.nope", ColumnNotFound, "`s`.`nope`"),
    (f"{MERGE} NOT MATCHED THEN INSERT (id, «nope) VALUES (1, 2)", ColumnNotFound, "no column 'nope'"),
    (f"{MERGE} NOT MATCHED THEN INSERT (id, «id) VALUES (1, 2)", SqlError, "assigned twice"),
    (f"{MERGE} NOT MATCHED THEN INSERT (id) VALUES («t.id)", ColumnNotFound, "`t`.`id`"),
    ("CREATE TABLE nyc.x («a int, A int)", DuplicateColumn, "one name"),
    ("CREATE TABLE nyc.x (a «intt)", SqlError, "Column 'a' has type 'intt'"),
    ("CREATE TABLE nyc.x (a int) PARTITIONED BY («nope)", ColumnNotFound, "There are: a"),
    ("CREATE TABLE nyc.x (a int) PARTITIONED BY («bucket(0, a))", InvalidTransform, "above 0"),
    ("CREATE TABLE nyc.x (a int) PARTITIONED BY («foo(a))", InvalidTransform, "no transform 'foo'"),
    ("CREATE TABLE nyc.x (a int) ORDERED BY («nope)", ColumnNotFound, "There are: a"),
    ("CREATE TABLE nyc.x (a int, PRIMARY KEY («nope) NOT ENFORCED)", ColumnNotFound, "There are: a"),
    ("CREATE TABLE nyc.x (a int DEFAULT «'abc')", SqlError, "cannot be cast to"),
    ("CREATE TABLE nyc.x (a int DEFAULT «nope)", SqlError, "`nope` cannot be resolved"),
    ("CREATE TABLE nyc.x AS SELECT «nope FROM nyc.trips", SqlError, "`nope`"),
    ("ALTER TABLE nyc.trips ADD COLUMN «id int", IllegalEvolution, "already is a column"),
    ("ALTER TABLE nyc.trips ADD COLUMNS («a int, a string)", DuplicateColumn, "one name"),
    ("ALTER TABLE nyc.trips ADD COLUMN z int AFTER «nope", ColumnNotFound, "no column 'nope'"),
    ("ALTER TABLE nyc.trips DROP COLUMN «nope", ColumnNotFound, "There are: id, region, day"),
    ("ALTER TABLE nyc.trips DROP COLUMN «region", IllegalEvolution, "partitioned by"),
    ("ALTER TABLE nyc.trips RENAME COLUMN «nope TO x", ColumnNotFound, "There are: id, region, day"),
    ("ALTER TABLE nyc.trips ALTER COLUMN «id TYPE int", IllegalEvolution, "cannot go from long to int"),
    ("ALTER TABLE nyc.trips ALTER COLUMN «nope COMMENT 'x'", ColumnNotFound, "There are: id, region, day"),
    ("ALTER TABLE nyc.trips ADD PARTITION FIELD bucket(4, «nope)", ColumnNotFound, "There are: id, region, day"),
    ("ALTER TABLE nyc.trips DROP PARTITION FIELD «nope", ColumnNotFound, "There are: id, region, day"),
    ("ALTER TABLE nyc.trips WRITE ORDERED BY «nope", ColumnNotFound, "There are: id, region, day"),
    ("ALTER TABLE nyc.trips SET IDENTIFIER FIELDS «nope", ColumnNotFound, "There are: id, region, day"),
    ("DESCRIBE nyc.trips «nope", ColumnNotFound, "There are: id, region, day"),
    ("ANALYZE TABLE nyc.trips COMPUTE STATISTICS FOR COLUMNS «nope", ColumnNotFound, "There are: id, region, day"),
]

NAMES: list[Case] = [
    ("CREATE TABLE «nyc.trips (a int)", TableExists, "CREATE OR REPLACE TABLE"),
    ("CREATE TABLE «nyc.trips LIKE nyc.zones", TableExists, "already there"),
    ("CREATE TABLE «trips (a int)", SqlError, "has its namespace in front"),
    ("CREATE TABLE «nyc.`a.b` (a int)", SqlError, "no dots inside their parts"),
    ("CREATE TABLE «nyc.`a/b` (a int)", InvalidOption, "is not a table name"),
    ("ALTER TABLE nyc.trips RENAME TO «nyc.`a.b`", SqlError, "no dots inside their parts"),
    ("ALTER TABLE nyc.trips ADD COLUMN «`a.b` int", UnsupportedStatement, "leave out the backticks to mean a field of a struct"),
    ("ALTER TABLE nyc.trips DROP COLUMN «`a.b`", UnsupportedStatement, "leave out the backticks"),
    ("REPLACE TABLE «nyc.x AS SELECT 1 AS a", TableNotFound, "CREATE OR REPLACE TABLE"),
    ("DROP NAMESPACE «nope", NamespaceNotFound, "no namespace nope"),
    ("DROP NAMESPACE «nyc", NamespaceNotEmpty, "still holds tables"),
    ("CREATE NAMESPACE «nyc", NamespaceExists, "already there"),
    ("CREATE NAMESPACE «`a.b`", SqlError, "no dots inside their parts"),
    ("SHOW TABLES IN «nope", NamespaceNotFound, "no namespace nope"),
    ("DROP TABLE «nyc.trips.branch_x", UnsupportedStatement, "name the table itself"),
    ("ALTER TABLE nyc.trips CREATE BRANCH «`a b`", InvalidOption, "is not a name for a branch"),
    ("ALTER TABLE nyc.trips DROP BRANCH «nope", RefNotFound, "it has main, v"),
    ("ALTER TABLE nyc.trips DROP TAG «main", RefNotFound, "is a branch, not a tag"),
    ("ALTER TABLE nyc.trips DROP BRANCH «v", RefNotFound, "is a tag, not a branch"),
    ("ALTER TABLE nyc.trips REPLACE TAG «nope", RefNotFound, "CREATE OR REPLACE TAG"),
    ("SELECT * FROM «nyc.trips.branch_nope", RefNotFound, "this table has main, v"),
    ("SELECT * FROM nyc.trips VERSION AS OF «12", RefNotFound, "Snapshot 12 is not in the table's history"),
    ("SELECT * FROM nyc.trips VERSION AS OF «'nope'", RefNotFound, "no branch or tag 'nope'"),
    ("SELECT * FROM nyc.trips VERSION AS OF «'--5'", RefNotFound, "no branch or tag '--5'"),
    ("SELECT * FROM nyc.trips TIMESTAMP AS OF «'1990-01-01'", RefNotFound, "Nothing is kept from before"),
    ("SELECT * FROM nyc.trips TIMESTAMP AS OF «'nope'", SqlError, "cannot be cast"),
    ("SELECT * FROM nyc.trips TIMESTAMP AS OF «NULL", SqlError, "The time is NULL"),
    ("SELECT * FROM «nyc.trips.tag_v VERSION AS OF 1", SqlError, "two versions; use one"),
    ("SELECT * FROM «nyc.trips.history VERSION AS OF 1", SqlError, "has no versions"),
    ("INSERT INTO «nyc.trips.tag_v VALUES (1, 'eu', DATE '2020-01-01')", NotABranch, "write to a branch"),
    ("INSERT INTO «nyc.trips.branch_nope VALUES (1, 'eu', DATE '2020-01-01')", RefNotFound, "no branch 'nope'"),
    ("INSERT INTO «nyc.trips.branch_v VALUES (1, 'eu', DATE '2020-01-01')", NotABranch, "tag"),
    ("UPDATE «nyc.trips.tag_v SET id = 1", NotABranch, "write to a branch"),
    ("DELETE FROM «nyc.trips.snapshots WHERE id = 1", UnsupportedStatement, "cannot be written"),
]

UNSUPPORTED: list[Case] = [
    ("CREATE TABLE nyc.x (a int) USING «parquet", UnsupportedStatement, "leave out USING parquet"),
    ("CREATE TABLE nyc.x (a int «GENERATED ALWAYS AS (1))", UnsupportedStatement, "no generated columns"),
    ("CREATE TABLE «nyc.x (a int) TBLPROPERTIES ('format-version' = '7')", UnsupportedOperation, "version 2 or 3"),
    ("«CREATE TABLE nyc.x (a int) TBLPROPERTIES ('format-version' = '²')", SqlError, "it takes 2 or 3"),
    ("CREATE TABLE nyc.x («a int) AS SELECT 1", SqlError, "has the query's columns"),
    ("CREATE TABLE nyc.x«", SqlError, "needs columns, or AS and a query"),
    ("INSERT INTO nyc.trips« PARTITION (region = 'a') IF NOT EXISTS VALUES (1, DATE '2020-01-01')", UnsupportedStatement, "use MERGE"),
    ("ALTER TABLE nyc.trips ALTER COLUMN «id SET NOT NULL", UnsupportedStatement, "cannot be made NOT NULL"),
    ("ALTER TABLE nyc.trips ADD «PARTITION (region = 'x')", UnsupportedStatement, "ADD PARTITION FIELD"),
    ("ALTER TABLE nyc.trips SET TBLPROPERTIES ('write.target-file-size-bytes' = «'many')", InvalidOption, "takes a whole number"),
    ("ALTER TABLE nyc.trips« UNSET TBLPROPERTIES ('nope')", SqlError, "UNSET TBLPROPERTIES IF EXISTS"),
    ("EXPLAIN «CREATE TABLE nyc.x (a int)", UnsupportedStatement, "reads no rows"),
    ("EXPLAIN «EXPLAIN SELECT 1", UnsupportedStatement, "does not explain itself"),
    ("«CREATE VIEW v AS SELECT * FROM nyc.trips", UnsupportedStatement, "CREATE TEMPORARY VIEW"),
    ("WITH q AS (SELECT * FROM nyc.zones) INSERT INTO «nyc.trips SELECT * FROM q", UnsupportedStatement, "begins with INSERT"),
    ("LOAD DATA INPATH 'x' INTO TABLE «nyc.trips", UnsupportedStatement, "use INSERT INTO"),
    ("MSCK REPAIR TABLE «nyc.trips", UnsupportedStatement, "knows its partitions"),
    ("REFRESH TABLE «nyc.trips", UnsupportedStatement, "newest commit"),
    ("CACHE TABLE «nyc.trips", UnsupportedStatement, "cache the rows of a query"),
    ("COMMENT ON TABLE «nyc.trips IS 'x'", UnsupportedStatement, "SET TBLPROPERTIES"),
    ("ANALYZE TABLE nyc.trips COMPUTE STATISTICS «NOSCAN", UnsupportedStatement, "in its metadata always"),
    ("CALL «lakewright.upgrad(table => 'nyc.trips')", SqlError, "Did you mean upgrade?"),
    ("CALL lakewright.upgrade«('nyc.trips')", SqlError, "format_version => 3"),
    ("CALL lakewright.upgrade«()", SqlError, "needs the table"),
    ("CALL lakewright.upgrade(table => 'nyc.trips', nope => «3)", SqlError, "it takes table, format_version"),
    ("CALL lakewright.upgrade(table => 'nyc.trips', table => «'nyc.zones')", SqlError, "given twice"),
    ("CALL lakewright.upgrade('nyc.trips', 3, «4)", SqlError, "takes 2 arguments"),
    ("CALL lakewright.upgrade('nyc.trips', «'x')", SqlError, "cannot be cast"),
    ("CALL lakewright.upgrade('nyc.trips', «NULL)", SqlError, "format_version is NULL"),
]

SYNTAX: list[Case] = [
    ("«SELEC 1", SqlError, "Syntax error at or near 'SELEC'"),
    ("SELECT 1 +«", SqlError, "end of input"),
    ("SELECT id\nFROM nyc.trips\nWHERE id = «= 2", SqlError, "Syntax error"),
    ("SELECT (1«", SqlError, "Expected ), found the end"),
    ("SELECT 1«)", SqlError, "was not opened"),
    ("SELECT\n  «'abc", SqlError, "never closed"),
    ("SELECT 1 «/* abc", SqlError, "never closed"),
    ("INSERT «nyc.trips VALUES (1)", SqlError, "Expected INTO"),
    ("INSERT INTO nyc.trips VALUES (1, «, 2)", SqlError, "Syntax error"),
    ("DELETE FROM nyc.trips\nWHERE id = «= 1", SqlError, "Syntax error at or near '='"),
    ("DELETE FROM nyc.trips WHERE id = 1 «ORDER BY id", SqlError, "Syntax error"),
    ("UPDATE nyc.trips SET id = id +« WHERE id = 1", SqlError, "Syntax error"),
    ("UPDATE nyc.trips SET id «1", SqlError, "Expected ="),
    ("MERGE INTO nyc.trips t USING nyc.zones s ON t.id = s.id\nWHEN MATCHED THEN «REMOVE", SqlError, "Expected UPDATE"),
    ("MERGE INTO nyc.trips t USING nyc.zones s ON t.id = «= s.id WHEN MATCHED THEN DELETE", SqlError, "Syntax error"),
    ("CREATE TABLE nyc.x (a int,«)", SqlError, "Expected a column"),
    ("ALTER TABLE nyc.trips «EXPLODE", UnsupportedStatement, "is not known"),
    ("DROP TABLE nyc.trips «CASCADE", SqlError, "does not belong here"),
    ("TRUNCATE «nyc.trips", SqlError, "Expected TABLE"),
    ("CALL «'x'", SqlError, "Expected a procedure"),
    ("EXPLAIN«", SqlError, "Expected a statement"),
]


@pytest.mark.parametrize(("marked", "kind", "message"), [*MISSING_TABLES, *COLUMNS, *NAMES, *UNSUPPORTED, *SYNTAX])
def test_mistakes_are_told_with_their_place(untouched: Any, marked: str, kind: type[LakewrightError], message: str) -> None:
    check(untouched, marked, kind, message)


@pytest.mark.parametrize("first", ["INSERT INTO nyc.trips VALUES (2, 'us', NULL)", "DROP TABLE nyc.zones", "CREATE NAMESPACE other"])
@pytest.mark.parametrize("wrong", ["«SELEC 1", "SELECT (1 «2)", "DELETE FROM nyc.trips WHERE id = «= 1", "DELETE «nyc.trips", "SELECT «'x", "SELECT «:nope", "CREATE TABLE nyc.x (a int) USING «parquet", "EXPLAIN SELECT 1 +* «2"])
def test_nothing_of_a_script_runs_if_some_of_it_cannot_be_read(untouched: Any, first: str, wrong: str) -> None:
    marked = f"-- a script\n{first};\n\n  {wrong}"
    with pytest.raises(LakewrightError) as raised:
        untouched.sql(marked.replace("«", ""))
    assert (raised.value.line, raised.value.position) == (4, wrong.index("«") + 3), raised.value


def test_a_place_in_a_long_line_is_shown_with_what_is_around_it(untouched: Any) -> None:
    check(untouched, f"SELECT {', '.join(f'id AS c{n}' for n in range(100))}, «nope FROM nyc.trips", SqlError, "nope")
    with pytest.raises(SqlError) as raised:
        untouched.sql(f"SELECT {'id, ' * 100}nope FROM nyc.trips")
    *_, shown, caret = str(raised.value).splitlines()
    assert shown[caret.index("^") :].startswith("nope")


@pytest.mark.parametrize(
    ("marked", "args", "kind", "message"),
    [
        ("SELECT :a, «:b", {"a": 1}, SqlError, "no value for :b; given were: a"),
        ("SELECT ?,\n  «?", [1], SqlError, "no value for this ?; 1 were given"),
        ("DELETE FROM nyc.trips WHERE id = «:x", None, SqlError, "no value for :x; given were: none"),
        ("UPDATE nyc.trips SET id = :x WHERE «nope = :x", {"x": 1}, ColumnNotFound, "no column 'nope'"),
        ("SELECT :x, :x, «nope FROM nyc.trips", {"x": "a text that is longer than its name"}, SqlError, "`nope`"),
    ],
)
def test_parameters(untouched: Any, marked: str, args: Any, kind: type[LakewrightError], message: str) -> None:
    check(untouched, marked, kind, message, args)


@pytest.mark.parametrize(("sql", "args"), [("SELECT ?", [1, 2]), ("SELECT 1", [1]), ("", None), (" -- nothing\n;", None), (None, None), ("SELECT 1", "text")])
def test_what_has_no_place_in_the_text(untouched: Any, sql: Any, args: Any) -> None:
    with pytest.raises(InvalidOption):
        untouched.sql(sql, args)


def test_odd_names_work(lake: Any) -> None:
    lake.sql("CREATE TABLE nyc.`odd name` (`a.b` int, `c d` string, `e``f` int, `select` int, `日本` int, Mixed int)")
    lake.sql("INSERT INTO nyc.`odd name` VALUES (1, 'x', 2, 3, 4, 5)")
    lake.sql("UPDATE nyc.`odd name` SET `a.b` = 7, `e``f` = 8, MIXED = 9 WHERE `a.b` = 1 AND `select` = 3 AND `日本` = 4 AND mixed = 5")
    assert [tuple(r) for r in lake.sql("SELECT `a.b`, `c d`, `e``f`, `select`, `日本`, mixed FROM nyc.`odd name` WHERE `c d` = 'x'").collect()] == [(7, "x", 8, 3, 4, 9)]
    assert content(lake.table("nyc.odd name")) == [(7, "x", 8, 3, 4, 9)]
    lake.sql("DROP TABLE nyc.`odd name`")
