"""Text of a statement made ready for Spark: lake tables, given DataFrames and views of the lake stand in it as views, parameters as literals."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakewright.errors import InvalidOption, LakewrightError
from lakewright.plan.filters import parse_where
from lakewright.quoting import quoted
from lakewright.session import time_zone
from lakewright.sql.cursor import Slice
from lakewright.sql.errors import sql_error
from lakewright.sql.incremental import changes_of
from lakewright.sql.lexer import QUOTED, WORD, Token, tokens_of, tokens_within
from lakewright.sql.names import Found, find
from lakewright.sql.parameters import Parameters
from lakewright.sql.places import pointing
from lakewright.sql.ready import Edit, Ready, edited
from lakewright.sql.references import Reference, Travel, conjuncts, defined, references
from lakewright.sql.spark_errors import told_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakewright.lake import Lake

_SNAPSHOT_ID = re.compile(r"-?[0-9]{1,19}")
AT_A_VERSION = ("files", "partitions", "manifests", "entries")


@dataclass(frozen=True)
class View:
    """A temporary view over lake tables, kept as the text it was made with, so that it sees new commits whenever it is used."""

    sql: str
    query: Slice
    columns: tuple[str, ...]
    parameters: Parameters
    given: Mapping[str, DataFrame]


@dataclass(frozen=True)
class Read:
    """A lake table that a statement reads: what EXPLAIN tells of it."""

    found: Found
    where: str | None
    travel: Mapping[str, Any]


class Frames:
    """For one statement; `close` drops what it left with Spark."""

    def __init__(self, lake: Lake, sql: str, parameters: Parameters, given: Mapping[str, DataFrame]) -> None:
        self.lake, self.sql, self.parameters, self.given = lake, sql, parameters, given
        self.reads: list[Read] = []
        self._frames: dict[str, DataFrame] = {}
        self._registered: list[str] = []

    @property
    def reads_lake(self) -> bool:
        """Whether anything read so far is the lake's and not Spark's."""
        return bool(self._frames)

    def query(self, text: Slice, before: str = "") -> DataFrame:
        """The rows of a query. before: what to put in front, such as EXPLAIN."""
        ready = self.ready(text, before=before)
        with told_of(text, ready):
            return self._sql(ready)

    def expression(self, text: Slice, target: Mapping[tuple[str, ...], str] | None = None) -> str | Column:
        """An expression: its text, or, where a query is in it, a Column. target: what whole names of tables are called in it."""
        from pyspark.sql import functions as F

        ready = self.ready(text, target)
        if not has_query(ready.text):
            return ready.text
        for name, frame in self._named(ready).items():
            frame.createOrReplaceTempView(name)
            self._registered.append(name)
        with told_of(text, ready):
            return F.expr(ready.text)

    def value(self, text: Slice, cast: str | None = None) -> Any:
        """What an expression without columns comes to."""
        ready = self.ready(text, before="SELECT CAST((" if cast else "SELECT (")
        with told_of(text, ready):
            row = self._sql(ready, f") AS {cast}) AS v" if cast else ") AS v").first()
        assert row is not None
        return row.v

    def ready(self, text: Slice, target: Mapping[tuple[str, ...], str] | None = None, before: str = "") -> Ready:
        """The text with its tables and parameters filled in."""
        edits: list[Edit] = [*self.parameters.within(text.start, text.end)]
        renamed: dict[tuple[str, ...], str] = dict(target or {})
        taken: set[int] = set()
        tokens = tokens_within(self.sql, text.start, text.end)
        ctes = defined(tokens)
        for reference in references(self.sql, tokens):
            parts = reference.name.parts
            is_cte = len(parts) == 1 and parts[0].lower() in ctes and reference.arguments is None
            frame = None if is_cte else self._frame(reference)
            if frame is None:
                continue
            view = self._view(frame)
            taken.add(reference.name.start)
            edits.append((reference.name.start, reference.end, view))
            if not reference.alias:
                edits.append((reference.alias_at, reference.alias_at, f" AS {quoted(parts[-1])}"))
                renamed[parts] = parts[-1]
        edits += _requalified(tokens, renamed, taken)
        return edited(text, edits, before)

    def close(self) -> None:
        for view in self._registered:
            self.lake.spark.catalog.dropTempView(view)
        self._registered.clear()

    def _sql(self, ready: Ready, after: str = "") -> DataFrame:
        named, shown = self._named(ready), ready.text + after
        if named:
            shown = shown.replace("{", "{{").replace("}", "}}")
        for name in named:
            shown = shown.replace(name, f"{{{name}}}")
        return self.lake.spark.sql(shown, None, **named)

    def _named(self, ready: Ready) -> dict[str, DataFrame]:
        return {name: frame for name, frame in self._frames.items() if name in ready.text}

    def _frame(self, reference: Reference) -> DataFrame | None:
        parts = reference.name.parts
        if reference.arguments is not None:
            return changes_of(self, reference)
        if len(parts) > 1:
            found = find(self.lake, parts)
            return None if found is None else self._read(found, reference)
        if parts[0] in self.given:
            return self.given[parts[0]]
        view = self.lake.views.get(parts[0].lower())
        return None if view is None else self.of_view(view)

    def of_view(self, view: View) -> DataFrame:
        inner = Frames(self.lake, view.sql, view.parameters, view.given)
        rows = inner.query(view.query)
        self.reads += inner.reads
        return rows.toDF(*view.columns) if view.columns else rows

    def _read(self, found: Found, reference: Reference) -> DataFrame:
        travel, at = (self._travel(reference.travel), reference.travel.value.start) if reference.travel else ({}, reference.name.start)
        if found.ref is not None:
            if travel:
                raise sql_error("A branch or tag in the name and a version or time beside it are two versions; use one.", self.sql, reference.name.start)
            travel = {"ref": found.ref}
        if found.metadata is not None:
            if travel and found.metadata not in AT_A_VERSION:
                raise sql_error(f"{reference.name.text} is about the whole table and has no versions.", self.sql, reference.name.start)
            with pointing(self.sql, at):
                return getattr(found.table, found.metadata)(**travel)  # type: ignore[no-any-return]
        where = None if travel else self.prunes(found, reference)
        self.reads.append(Read(found, where, travel))
        with pointing(self.sql, at):
            return found.table.read(where, **travel)

    def _travel(self, travel: Travel) -> dict[str, Any]:
        if not travel.value:
            raise sql_error("Expected a version or a time.", self.sql, travel.value.start)
        if travel.is_version:
            value = self.value(travel.value)
            if value is None:
                raise sql_error("The version is NULL; give the id of a snapshot, or the name of a branch or tag.", self.sql, travel.value.start)
            if isinstance(value, str) and _SNAPSHOT_ID.fullmatch(value):
                value = int(value)
            return {"snapshot_id": value} if isinstance(value, int) else {"ref": str(value)}
        time = self.value(travel.value, "timestamp")
        if time is None:
            raise sql_error("The time is NULL; give one.", self.sql, travel.value.start)
        return {"as_of": int(1000 * time.timestamp())}

    def prunes(self, found: Found, reference: Reference) -> str | None:
        """What the query's WHERE says of this table alone, so that files without such rows are not read."""
        block = reference.query
        if not block.may_prune:
            return None
        called = [(reference.alias,)] if reference.alias else [reference.name.parts, reference.name.parts[-1:]]
        chosen = []
        for part in conjuncts(block.where):
            text = self._unaliased(part, called, alone=block.tables == 1)
            if text is not None and self._is_filter(found, text):
                chosen.append(f"({text})")
        return " AND ".join(chosen) or None

    def _unaliased(self, tokens: list[Token], called: Sequence[tuple[str, ...]], *, alone: bool) -> str | None:
        """The condition without the table in front of columns; None if it may speak of another table or has a query in it."""
        if any(token.word in ("SELECT", "EXISTS") for token in tokens):
            return None
        qualifiers = [(start, end, "") for start, end in qualified(tokens, called)]
        if not alone and not qualifiers:
            return None
        edits = [*self.parameters.within(tokens[0].start, tokens[-1].end), *qualifiers]
        return str(edited(Slice(self.sql, tokens[0].start, tokens[-1].end), edits))

    def _is_filter(self, found: Found, text: str) -> bool:
        try:
            parse_where(text, found.table.schema, found.table.name, session_tz=time_zone(self.lake.spark), deterministic=True)
        except LakewrightError:
            return False
        return True

    def _view(self, frame: DataFrame) -> str:
        name = f"_lw_view_{uuid.uuid4().hex}"  # as long as the names PySpark gives, so that places in the text agree
        self._frames[name] = frame
        return name


