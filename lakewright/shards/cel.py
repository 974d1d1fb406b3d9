"""Routing by an expression in CEL, the Common Expression Language.

The expression sees the key under the name `key` and under its column's name, and the columns named for it. Its result is the
shard's number, or one of the declared tokens, whose place in their list is the shard.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from lakewright.errors import InvalidRouting
from lakewright.shards.keys import Key, KeyType, checked, key_from_text, key_type_of_arrow

KEY = "key"
MOST_SHARDS = 100_000
Token = str | int | bool
_NAMES = {"int": "INT", "string": "STRING", "bytes": "BYTES", "bool": "BOOL", "double": "DOUBLE", "timestamp": "TIMESTAMP"}
_OF_KEYS: dict[KeyType, str] = {"int": "int", "str": "string", "bytes": "bytes"}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True)
class CelRouting:
    """By an expression. `columns` are the expression's own, with their CEL types; `values` the tokens, where it yields tokens."""

    expression: str
    columns: tuple[tuple[str, str], ...]
    num_shards: int
    values: tuple[Token, ...] | None
    key_column: str
    key_type: KeyType

    @property
    def used(self) -> tuple[str, ...]:
        """The names that occur in the expression."""
        return _used(self.expression, self._variables)

    @property
    def routing_columns(self) -> tuple[str, ...]:
        """What a reader has to give beside the key."""
        return tuple(name for name in self.used if name not in (KEY, self.key_column))

    @property
    def uses_only_key(self) -> bool:
        return not self.routing_columns

    @property
    def _variables(self) -> tuple[tuple[str, str], ...]:
        key = _OF_KEYS[self.key_type]
        own = {self.key_column: key} if _IDENTIFIER.match(self.key_column) else {}
        return tuple({KEY: key, **own, **dict(self.columns)}.items())

    def shard_of(self, key: Key, routing: Mapping[str, Any] | None = None) -> int:
        plain = checked(key, self.key_type)
        data = {KEY: plain, self.key_column: plain}
        given = routing or {}
        missing = [name for name in self.routing_columns if given.get(name) is None]
        if missing:
            raise InvalidRouting(f"The snapshot is routed by {self.expression!r}: a get needs routing={{…}} with {', '.join(missing)}.")
        data.update((name, given[name]) for name in self.routing_columns)
        return self._shard(self._result({name: data[name] for name in self.used}))

    def shards_of(self, batch: pa.RecordBatch | pa.Table, key_column: str) -> pa.Int32Array:
        """The shard of every row; rows with the same values are evaluated once."""
        results, places = self._results(batch, key_column)
        shards = np.fromiter((self._shard(result) for result in results), np.int32, len(results))
        return pa.array(shards[places])

    def tokens_of(self, batch: pa.RecordBatch | pa.Table, key_column: str) -> set[Token]:
        """The distinct results of a batch, to make `values` of."""
        return {self._token(result) for result in self._results(batch, key_column)[0]}

    def to_json(self) -> dict[str, Any]:
        values = None if self.values is None else list(self.values)
        return {
            "kind": "cel",
            "expression": self.expression,
            "columns": [list(column) for column in self.columns],
            "num_shards": self.num_shards,
            "values": values,
            "key_column": self.key_column,
            "key_type": self.key_type,
        }

    def _results(self, batch: pa.RecordBatch | pa.Table, key_column: str) -> tuple[list[Any], np.ndarray[Any, np.dtype[np.intp]]]:
        names = self.used
        if not names:
            return [self._result({})] if batch.num_rows else [], np.zeros(batch.num_rows, np.intp)
        columns = [_column(batch, key_column if name == KEY else name, self.expression) for name in names]
        codes = np.zeros(batch.num_rows, np.int64)
        for column in columns:
            encoded = column.dictionary_encode()
            codes = codes * max(1, len(encoded.dictionary)) + encoded.indices.to_numpy(zero_copy_only=False)
            codes = np.unique(codes, return_inverse=True)[1]  # numbered anew, so that the product of the sizes stays small
        _, first, places = np.unique(codes, return_index=True, return_inverse=True)
        chosen = pa.array(first)
        rows = zip(*(column.take(chosen).to_pylist() for column in columns), strict=True)
        return [self._result(dict(zip(names, row, strict=True))) for row in rows], places

    def _result(self, data: dict[str, Any]) -> Any:
        value = _compiled(self.expression, self._variables).eval(data=data)
        if value.type().name() == "ERROR":
            raise InvalidRouting(f"The expression {self.expression!r} fails for {data!r}: {value.value()}.")
        return value.value()

    def _token(self, result: Any) -> Token:
        if not isinstance(result, str | int | bool):
            raise InvalidRouting(f"The expression {self.expression!r} yields {result!r}; a token is text, a whole number or a truth value.")
        return result

    def _shard(self, result: Any) -> int:
        if self.values is not None:
            place = _places(self.values).get((type(result), result))
            if place is None:
                raise InvalidRouting(f"The expression {self.expression!r} yields the token {result!r}, which is not among the {len(self.values)} declared ones: {_shown(self.values)}.")
            return place
        if type(result) is not int or not 0 <= result < self.num_shards:
            raise InvalidRouting(f"The expression {self.expression!r} yields {result!r}; it has to be a shard from 0 to {self.num_shards - 1}.")
        return result


