"""DELETE, UPDATE, MERGE and TRUNCATE as requests for a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakewright.plan.names import find_field, unquoted
from lakewright.plan.request import Clause, Command, RowRequest, Then, When
from lakewright.quoting import quoted
from lakewright.sql.cursor import Cursor, Name, Slice
from lakewright.sql.errors import sql_error
from lakewright.sql.frames import Frames, has_query, qualified
from lakewright.sql.inserts import equal, literal_of, partition_field
from lakewright.sql.lexer import tokens_of, tokens_within
from lakewright.sql.ready import edited
from lakewright.sql.statements import Assignment, Delete, Merge, MergeClause, Truncate, Update
from lakewright.sql.targets import writable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakewright.table import Table

Target = Mapping[tuple[str, ...], str]


def change(frames: Frames, statement: Delete | Update | Merge | Truncate) -> tuple[Table, RowRequest]:
    """The table and what is to happen to its rows."""
    table, branch = writable(frames, statement.table)
    match statement:
        case Delete():
            return table, _delete(frames, statement, branch)
        case Update():
            return table, _update(frames, statement, table, branch)
        case Merge():
            return table, _merge(frames, statement, table, branch)
        case Truncate():
            return table, _truncate(frames, statement, table, branch)


def _delete(frames: Frames, statement: Delete, branch: str) -> RowRequest:
    alias, target = _called(statement.table, statement.alias)
    clause = Clause(When.MATCHED, Then.DELETE)
    return RowRequest(Command.DELETE, (clause,), where=_condition(frames, statement.where, alias, target), target_alias=alias, branch=branch)


def _update(frames: Frames, statement: Update, table: Table, branch: str) -> RowRequest:
    alias, target = _called(statement.table, statement.alias)
    values = _values(frames, statement.values, table, alias, target)
    where = _condition(frames, statement.where, alias, target)
    return RowRequest(Command.UPDATE, (Clause(When.MATCHED, Then.UPDATE, None, values),), where=where, target_alias=alias, branch=branch)


def _merge(frames: Frames, statement: Merge, table: Table, branch: str) -> RowRequest:
    alias, target = _called(statement.table, statement.alias)
    source, source_alias, names = _source(frames, statement)
    called = {**target, **names}
    return RowRequest(
        Command.MERGE,
        tuple(_clause(frames, clause, table, alias, called) for clause in statement.clauses),
        source=source,
        on=frames.expression(statement.on, called),
        target_alias=alias,
        source_alias=source_alias,
        branch=branch,
        options={"merge_schema": True} if statement.evolve else {},
    )


def _truncate(frames: Frames, statement: Truncate, table: Table, branch: str) -> RowRequest:
    parts = [(partition_field(frames, table, part), part) for part in statement.partition]
    where = " AND ".join(equal(field, literal_of(frames, part, field)) for field, part in parts)
    return RowRequest(Command.DELETE, (Clause(When.MATCHED, Then.DELETE),), where=where or None, branch=branch)


def _called(name: Name, alias: str | None) -> tuple[str, Target]:
    """What the table is called in the statement's expressions, and what its whole name becomes there."""
    called = alias or name.parts[-1]
    return called, {} if alias else {name.parts: called}


def _source(frames: Frames, statement: Merge) -> tuple[DataFrame, str, Target]:
    """The rows to merge, what they are called, and what their whole name becomes. A name alone is read as `SELECT * FROM` it would be."""
    source, alias = statement.source, statement.source_alias
    if source.text.startswith("("):
        return frames.query(Slice(source.sql, source.start + 1, source.end - 1)), alias or "_lw_source", {}
    parts = Cursor(source.sql, tokens_within(source.sql, source.start, source.end), source.end).name().parts
    return frames.query(source, before="SELECT * FROM "), alias or parts[-1], {} if alias or len(parts) == 1 else {parts: parts[-1]}


def _clause(frames: Frames, clause: MergeClause, table: Table, alias: str, target: Target) -> Clause:
    condition = None if clause.condition is None else frames.expression(clause.condition, target)
    values = None if clause.values is None else _values(frames, clause.values, table, alias, target)
    return Clause(clause.when, clause.then, condition, values)


def _values(frames: Frames, assignments: tuple[Assignment, ...], table: Table, alias: str, target: Target) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for assignment in assignments:
        path = _path(assignment.target, table, alias)
        if path in values:
            raise sql_error(f"{assignment.target.text} is assigned twice; assign each column once.", frames.sql, assignment.target.start)
        values[path] = _value(frames, assignment, table, alias, target)
    return values


def _value(frames: Frames, assignment: Assignment, table: Table, alias: str, target: Target) -> Any:
    if assignment.value.text.upper() != "DEFAULT":
        return frames.expression(assignment.value, target)
    return find_field(table.schema, unquoted(_path(assignment.target, table, alias)), table.name).write_default


def _path(target: Name, table: Table, alias: str) -> str:
    """The column an assignment names, with backticks where its parts need them, without the table in front."""
    parts = target.parts
    whole = tuple(table.name.split("."))
    if len(parts) > len(whole) and parts[: len(whole)] == whole:
        parts = parts[len(whole) :]
    elif len(parts) > 1 and parts[0].lower() == alias.lower():
        parts = parts[1:]
    return ".".join(quoted(part) for part in parts)


def _condition(frames: Frames, where: Slice | None, alias: str, target: Target) -> str | Column | None:
    """Text, which prunes files, without the alias in front of columns; a Column where it has a query in it."""
    if where is None:
        return None
    found = frames.expression(where, target)
    return _without_alias(found, alias) if isinstance(found, str) and not has_query(found) else found


def _without_alias(text: str, alias: str) -> str:
    return str(edited(Slice(text, 0, len(text)), ((start, end, "") for start, end in qualified(tokens_of(text), [(alias,)]))))
