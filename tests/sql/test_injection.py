"""What a value or a name says is never read as SQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import lakewright as lw
from lakewright.errors import InvalidOption, LakewrightError, SqlError
from tests.trips import D1, SCHEMA, content, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXTS = {
    "quote": "it's",
    "two quotes": "''",
    "double quotes": 'say "hi"',
    "backslash": "a\\",
    "escaped quote": "\\'",
    "escape": "\\n\\u0041\\x",
    "line comment": "a -- b",
    "comment": "/* a",
    "end of comment": "*/",
    "semicolon": "a; b",
    "drop": "'); DROP TABLE nyc.trips; --",
    "drop after a backslash": "\\'); DROP TABLE nyc.trips; --",
    "always true": "' OR '1' = '1",
    "union": "x' UNION ALL SELECT * FROM nyc.trips --",
    "curly quotes": "‘’“”ʼ＇",
    "NUL": "a\0b",
    "line end": "a\r\nb\u2028c",
    "backticks": "`a` ``",
    "braces": "{x} {{y}} {0}",
    "a setting": "${spark.app.name} ${env:HOME}",
    "parameters": ":v ? :v",
    "like": "%_\\%",
    "emoji": "🙂 日本 é e\u0301",
    "spaces": "  a \t",
    "empty": "",
    "NULL": "NULL",
    "long": "'x\\;" * 25_000,
}
SOME = ["quote", "drop", "escaped quote", "a setting", "emoji", "long"]
NAMES = ["it's", 'say "hi"', "a;b", "a -- b", "/* a", "x`y", "a b", "日本", "select", "{x}", "x'); DROP TABLE nyc.trips; --", "a\\'b", "A", "1", ":v", "?"]


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    lake = lw.connect(str(tmp_path_factory.mktemp("injection") / "lake"), spark=spark, progress="off")
    lake.create_table("nyc.trips", SCHEMA).append(rows(spark, (1, "eu", D1)).coalesce(1))
    table = lake.create_table("nyc.texts", "id int, text string", format_version=3)
    table.append(spark.createDataFrame([(n, text) for n, text in enumerate(TEXTS.values())], "id int, text string").coalesce(1))
    return lake


@pytest.fixture(autouse=True)
def bystander(lake: Any) -> Iterator[None]:
    """A table that no statement here is about."""
    before = lake.table("nyc.trips").iceberg.metadata_location
    yield
    assert lake.table("nyc.trips").iceberg.metadata_location == before
    assert content(lake.table("nyc.trips")) == [(1, "eu", D1)]


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def number_of(text: str) -> int:
    return list(TEXTS.values()).index(text)


# Values


@pytest.mark.parametrize("source", ["", " FROM nyc.trips"])
def test_values_come_back_as_they_are(lake: Any, source: str) -> None:
    named = {f"v{n}": text for n, text in enumerate(TEXTS.values())}
    assert lake.sql(f"SELECT {', '.join(f':{name} AS {name}' for name in named)}{source}", named).collect()[0].asDict() == named
    assert list(lake.sql(f"SELECT {', '.join('?' for _ in TEXTS)}{source}", list(TEXTS.values())).collect()[0]) == list(TEXTS.values())
    assert lake.sql(f"SELECT :v AS v{source}", {"v": list(TEXTS.values())}).collect()[0].v == list(TEXTS.values())


@pytest.mark.parametrize("key", SOME)
def test_a_value_finds_its_row_and_no_other(lake: Any, key: str) -> None:
    found = lake.sql("SELECT id FROM nyc.texts WHERE text = :v", {"v": TEXTS[key]}).collect()
    assert [r.id for r in found] == [number_of(TEXTS[key])]


def test_values_are_stored_as_they_are(lake: Any) -> None:
    lake.sql("CREATE TABLE nyc.stored (n int, text string)")
    lake.sql("INSERT INTO nyc.stored VALUES " + ", ".join("(?, ?)" for _ in TEXTS), [value for pair in enumerate(TEXTS.values()) for value in pair])
    lake.sql("INSERT INTO nyc.stored SELECT :n, :text", {"n": -1, "text": TEXTS["drop"]})
    assert {r.n: r.text for r in lake.sql("SELECT * FROM nyc.stored").collect()} == {**dict(enumerate(TEXTS.values())), -1: TEXTS["drop"]}


def test_changes_of_rows_take_values_as_they_are(lake: Any) -> None:
    value = {"v": TEXTS["drop"]}
    lake.sql("CREATE TABLE nyc.changed AS SELECT * FROM nyc.texts")
    lake.sql("DELETE FROM nyc.changed WHERE text = ?", [TEXTS["always true"]])
    lake.sql("UPDATE nyc.changed SET text = :v WHERE text = 'NULL'", value)
    lake.sql("MERGE INTO nyc.changed t USING (SELECT -1 AS id, :v AS text) s ON t.id = s.id AND t.text = :v WHEN NOT MATCHED AND s.text = :v THEN INSERT (id, text) VALUES (s.id, :v)", value)
    assert {r.id for r in lake.sql("SELECT id FROM nyc.changed WHERE text = :v", value).collect()} == {number_of("NULL"), number_of(TEXTS["drop"]), -1}
    assert lake.sql("SELECT * FROM nyc.changed").count() == len(TEXTS)


@pytest.mark.parametrize("key", ["drop", "a setting"])
def test_partition_values_are_data(lake: Any, key: str) -> None:
    value = {"v": TEXTS[key]}
    lake.sql("CREATE OR REPLACE TABLE nyc.parts (id int, p string) PARTITIONED BY (p)")
    lake.sql("INSERT INTO nyc.parts VALUES (1, 'other'), (2, :v)", value)
    lake.sql("INSERT OVERWRITE nyc.parts PARTITION (p = :v) SELECT 3", value)
    assert content(lake.table("nyc.parts")) == sorted([(1, "other"), (3, TEXTS[key])], key=repr)
    lake.sql("TRUNCATE TABLE nyc.parts PARTITION (p = :v)", value)
    assert content(lake.table("nyc.parts")) == [(1, "other")]


@pytest.mark.parametrize("sql", ["SELECT * FROM :v", "DROP TABLE :v", "SELECT id FROM nyc.trips VERSION AS OF :v", "ALTER TABLE nyc.trips CREATE BRANCH :v", "INSERT INTO :v VALUES (1)", "SHOW TABLES LIKE :v", "CALL lakewright.upgrade(table => :v, format_version => 3)"])
def test_a_value_is_no_name(lake: Any, sql: str) -> None:
    with pytest.raises(LakewrightError):
        lake.sql(sql, {"v": "nyc.trips; DROP TABLE nyc.trips"})


@pytest.mark.parametrize("value", ["\ud800", "a\udfff"])
def test_half_a_character_is_refused(lake: Any, value: str) -> None:
    with pytest.raises(InvalidOption, match="half of a pair"):
        lake.sql("SELECT :v", {"v": value})
    with pytest.raises(SqlError, match="half of a pair"):
        lake.sql(f"SELECT '{value}'")


@pytest.mark.parametrize("args", ["text", b"bytes", 5, {1, 2}])
def test_args_of_another_type_are_refused(lake: Any, args: Any) -> None:
    with pytest.raises(InvalidOption, match="takes a dict for :name, or a list"):
        lake.sql("SELECT ?", args)


# Names


def works_or_is_refused(lake: Any, *statements: str) -> bool:
    """Whether the statements ran; those that were refused were so with an error of ours."""
    try:
        for sql in statements:
            lake.sql(sql).collect()
    except LakewrightError:
        return False
    return True


@pytest.mark.parametrize("name", ["it's", "x`y", "日本", "${y}", "x'); DROP TABLE trips; --"])
def test_names_of_tables(lake: Any, name: str) -> None:
    table = f"nyc.{quoted(name)}"
    lake.sql(f"CREATE TABLE {table} (x int)")
    lake.sql(f"INSERT INTO {table} VALUES (1), (2)")
    lake.sql(f"UPDATE {table} SET x = 3 WHERE {table}.x = 1")
    assert sorted(r.x for r in lake.sql(f"SELECT {table}.x FROM {table}").collect()) == [2, 3]
    assert [r.tableName for r in lake.sql(f"SHOW TABLES LIKE {literal(name)}").collect()] == [name]
    lake.sql(f"DROP TABLE {table}")
    assert f"nyc.{name}" not in lake.tables()


def test_names_of_columns(lake: Any) -> None:
    columns = ", ".join(f"{quoted(name)} string COMMENT {literal(name)}" for name in NAMES)
    fields = ", ".join(f"{quoted(name)}: int" for name in NAMES)
    listed = ", ".join(map(quoted, NAMES))
    lake.sql(f"CREATE TABLE nyc.named (id int, s struct<{fields}>, {columns}) PARTITIONED BY ({quoted(NAMES[0])})")
    lake.sql(f"INSERT INTO nyc.named (id, {listed}) VALUES (1, {', '.join(map(literal, NAMES))})")
    lake.sql(f"UPDATE nyc.named SET {', '.join(f's.{quoted(name)} = {n}' for n, name in enumerate(NAMES))} WHERE {' AND '.join(f'{quoted(n)} = {literal(n)}' for n in NAMES)}")
    row = lake.sql(f"SELECT {listed}, s FROM nyc.named").collect()[0]
    assert [row[name] for name in NAMES] == NAMES
    assert list(row.s) == list(range(len(NAMES)))
    made = lake.sql("SHOW CREATE TABLE nyc.named").collect()[0][0].replace("nyc.named", "nyc.again").split("LOCATION")[0]
    lake.sql(made)
    assert [(f.name, f.doc) for f in lake.table("nyc.again").schema.fields] == [(f.name, f.doc) for f in lake.table("nyc.named").schema.fields]
    assert lake.table("nyc.again").schema.column_names == lake.table("nyc.named").schema.column_names


def test_names_of_branches_tags_and_namespaces(lake: Any) -> None:
    refs, namespaces = set(lake.table("nyc.texts")._state.metadata.refs), set(lake.namespaces())
    for name in NAMES:
        for verb, what in (("ALTER TABLE nyc.texts CREATE BRANCH", refs), ("CREATE NAMESPACE", namespaces)):
            what |= {name} if works(lake, f"{verb} {quoted(name)}") else set()
    assert set(lake.table("nyc.texts")._state.metadata.refs) == refs and set(lake.namespaces()) == namespaces


def works(lake: Any, sql: str) -> bool:
    """Whether it ran; if not it was refused with an error of ours."""
    try:
        lake.sql(sql)
    except LakewrightError:
        return False
    return True


@pytest.mark.parametrize("name", ["it's", "x`y", "a -- b", "{x}", ":v"])
def test_names_of_views_and_dataframes(lake: Any, name: str) -> None:
    lake.sql(f"CREATE TEMPORARY VIEW {quoted(name)} AS SELECT count(*) AS n FROM nyc.texts WHERE id >= :v", {"v": 1})
    assert lake.sql(f"SELECT n FROM {quoted(name)}").collect()[0].n == len(TEXTS) - 1
    lake.sql(f"DROP VIEW {quoted(name)}")
    assert lake.sql(f"SELECT count(*) AS n FROM nyc.trips t JOIN {quoted(name)} AS s ON t.id = s.id", **{name: lake.spark.range(3)}).collect()[0].n == 1


# Texts in statements


def test_texts_in_statements_are_data(lake: Any) -> None:
    texts = [text for text in TEXTS.values() if text]
    columns = ", ".join(f"c{n} int COMMENT {literal(text)}" for n, text in enumerate(texts))
    lake.sql(f"CREATE TABLE nyc.said ({columns}) COMMENT {literal(TEXTS['drop'])} TBLPROPERTIES ({', '.join(f'{literal(text)} = {literal(text)}' for text in texts)})")
    table = lake.table("nyc.said")
    assert [f.doc for f in table.schema.fields] == texts and {text: table.properties[text] for text in texts} == dict(zip(texts, texts, strict=True))
    assert table.properties["comment"] == TEXTS["drop"]
    assert lake.sql(f"SHOW TBLPROPERTIES nyc.said ({literal(TEXTS['drop'])})").collect()[0].value == TEXTS["drop"]
    lake.sql(f"ALTER TABLE nyc.said UNSET TBLPROPERTIES ({', '.join(map(literal, texts))})")
    assert set(lake.table("nyc.said").properties) & set(texts) == set()


def test_defaults_are_data(lake: Any) -> None:
    texts = [text for text in TEXTS.values() if "${" not in text]  # in which Spark puts settings, wherever they stand
    lake.sql(f"CREATE TABLE nyc.defaults ({', '.join(f'c{n} string DEFAULT {literal(text)}' for n, text in enumerate(texts))}) TBLPROPERTIES ('format-version' = '3')")
    assert [f.write_default for f in lake.table("nyc.defaults").schema.fields] == texts
    made = lake.sql("SHOW CREATE TABLE nyc.defaults").collect()[0][0].replace("nyc.defaults", "nyc.defaults2").split("LOCATION")[0]
    lake.sql(made + "TBLPROPERTIES ('format-version' = '3')")
    assert [f.write_default for f in lake.table("nyc.defaults2").schema.fields] == texts


@pytest.mark.parametrize("key", SOME)
def test_patterns_are_data(lake: Any, key: str) -> None:
    assert lake.sql(f"SHOW TABLES IN nyc LIKE {literal(TEXTS[key])}").count() == 0


def test_a_pattern_of_many_stars_takes_no_time(lake: Any) -> None:
    assert lake.sql(f"SHOW TABLES LIKE '{'*t' * 40}'").count() == 0
    assert [r.tableName for r in lake.sql("SHOW TABLES IN nyc LIKE 't*ip?|TRI*S|t[r]*'").collect()] == ["trips"]


def test_comments_semicolons_and_quotes_inside_texts_and_names(lake: Any) -> None:
    script = """SELECT 1; -- ; DROP TABLE nyc.trips
        SELECT '; DROP TABLE nyc.trips --' AS `; "DROP" -- `, /* ; ' */ "it's;" AS b;"""
    row = lake.sql(script).collect()[0]
    assert row.asDict() == {'; "DROP" -- ': "; DROP TABLE nyc.trips --", "b": "it's;"}
