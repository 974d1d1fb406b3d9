"""`changes('nyc.trips', since => …, until => …, log => true)`: the table function that gives what changed."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from lakewright.errors import SqlError
from lakewright.sql.cursor import Cursor, Name, Slice
from lakewright.sql.errors import sql_error, unsupported
from lakewright.sql.lexer import tokens_of
from lakewright.sql.names import Found, find, not_found
from lakewright.sql.places import pointing
from lakewright.sql.references import Argument, Reference

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakewright.sql.frames import Frames

PLACES = ("table", "since", "until")
KINDS: dict[str, tuple[type, ...]] = {"table": (str,), "since": (int, str, date), "until": (int, str, date), "log": (bool,), "where": (str,), "path_glob": (str,), "ref": (str,)}
_EXAMPLE = "changes('nyc.trips', since => 1234, until => 5678, log => true)"


def changes_of(frames: Frames, reference: Reference) -> DataFrame:
    given = _by_name(frames.sql, reference)
    values = {name: _value(frames, name, text) for name, text in given.items()}
    found = _table(frames, values.pop("table", None), given.get("table"), reference)
    if found.ref is not None:
        if values.get("ref") is not None:
            raise sql_error("A branch or tag in the name and another as ref are two; use one.", frames.sql, given["ref"].start)
        values["ref"] = found.ref
    conditions = [values.pop("where", None), None if values.get("until") is not None else frames.prunes(found, reference)]
    where = " AND ".join(f"({condition})" for condition in conditions if condition is not None)
    ends = [given[name].start for name in ("since", "until") if name in given]
    with pointing(frames.sql, ends[0] if ends else reference.name.start):
        return found.table.changes(where=where or None, **{name: value for name, value in values.items() if value is not None})


def _by_name(sql: str, reference: Reference) -> dict[str, Slice]:
    given: dict[str, Slice] = {}
    for place, argument in enumerate(reference.arguments or ()):
        name, at = _name(sql, argument, place, by_name=any(a.name for a in (reference.arguments or ())[:place]))
        if name in given:
            raise sql_error(f"{name} is given twice; give it once.", sql, at)
        given[name] = argument.value
    if "table" not in given:
        raise sql_error(f"changes takes the name of a table first, as in {_EXAMPLE}.", sql, reference.name.start)
    return given


def _name(sql: str, argument: Argument, place: int, *, by_name: bool) -> tuple[str, int]:
    if argument.name is not None:
        name = argument.name.name.lower()
        if name not in KINDS:
            raise sql_error(f"changes takes {', '.join(KINDS)}, and no {argument.name.name}.", sql, argument.name.start)
        return name, argument.name.start
    if by_name or place >= len(PLACES):
        raise sql_error(f"changes takes the table, since and until by their places, and the rest by name, as in {_EXAMPLE}.", sql, argument.value.start)
    return PLACES[place], argument.value.start


def _value(frames: Frames, name: str, text: Slice) -> Any:
    value = frames.value(text)
    if isinstance(value, datetime):
        value = int(1000 * frames.value(text, "timestamp").timestamp())
    if value is not None and (not isinstance(value, KINDS[name]) or (isinstance(value, bool) and bool not in KINDS[name])):
        kinds = {"log": "true or false", "since": "a snapshot id or a time", "until": "a snapshot id or a time"}
        raise sql_error(f"{name} is {value!r}; it takes {kinds.get(name, 'a text')}.", frames.sql, text.start)
    return str(value) if isinstance(value, date) else value


def _table(frames: Frames, name: str | None, text: Slice | None, reference: Reference) -> Found:
    at = reference.name.start if text is None else text.start
    parts = _parts(name or "")
    if not parts:
        raise sql_error(f"{name!r} is no name of a table; write it as 'nyc.trips'.", frames.sql, at)
    found = find(frames.lake, parts)
    if found is None:
        raise not_found(frames.lake, frames.sql, Name(parts, at, at))
    if found.metadata is not None:
        raise unsupported(f"{name} is a part of {found.table.name}, which has no changes of its own; name the table itself.", frames.sql, at)
    return found


def _parts(name: str) -> tuple[str, ...]:
    """The parts of a name; none if it is no name."""
    cursor = Cursor(name, tokens_of(name), len(name))
    try:
        parts = cursor.name().parts
    except SqlError:
        return ()
    return parts if cursor.is_done else ()
