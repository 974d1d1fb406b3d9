"""Every Python block of the README and the docs runs, page by page, and prints what its comments say."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXPECTED = re.compile(r"^\s*print\(.*\)\s+# (.*)$")


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text())


def expected_lines(code: str) -> list[str]:
    return [match.group(1).strip() for line in code.splitlines() if (match := EXPECTED.match(line))]


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.stem)
def test_page_runs_as_written(page: Path, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # Spark's own processes stay in the folder where the session was started.
    absolute = ('.option("lake", "lake")', f'.option("lake", "{tmp_path}/lake")')
    names: dict[str, Any] = {}
    for code in blocks(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code.replace(*absolute), str(page), "exec"), names)
        shown = printed.getvalue().splitlines()
        missing = [line for line in expected_lines(code) if line not in shown]
        assert not missing, f"{page.name}: {missing} not in {shown}"


def test_pages_with_examples_are_found() -> None:
    assert len([p for p in PAGES if blocks(p)]) >= 5