def cel_routing(
    expression: str,
    *,
    key_column: str,
    key_type: KeyType,
    columns: Mapping[str, pa.DataType | str] | None = None,
    num_shards: int | None = None,
    values: Iterable[Token] | None = None,
) -> CelRouting:
    """A checked routing: the expression compiles over the columns and yields numbers of shards, or tokens where `values` are given."""
    tokens = None if values is None else tuple(values)
    if tokens is not None:
        _check_tokens(tokens, num_shards)
    elif num_shards is None or isinstance(num_shards, bool) or not 1 <= num_shards <= MOST_SHARDS:
        raise InvalidRouting(f"The number of shards is {num_shards!r}; an expression without routing values needs a number from 1 to {MOST_SHARDS}.")
    routing = CelRouting(expression, tuple(cel_types(columns or {}).items()), len(tokens) if tokens is not None else num_shards or 0, tokens, key_column, key_type)
    yielded = _compiled(expression, routing._variables).return_type().name()
    allowed = ("INT", "DYN") if tokens is None else ("INT", "STRING", "BOOL", "DYN")
    if yielded not in allowed:
        wanted = "the number of a shard (int)" if tokens is None else "a token (string, int or bool)"
        raise InvalidRouting(f"The expression {expression!r} yields {yielded.lower()}; it has to yield {wanted}.")
    return routing


def cel_from_json(described: Mapping[str, Any]) -> CelRouting:
    return cel_routing(
        described["expression"],
        key_column=described["key_column"],
        key_type=described["key_type"],
        columns=dict(described["columns"]),
        num_shards=None if described["values"] is not None else described["num_shards"],
        values=described["values"],
    )


def cel_types(columns: Mapping[str, pa.DataType | str]) -> dict[str, str]:
    """The CEL types of columns given with Arrow's."""
    return {_identifier(name): type if isinstance(type, str) and type in _NAMES else _type_of(name, type) for name, type in columns.items()}


def columns_from_text(given: Mapping[str, str], routing: object) -> dict[str, Any] | None:
    """Routing columns typed or sent as text, as the types the expression has for them."""
    if not given:
        return None
    types = dict(routing.columns) if isinstance(routing, CelRouting) else {}
    unknown = [name for name in given if name not in types]
    if unknown:
        raise InvalidRouting(f"{unknown[0][:80]!r} is no column this snapshot is routed by{': it takes ' + ', '.join(types) if types else ''}.")
    try:
        return {name: _FROM_TEXT[types[name]](text) for name, text in given.items()}
    except (ValueError, KeyError):
        raise InvalidRouting(f"A routing column has a value of another type; they are {', '.join(f'{name} {type}' for name, type in types.items())}.") from None


