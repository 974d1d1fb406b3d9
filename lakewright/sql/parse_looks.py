"""SHOW, DESCRIBE, ANALYZE, CALL."""

from __future__ import annotations

from lakewright.sql.cursor import Cursor, Slice
from lakewright.sql.statements import Analyze, Call, Describe, Show, Statement


def show(cursor: Cursor) -> Statement | None:
    start = cursor.next().start
    if cursor.accept("TABLES"):
        return _listed(cursor, start, "TABLES")
    if cursor.accept_any("NAMESPACES", "DATABASES", "SCHEMAS"):
        return _listed(cursor, start, "NAMESPACES")
    if cursor.accept("PARTITIONS"):
        return Show(start, "PARTITIONS", cursor.name("a table"))
    if cursor.accept("CREATE", "TABLE"):
        return Show(start, "CREATE TABLE", cursor.name("a table"))
    if cursor.accept("COLUMNS"):
        cursor.accept_any("IN", "FROM")
        return Show(start, "COLUMNS", cursor.name("a table"))
    if cursor.accept("TBLPROPERTIES"):
        table = cursor.name("a table")
        key = None
        if cursor.accept("("):
            key = cursor.string("a property") if cursor.peek().kind == "string" else cursor.name("a property").text
            cursor.expect(")")
        return Show(start, "TBLPROPERTIES", table, key=key)
    return None


def describe(cursor: Cursor) -> Statement | None:
    start = cursor.next().start
    if cursor.peek().word in ("FUNCTION", "DATABASE", "NAMESPACE", "SCHEMA", "QUERY", "SELECT", "WITH", "VALUES", "FROM"):
        return None
    cursor.accept("TABLE")
    extended = cursor.accept_any("EXTENDED", "FORMATTED") is not None
    table = cursor.name("a table")
    column = None if cursor.is_done else cursor.name("a column")
    return Describe(start, table, extended, column)


def analyze(cursor: Cursor) -> Statement | None:
    start = cursor.next().start
    if not cursor.accept("TABLE"):
        return None
    table = cursor.name("a table")
    cursor.expect("COMPUTE", "STATISTICS")
    if cursor.at("NOSCAN"):
        raise cursor.unsupported("What can be told of a lake table without a scan is in its metadata always; see its partitions and files.")
    if not cursor.accept("FOR", "COLUMNS"):
        cursor.accept("FOR", "ALL", "COLUMNS")
        return Analyze(start, table)
    columns = [cursor.name("a column").text]
    while cursor.accept(","):
        columns.append(cursor.name("a column").text)
    return Analyze(start, table, tuple(columns))


def call(cursor: Cursor) -> Statement:
    start = cursor.next().start
    procedure = cursor.name("a procedure")
    arguments: list[tuple[str | None, Slice]] = []
    cursor.expect("(")
    while not cursor.at(")"):
        name = None
        if cursor.peek(1).text == "=>":
            name = cursor.identifier("an argument")
            cursor.next()
        arguments.append((name, cursor.until(",", ")", what="a value")))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return Call(start, procedure, tuple(arguments))


def _listed(cursor: Cursor, start: int, what: str) -> Show:
    name = cursor.name("a namespace") if cursor.accept_any("IN", "FROM") else None
    cursor.accept("LIKE")
    pattern = cursor.string("a pattern") if cursor.peek().kind == "string" else None
    return Show(start, what, name, pattern)
