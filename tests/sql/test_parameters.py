"""Values written as literals: what they say never becomes SQL."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from lakewright.errors import InvalidOption, SqlError
from lakewright.sql.lexer import tokens_of
from lakewright.sql.parameters import Parameters, literal


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"), (True, "TRUE"), (5, "5"), (-5, "(-5)"), (2**40, "1099511627776L"), (1.5, "1.5D"), (float("nan"), "double('nan')"), (Decimal("-1.50"), "(-1.50BD)"),
        ("plain é", "'plain é'"), (b"\x00\xff", "X'00ff'"), (date(2020, 1, 2), "DATE '2020-01-02'"), (datetime(2020, 1, 2, 3, tzinfo=UTC), "TIMESTAMP '2020-01-02 03:00:00+00:00'"),
        ([1, None], "array(1, NULL)"), ({"a": 1}, "map('a', 1)"), (timedelta(seconds=1, microseconds=5), "make_dt_interval(0, 0, 0, 1.000005)"),
    ],
)  # fmt: skip
def test_values_are_literals_of_their_types(value: Any, text: str) -> None:
    assert literal(value) == text


@pytest.mark.parametrize("value", ["'; DROP TABLE n.t; --", "\\' OR 1=1", "a\nb", "x\x00", "${spark.app.name}"])
def test_texts_that_could_end_a_literal_go_as_bytes(value: str) -> None:
    text = literal(value)
    assert text == f"CAST(X'{value.encode().hex()}' AS STRING)"
    assert [t.kind for t in tokens_of(text)] == ["word", "symbol", "word", "string", "word", "word", "symbol"]


@pytest.mark.parametrize("value", [object(), {1, 2}, 2**80, Decimal("NaN")])
def test_what_sql_has_no_literal_for_is_refused(value: Any) -> None:
    with pytest.raises(InvalidOption, match="parameter"):
        literal(value)


def bound(sql: str, given: Any) -> str:
    out, at = "", 0
    for start, end, text in Parameters(given, sql, tokens_of(sql)).within(0, len(sql)):
        out, at = out + sql[at:start] + text, end
    return out + sql[at:]


def test_names_and_places() -> None:
    assert bound("SELECT :a, :b_2 WHERE x = :a", {"a": 1, "b_2": "x"}) == "SELECT 1, 'x' WHERE x = 1"
    assert bound("VALUES (?, ?)", [1, "a"]) == "VALUES (1, 'a')"
    assert bound("SELECT ':a', `:a`, -- :a\n c::int, struct<a:int>, v:path", {}) == "SELECT ':a', `:a`, -- :a\n c::int, struct<a:int>, v:path"


def test_what_is_missing_is_told_with_its_place() -> None:
    with pytest.raises(SqlError, match=r"no value for :b; given were: a\. \(line 1, column 12\)"):
        bound("SELECT :a, :b", {"a": 1})
    with pytest.raises(SqlError, match=r"no value for this \?; 1 were given"):
        bound("SELECT ?, ?", [1])
    with pytest.raises(InvalidOption, match="has 1 . and 2 values"):
        bound("SELECT ?", [1, 2])
