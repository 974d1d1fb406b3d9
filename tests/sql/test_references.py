from __future__ import annotations

import pytest

from lakewright.sql.lexer import tokens_of
from lakewright.sql.references import conjuncts, references


def named(sql: str) -> list[str]:
    return [r.name.text for r in references(sql, tokens_of(sql))]


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT * FROM a.b", ["a.b"]),
        ("SELECT a.b.c FROM a.b, c.d x JOIN e.f ON x.i = f.i, g.h WHERE q.r = 1", ["a.b", "c.d", "e.f", "g.h"]),
        ("WITH q AS (SELECT * FROM a.b) SELECT * FROM q LEFT JOIN (SELECT 1 FROM c.d) z USING (id)", ["a.b", "q", "c.d"]),
        ("SELECT extract(year FROM ts), trim(BOTH 'x' FROM n) FROM a.b WHERE x IS NOT DISTINCT FROM y.z", ["a.b"]),
        ("SELECT * FROM (a.b JOIN c.d ON true) WHERE id IN (SELECT id FROM e.f)", ["a.b", "c.d", "e.f"]),
        ("SELECT * FROM range(10) r, a.b", ["a.b"]),
        ("SELECT * FROM a.b LATERAL VIEW explode(x) v AS c, d", ["a.b"]),
        ("SELECT * FROM `a`.`b c` UNION ALL TABLE d.e ORDER BY 1, 2", ["a.b c", "d.e"]),
        ("FROM a.b SELECT x, y WHERE x > 1", ["a.b"]),
        ("SELECT 'FROM a.b' AS x -- FROM c.d\nFROM e.f", ["e.f"]),
        ("a.b", ["a.b"]),
        ("SELECT x FROM a.b |> WHERE y = 1 |> JOIN c.d ON true", ["a.b", "c.d"]),
        ("VALUES (1, 2)", []),
    ],
)
def test_tables_are_found_and_columns_are_not(sql: str, tables: list[str]) -> None:
    assert named(sql) == tables


@pytest.mark.parametrize(
    ("sql", "version", "value", "alias"),
    [
        ("SELECT * FROM a.b VERSION AS OF 12 x", True, "12", "x"),
        ("SELECT * FROM a.b FOR SYSTEM_VERSION AS OF 'tag' WHERE c = 1", True, "'tag'", None),
        ("SELECT * FROM a.b TIMESTAMP AS OF current_timestamp() - 1", False, "current_timestamp()", None),
        ("SELECT * FROM a.b FOR TIMESTAMP AS OF timestamp '2020-01-01' AS y", False, "timestamp '2020-01-01'", "y"),
        ("SELECT * FROM a.b TIMESTAMP AS OF (now() - interval 1 day) z", False, "(now() - interval 1 day)", "z"),
    ],
)
def test_time_travel(sql: str, version: bool, value: str, alias: str | None) -> None:
    (found,) = references(sql, tokens_of(sql))
    assert found.travel is not None
    assert (found.travel.is_version, found.travel.value.text, found.alias) == (version, value, alias)


@pytest.mark.parametrize(
    ("where", "parts"),
    [
        ("a = 1 AND b BETWEEN 1 AND 2 AND c IN (1, 2)", ["a = 1", "b BETWEEN 1 AND 2", "c IN (1, 2)"]),
        ("a = 1 OR b = 2", []),
        ("(a = 1 OR b = 2) AND CASE WHEN x AND y THEN true END AND z", ["(a = 1 OR b = 2)", "CASE WHEN x AND y THEN true END", "z"]),
    ],
)
def test_conjuncts(where: str, parts: list[str]) -> None:
    sql = f"SELECT * FROM a.b WHERE {where} ORDER BY 1"
    (found,) = references(sql, tokens_of(sql))
    assert [sql[part[0].start : part[-1].end] for part in conjuncts(found.query.where)] == parts
