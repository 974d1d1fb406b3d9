"""INSERT, UPSERT, DELETE, UPDATE, MERGE, TRUNCATE."""

from __future__ import annotations

from lakewright.plan.request import Then, When
from lakewright.sql.cursor import Cursor, Slice
from lakewright.sql.statements import Assignment, Delete, Insert, Merge, MergeClause, PartitionValue, Statement, Truncate, Update

QUERIES = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(", "MAP", "REDUCE")


def insert(cursor: Cursor) -> Statement | None:
    upsert = cursor.at("UPSERT")
    start = cursor.next().start
    evolve = _with_schema_evolution(cursor)
    overwrite = not upsert and cursor.accept("OVERWRITE")
    if overwrite:
        if cursor.at("DIRECTORY") or cursor.at("LOCAL"):
            return None
        cursor.accept("INTO")
    else:
        cursor.expect("INTO")
    cursor.accept("TABLE")
    table = cursor.name("the table to insert into")
    partition = _partition(cursor)
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    where = None
    if not upsert and cursor.accept("REPLACE", "WHERE"):
        where = cursor.until("SELECT", "WITH", "VALUES", "FROM", "TABLE", what="the condition of REPLACE WHERE")
    by_name = cursor.accept("BY", "NAME")
    columns = None
    if not by_name and cursor.at("(") and not cursor.opens_query():
        columns = tuple(str(c) for c in cursor.listed(lambda: cursor.identifier("a column")))
    if not cursor.peek().text or (cursor.peek().word or cursor.peek().text) not in QUERIES:
        raise cursor.error("Expected VALUES or a query")
    return Insert(start, table, cursor.rest(), overwrite, partition, columns, by_name, evolve, where, if_not_exists, upsert)


def delete(cursor: Cursor) -> Statement:
    start = cursor.next().start
    cursor.expect("FROM")
    table = cursor.name("the table to delete from")
    return Delete(start, table, _alias(cursor, "WHERE"), _where(cursor))


def update(cursor: Cursor) -> Statement:
    start = cursor.next().start
    table = cursor.name("the table to update")
    alias = _alias(cursor, "SET")
    cursor.expect("SET")
    values = _assignments(cursor, "WHERE")
    return Update(start, table, alias, values, _where(cursor))


def merge(cursor: Cursor) -> Statement:
    start = cursor.next().start
    evolve = _with_schema_evolution(cursor)
    cursor.expect("INTO")
    table = cursor.name("the table to merge into")
    alias = _alias(cursor, "USING")
    cursor.expect("USING")
    source = _source(cursor)
    source_alias = _alias(cursor, "ON")
    cursor.expect("ON")
    on = cursor.until("WHEN", what="the condition of ON")
    clauses = []
    while cursor.accept("WHEN"):
        clauses.append(_clause(cursor))
    if not clauses:
        raise cursor.error("Expected WHEN")
    return Merge(start, table, alias, source, source_alias, on, tuple(clauses), evolve)


def truncate(cursor: Cursor) -> Statement:
    start = cursor.next().start
    cursor.expect("TABLE")
    return Truncate(start, cursor.name("the table to truncate"), _partition(cursor))


def _clause(cursor: Cursor) -> MergeClause:
    when = When.NOT_MATCHED if cursor.accept("NOT") else When.MATCHED
    cursor.expect("MATCHED")
    if when is When.NOT_MATCHED and cursor.accept("BY"):
        if cursor.accept("SOURCE"):
            when = When.NOT_MATCHED_BY_SOURCE
        else:
            cursor.expect("TARGET")
    condition = cursor.until("THEN", what="a condition") if cursor.accept("AND") else None
    cursor.expect("THEN")
    if when is When.NOT_MATCHED:
        cursor.expect("INSERT")
        return MergeClause(when, Then.INSERT, condition, _inserted(cursor))
    if cursor.accept("DELETE"):
        return MergeClause(when, Then.DELETE, condition, None)
    cursor.expect("UPDATE", "SET")
    if cursor.at("*"):
        if when is When.NOT_MATCHED_BY_SOURCE:
            raise cursor.error("A row without a source row has no values for *; name the columns to set")
        cursor.next()
        return MergeClause(when, Then.UPDATE, condition, None)
    return MergeClause(when, Then.UPDATE, condition, _assignments(cursor, "WHEN"))


def _inserted(cursor: Cursor) -> tuple[Assignment, ...] | None:
    if cursor.accept("*"):
        return None
    if not cursor.at("("):
        raise cursor.error("Expected * or the columns to insert, in brackets")
    names = list(cursor.listed(lambda: cursor.name("a column")))
    cursor.expect("VALUES")
    values = cursor.listed(lambda: cursor.until(",", ")"))
    if len(names) != len(values):
        raise cursor.error(f"{len(names)} columns are named and {len(values)} values given")
    return tuple(Assignment(name, value) for name, value in zip(names, values, strict=True))  # type: ignore[arg-type]


def _assignments(cursor: Cursor, end: str) -> tuple[Assignment, ...]:
    found = []
    while True:
        target = cursor.name("the column to set")
        if not cursor.accept("=") and not cursor.accept("=="):
            raise cursor.error("Expected =")
        found.append(Assignment(target, cursor.until(",", end, what="a value")))
        if not cursor.accept(","):
            return tuple(found)


def _source(cursor: Cursor) -> Slice:
    """A name, with time travel if any, or a query in brackets; both as text that can stand after FROM."""
    start = cursor.peek().start
    if cursor.at("("):
        inside = cursor.bracketed()
        return Slice(cursor.sql, start, inside.end + 1)
    name = cursor.name("the source of the merge")
    end = name.end
    is_at_version = cursor.accept("FOR")
    if any(cursor.accept(word, "AS", "OF") for word in ("VERSION", "TIMESTAMP", "SYSTEM_VERSION", "SYSTEM_TIME")):
        end = cursor.next().end
    elif is_at_version:
        raise cursor.error("Expected VERSION AS OF or TIMESTAMP AS OF")
    return Slice(cursor.sql, start, end)


def _partition(cursor: Cursor) -> tuple[PartitionValue, ...]:
    if not cursor.accept("PARTITION"):
        return ()

    def one() -> PartitionValue:
        column = cursor.name("a partition column")
        return PartitionValue(column, cursor.until(",", ")", what="a value") if cursor.accept("=") else None)

    return tuple(cursor.listed(one))  # type: ignore[arg-type]


def _alias(cursor: Cursor, end: str) -> str | None:
    if cursor.accept("AS"):
        return cursor.identifier("an alias")
    return None if cursor.is_done or cursor.at(end) or not (cursor.peek().word or cursor.peek().text.startswith("`")) else cursor.identifier()


def _where(cursor: Cursor) -> Slice | None:
    return cursor.rest("a condition") if cursor.accept("WHERE") else None


def _with_schema_evolution(cursor: Cursor) -> bool:
    return cursor.accept("WITH", "SCHEMA", "EVOLUTION")
