"""What plain statements may not do to a keyed table: leave a key with two rows."""

from __future__ import annotations

from lakewright.errors import UnsupportedOperation
from lakewright.format.metadata import Metadata
from lakewright.keys.definition import definition_of, is_keyed
from lakewright.plan.names import match_name, unquoted
from lakewright.plan.request import Command, RowRequest, Then


def check_keyed(request: RowRequest, metadata: Metadata, table: str) -> None:
    """UPDATE and MERGE leave keys as they are, and a MERGE inserts only what it has compared by key."""
    if not is_keyed(metadata.properties) or request.called is not None:
        return
    definition = definition_of(metadata, table)
    sources = {source for part in definition.key for source in part.sources}
    for clause in request.clauses:
        if clause.then is Then.UPDATE and (clause.values is None or any(_top(name, request, sources) for name in clause.values)):
            raise UnsupportedOperation(
                f"{clause} assigns the key of {table} ({', '.join(sorted(sources))}), so two rows could get one; leave the key out, or use upsert and delete_keys.", table=table
            )
    if request.command is Command.MERGE and any(clause.then is Then.INSERT for clause in request.clauses):
        raise UnsupportedOperation(f"A MERGE that inserts does not see whether {table} has its keys; use upsert, which does, or insert.", table=table)


def _top(name: str, request: RowRequest, sources: set[str]) -> str | None:
    path = unquoted(name).split(".")
    if path[0].lower() == request.target_alias.lower() and len(path) > 1:
        path = path[1:]
    return match_name(path[0], sources)
