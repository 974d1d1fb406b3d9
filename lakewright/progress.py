"""What an operation is doing: a live line in a terminal, log lines elsewhere, nothing when asked."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from lakewright.errors import InvalidOption

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

MODES = ("auto", "rich", "log", "off")
MODE_VARIABLE = "LAKEWRIGHT_PROGRESS"
PAST_TENSE = {
    "append": "appended",
    "overwrite": "overwrote",
    "overwrite-partitions": "overwrote",
    "delete": "deleted",
    "update": "updated",
    "replace": "rewrote",
}
logger = logging.getLogger("lakewright")


class Progress:
    """Phases of one operation with their time and counts.

        with Progress("append", "nyc.trips") as progress:
            with progress.phase("write"):
                progress.update("3 of 8 files")
            progress.done("appended 10,000 rows in 3 files to nyc.trips")

    mode: auto (LAKEWRIGHT_PROGRESS, else rich in a terminal and log elsewhere), rich, log or off.
    """

    def __init__(self, operation: str, table: str, mode: str = "auto") -> None:
        self.title = f"{operation} {table}"
        self.mode = _resolve(mode)
        self.seconds: dict[str, float] = {}
        self._started = time.monotonic()
        self._phase: str | None = None
        self._console: Console | None = None
        self._status: Status | None = None

    def __enter__(self) -> Self:
        if self.mode == "rich":
            from rich.console import Console

            self._console = Console(stderr=True, highlight=False)
            self._status = self._console.status(self.title)
            self._status.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()
        if error is not None and self.mode == "log":
            logger.info("%s: failed in %s after %s: %s", self.title, self._phase or "preparation", duration(self.elapsed), type(error).__name__)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._started

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self._phase = name
        self.update()
        began = time.monotonic()
        yield
        self._phase = None
        self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - began
        if self.mode == "log":
            logger.info("%s: %s took %s", self.title, name, duration(self.seconds[name]))

    def update(self, counts: str = "") -> None:
        """Show counts next to the phase."""
        if self._status is not None:
            self._status.update(": ".join(part for part in (self.title, self._phase, counts) if part))

    def done(self, summary: str) -> None:
        """The line that stays: what was done, and in how long."""
        self._stop()
        line = f"{summary}, {duration(self.elapsed)}"
        if self._console is not None:
            self._console.print(line, markup=False)
        elif self.mode == "log":
            logger.info("%s", line)

    def _stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def summary(operation: str, table: str, snapshot_id: int | None, *, rows: int = 0, files: int = 0, deleted_rows: int = 0, removed_files: int = 0) -> str:
    """`appended 10,000 rows in 3 files to nyc.trips, snapshot 123`."""
    if snapshot_id is None:
        return f"{operation} {table}: nothing to write, the table is as before"
    if operation == "compact":
        return f"compacted {_counted(removed_files, 'file')} of {table} into {files:,}, snapshot {snapshot_id}"
    verb = PAST_TENSE.get(operation, operation)
    written = f"{_counted(rows, 'row')} in {_counted(files, 'file')}"
    replaced = f", replacing {_counted(deleted_rows, 'row')}" if deleted_rows else ""
    return f"{verb} {written} {'to' if operation == 'append' else 'in'} {table}{replaced}, snapshot {snapshot_id}"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _resolve(mode: str) -> str:
    if mode not in MODES:
        raise InvalidOption(f"Progress mode is {mode!r}; it takes one of {', '.join(MODES)}.")
    if mode != "auto":
        return mode
    asked = os.environ.get(MODE_VARIABLE, "auto").lower()
    if asked in MODES and asked != "auto":
        return asked
    return "rich" if sys.stderr.isatty() else "log"
