"""SQL text as tokens that know their places, by the rules of Spark's own lexer: comments are not tokens, and quotes keep what is in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lakewright.sql.errors import sql_error

WORD, QUOTED, STRING, NUMBER, SYMBOL = "word", "quoted", "string", "number", "symbol"
_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--(?:\\\n|[^\n])*)
  | (?P<string>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
  | (?P<quoted>`(?:[^`]|``)+`)
  | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:BD|bd|[LlSsYyFfDd])?(?!\w))
  | (?P<word>\w+)
  | (?P<symbol><=>|\|\||->|=>|::|<>|!=|==|<=|>=|\|>|<<|>>|[^\s\w])
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """The keyword it may be, in capitals; nothing for what is quoted."""
        return self.text.upper() if self.kind == WORD else ""

    @property
    def name(self) -> str:
        """As part of a name, without backticks."""
        return self.text[1:-1].replace("``", "`") if self.kind == QUOTED else self.text


def tokens_of(sql: str) -> list[Token]:
    return list(_tokens(sql))


def tokens_within(sql: str, start: int, end: int) -> list[Token]:
    """The tokens between two places of a text, which know their places in the whole."""
    return [token for token in tokens_of(sql[:end]) if token.start >= start]


def _tokens(sql: str) -> Iterator[Token]:
    at = 0
    while at < len(sql):
        if sql.startswith("/*", at):
            at = _after_comment(sql, at)
            continue
        found = _TOKEN.match(sql, at)
        assert found is not None, at  # the last alternative takes any character
        kind = str(found.lastgroup)
        if kind == SYMBOL and found.group() in "'\"`":
            raise sql_error(f"The {found.group()} here is never closed.", sql, at)
        if kind != "space":
            yield Token(kind, found.group(), at, found.end())
        at = found.end()


def _after_comment(sql: str, start: int) -> int:
    """The end of a bracketed comment; they nest."""
    depth = 0
    for mark in _COMMENT_MARK.finditer(sql, start):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    raise sql_error("The comment that begins here is never closed.", sql, start)


def statements(sql: str) -> list[tuple[int, int, list[Token]]]:
    """Statements of a script, split at semicolons: from, up to, and tokens of each that has any."""
    _check_unicode(sql)
    found, begin = [], 0
    tokens: list[Token] = []
    for token in [*tokens_of(sql), Token(SYMBOL, ";", len(sql), len(sql))]:
        if token.kind == SYMBOL and token.text == ";":
            if tokens:
                found.append((begin, token.start, tokens))
            begin, tokens = token.end, []
        else:
            tokens.append(token)
    return found


def _check_unicode(sql: str) -> None:
    """Half a surrogate pair, which a Python text can hold, has no bytes that could go to Spark or into a file."""
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise sql_error(f"The character U+{ord(sql[error.start]):04X} here is half of a pair, and no text.", sql.encode(errors="replace").decode(), error.start) from None
