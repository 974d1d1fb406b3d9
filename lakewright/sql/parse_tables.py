"""CREATE, DROP and ALTER of tables and namespaces. What is not a lake's to do, such as views and functions, is left to Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lakewright.sql.cursor import Cursor, Name, Slice
from lakewright.sql.lexer import STRING
from lakewright.sql.statements import (
    AddColumns,
    Alter,
    AlterColumn,
    Column,
    CreateLike,
    CreateTable,
    CreateView,
    DropColumns,
    DropTable,
    DropView,
    IdentifierFields,
    Namespace,
    PartitionField,
    Ref,
    RenameColumn,
    RenameTable,
    SetProperties,
    Statement,
    WriteOrder,
)

_NAMESPACE = ("NAMESPACE", "DATABASE", "SCHEMA")
_OURS = ("iceberg", "lakewright")
_UNIT_MS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000}
_AFTER_TABLE = ("USING", "PARTITIONED", "CLUSTERED", "ORDERED", "LOCATION", "COMMENT", "TBLPROPERTIES", "OPTIONS", "AS", "SELECT", "WITH")


def create(cursor: Cursor) -> Statement | None:
    start = cursor.peek().start
    is_create = cursor.accept("CREATE")
    is_replace = cursor.accept("OR", "REPLACE") if is_create else cursor.accept("REPLACE")
    if is_create and cursor.accept_any(*_NAMESPACE):
        lenient = cursor.accept("IF", "NOT", "EXISTS")
        name = cursor.name("a namespace")
        if not cursor.is_done:
            raise cursor.unsupported("Namespaces of a lake have a name and nothing else.")
        return Namespace(start, "CREATE", name, lenient)
    if is_create and (cursor.at("VIEW") or cursor.at("TEMP", "VIEW") or cursor.at("TEMPORARY", "VIEW")):
        return _view(cursor, start, is_replace)
    if not cursor.accept("TABLE"):
        return None
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    table = cursor.name("the table to create")
    if cursor.accept("LIKE"):
        return CreateLike(start, table, cursor.name("a table"), if_not_exists)
    made = CreateTable(start, table, replace=is_replace, create=is_create, if_not_exists=if_not_exists)
    if cursor.at("(") and not cursor.opens_query():
        made = _with_columns(cursor, made)
    return _with_details(cursor, made)


def _view(cursor: Cursor, start: int, is_replace: bool) -> Statement | None:
    """Over a query; other kinds are Spark's alone."""
    temporary = cursor.accept("TEMP") or cursor.accept("TEMPORARY")
    cursor.expect("VIEW")
    if cursor.at("IF"):
        return None
    name = cursor.name("the view to create")
    columns: tuple[str, ...] = ()
    if cursor.at("("):
        columns = tuple(str(c) for c in cursor.listed(lambda: _view_column(cursor)))
    if not cursor.accept("AS"):
        return None
    query = cursor.rest("a query")
    return CreateView(start, name, query, Slice(cursor.sql, start, query.end), columns, is_replace, temporary)


def _view_column(cursor: Cursor) -> str:
    name = cursor.identifier("a column")
    if cursor.accept("COMMENT"):
        cursor.string("a comment")
    return name


def drop(cursor: Cursor) -> Statement | None:
    start = cursor.next().start
    if cursor.accept_any(*_NAMESPACE):
        lenient = cursor.accept("IF", "EXISTS")
        name = cursor.name("a namespace")
        cascade = cursor.accept("CASCADE")
        if not cascade:
            cursor.accept("RESTRICT")
        return Namespace(start, "DROP", name, lenient, cascade)
    if cursor.accept("VIEW"):
        cursor.accept("IF", "EXISTS")
        name = cursor.name("the view to drop")
        return DropView(start, name, Slice(cursor.sql, start, name.end))
    if not cursor.accept("TABLE"):
        return None
    lenient = cursor.accept("IF", "EXISTS")
    return DropTable(start, cursor.name("the table to drop"), lenient, cursor.accept("PURGE"))


def alter(cursor: Cursor) -> Statement | None:
    start = cursor.next().start
    if not cursor.accept("TABLE"):
        return None
    table = cursor.name("the table to alter")
    return Alter(start, table, _action(cursor))


