"""Write docs/reference/options.md from lakewright.options; with --check, fail if the page is stale."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from lakewright.options import REGISTRY, Option

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "options.md"
HEAD = """# Options

<!-- Made by `make docs` from lakewright/options.py; change it there. -->

An option has one short key. It can be given, first match wins, as

1. a write option: `t.append(df, target_file_size_bytes=…)` (the key in snake_case), or `.option("target-file-size-bytes", …)` on the Data Source;
2. a session setting: `spark.lakewright.target-file-size-bytes`;
3. a table property, named in the table below; Iceberg's own name where Iceberg has one, so that other engines obey it too;
4. its default.

| key | table property | takes | default | |
| --- | --- | --- | --- | --- |
"""
TAKES = {"boolean": "true, false", "text": "text", "positive": "a whole number above 0", "count": "a whole number from 0", "ratio": "a number from 0 to 1"}


def page() -> str:
    return HEAD + "".join(row(option) for option in REGISTRY.values())


def row(option: Option[Any]) -> str:
    takes = TAKES.get(option.parse.__name__, option.parse.__name__.replace(" | ", ", "))
    cells = [f"`{option.key}`", f"`{option.table_property}`" if option.table_property else "", takes, default(option.default), option.doc.replace("|", "\\|")]
    return "| " + " | ".join(cells) + " |\n"


def default(value: Any) -> str:
    if value is None:
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def main(arguments: list[str]) -> None:
    if "--check" in arguments:
        if not PAGE.exists() or PAGE.read_text() != page():
            raise SystemExit("docs/reference/options.md does not match lakewright/options.py; run `make docs`.")
        return
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page())


if __name__ == "__main__":
    main(sys.argv[1:])
