"""Tables on a terminal."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table as Grid

from lakewright.maintain.rewrite import DELETES_MERGED, FILES_AFTER, FILES_BEFORE, FILES_LEFT_OUT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakewright.commit.result import Commit
    from lakewright.table import Table

console = Console(highlight=False)
NEVER_WRAPPED = ("snapshot", "committed", "operation")


def frame(df: DataFrame, rows: int = 10, title: str | None = None) -> None:
    """The first rows of a DataFrame."""
    found = df.limit(rows + 1).collect()
    grid(df.columns, [[_text(value) for value in row] for row in found[:rows]], title)
    if len(found) > rows:
        console.print(f"[dim]only the first {rows} rows are shown[/dim]")


def grid(columns: list[str], rows: list[list[str]], title: str | None = None) -> None:
    table = Grid(title=title, title_justify="left", header_style="bold", box=None, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in NEVER_WRAPPED)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def describe(table: Table) -> None:
    """Schema and layout."""
    transforms = ", ".join(f"{f.transform}({table.schema.find_column_name(f.source_id)})" for f in table.spec.fields) or "none"
    order = ", ".join(f"{table.schema.find_column_name(f.source_id)} {f.direction}" for f in table.sort_order.fields) or "none"
    console.print(f"[bold]{table.name}[/bold] at {table.location}\npartitioned by {transforms}; sorted by {order}")
    grid(["column", "type", "required", "comment"], [[f.name, str(f.field_type), str(f.required).lower(), f.doc or ""] for f in table.schema.fields])


def snapshots(table: Table) -> None:
    rows = table.history().collect()
    columns = ["snapshot", "committed", "operation", "added", "removed", "files", "rows"]
    grid(columns, [_snapshot(row) for row in rows], f"History of {table.name}")


def compaction(table: str, commit: Commit) -> None:
    if commit.nothing_written:
        console.print(f"nothing to compact in {table}")
        return
    before, after, merged, left = (commit.summary[key] for key in (FILES_BEFORE, FILES_AFTER, DELETES_MERGED, FILES_LEFT_OUT))
    others = f"; {left} files changed meanwhile and were left as they are" if int(left) else ""
    console.print(f"{before} files of {table} became {after}, {merged} delete files or vectors applied{others}")


def _snapshot(row: Any) -> list[str]:
    summary = row["summary"]
    counts = [summary.get(key, "0") for key in ("added-records", "deleted-records", "total-data-files", "total-records")]
    return [str(row["snapshot_id"]), f"{row['committed_at']:%m-%d %H:%M}", row["operation"], *counts]


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") if value.tzinfo else f"{value:%Y-%m-%d %H:%M:%S}"
    return f"{value:,.2f}" if isinstance(value, float) else str(value)