def _action(cursor: Cursor) -> object:
    if cursor.accept("RENAME"):
        if cursor.accept("TO"):
            return RenameTable(cursor.name("the new name"))
        cursor.expect("COLUMN")
        name = cursor.name("a column")
        cursor.expect("TO")
        return RenameColumn(name, cursor.identifier("the new name"))
    if cursor.accept("ADD"):
        return _added(cursor)
    if cursor.accept("DROP"):
        return _dropped(cursor)
    if cursor.accept("REPLACE"):
        return _replaced(cursor)
    if cursor.accept("SET"):
        return _set(cursor)
    if cursor.accept("UNSET"):
        cursor.expect("TBLPROPERTIES")
        lenient = cursor.accept("IF", "EXISTS")
        keys = [str(k) for k in cursor.listed(lambda: _key(cursor))]
        return SetProperties(dict.fromkeys(keys), lenient)
    if cursor.accept("WRITE"):
        return _write_order(cursor)
    if cursor.accept("CREATE"):
        replacing = cursor.accept("OR", "REPLACE")
        return _ref(cursor, "CREATE", replacing)
    if cursor.accept_any("ALTER", "CHANGE"):
        cursor.accept("COLUMN")
        return _altered(cursor)
    raise cursor.unsupported("This change of a table is not known; columns, properties, partition fields, the write order, identifier fields, branches and tags can be changed.")


def _added(cursor: Cursor) -> object:
    if cursor.accept("PARTITION", "FIELD"):
        return PartitionField(add=cursor.rest("a partition field").text)
    if cursor.at("PARTITION"):
        raise cursor.unsupported("Partitions of a lake table come and go with their rows; add rows instead, or a partition field with ADD PARTITION FIELD.")
    cursor.accept_any("COLUMNS", "COLUMN")
    if cursor.at("("):
        return AddColumns(tuple(cursor.listed(lambda: _column(cursor, (",", ")"), nested=True))))  # type: ignore[arg-type]
    found = [_column(cursor, (",",), nested=True)]
    while cursor.accept(","):
        found.append(_column(cursor, (",",), nested=True))
    return AddColumns(tuple(found))


def _dropped(cursor: Cursor) -> object:
    if cursor.accept("PARTITION", "FIELD"):
        return PartitionField(drop=cursor.rest("a partition field").text)
    if cursor.accept("IDENTIFIER", "FIELDS"):
        return IdentifierFields(drop=_names(cursor))
    if cursor.at("BRANCH") or cursor.at("TAG"):
        return _ref(cursor, "DROP", False)
    if cursor.at("PARTITION"):
        raise cursor.unsupported("Partitions of a lake table go with their rows; use DELETE FROM … WHERE.")
    cursor.accept_any("COLUMNS", "COLUMN")
    lenient = cursor.accept("IF", "EXISTS")
    if cursor.at("("):
        return DropColumns(tuple(cursor.listed(lambda: cursor.name("a column"))), lenient)  # type: ignore[arg-type]
    found = [cursor.name("a column")]
    while cursor.accept(","):
        found.append(cursor.name("a column"))
    return DropColumns(tuple(found), lenient)


def _replaced(cursor: Cursor) -> object:
    if cursor.at("BRANCH") or cursor.at("TAG"):
        return _ref(cursor, "REPLACE", True)
    cursor.expect("PARTITION", "FIELD")
    old = cursor.until("WITH", what="a partition field").text
    cursor.expect("WITH")
    return PartitionField(add=cursor.rest("a partition field").text, drop=old)


def _set(cursor: Cursor) -> object:
    if cursor.accept("TBLPROPERTIES"):
        return SetProperties(dict(_properties(cursor)))
    cursor.expect("IDENTIFIER", "FIELDS")
    return IdentifierFields(add=_names(cursor))


def _write_order(cursor: Cursor) -> WriteOrder:
    by_partition = cursor.accept("DISTRIBUTED", "BY", "PARTITION")
    local = cursor.accept("LOCALLY")
    if cursor.accept("UNORDERED"):
        return WriteOrder((), "none")
    if not cursor.accept("ORDERED", "BY"):
        if not by_partition:
            raise cursor.error("Expected ORDERED BY, UNORDERED or DISTRIBUTED BY PARTITION")
        if local:
            raise cursor.error("Expected ORDERED BY")
        return WriteOrder((), "hash")
    distribution = "hash" if by_partition else None if local else "range"  # as Iceberg has it: LOCALLY says nothing about how rows are spread
    return WriteOrder(_terms(cursor), distribution)


