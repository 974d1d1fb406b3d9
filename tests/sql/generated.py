"""Statements drawn from the grammar, and what a careless hand makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from lakewright.errors import SqlError
from lakewright.sql.lexer import tokens_of

Texts = st.SearchStrategy[str]
ODD_TEXTS = ["", "it''s", "a\\'b", ";", "--", "/*", "*/", "`", '"', "{x}", "${spark.app.name}", ":a ?", "'' OR 1=1", "\\u0041\\ud800\\UFFFFFFFF", "\n", "\t", "é 日本 🙂", "\\", "%_"]
ODD_NAMES = ["`a b`", "`a.b`", "`a``b`", "`;`", "`--`", "`select`", "`日本`", "é", "`'`", '`"`', "1a", "_", "select", "from", "table", "`{x}`", "`${y}`", "ID", "values"]
TYPES = ["int", "bigint", "string", "date", "timestamp", "decimal(9, 2)", "array<int>", "map<string, array<int>>", "struct<a: int, b: struct<c: string>>", "inty", "decimal(99, 2)"]
INSERTED = ["'", '"', "`", "(", ")", "[", "]", "<", ">", ";", ",", ".", "--", "/*", "*/", "\\", ":", "?", "$", "{", "}", "\0", "\n", " ", "’", "\u2028", "ß", "ı", "²", "\ud800", "0", "1e", "NULL", "SELECT", "END", "CASE"]


def statements(tables: Sequence[str], columns: Sequence[str]) -> Texts:
    """One statement of any kind over the tables and columns; some names are of nothing that is there."""
    table = _often(tables, [f"{tables[0]}.branch_b", f"{tables[0]}.tag_v", f"{tables[0]}.files", "nyc.nope", "nope", "a.b.c.d", *(f"nyc.{name}" for name in ODD_NAMES)])
    column = _often(columns, ["nope", "t.id", "s.id", *ODD_NAMES])
    text = st.sampled_from([*ODD_TEXTS, "eu", "us"]).map(lambda value: f"'{value}'")
    value = st.one_of(text, column, st.sampled_from(["1", "-1", "1.5", "1e3", "NULL", "DATE '2024-05-01'", ":a", "?", "true", "DEFAULT", "array(1)", "9" * 30, "0x", "X'00'"]))
    condition = st.recursive(
        st.one_of(_joined(column, st.sampled_from(["=", "<>", "<=>", ">", "LIKE", "IN"]), value), st.sampled_from(["true", "NULL", "id = 1", "id IN (1, 2)", "region IS NULL"])),
        lambda inner: st.one_of(
            _joined(inner, st.sampled_from(["AND", "OR"]), inner),
            inner.map("NOT ({})".format),
            inner.map("CASE WHEN {} THEN true END".format),
            st.tuples(column, table, inner).map(lambda p: f"id IN (SELECT {p[0]} FROM {p[1]} WHERE {p[2]})"),
        ),
        max_leaves=4,
    )
    where = st.one_of(st.just(""), condition.map("WHERE {}".format))
    version = st.sampled_from(["", "", "", "VERSION AS OF 1", "VERSION AS OF 'v'", "TIMESTAMP AS OF '2020-01-01'", "FOR SYSTEM_TIME AS OF now()", "VERSION AS OF", "VERSION AS OF '²'", "TIMESTAMP AS OF NULL"])
    select = _joined(st.just("SELECT"), st.one_of(st.just("*"), value), st.just("FROM"), table, version, where)
    query = st.one_of(
        select,
        select,
        st.lists(value, min_size=1, max_size=4).map(lambda row: f"VALUES ({', '.join(row)})"),
        select.map("WITH q AS ({}) SELECT * FROM q".format),
        _joined(select, st.just("UNION ALL"), select),
    )
    alias = st.sampled_from(["", "t", "AS t", "AS `a b`"])
    sets = st.lists(st.tuples(column, value).map(" = ".join), min_size=1, max_size=3).map(", ".join)
    part = st.one_of(st.just(""), st.lists(st.one_of(st.tuples(column, value).map(" = ".join), column), min_size=1, max_size=2).map(lambda p: f"PARTITION ({', '.join(p)})"))
    listed = st.one_of(st.just(""), st.just("BY NAME"), st.lists(column, min_size=1, max_size=3).map(lambda names: f"({', '.join(names)})"))
    insert = _joined(st.sampled_from(["INSERT INTO", "INSERT INTO TABLE", "INSERT OVERWRITE", "INSERT WITH SCHEMA EVOLUTION INTO"]), table, part, listed, query)
    replace = st.tuples(table, condition, query).map(lambda p: f"INSERT INTO {p[0]} REPLACE WHERE {p[1]} {p[2]}")
    delete = _joined(st.just("DELETE FROM"), table, alias, where)
    update = _joined(st.just("UPDATE"), table, alias, st.just("SET"), sets, where)
    clause = st.one_of(
        st.sampled_from(["WHEN MATCHED THEN DELETE", "WHEN MATCHED THEN UPDATE SET *", "WHEN NOT MATCHED THEN INSERT *", "WHEN NOT MATCHED BY SOURCE THEN DELETE"]),
        sets.map("WHEN MATCHED THEN UPDATE SET {}".format),
        condition.map("WHEN MATCHED AND {} THEN DELETE".format),
        st.tuples(column, value).map(lambda p: f"WHEN NOT MATCHED THEN INSERT ({p[0]}) VALUES ({p[1]})"),
    )
    source = st.one_of(_joined(table, version), query.map("({})".format))
    merge = st.tuples(table, alias, source, condition, st.lists(clause, min_size=1, max_size=2).map(" ".join)).map(lambda p: f"MERGE INTO {p[0]} {p[1]} USING {p[2]} AS s ON {p[3]} {p[4]}")
    ddl = _ddl(table, column, text, value, query)
    looks = st.one_of(
        _joined(st.sampled_from(["SHOW CREATE TABLE", "SHOW PARTITIONS", "SHOW COLUMNS IN", "SHOW TBLPROPERTIES", "DESCRIBE", "DESC EXTENDED", "ANALYZE TABLE"]), table),
        st.tuples(table, column).map(lambda p: f"DESCRIBE {p[0]} {p[1]}"),
        text.map("SHOW TABLES LIKE {}".format),
        column.map("SHOW TABLES IN {}".format),
        st.tuples(table, text).map(lambda p: f"SHOW TBLPROPERTIES {p[0]} ({p[1]})"),
        st.tuples(st.sampled_from(["upgrade", "remove_orphans", "nope"]), table, st.sampled_from(["table", "nope", "dry_run"]), value).map(lambda p: f"CALL lakewright.{p[0]}('{p[1]}', {p[2]} => {p[3]})"),
    )
    rows = st.one_of(insert, insert, replace, delete, update, merge, _joined(st.just("TRUNCATE TABLE"), table, part))
    explained = st.one_of(rows, query).map("EXPLAIN {}".format)
    return st.one_of(query, rows, rows, ddl, looks, explained)


def _ddl(table: Texts, column: Texts, text: Texts, value: Texts, query: Texts) -> Texts:
    field = _joined(column, st.sampled_from(TYPES), st.one_of(st.just(""), st.just("NOT NULL"), text.map("COMMENT {}".format), value.map("DEFAULT {}".format)))
    fields = st.lists(field, min_size=1, max_size=3).map(", ".join)
    term = st.one_of(column, column.map("bucket(4, {})".format), column.map("days({})".format), column.map("truncate(0, {})".format), column.map("nope({})".format))
    detail = st.one_of(
        st.just(""),
        st.sampled_from(["USING iceberg", "USING parquet", "TBLPROPERTIES ('format-version' = '3')", "TBLPROPERTIES ('format-version' = '²')", "CLUSTERED BY (id) INTO 4 BUCKETS"]),
        term.map("PARTITIONED BY ({})".format),
        term.map("ORDERED BY ({})".format),
        text.map("COMMENT {}".format),
        st.tuples(text, text).map(lambda p: f"TBLPROPERTIES ({p[0]} = {p[1]})"),
    )
    head = st.sampled_from(["CREATE TABLE", "CREATE TABLE IF NOT EXISTS", "CREATE OR REPLACE TABLE", "REPLACE TABLE"])
    action = st.one_of(
        field.map("ADD COLUMN {}".format),
        fields.map("ADD COLUMNS ({})".format),
        column.map("DROP COLUMN {}".format),
        st.tuples(column, column).map(lambda p: f"RENAME COLUMN {p[0]} TO {p[1]}"),
        st.tuples(column, st.one_of(st.sampled_from(TYPES).map("TYPE {}".format), text.map("COMMENT {}".format), value.map("SET DEFAULT {}".format), column.map("AFTER {}".format), st.sampled_from(["FIRST", "SET NOT NULL", "DROP DEFAULT"]))).map(lambda p: f"ALTER COLUMN {p[0]} {p[1]}"),
        term.map("ADD PARTITION FIELD {}".format),
        term.map("DROP PARTITION FIELD {}".format),
        term.map("WRITE ORDERED BY {} DESC".format),
        column.map("SET IDENTIFIER FIELDS {}".format),
        st.tuples(text, text).map(lambda p: f"SET TBLPROPERTIES ({p[0]} = {p[1]})"),
        text.map("UNSET TBLPROPERTIES ({})".format),
        st.tuples(st.sampled_from(["CREATE", "CREATE OR REPLACE", "REPLACE", "DROP"]), st.sampled_from(["BRANCH", "TAG"]), st.one_of(text, column), st.sampled_from(["", "AS OF VERSION 1", "RETAIN 5 DAYS"])).map(" ".join),
        table.map("RENAME TO {}".format),
    )
    return st.one_of(
        st.tuples(head, table, fields, detail).map(lambda p: f"{p[0]} {p[1]} ({p[2]}) {p[3]}"),
        st.tuples(head, table, detail, query).map(lambda p: f"{p[0]} {p[1]} {p[2]} AS {p[3]}"),
        _joined(st.just("ALTER TABLE"), table, action),
        _joined(st.just("ALTER TABLE"), table, action),
        st.tuples(table, table).map(lambda p: f"CREATE TABLE {p[0]} LIKE {p[1]}"),
        _joined(st.sampled_from(["CREATE NAMESPACE", "DROP NAMESPACE", "DROP NAMESPACE IF EXISTS"]), column),
        _joined(st.sampled_from(["DROP TABLE", "DROP TABLE IF EXISTS"]), table),
        st.tuples(column, query).map(lambda p: f"CREATE OR REPLACE TEMPORARY VIEW {p[0]} AS {p[1]}"),
    )


@st.composite
def mutated(draw: st.DrawFn, whole: Texts) -> str:
    """A statement with some of its tokens dropped, doubled, swapped or cut off, or with something put in between."""
    sql = draw(whole)
    for change in draw(st.lists(st.sampled_from([_dropped, _doubled, _swapped, _cut, _inserted, _commented]), min_size=1, max_size=3)):
        sql = change(draw, sql)
    return sql


def _dropped(draw: st.DrawFn, sql: str) -> str:
    return _with_token(draw, sql, lambda text: "")


def _doubled(draw: st.DrawFn, sql: str) -> str:
    return _with_token(draw, sql, lambda text: f"{text} {text}")


def _swapped(draw: st.DrawFn, sql: str) -> str:
    words = sql.split(" ")
    one, two = draw(st.integers(0, len(words) - 1)), draw(st.integers(0, len(words) - 1))
    words[one], words[two] = words[two], words[one]
    return " ".join(words)


def _cut(draw: st.DrawFn, sql: str) -> str:
    return sql[: draw(st.integers(0, len(sql)))]


def _inserted(draw: st.DrawFn, sql: str) -> str:
    at = draw(st.integers(0, len(sql)))
    return sql[:at] + draw(st.sampled_from(INSERTED)) + sql[at:]


def _commented(draw: st.DrawFn, sql: str) -> str:
    return sql.replace(" ", draw(st.sampled_from([" /* ; ' */ ", " -- ; '\n", "\n", "\t", ";"])), draw(st.integers(1, 3)))


def _with_token(draw: st.DrawFn, sql: str, change: Callable[[str], str]) -> str:
    try:
        tokens = tokens_of(sql)
    except SqlError:
        return sql
    if not tokens:
        return sql
    token = draw(st.sampled_from(tokens))
    return sql[: token.start] + change(token.text) + sql[token.end :]


def _often(usual: Sequence[str], odd: Sequence[str]) -> Texts:
    return st.sampled_from([*(list(usual) * max(1, 2 * len(odd) // len(usual))), *odd])


def _joined(*parts: Texts) -> Texts:
    return st.tuples(*parts).map(" ".join)
