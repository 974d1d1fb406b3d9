"""Whatever the text, reading it ends soon, in statements or in an error that says where."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakewright.errors import SqlError
from lakewright.sql.parser import parse
from tests.sql.generated import INSERTED, mutated, statements

STATEMENTS = statements(["nyc.trips", "nyc.zones"], ["id", "region", "day"])
MANY = settings(max_examples=10 * settings().max_examples)
SECONDS = 5


def read(sql: str) -> None:
    error = refused(sql)
    if error is not None:
        assert 1 <= error.line <= sql.count("\n") + 1 and error.position >= 1
        assert str(error).splitlines()[-1].strip() == "^"


def refused(sql: str) -> SqlError | None:
    try:
        parse(sql)
    except SqlError as error:
        return error
    return None


@MANY
@given(sql=STATEMENTS)
def test_statements_of_the_grammar(sql: str) -> None:
    read(sql)


@MANY
@given(sql=mutated(STATEMENTS))
@example("SELECT '\ud800'")
@example("ALTER TABLE n.t ALTER COLUMN c COMMENT '\\UFFFFFFFF'")
@example("MERGE INTO n.t USING s VERSION AS OF")
@example("CREATE TABLE n.t (CONSTRAINT c PRIMARY")
def test_statements_gone_wrong(sql: str) -> None:
    read(sql)


@MANY
@given(sql=st.one_of(st.text(max_size=200), st.lists(st.sampled_from([*INSERTED, "INSERT", "INTO", "MERGE", "ALTER", "TABLE", "a.b", "'x'", "="]), max_size=30).map(" ".join)))
def test_anything(sql: str) -> None:
    read(sql)


@MANY
@given(scripts=st.lists(STATEMENTS, min_size=2, max_size=4))
def test_a_script_reads_as_its_statements(scripts: list[str]) -> None:
    good = [sql for sql in scripts if refused(sql) is None]
    assert [type(s) for s in parse("\n;\n".join(good))] == [type(s) for sql in good for s in parse(sql)]


@pytest.mark.parametrize(
    "sql",
    {
        "brackets": "SELECT " + "(" * 20_000 + "1" + ")" * 20_000,
        "brackets that stay open": "DELETE FROM n.t WHERE " + "(" * 20_000,
        "brackets of an insert": "INSERT INTO n.t " + "(" * 20_000,
        "a condition in brackets": "DELETE FROM n.t WHERE " + "(" * 20_000 + "true" + ")" * 20_000,
        "cases": "UPDATE n.t SET c = " + "CASE WHEN x THEN " * 10_000 + "END " * 10_000,
        "types": "CREATE TABLE n.t (c " + "array<" * 20_000 + "int" + ">" * 20_000 + ")",
        "a long text": "INSERT INTO n.t VALUES ('" + "x" * 100_000 + "')",
        "a text of escapes": "ALTER TABLE n.t ALTER COLUMN c COMMENT '" + "\\n" * 50_000 + "'",
        "quotes": "SELECT " + "'" * 100_001,
        "a text that stays open": "SELECT '" + "''x" * 50_000,
        "backticks": "SELECT " + "`" * 100_001,
        "digits that are a name": "SELECT " + "1" * 100_000 + "x",
        "a long number": "ALTER TABLE n.t CREATE BRANCH b AS OF VERSION " + "9" * 100_000,
        "numbers": "SELECT " + "1." * 50_000 + "x",
        "comments": "SELECT 1 " + "/**/" * 25_000,
        "comments in comments": "SELECT 1 " + "/*" * 50_000,
        "comments of lines": "SELECT 1 " + "--\\\n" * 30_000,
        "semicolons": ";" * 100_000,
        "statements": "SELECT 1;" * 20_000,
        "explained": "EXPLAIN " * 20_000 + "SELECT 1",
        "a long name": "SELECT * FROM a" + ".b" * 50_000,
        "assignments": "UPDATE n.t SET " + ",".join(f"c{n} = 1" for n in range(10_000)),
        "clauses": "MERGE INTO n.t USING s ON true" + " WHEN MATCHED THEN DELETE" * 10_000,
        "angle brackets": "ALTER TABLE n.t ADD COLUMN c " + "<>" * 20_000,
    }.items(),
    ids=lambda case: case[0],
)
def test_long_and_deep_texts_take_no_time(sql: tuple[str, str]) -> None:
    begun = time.monotonic()
    read(sql[1])
    assert time.monotonic() - begun < SECONDS