_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "int": int,
    "double": float,
    "string": str,
    "bool": lambda text: {"true": True, "false": False}[text.lower()],
    "bytes": lambda text: key_from_text(text, "bytes"),
    "timestamp": datetime.fromisoformat,
}


def _type_of(name: str, type: pa.DataType | str) -> str:
    if isinstance(type, str):
        raise InvalidRouting(f"Column {name} has the type {type!r}; an expression takes {', '.join(_NAMES)}.")
    if pa.types.is_boolean(type):
        return "bool"
    if pa.types.is_floating(type):
        return "double"
    if pa.types.is_timestamp(type):
        return "timestamp"
    try:
        return _OF_KEYS[key_type_of_arrow(type)]
    except Exception:
        raise InvalidRouting(f"Column {name} of type {type} cannot be used in an expression; it takes {', '.join(_NAMES)}.") from None


def _identifier(name: str) -> str:
    if not _IDENTIFIER.match(name):
        raise InvalidRouting(f"Column {name!r} cannot be named in an expression: names are letters, digits and underscores. Rename it first.")
    return name


def _check_tokens(tokens: tuple[Token, ...], num_shards: int | None) -> None:
    if not tokens:
        raise InvalidRouting("There are no routing values; at least one is needed.")
    if not all(isinstance(token, str | int | bool) for token in tokens):
        raise InvalidRouting(f"The routing values {_shown(tokens)} are not all text, whole numbers or truth values.")
    if len(_places(tokens)) != len(tokens):
        raise InvalidRouting(f"The routing values {_shown(tokens)} hold one of them twice.")
    if num_shards is not None and num_shards != len(tokens):
        raise InvalidRouting(f"There are {len(tokens)} routing values and num_shards is {num_shards}; leave num_shards out, each value is a shard.")


@lru_cache(maxsize=64)
def _places(tokens: tuple[Token, ...]) -> dict[tuple[type, Token], int]:
    """By type as well, since True equals 1."""
    return {(type(token), token): place for place, token in enumerate(tokens)}


@lru_cache(maxsize=64)
def _compiled(expression: str, variables: tuple[tuple[str, str], ...]) -> Any:
    from cel_expr_python import cel

    types = {name: getattr(cel.Type, _NAMES[type]) for name, type in variables}
    try:
        return cel.NewEnv(variables=types).compile(expression)
    except Exception as error:
        raise InvalidRouting(f"The expression {expression!r} does not compile over {', '.join(f'{n} {t}' for n, t in variables)}: {error}") from None


@lru_cache(maxsize=64)
def _used(expression: str, variables: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """A name is used where the expression does not compile without it."""
    _compiled(expression, variables)
    return tuple(name for name, _ in variables if not _compiles(expression, tuple(v for v in variables if v[0] != name)))


def _compiles(expression: str, variables: tuple[tuple[str, str], ...]) -> bool:
    try:
        _compiled(expression, variables)
    except InvalidRouting:
        return False
    return True


def _column(batch: pa.RecordBatch | pa.Table, name: str, expression: str) -> pa.Array:
    if name not in batch.schema.names:
        raise InvalidRouting(f"The expression {expression!r} uses column {name}, which the rows do not have; they have {', '.join(batch.schema.names)}.")
    column = batch.column(name)
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if array.null_count:
        raise InvalidRouting(f"Column {name}, which {expression!r} routes by, has {array.null_count} nulls; every row needs a value.")
    return array


def _shown(tokens: tuple[Token, ...]) -> str:
    return ", ".join(repr(token) for token in tokens[:20]) + (", …" if len(tokens) > 20 else "")
