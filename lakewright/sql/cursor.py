"""A place in the tokens of one statement, and the small steps a parser takes from it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakewright.errors import SqlError
from lakewright.sql.errors import sql_error, unsupported
from lakewright.sql.lexer import NUMBER, QUOTED, STRING, SYMBOL, WORD, Token

OPENING, CLOSING = {"(": ")", "[": "]"}, {")", "]"}
_LONGEST = 19  # digits of a long
_SHOWN = 60
_DEEPEST = 200  # brackets in brackets; at some more Spark's parser runs out of stack, after minutes


@dataclass(frozen=True)
class Slice:
    """A part of the text, handed on as it was written."""

    sql: str
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.sql[self.start : self.end]

    def __bool__(self) -> bool:
        return self.start < self.end


@dataclass(frozen=True)
class Name:
    """A dotted name and where it stands."""

    parts: tuple[str, ...]
    start: int
    end: int

    @property
    def text(self) -> str:
        return ".".join(self.parts)


class Cursor:
    def __init__(self, sql: str, tokens: Sequence[Token], end: int) -> None:
        self.sql = sql
        self._tokens = tokens
        self._end = end
        self._at = 0

    def peek(self, ahead: int = 0) -> Token:
        """The token there; past the last one, an empty one at the end."""
        place = self._at + ahead
        return self._tokens[place] if place < len(self._tokens) else Token(SYMBOL, "", self._end, self._end)

    @property
    def is_done(self) -> bool:
        return self._at >= len(self._tokens)

    def next(self) -> Token:
        token = self.peek()
        self._at += 1
        return token

    def at(self, *words: str) -> bool:
        return all(self._is(self.peek(n), word) for n, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Step over the words if they are next."""
        if not self.at(*words):
            return False
        self._at += len(words)
        return True

    def accept_any(self, *words: str) -> str | None:
        return next((word for word in words if self.accept(word)), None)

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.accept(word):
                raise self.error(f"Expected {word}")

    def identifier(self, what: str = "a name") -> str:
        if self.peek().kind not in (WORD, QUOTED):
            raise self.error(f"Expected {what}")
        return self.next().name

    def name(self, what: str = "a name") -> Name:
        """`a.b.c`, with or without backticks."""
        start = self.peek().start
        parts = [self.identifier(what)]
        while self.peek().text == "." and self.peek(1).kind in (WORD, QUOTED):
            self.next()
            parts.append(self.next().name)
        return Name(tuple(parts), start, self._before().end)

    def string(self, what: str) -> str:
        """A text in quotes, as Spark reads it; several in a row are one."""
        if self.peek().kind != STRING:
            raise self.error(f"Expected {what} in quotes")
        parts = []
        while self.peek().kind == STRING:
            parts.append(unescaped(self.next().text))
        return "".join(parts)

    def number(self, what: str) -> int:
        sign = -1 if self.accept("-") else 1
        if self.peek().kind != NUMBER or not self.peek().text.isdigit():
            raise self.error(f"Expected {what}, a whole number")
        if len(self.peek().text) > _LONGEST:
            raise self.error(f"Expected {what}, which has at most {_LONGEST} digits")
        return sign * int(self.next().text)

    def until(self, *stops: str, what: str = "an expression", is_type: bool = False) -> Slice:
        """Everything up to one of the words or symbols, outside brackets and CASE … END; it may not be empty. In a type < and > are brackets."""
        start = self.peek().start
        self._skip(lambda: any(self.at(*stop.split()) for stop in stops), is_type)
        end = self._before().end if self.peek().start != start else start
        if end <= start:
            raise self.error(f"Expected {what}")
        return Slice(self.sql, start, end)

    def rest(self, what: str = "more") -> Slice:
        """Everything to the end of the statement."""
        if self.is_done:
            raise self.error(f"Expected {what}")
        start = self.peek().start
        self._skip(lambda: False)
        return Slice(self.sql, start, self._tokens[-1].end)

    def listed(self, read: Callable[[], object]) -> list[object]:
        """`(a, b, …)`, each read by the function."""
        self.expect("(")
        found = [read()]
        while self.accept(","):
            found.append(read())
        self.expect(")")
        return found

    def bracketed(self) -> Slice:
        """What stands between a bracket, which is next, and its counterpart; steps over both."""
        opening = self.peek()
        if opening.text != "(":
            raise self.error("Expected (")
        self.next()
        start = opening.end
        self._skip(lambda: self.at(")"))
        end = self.peek().start
        self.expect(")")
        return Slice(self.sql, start, end)

    def opens_query(self) -> bool:
        """Whether the bracket that is next opens a query rather than a list of columns, one of which may be called like a keyword."""
        ahead = 0
        while self.peek(ahead).text == "(":
            ahead += 1
        return self.peek(ahead).word in ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "MAP", "REDUCE") and self.peek(ahead + 1).text not in (",", ")")

    def finish(self) -> None:
        if not self.is_done:
            raise self.error("This does not belong here")

    def error(self, message: str) -> SqlError:
        token = self.peek()
        shown = token.text if len(token.text) <= _SHOWN else f"{token.text[:_SHOWN]}…"
        found = f", found {shown!r}" if shown else ", found the end of the statement"
        return sql_error(f"{message}{found}.", self.sql, token.start)

    def unsupported(self, message: str, at: int | None = None) -> SqlError:
        return unsupported(message, self.sql, self.peek().start if at is None else at)

    def mark(self) -> int:
        return self._at

    def back_to(self, mark: int) -> None:
        self._at = mark

    def _before(self) -> Token:
        return self._tokens[max(self._at - 1, 0)]

    def _skip(self, is_end: Callable[[], bool], is_type: bool = False) -> None:
        """To the next token for which it holds, outside brackets and CASE … END, or to the end."""
        closing: list[str] = []
        while not self.is_done:
            if not closing and is_end():
                return
            token = self.next()
            if is_type and token.text in ("<", ">", ">>", "<>"):
                closing += [">"] * (token.text == "<")
                del closing[len(closing) - token.text.count(">") * (token.text[0] == ">") :]
            elif token.kind == SYMBOL and token.text in OPENING:
                closing.append(OPENING[token.text])
            elif token.word == "CASE":
                closing.append("END")
            elif closing and (token.text == closing[-1] or token.word == closing[-1]):
                closing.pop()
            elif token.kind == SYMBOL and token.text in CLOSING:
                self._at -= 1
                raise self.error("This bracket was not opened")
            if len(closing) > _DEEPEST:
                self._at -= 1
                raise self.error(f"This is nested more than {_DEEPEST} deep; name parts of it in a WITH, or in a view")
        if closing:
            raise self.error(f"Expected {closing[-1]}")

    @staticmethod
    def _is(token: Token, word: str) -> bool:
        return token.word == word if word[0].isalpha() else token.kind == SYMBOL and token.text == word


_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def unescaped(literal: str) -> str:
    """The value of a string literal by Spark's rules."""
    if literal[0] in "rR":
        return literal[2:-1]
    quote, inner = literal[0], literal[1:-1]
    out, at = [], 0
    while at < len(inner):
        char = inner[at]
        if char == "\\" and at + 1 < len(inner):
            value, used = _escape(inner[at + 1 : at + 10])
            out.append(value)
            at += 1 + used
        elif char == quote:  # doubled
            out.append(quote)
            at += 2
        else:
            out.append(char)
            at += 1
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # two escapes, as \\ud83d\\ude00, may be one character


def _escape(after: str) -> tuple[str, int]:
    """What follows a backslash: its value, and how many characters it takes."""
    for sign, digits in (("u", 4), ("U", 8)):
        if after[0] == sign and len(after) > digits and all(c in "0123456789abcdefABCDEF" for c in after[1 : digits + 1]):
            code = int(after[1 : digits + 1], 16)
            return chr(code) if code <= sys.maxunicode else "\ufffd", digits + 1
    octal = after[:3]
    if len(octal) == 3 and octal[0] in "01" and all(c in "01234567" for c in octal):
        return chr(int(octal, 8)), 3
    return _ESCAPES.get(after[0], after[0]), 1
