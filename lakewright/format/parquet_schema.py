"""The schema in a Parquet footer: its tree, its leaves with their levels, and whether two columns have one physical form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lakewright.format.thrift import Struct, ThriftError, binary, child, encode, integer, needed

TYPE, TYPE_LENGTH, REPETITION, NAME, NUM_CHILDREN, CONVERTED, SCALE, PRECISION, FIELD_ID, LOGICAL = range(1, 11)
REQUIRED, OPTIONAL, REPEATED = range(3)
INT32, INT64 = 1, 2
MAX_DEPTH = 128
MAX_LEAVES = 20_000

_STRING, _MAP, _LIST, _ENUM, _DECIMAL, _DATE, _TIME, _TIMESTAMP, _INTEGER, _JSON, _BSON = 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13
_MAP_KEY_VALUE = 2
_LOGICAL_OF_CONVERTED: dict[int, tuple[Any, ...]] = {
    0: (_STRING,),
    1: (_MAP,),
    3: (_LIST,),
    4: (_ENUM,),
    6: (_DATE,),
    7: (_TIME, True, 1),
    8: (_TIME, True, 2),
    9: (_TIMESTAMP, True, 1),
    10: (_TIMESTAMP, True, 2),
    **{11 + place: (_INTEGER, 8 << place, False) for place in range(4)},
    **{15 + place: (_INTEGER, 8 << place, True) for place in range(4)},
    19: (_JSON,),
    20: (_BSON,),
}


@dataclass(frozen=True)
class Node:
    """A schema element and those below it."""

    element: Struct
    name: str
    field_id: int | None
    repetition: int
    children: tuple[Node, ...]

    def walk(self) -> Iterator[Node]:
        """This node and all below it, as a footer lists them."""
        yield self
        for below in self.children:
            yield from below.walk()


@dataclass(frozen=True)
class Leaf:
    """A column of the file: what a column chunk is of. order: its entry in column_orders, where the file has them."""

    node: Node
    path: tuple[str, ...]
    max_definition: int
    max_repetition: int
    order: Struct | None


@dataclass(frozen=True)
class Column:
    """A top-level column and its leaves, the first of which is the file's column number `first_leaf`."""

    node: Node
    leaves: tuple[Leaf, ...]
    first_leaf: int

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def field_id(self) -> int | None:
        return self.node.field_id


def read_columns(elements: Sequence[Struct], orders: Sequence[Struct] | None) -> tuple[Column, ...]:
    """The top-level columns of a schema, given in a footer's order with the root first."""
    if not elements:
        raise ThriftError("it has no schema")
    root, end = _tree(elements, 0, 0)
    if end != len(elements):
        raise ThriftError("its schema has elements outside of its tree")
    columns: list[Column] = []
    found = 0
    for top in root.children:
        leaves = [Leaf(node, path, *levels, None) for node, path, levels in _leaves(top, (), (0, 0))]
        found += len(leaves)
        if found > MAX_LEAVES:
            raise ThriftError(f"it has more than {MAX_LEAVES} columns")
        columns.append(Column(top, tuple(leaves), found - len(leaves)))
    return tuple(columns) if orders is None else _ordered(columns, orders, found)


def same_form(source: Column, new: Column) -> bool:
    """Whether chunks of both can stand in one column: types, levels, annotations, order and names below the top agree.

    Names below the top decide how readers recognise lists and maps. A missing field id contradicts none.
    """
    ours, theirs = list(source.node.walk()), list(new.node.walk())
    return (
        len(ours) == len(theirs)
        and all(_same_element(one, other) for one, other in zip(ours, theirs, strict=True))
        and all(one.name == other.name for one, other in zip(ours[1:], theirs[1:], strict=True))
        and all(one.order is None or one.order == other.order for one, other in zip(source.leaves, new.leaves, strict=True))
    )


