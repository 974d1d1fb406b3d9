"""The `lakewright` command."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from lakewright import __version__
from lakewright.cli import shards
from lakewright.errors import LakewrightError

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Write and look at open lake tables.")
app.add_typer(shards.app, name="shards")
LakeOption = Annotated[str, typer.Option("--lake", "-l", help="Folder, location or configured name of the lake.")]


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Show the version and leave.")] = False) -> None:
    if show:
        typer.echo(f"lakewright {__version__}")
        raise typer.Exit


@app.command()
def demo(folder: Annotated[str | None, typer.Argument(help="Where to keep the demo's lake; a temporary folder unless given.")] = None) -> None:
    """Tell the story of a table on made-up taxi trips: create, append, overwrite, evolve, travel in time."""
    from lakewright.cli.demo import run

    run(folder)


@app.command()
def tables(lake: LakeOption = "lake", namespace: Annotated[str | None, typer.Argument(help="Only the tables of this namespace.")] = None) -> None:
    """List tables."""
    from lakewright.lake import connect

    for name in connect(lake).tables(namespace):
        typer.echo(name)


@app.command()
def show(
    table: Annotated[str, typer.Argument(help="Table name, like nyc.trips.")],
    lake: LakeOption = "lake",
    rows: Annotated[int, typer.Option("--rows", "-n", help="How many rows.")] = 10,
    where: Annotated[str | None, typer.Option(help="Only rows that match, like \"fare > 10\".")] = None,
    ref: Annotated[str | None, typer.Option(help="Branch or tag to read.")] = None,
) -> None:
    """Show the shape and some rows of a table."""
    from lakewright.cli.output import describe, frame
    from lakewright.lake import connect

    opened = connect(lake).table(table)
    describe(opened)
    frame(opened.read(where=where, ref=ref), rows)


@app.command()
def history(table: Annotated[str, typer.Argument(help="Table name, like nyc.trips.")], lake: LakeOption = "lake") -> None:
    """Show the snapshots of a table."""
    from lakewright.cli.output import snapshots
    from lakewright.lake import connect

    snapshots(connect(lake).table(table))


@app.command()
def compact(
    table: Annotated[str, typer.Argument(help="Table name, like nyc.trips.")],
    lake: LakeOption = "lake",
    where: Annotated[str | None, typer.Option(help="Only files that may hold matching rows, like \"day = date'2024-05-01'\".")] = None,
    branch: Annotated[str | None, typer.Option(help="Branch to compact; main unless given.")] = None,
    every: Annotated[float | None, typer.Option(help="Do it again and again, with so many seconds between, until stopped.")] = None,
) -> None:
    """Combine small files, split large ones and apply deletes, beside whoever writes to the table."""
    from lakewright.cli.output import compaction
    from lakewright.lake import connect

    opened = connect(lake).table(table)
    while True:
        compaction(opened.name, opened.compact(where=where, branch=branch))
        if every is None:
            return
        time.sleep(every)


@app.command()
def timeline(
    table: Annotated[str, typer.Argument(help="Table name, like nyc.trips.")],
    lake: LakeOption = "lake",
    rows: Annotated[int, typer.Option("--rows", "-n", help="How many of the newest instants.")] = 20,
) -> None:
    """Show what was done to a table and what is being done, newest first."""
    from lakewright.cli.output import frame
    from lakewright.lake import connect

    shown = ("instant", "action", "state", "snapshot_id", "branch", "rows", "deleted_rows", "files", "duration_ms")
    frame(connect(lake).table(table).timeline().sort("instant", ascending=False).select(*shown), rows)


@app.command()
def expire(
    table: Annotated[str, typer.Argument(help="Table name, like nyc.trips.")],
    lake: LakeOption = "lake",
    older_than: Annotated[str | None, typer.Option(help="Expire what is older than this time; the table's own rule unless given.")] = None,
    retain_last: Annotated[int | None, typer.Option(help="How many snapshots of each branch stay at any age.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
) -> None:
    """Forget old snapshots of a table and delete the files only they use."""
    from lakewright.lake import connect

    typer.echo(str(connect(lake).table(table).expire_snapshots(older_than, retain_last, dry_run)))


@app.command()
def sql(
    text: Annotated[str, typer.Argument(help="One or more statements; - reads them from standard input.")],
    lake: LakeOption = "lake",
    rows: Annotated[int, typer.Option("--rows", "-n", help="How many rows of the answer.")] = 100,
) -> None:
    """Run SQL on the tables of a lake."""
    from lakewright.cli.output import frame
    from lakewright.lake import connect

    answer = connect(lake).sql(sys.stdin.read() if text == "-" else text)
    if answer.columns != ["result"]:  # what a statement without rows answers
        frame(answer, rows)


def run() -> None:
    """Run a command; what went wrong is one line, not a trace."""
    try:
        app()
    except LakewrightError as error:
        typer.echo(f"{type(error).__name__}: {error}", err=True)
        sys.exit(1)
