"""The table of statements in docs/sql.md: each row names a test, and that test runs on both format versions."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.interop.sql_stories.differences import KNOWN_DIFFERENCES

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (?P<statement>.+?) \| `(?P<test>test_\w+)` \|", re.MULTILINE)


def run_on_both_versions() -> set[str]:
    """Tests that take `db`, which comes as v2 and v3, or a fixture made of it."""
    found = set()
    for file in (ROOT / "tests" / "sql").glob("test_*.py"):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and {"db", "trips", "parts"} & {a.arg for a in node.args.args}:
                found.add(node.name)
    return found


def test_every_statement_names_a_test_of_its_own() -> None:
    rows = ROW.findall((ROOT / "docs" / "sql.md").read_text())
    named = [test for _, test in rows]
    assert len(rows) > 50 and len(set(named)) == len(named)
    assert set(named) <= run_on_both_versions()


def test_every_known_difference_is_told() -> None:
    page = (ROOT / "docs" / "sql.md").read_text()
    assert [d.statement for d in KNOWN_DIFFERENCES if f"- `{d.statement}`: " not in page] == []