def annotation(element: Struct) -> tuple[Any, ...] | None:
    """What an element's logical or converted type says, spelled one way; None where it adds nothing to the physical type."""
    converted, logical = integer(element, CONVERTED), child(element, LOGICAL)
    if converted == _MAP_KEY_VALUE and integer(element, REPETITION) == REPEATED:
        return None  # older writers annotate the repeated group of a map, which says no more than the group around it
    if logical:
        found: tuple[Any, ...] | None = _logical(logical)
    elif converted == 5:
        found = (_DECIMAL, integer(element, SCALE) or 0, integer(element, PRECISION))
    else:
        found = None if converted is None else _LOGICAL_OF_CONVERTED.get(converted, ("converted", converted))
    plain = {INT32: (_INTEGER, 32, True), INT64: (_INTEGER, 64, True)}.get(integer(element, TYPE) or 0)
    return None if found == plain else found


def _logical(logical: Struct) -> tuple[Any, ...]:
    kind = next(iter(logical))
    details = child(logical, kind) or {}
    if kind == _DECIMAL:
        return kind, integer(details, 1) or 0, integer(details, 2)
    if kind in (_TIME, _TIMESTAMP):
        return kind, details.get(1, (0, None))[1], next(iter(child(details, 2) or {}), None)
    if kind == _INTEGER:
        return kind, details.get(1, (0, None))[1], details.get(2, (0, None))[1]
    return (kind, encode(details)) if details else (kind,)


def _same_element(one: Node, other: Node) -> bool:
    ids = {one.field_id, other.field_id} - {None}
    return (
        len(ids) < 2
        and one.repetition == other.repetition
        and all(integer(one.element, field) == integer(other.element, field) for field in (TYPE, NUM_CHILDREN))
        and (integer(one.element, TYPE_LENGTH) or 0) == (integer(other.element, TYPE_LENGTH) or 0)
        and annotation(one.element) == annotation(other.element)
    )


def _tree(elements: Sequence[Struct], at: int, depth: int) -> tuple[Node, int]:
    """The node at a place of the list, and the place after its last descendant."""
    if depth > MAX_DEPTH:
        raise ThriftError("its schema is nested too deeply")
    if at >= len(elements):
        raise ThriftError("its schema ends too early")
    element = elements[at]
    size, is_leaf = integer(element, NUM_CHILDREN) or 0, integer(element, TYPE) is not None
    if size < 0 or (depth > 0 and is_leaf == (size > 0)):
        raise ThriftError("its schema has an element that is neither a column nor a group")
    repetition = integer(element, REPETITION) or REQUIRED
    if not REQUIRED <= repetition <= REPEATED:
        raise ThriftError(f"its schema has a repetition {repetition}")
    name = _text(needed(binary(element, NAME), "name of a schema element"))
    end = at + 1
    children: list[Node] = []
    for _ in range(size):
        node, end = _tree(elements, end, depth + 1)
        children.append(node)
    return Node(element, name, integer(element, FIELD_ID), repetition, tuple(children)), end


def _leaves(node: Node, above: tuple[str, ...], levels: tuple[int, int]) -> Iterator[tuple[Node, tuple[str, ...], tuple[int, int]]]:
    path = (*above, node.name)
    levels = (levels[0] + (node.repetition != REQUIRED), levels[1] + (node.repetition == REPEATED))
    if not node.children:
        yield node, path, levels
    for below in node.children:
        yield from _leaves(below, path, levels)


def _ordered(columns: list[Column], orders: Sequence[Struct], leaves: int) -> tuple[Column, ...]:
    if len(orders) != leaves:
        raise ThriftError(f"it has {len(orders)} column orders for {leaves} columns")
    every = iter(orders)
    return tuple(Column(c.node, tuple(Leaf(x.node, x.path, x.max_definition, x.max_repetition, next(every)) for x in c.leaves), c.first_leaf) for c in columns)


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ThriftError(f"a name in its schema is no text: {raw!r}") from error