def _altered(cursor: Cursor) -> AlterColumn:
    change = AlterColumn(cursor.name("a column"))
    if cursor.accept("TYPE"):
        change = replace(change, type=cursor.until("COMMENT", "FIRST", "AFTER", what="a type", is_type=True))
    elif cursor.accept("SET", "NOT", "NULL"):
        return replace(change, nullable=False)
    elif cursor.accept("DROP", "NOT", "NULL"):
        return replace(change, nullable=True)
    elif cursor.accept("SET", "DEFAULT"):
        return replace(change, default=cursor.rest("a value"))
    elif cursor.accept("DROP", "DEFAULT"):
        return replace(change, drop_default=True)
    if cursor.accept("COMMENT"):
        change = replace(change, comment=cursor.string("a comment"))
    place = _place(cursor)
    return replace(change, place=place) if place else change


def _ref(cursor: Cursor, verb: str, replacing: bool) -> Ref:
    kind = cursor.accept_any("BRANCH", "TAG")
    if kind is None:
        raise cursor.error("Expected BRANCH or TAG")
    lenient = cursor.accept("IF", "NOT", "EXISTS") or cursor.accept("IF", "EXISTS")
    name = cursor.string("a name") if cursor.peek().kind == STRING else cursor.identifier("a name")
    version = cursor.number("a snapshot id") if cursor.accept("AS", "OF", "VERSION") else None
    retain = _duration(cursor) if cursor.accept("RETAIN") else None
    snapshots = keep = None
    if cursor.accept("WITH", "SNAPSHOT", "RETENTION"):
        if cursor.peek(1).word in ("SNAPSHOTS", "SNAPSHOT"):
            snapshots = cursor.number("a number of snapshots")
            cursor.next()
        if not cursor.is_done:
            keep = _duration(cursor)
    return Ref(verb, kind.lower(), name, version, lenient, replacing, retain, snapshots, keep)


def _duration(cursor: Cursor) -> int:
    count = cursor.number("a number of days, hours or minutes")
    unit = cursor.identifier("DAYS, HOURS or MINUTES").upper().rstrip("S")
    if unit not in _UNIT_MS:
        raise cursor.error("Expected DAYS, HOURS or MINUTES")
    return count * _UNIT_MS[unit]


# Parts of CREATE TABLE


def _with_columns(cursor: Cursor, made: CreateTable) -> CreateTable:
    columns: list[Column] = []
    key: tuple[str, ...] = ()
    cursor.expect("(")
    while True:
        if cursor.at("CONSTRAINT") and cursor.peek(2).word == "PRIMARY":
            cursor.next(), cursor.next()
        if cursor.accept("PRIMARY", "KEY"):
            key = tuple(str(k) for k in cursor.listed(lambda: cursor.name("a column").text))
            cursor.expect("NOT", "ENFORCED")
            cursor.accept("RELY")
        else:
            columns.append(_column(cursor, (",", ")")))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return replace(made, columns=tuple(columns), key=key)


def _column(cursor: Cursor, ends: tuple[str, ...], *, nested: bool = False) -> Column:
    name = cursor.name("a column") if nested else _single(cursor)
    column = Column(name, cursor.until(*ends, "NOT NULL", "NULL", "COMMENT", "DEFAULT", "FIRST", "AFTER", "PRIMARY", "GENERATED", what="a type", is_type=True))
    while True:
        if cursor.accept("NOT", "NULL"):
            column = replace(column, required=True)
        elif cursor.accept("NULL"):
            pass
        elif cursor.accept("COMMENT"):
            column = replace(column, comment=cursor.string("a comment"))
        elif cursor.accept("DEFAULT"):
            column = replace(column, default=cursor.until(*ends, "COMMENT", "NOT NULL", "FIRST", "AFTER", what="a value"))
        elif cursor.at("GENERATED"):
            raise cursor.unsupported("Lake tables have no generated columns; compute the value in the query that writes it.")
        elif cursor.at("FIRST") or cursor.at("AFTER"):
            column = replace(column, place=_place(cursor))
        else:
            return column


def _single(cursor: Cursor) -> Name:
    token = cursor.peek()
    return Name((cursor.identifier("a column"),), token.start, token.end)


def _place(cursor: Cursor) -> tuple[str, str | None] | None:
    if cursor.accept("FIRST"):
        return "FIRST", None
    return ("AFTER", cursor.name("a column").text) if cursor.accept("AFTER") else None