def has_query(text: str) -> bool:
    return any(token.word == "SELECT" for token in tokens_of(text))


def check_given(given: Mapping[str, Any]) -> None:
    for name, frame in given.items():
        if not hasattr(frame, "createOrReplaceTempView"):
            raise InvalidOption(f"{name}= is a {type(frame).__name__}; names beside the text stand for DataFrames, and values go into args={{…}}.")


def qualified(tokens: Sequence[Token], called: Iterable[tuple[str, ...]]) -> Iterator[tuple[int, int]]:
    """Where a table, by one of its names, stands in front of a column: from there up to after the dot."""
    names = [tuple(part.lower() for part in parts) for parts in called]
    for place, token in enumerate(tokens):
        if place and tokens[place - 1].text == ".":
            continue
        for parts in names:
            span = tokens[place : place + 2 * len(parts) + 1]
            if len(span) == 2 * len(parts) + 1 and all(s.text == "." for s in span[1::2]) and tuple(s.name.lower() for s in span[:-1:2]) == parts and span[-1].kind in (WORD, QUOTED):
                yield token.start, span[-2].end
                break


def _requalified(tokens: Sequence[Token], renamed: Mapping[tuple[str, ...], str], taken: set[int]) -> Iterator[Edit]:
    """Columns named with the whole name of their table, `nyc.trips.fare`, which now goes by its last part or its alias."""
    for parts, own in renamed.items():
        if len(parts) > 1:
            yield from ((start, end, f"{quoted(own)}.") for start, end in qualified(tokens, [parts]) if start not in taken)
