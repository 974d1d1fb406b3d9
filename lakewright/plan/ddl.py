"""Column lists and types as SQL writes them: `id bigint not null comment 'x', tags array<string>`.

Parsed by hand because Spark's own parser needs a running session, and schemas are also given where there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from lakewright.errors import SchemaError, UnsupportedType

NO_ID = 0
SIMPLE: dict[str, IcebergType] = {
    "boolean": BooleanType(),
    "tinyint": IntegerType(),
    "byte": IntegerType(),
    "smallint": IntegerType(),
    "short": IntegerType(),
    "int": IntegerType(),
    "integer": IntegerType(),
    "bigint": LongType(),
    "long": LongType(),
    "float": FloatType(),
    "real": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "char": StringType(),
    "character": StringType(),
    "varchar": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
    "timestamp_ltz": TimestamptzType(),
    "timestamptz": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
    "uuid": UUIDType(),
    "time": TimeType(),
}
TYPES = "boolean, int, bigint, float, double, decimal(p, s), string, binary, date, timestamp, timestamp_ntz, array<…>, map<…, …> and struct<…>"
_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|('(?:[^'\\]|\\.|'')*')|(\w+)|([<>(),:.\[\]]))", re.DOTALL)


@dataclass(frozen=True)
class _Token:
    text: str
    at: int
    quoted: bool = False


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._tokenize())
        self.position = 0

    def _tokenize(self) -> Iterator[_Token]:
        position, end = 0, len(self.text.rstrip())
        while position < end:
            found = _TOKEN.match(self.text, position)
            if found is None:
                raise SchemaError(f"Cannot read the schema {self.text!r} at position {position}: unexpected {self.text[position:].strip()[:10]!r}.")
            name, literal, word, sign = found.groups()
            start = found.start(found.lastindex or 0)
            if name is not None:
                yield _Token(name[1:-1].replace("``", "`"), start, quoted=True)
            elif literal is not None:
                yield _Token("'" + re.sub(r"\\(.)|''", lambda m: m.group(1) or "'", literal[1:-1], flags=re.DOTALL), start, quoted=True)
            else:
                yield _Token(word or sign, start)
            position = found.end()

    def fail(self, wanted: str) -> NoReturn:
        token = self.peek()
        found = repr(token.text) if token else "the end"
        at = token.at if token else len(self.text)
        raise SchemaError(f"Cannot read the schema {self.text!r} at position {at}: expected {wanted}, found {found}.")

    def peek(self) -> _Token | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def accept(self, *words: str) -> bool:
        following = self.tokens[self.position : self.position + len(words)]
        if len(following) == len(words) and all(not t.quoted and t.text.lower() == w for t, w in zip(following, words, strict=True)):
            self.position += len(words)
            return True
        return False

    def expect(self, word: str) -> None:
        if not self.accept(word):
            self.fail(repr(word))

    def name(self) -> str:
        token = self.peek()
        if token is None or not (token.quoted and not token.text.startswith("'") or re.fullmatch(r"\w+", token.text)):
            self.fail("a column name")
        self.position += 1
        return token.text

    def number(self) -> int:
        token = self.peek()
        if token is None or not token.text.isdigit():
            self.fail("a number")
        self.position += 1
        return int(token.text)

    def fields(self, closing: str | None, path: str) -> list[NestedField]:
        fields: list[NestedField] = []
        while not (closing and self.accept(closing)):
            if fields:
                self.expect(",")
            fields.append(self.field(path))
            if closing is None and self.peek() is None:
                break
        return fields

    def field(self, path: str) -> NestedField:
        name = self.name()
        self.accept(":")
        field_type = self.type(f"{path}.{name}" if path else name)
        required, doc = False, None
        while True:
            if self.accept("not", "null"):
                required = True
            elif self.accept("comment"):
                token = self.peek()
                if token is None or not token.text.startswith("'"):
                    self.fail("a comment in quotes")
                self.position += 1
                doc = token.text[1:]
            elif not self.accept("null"):
                return NestedField(NO_ID, name, field_type, required=required, doc=doc)

    def type(self, path: str) -> IcebergType:
        token = self.peek()
        if token is None or token.quoted or not re.fullmatch(r"\w+", token.text):
            self.fail("a type")
        self.position += 1
        name = token.text.lower()
        if name in ("decimal", "dec", "numeric"):
            return self.decimal(path)
        if name in ("array", "list") and self.accept("<"):
            element = self.type(f"{path}.element")
            required = self.accept("not", "null")
            self.expect(">")
            return ListType(NO_ID, element, element_required=required)
        if name == "map" and self.accept("<"):
            key = self.type(f"{path}.key")
            self.accept("not", "null")
            self.expect(",")
            value = self.type(f"{path}.value")
            required = self.accept("not", "null")
            self.expect(">")
            return MapType(NO_ID, key, NO_ID, value, value_required=required)
        if name == "struct" and self.accept("<"):
            return StructType(*self.fields(">", path))
        if name == "fixed" and (self.accept("(") or self.accept("[")):
            length = self.number()
            if not self.accept(")"):
                self.expect("]")
            return FixedType(length)
        if name not in SIMPLE:
            raise UnsupportedType(
                f"Column {path!r} has type {token.text!r}, which an Iceberg table has no place for; the types are {TYPES}.",
                column=path,
            )
        if name in ("char", "varchar", "character") and self.accept("("):
            self.number()
            self.expect(")")
        return SIMPLE[name]

    def decimal(self, path: str) -> IcebergType:
        precision, scale = 10, 0
        if self.accept("("):
            precision = self.number()
            if self.accept(","):
                scale = self.number()
            self.expect(")")
        if not 1 <= precision <= 38 or scale > precision:
            raise UnsupportedType(f"Column {path!r} has type decimal({precision}, {scale}); precision is 1 to 38 and scale at most the precision.", column=path)
        return DecimalType(precision, scale)


def parse_ddl(text: str) -> StructType:
    """The columns of a DDL string; every id is 0 until fresh ones are assigned."""
    parser = _Parser(text)
    if parser.peek() is None:
        raise SchemaError("The schema is empty; it needs at least one column, such as 'id bigint'.")
    if parser.accept("struct", "<"):
        fields = parser.fields(">", "")
    else:
        fields = parser.fields(None, "")
    if parser.peek() is not None:
        parser.fail("the end")
    return StructType(*fields)


def parse_type(text: str, path: str = "") -> tuple[IcebergType, bool, str | None]:
    """A type with what may follow it: `int not null comment 'x'` as (type, required, comment)."""
    parser = _Parser("c " + text)
    parser.text = text
    parser.tokens = [parser.tokens[0]] + [_Token(t.text, t.at - 2, t.quoted) for t in parser.tokens[1:]]
    field = parser.field(path.rpartition(".")[0])
    if parser.peek() is not None:
        parser.fail("the end")
    return field.field_type, field.required, field.doc
