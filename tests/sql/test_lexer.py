from __future__ import annotations

import pytest

from lakewright.errors import SqlError
from lakewright.sql.cursor import unescaped
from lakewright.sql.lexer import statements, tokens_of


def words(sql: str) -> list[str]:
    return [t.text for t in tokens_of(sql)]


def test_comments_are_no_tokens() -> None:
    assert words("a -- b\n/* c /* d */ e */ f") == ["a", "f"]


def test_semicolons_in_strings_names_and_comments_are_data() -> None:
    script = "SELECT ';' /* ; */ AS `a;b`; -- ;\nSELECT \"x;\"\"y\";;"
    assert [script[a:b].strip() for a, b, _ in statements(script)] == ["SELECT ';' /* ; */ AS `a;b`", '-- ;\nSELECT "x;""y"']


@pytest.mark.parametrize("text", ["1", "1.5", ".5", "1e10", "1.5E-3", "10L", "1.5BD", "2S"])
def test_numbers_are_one_token(text: str) -> None:
    assert words(f"{text} x") == [text, "x"]


@pytest.mark.parametrize(
    ("literal", "value"),
    [("'a''b'", "a'b"), (r"'a\'b'", "a'b"), (r"'\n\t\\'", "\n\t\\"), (r"r'a\n'", r"a\n"), ('"it\'s"', "it's"), (r"'\u0041\101'", "AA"), (r"'50\%'", r"50\%")],
)
def test_strings_are_read_as_spark_reads_them(literal: str, value: str) -> None:
    assert [t.kind for t in tokens_of(literal)] == ["string"] and unescaped(literal) == value


@pytest.mark.parametrize(("sql", "line", "position"), [("SELECT 'abc", 1, 8), ("SELECT\n  `abc", 2, 3), ("SELECT 1 /* x", 1, 10)])
def test_what_is_never_closed_is_told_with_its_place(sql: str, line: int, position: int) -> None:
    with pytest.raises(SqlError, match=rf"never closed.*line {line}, column {position}") as raised:
        tokens_of(sql)
    assert (raised.value.line, raised.value.position) == (line, position)
    assert str(raised.value).splitlines()[-1] == " " * (position - 1) + "^"
