"""What plain statements may not do to a keyed table: leave a key with two rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakewright.errors import UnsupportedOperation
from lakewright.format.metadata import Metadata
from lakewright.keys.definition import Definition, definition_of
from lakewright.plan.keys import is_keyed
from lakewright.plan.names import match_name, unquoted
from lakewright.plan.request import Clause, Command, RowRequest, Then
from lakewright.quoting import quoted
from lakewright.rows.merge_source import equal_keys


def within_keys(request: RowRequest, metadata: Metadata, table: str) -> RowRequest:
    """The request as a keyed table takes it: UPDATE and MERGE leave keys as they are, and a MERGE inserts only keys that it has looked up."""
    if not is_keyed(metadata.properties):
        return request
    definition = definition_of(metadata, table)
    sources = {source for part in definition.key for source in part.sources}
    for clause in request.clauses:
        if clause.then is Then.UPDATE and _assigns(clause, request, definition, sources):
            raise UnsupportedOperation(
                f"{clause} assigns the key of {table} ({', '.join(sorted(sources))}), so two rows could get one; leave the key out, or use upsert and delete_keys.", table=table
            )
    inserts = [clause for clause in request.clauses if clause.then is Then.INSERT]
    if request.command is not Command.MERGE or not inserts:
        return request
    looked_up = {key.column: key.expression for key in equal_keys(request, metadata.schema)}
    if not all(part.is_top_level and part.column in looked_up and _inserts_it(clause, part.column, looked_up[part.column], request) for clause in inserts for part in definition.key):
        raise UnsupportedOperation(
            f"A MERGE that inserts into {table} has to look its key up: ON compares {', '.join(sorted(sources))} with what it inserts there, each by =. Or use upsert.", table=table
        )
    return replace(request, unique=tuple(metadata.schema.find_field(part.column or "").field_id for part in definition.key))


def _assigns(clause: Clause, request: RowRequest, definition: Definition, sources: set[str]) -> bool:
    """Whether the key may change; where a row is matched by its key, `*` gives it the key it has."""
    if clause.values is None:
        looked_up = {key.column: key.expression for key in equal_keys(request, definition.schema)}
        return not all(part.is_top_level and _is_same(looked_up.get(part.column or ""), _source_column(request, part.column or "")) for part in definition.key)
    return any(_top(name, request, sources) for name in clause.values)


def _top(name: str, request: RowRequest, sources: set[str]) -> str | None:
    path = unquoted(name).split(".")
    if path[0].lower() == request.target_alias.lower() and len(path) > 1:
        path = path[1:]
    return match_name(path[0], sources)


def _inserts_it(clause: Clause, column: str, expression: str, request: RowRequest) -> bool:
    if clause.values is None:
        return _is_same(expression, _source_column(request, column))
    given = next((value for name, value in clause.values.items() if _top(name, request, {column})), None)
    return _is_same(expression, given)


def _source_column(request: RowRequest, column: str) -> str:
    return f"{quoted(request.source_alias)}.{quoted(column)}"


def _is_same(one: Any, other: Any) -> bool:
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    try:
        return _plain(one) == _plain(other)
    except SqlglotError:
        return False


def _plain(text: str) -> exp.Expr:
    """Names in lower case and without quotes."""
    parsed = sqlglot.parse_one(text, dialect="spark").unnest()
    return parsed.transform(lambda node: exp.to_identifier(node.name.lower()) if isinstance(node, exp.Identifier) else node)
