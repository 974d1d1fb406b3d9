"""Where a query names tables: found by tokens, so that the rest of the text reaches Spark as it was written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lakewright.sql.cursor import Name, Slice
from lakewright.sql.lexer import QUOTED, SYMBOL, WORD, Token

# What ends the list of tables after FROM.
_AFTER_FROM = frozenset(["WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW", "UNION", "EXCEPT", "INTERSECT", "MINUS", "SELECT", "QUALIFY", "LATERAL", "PIVOT", "UNPIVOT"])
# Functions whose arguments may have a FROM among them.
_WITH_FROM = frozenset(("EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY"))
_NOT_A_TABLE = frozenset(["SELECT", "WITH", "VALUES", "FROM", "LATERAL", "ONLY", "UNNEST"])
_OUTER = frozenset(("LEFT", "RIGHT", "FULL", "ANTI", "SEMI"))
# What comes between a table and WHERE and changes its rows or columns.
_BETWEEN = frozenset(("TABLESAMPLE", "PIVOT", "UNPIVOT", "|>"))
CHANGES = "CHANGES"
_NO_ALIAS = _AFTER_FROM | _OUTER | {"ON", "USING", "JOIN", "INNER", "CROSS", "NATURAL", "OUTER", "TABLESAMPLE", "VERSION", "TIMESTAMP", "FOR", "SYSTEM_VERSION", "SYSTEM_TIME"}


@dataclass(frozen=True)
class Travel:
    """VERSION or TIMESTAMP AS OF; value as it was written."""

    is_version: bool
    value: Slice


@dataclass(frozen=True)
class Argument:
    """What a table function is given: by its name, or by its place."""

    name: Token | None
    value: Slice


@dataclass(frozen=True)
class Reference:
    """A table named in a query: its name, what version of it, and whether it has an alias of its own.

    end: after the name and version. alias_at: where an alias has its place, which is after a sample. arguments: of a function that
    gives a table of the lake.
    """

    name: Name
    end: int
    alias_at: int
    travel: Travel | None
    alias: str | None
    query: Block
    arguments: tuple[Argument, ...] | None = None


@dataclass
class Block:
    """One SELECT, as far as it matters for which rows of its tables it can need."""

    tables: int = 0
    may_prune: bool = True
    where: list[Token] = field(default_factory=list)


@dataclass
class _Level:
    """One level of brackets."""

    expecting: bool = False
    in_from: bool = False
    in_where: bool = False
    ignores_from: bool = False
    block: Block = field(default_factory=Block)


def references(sql: str, tokens: Sequence[Token]) -> list[Reference]:
    """The tables named in a part of the text, in order."""
    return list(_found(sql, tokens))


def _found(sql: str, tokens: Sequence[Token]) -> Iterator[Reference]:
    levels = [_Level(expecting=_begins_with_a_table(tokens))]
    at = 0
    while at < len(tokens):
        token, level = tokens[at], levels[-1]
        before = tokens[at - 1] if at else None
        if token.kind == SYMBOL and token.text in "([":
            inner = _Level(expecting=level.expecting, ignores_from=before is not None and before.word in _WITH_FROM)
            level.expecting = False
            _note(levels, token)
            levels.append(inner)
        elif token.kind == SYMBOL and token.text in ")]":
            if len(levels) > 1:
                levels.pop()
            _note(levels, token)
        elif level.expecting and token.kind in (WORD, QUOTED) and token.word not in _NOT_A_TABLE:
            name, after = _name(tokens, at)
            level.expecting = False
            arguments = None
            if after < len(tokens) and tokens[after].text == "(":  # a function that gives a table
                if tokens[at].word != CHANGES or after != at + 1:
                    at = after
                    continue
                closed = _primary(tokens, at)
                arguments, after = _arguments(sql, tokens[after + 1 : closed - 1]), closed
            level.block.tables += 1
            travel, after = (None, after) if arguments is not None else _travel(sql, tokens, after)
            sampled = _after_sample(tokens, after)
            alias, renames = _alias(tokens, sampled)
            if before is not None and before.word == "TABLE":  # TABLE nyc.trips, which takes no alias
                alias = name.parts[-1]
            level.block.may_prune &= not renames
            yield Reference(name, tokens[after - 1].end, tokens[sampled - 1].end, travel, alias, level.block, arguments)
            at = after
            continue
        else:
            _step(level, token, before, tokens[at - 2] if at > 1 else None)
            _note(levels, token)
        at += 1


def _begins_with_a_table(tokens: Sequence[Token]) -> bool:
    """Whether the text is the source of a MERGE, which is a name alone."""
    return bool(tokens) and tokens[0].kind in (WORD, QUOTED) and tokens[0].word not in _NOT_A_TABLE and (len(tokens) == 1 or tokens[1].text == "." or tokens[1].word in ("VERSION", "TIMESTAMP", "FOR"))


def _step(level: _Level, token: Token, before: Token | None, earlier: Token | None) -> None:
    word = token.word
    if word in _BETWEEN or token.text in _BETWEEN:
        level.block.may_prune = False
    if word == "SELECT":
        level.block, level.in_from, level.in_where, level.expecting, level.ignores_from = Block(), False, False, False, False
    elif word == "FROM":
        compares = before is not None and before.word == "DISTINCT" and earlier is not None and earlier.word in ("IS", "NOT")
        if not compares and not level.ignores_from:
            level.expecting, level.in_from, level.in_where = True, True, False
    elif word == "JOIN" or (word == "TABLE" and (before is None or before.word not in ("CREATE", "DROP", "ALTER", "INTO", "OVERWRITE"))):
        level.expecting = True
    elif word in _OUTER:
        level.block.may_prune &= not level.in_from
    elif token.text == "," and level.in_from:
        level.expecting = True
    elif word in _AFTER_FROM:
        level.in_from, level.expecting = False, False
        level.in_where = word == "WHERE"


def _note(levels: Sequence[_Level], token: Token) -> None:
    """Tokens of a WHERE belong to it at whatever depth below it they are."""
    for level in levels:
        if level.in_where and token.word != "WHERE":
            level.block.where.append(token)


def _name(tokens: Sequence[Token], at: int) -> tuple[Name, int]:
    parts, first = [tokens[at].name], at
    at += 1
    while at + 1 < len(tokens) and tokens[at].text == "." and tokens[at + 1].kind in (WORD, QUOTED):
        parts.append(tokens[at + 1].name)
        at += 2
    return Name(tuple(parts), tokens[first].start, tokens[at - 1].end), at


def _travel(sql: str, tokens: Sequence[Token], at: int) -> tuple[Travel | None, int]:
    words = [t.word for t in tokens[at : at + 4]] + [""] * 4
    skip = 1 if words[0] == "FOR" else 0
    if words[skip] not in ("VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME") or words[skip + 1 : skip + 3] != ["AS", "OF"]:
        return None, at
    first = at + skip + 3
    last = _primary(tokens, first)
    value = Slice(sql, tokens[first].start, tokens[last - 1].end) if last > first else Slice(sql, tokens[-1].end, tokens[-1].end)
    return Travel("VERSION" in words[skip], value), last


def _arguments(sql: str, tokens: Sequence[Token]) -> tuple[Argument, ...]:
    """Split at commas outside brackets; `name => value` or a value alone."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0) if token.kind == SYMBOL else 0
        if token.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    named = [(part[0], part[2:]) if len(part) > 2 and part[1].text == "=>" else (None, part) for part in parts if part]
    return tuple(Argument(name, Slice(sql, value[0].start, value[-1].end)) for name, value in named)