def _with_details(cursor: Cursor, made: CreateTable) -> CreateTable | None:
    while not cursor.is_done:
        if cursor.accept("USING"):
            at, source = cursor.peek().start, cursor.name("a format").text
            if source.lower() not in _OURS:
                if source.lower() in ("parquet", "orc", "avro", "csv", "json", "delta", "hudi", "paimon", "text"):
                    raise cursor.unsupported(f"Tables of a lake are Iceberg tables; leave out USING {source}, or write USING iceberg.", at)
                raise cursor.unsupported(f"There is no table format {source!r} here; leave out USING, or write USING iceberg.", at)
        elif cursor.accept("PARTITIONED", "BY"):
            made = _with_partitions(cursor, made)
        elif cursor.accept("CLUSTERED", "BY"):
            made = replace(made, partition_by=(*made.partition_by, *_buckets(cursor)))
        elif cursor.accept("ORDERED", "BY"):
            made = replace(made, order_by=_bracketed_terms(cursor))
        elif cursor.accept("LOCATION"):
            made = replace(made, location=cursor.string("a location"))
        elif cursor.accept("COMMENT"):
            made = replace(made, comment=cursor.string("a comment"))
        elif cursor.accept("TBLPROPERTIES") or cursor.accept("OPTIONS"):
            made = replace(made, properties={**made.properties, **dict(_properties(cursor))})
        elif cursor.accept("AS") or cursor.at("SELECT") or cursor.at("WITH") or cursor.at("("):
            return replace(made, query=cursor.rest("a query"))
        else:
            raise cursor.error("Expected PARTITIONED BY, CLUSTERED BY, ORDERED BY, LOCATION, COMMENT, TBLPROPERTIES or AS and a query")
    return made


def _with_partitions(cursor: Cursor, made: CreateTable) -> CreateTable:
    """Columns and transforms, or, as Hive writes it, new columns with their types."""
    terms: list[str] = []
    columns = list(made.columns)

    def one() -> None:
        mark, name = cursor.mark(), cursor.name("a partition column")
        if cursor.at("(") or cursor.at(",") or cursor.at(")"):
            cursor.back_to(mark)
            terms.append(cursor.until(",", ")").text)
        else:
            cursor.back_to(mark)
            columns.append(_column(cursor, (",", ")")))
            terms.append(cursor.sql[name.start : name.end])

    cursor.listed(one)
    return replace(made, partition_by=(*made.partition_by, *terms), columns=tuple(columns))


def _buckets(cursor: Cursor) -> list[str]:
    columns = cursor.listed(lambda: cursor.until(",", ")").text)
    if cursor.accept("SORTED", "BY"):
        raise cursor.unsupported("Write the order of rows as ORDERED BY (…).")
    cursor.expect("INTO")
    count = cursor.number("a number of buckets")
    cursor.expect("BUCKETS")
    return [f"bucket({count}, {column})" for column in columns]


def _bracketed_terms(cursor: Cursor) -> tuple[str, ...]:
    if cursor.at("("):
        return tuple(str(t) for t in cursor.listed(lambda: cursor.until(",", ")").text))
    return _terms(cursor, *_AFTER_TABLE)


def _terms(cursor: Cursor, *ends: str) -> tuple[str, ...]:
    found = [cursor.until(",", *ends, what="a column").text]
    while cursor.accept(","):
        found.append(cursor.until(",", *ends, what="a column").text)
    return tuple(found)


def _properties(cursor: Cursor) -> list[tuple[str, str]]:
    def one() -> tuple[str, str]:
        key = _key(cursor)
        cursor.accept("=")
        token = cursor.peek()
        value = cursor.string("a value") if token.kind == STRING else _plain_value(cursor)
        return key, value

    return cursor.listed(one)  # type: ignore[return-value]


def _plain_value(cursor: Cursor) -> str:
    """A number or a boolean without quotes."""
    value: Slice = cursor.until(",", ")", what="a value")
    text = value.text
    return text.lower() if text.upper() in ("TRUE", "FALSE") else text


def _key(cursor: Cursor) -> str:
    if cursor.peek().kind == STRING:
        return cursor.string("a key")
    start = cursor.name("a key")
    parts = [start.text]
    while cursor.peek().text == "-":  # write.format-default without quotes
        cursor.next()
        parts.append(cursor.name("a key").text)
    return "-".join(parts)


def _names(cursor: Cursor) -> tuple[str, ...]:
    found: list[Any] = [cursor.name("a column").text]
    while cursor.accept(","):
        found.append(cursor.name("a column").text)
    return tuple(found)