def _after_sample(tokens: Sequence[Token], at: int) -> int:
    for word in ("TABLESAMPLE", "REPEATABLE"):
        if at < len(tokens) and tokens[at].word == word:
            at = _primary(tokens, at)
    return at


def _primary(tokens: Sequence[Token], at: int) -> int:
    """The end of a literal, a call, a cast or something in brackets."""
    if at >= len(tokens):
        return at
    last = at + 1
    if tokens[at].text == ":" and last < len(tokens):  # a parameter
        return last + 1
    if tokens[at].word in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ") and last < len(tokens) and tokens[last].kind == "string":
        last += 1
    if (tokens[at].text == "(" or (tokens[at].kind == WORD and last < len(tokens) and tokens[last].text == "(")) and last <= len(tokens):
        depth, last = 0, at if tokens[at].text == "(" else at + 1
        while last < len(tokens):
            depth += {"(": 1, ")": -1}.get(tokens[last].text, 0)
            last += 1
            if depth == 0:
                break
    return last


def _alias(tokens: Sequence[Token], at: int) -> tuple[str | None, bool]:
    """The alias, and whether it names the columns anew."""
    if at < len(tokens) and tokens[at].word == "AS":
        at += 1
    elif at >= len(tokens) or tokens[at].kind not in (WORD, QUOTED) or tokens[at].word in _NO_ALIAS:
        return None, False
    if at >= len(tokens) or tokens[at].kind not in (WORD, QUOTED):
        return None, False
    return tokens[at].name, at + 1 < len(tokens) and tokens[at + 1].text == "("


def defined(tokens: Sequence[Token]) -> set[str]:
    """The names that a WITH of the text gives to queries, in small letters: `name AS (` and `name (columns) AS (`."""
    found = set()
    for place, token in enumerate(tokens):
        if token.word != "AS" or place + 1 >= len(tokens) or tokens[place + 1].text != "(":
            continue
        at = place - 1
        if at > 0 and tokens[at].text == ")":
            while at > 0 and tokens[at].text != "(":
                at -= 1
            at -= 1
        before = tokens[at - 1] if at > 0 else None
        if at >= 0 and tokens[at].kind in (WORD, QUOTED) and before is not None and (before.word in ("WITH", "RECURSIVE") or before.text == ","):
            found.add(tokens[at].name.lower())
    return found


def conjuncts(where: Sequence[Token]) -> Iterator[list[Token]]:
    """The parts of a WHERE that must all hold; none if it is an alternative as a whole."""
    parts: list[list[Token]] = [[]]
    depth, betweens = 0, 0
    for token in where:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0) if token.kind == SYMBOL else 0
        depth += {"CASE": 1, "END": -1}.get(token.word, 0)
        if depth == 0 and token.word == "OR":
            return
        if depth == 0 and token.word == "BETWEEN":
            betweens += 1
        if depth == 0 and token.word == "AND":
            if not betweens:
                parts.append([])
                continue
            betweens -= 1
        parts[-1].append(token)
    yield from (part for part in parts if part)
