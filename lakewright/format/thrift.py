"""Thrift's compact protocol into plain values and back, fields no one here knows kept as they are.

Written by hand because a footer must survive the round trip whole, whichever version of Parquet its writer knew: generated
classes drop what they do not declare. What is read comes from anyone, so time, memory and depth are bounded before they are spent.
"""

from __future__ import annotations

from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)

Field = tuple[int, Any]
"""The type of a field and its value: a list is (type of its items, items), a map (types of keys and values, pairs)."""
Struct = dict[int, Field]
"""Fields by id."""

MAX_DEPTH = 32
MAX_VALUES = 2_000_000
_LONGEST_VARINT = 10
_BOOLEANS = (TRUE, FALSE)
_INTEGERS = (I16, I32, I64)


class ThriftError(ValueError):
    """Bytes that are no Thrift struct."""


class TooManyValues(ThriftError):
    """More values than are worth holding in memory."""


def decode(data: bytes, at: int = 0, most: int = MAX_VALUES) -> tuple[Struct, int]:
    """The struct that begins at `at`, of at most so many values, and where it ends."""
    reader = _Reader(data, at, most)
    try:
        return reader.struct(0), reader.at
    except IndexError:
        raise ThriftError("it ends too early") from None


def encode(struct: Struct) -> bytes:
    writer = _Writer()
    writer.struct(struct)
    return bytes(writer.out)


class _Reader:
    """Past the end of the data a method raises IndexError, or ThriftError where a length said so before."""

    __slots__ = ("at", "data", "left")

    def __init__(self, data: bytes, at: int, most: int) -> None:
        self.data = data
        self.at = at
        self.left = most

    def struct(self, depth: int) -> Struct:
        if depth > MAX_DEPTH:
            raise ThriftError("it is nested too deeply")
        fields: Struct = {}
        last, data = 0, self.data
        while head := data[self.at]:
            self.at += 1
            self._spend(1)
            kind = head & 15
            last = last + (head >> 4) if head >> 4 else self._zigzag()
            if not -0x8000 <= last <= 0x7FFF:
                raise ThriftError(f"field {last} is out of range")
            if last in fields:
                raise ThriftError(f"field {last} is there twice")
            fields[last] = (kind, kind == TRUE if kind in _BOOLEANS else self._value(kind, depth))
        self.at += 1
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _INTEGERS:
            return self._zigzag()
        if kind == BINARY:
            return self._take(self._varint())
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in (LIST, SET):
            return self._list(depth + 1)
        if kind == MAP:
            return self._map(depth + 1)
        if kind == DOUBLE:
            return self._take(8)
        if kind == UUID:
            return self._take(16)
        if kind == BYTE or kind in _BOOLEANS:  # items of lists and maps; a field of a struct has its truth in its type
            byte = self.data[self.at]
            self.at += 1
            return byte if kind == BYTE else byte == 1
        raise ThriftError(f"{kind} is no type")

    def _list(self, depth: int) -> tuple[int, list[Any]]:
        if depth > MAX_DEPTH:
            raise ThriftError("it is nested too deeply")
        head = self.data[self.at]
        self.at += 1
        kind = head & 15
        size = self._count(head >> 4 if head >> 4 < 15 else self._varint())
        if kind in _INTEGERS:
            return kind, [self._zigzag() for _ in range(size)]
        return kind, [self._value(kind, depth) for _ in range(size)]

    def _map(self, depth: int) -> tuple[int, int, list[tuple[Any, Any]]]:
        if depth > MAX_DEPTH:
            raise ThriftError("it is nested too deeply")
        size = self._count(self._varint())
        if not size:
            return 0, 0, []
        kinds = self.data[self.at]
        self.at += 1
        key, value = kinds >> 4, kinds & 15
        return key, value, [(self._value(key, depth), self._value(value, depth)) for _ in range(size)]

    def _count(self, size: int) -> int:
        """An item takes a byte at least, so no container has more items than bytes are left."""
        if size > len(self.data) - self.at:
            raise ThriftError(f"{size} items run past its end")
        self._spend(size)
        return size

    def _spend(self, values: int) -> None:
        self.left -= values
        if self.left < 0:
            raise TooManyValues("it holds too many values")

    def _take(self, length: int) -> bytes:
        end = self.at + length
        if end > len(self.data):
            raise ThriftError(f"{length} bytes run past its end")
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def _zigzag(self) -> int:
        number = self._varint()
        return number >> 1 ^ -(number & 1)

    def _varint(self) -> int:
        data, at = self.data, self.at
        number = data[at]
        if number >= 128:
            number &= 127
            for place in range(1, _LONGEST_VARINT):
                byte = data[at + place]
                number |= (byte & 127) << 7 * place
                if byte < 128:
                    break
            else:
                raise ThriftError("an integer does not end")
            if number >> 64:
                raise ThriftError("an integer is out of range")
            at += place
        self.at = at + 1
        return number


class _Writer:
    __slots__ = ("out",)

    def __init__(self) -> None:
        self.out = bytearray()

    def struct(self, fields: Struct) -> None:
        last = 0
        for field in sorted(fields):
            kind, value = fields[field]
            if kind in _BOOLEANS:
                kind = TRUE if value else FALSE
            if 0 < field - last < 16:
                self.out.append(field - last << 4 | kind)
            else:
                self.out.append(kind)
                self._zigzag(field)
            last = field
            if kind not in _BOOLEANS:
                self._value(kind, value)
        self.out.append(0)

    def _value(self, kind: int, value: Any) -> None:
        if kind in _INTEGERS:
            self._zigzag(value)
        elif kind == BINARY:
            self._varint(len(value))
            self.out += value
        elif kind == STRUCT:
            self.struct(value)
        elif kind in (LIST, SET):
            self._list(*value)
        elif kind == MAP:
            self._map(*value)
        elif kind in (DOUBLE, UUID):
            self.out += value
        elif kind == BYTE:
            self.out.append(value)
        elif kind in _BOOLEANS:
            self.out.append(1 if value else 2)
        else:
            raise ThriftError(f"{kind} is no type")

    def _list(self, kind: int, items: list[Any]) -> None:
        if len(items) < 15:
            self.out.append(len(items) << 4 | kind)
        else:
            self.out.append(0xF0 | kind)
            self._varint(len(items))
        for item in items:
            self._value(kind, item)

    def _map(self, key: int, value: int, pairs: list[tuple[Any, Any]]) -> None:
        self._varint(len(pairs))
        if pairs:
            self.out.append(key << 4 | value)
        for one, other in pairs:
            self._value(key, one)
            self._value(value, other)

    def _zigzag(self, number: int) -> None:
        self._varint(number << 1 if number >= 0 else (-number << 1) - 1)

    def _varint(self, number: int) -> None:
        while number > 127:
            self.out.append(number & 127 | 128)
            number >>= 7
        self.out.append(number)


def integer(struct: Struct, field: int) -> int | None:
    value = _typed(struct, field, _INTEGERS)
    return None if value is None else int(value)


def binary(struct: Struct, field: int) -> bytes | None:
    value = _typed(struct, field, (BINARY,))
    return None if value is None else bytes(value)


def child(struct: Struct, field: int) -> Struct | None:
    value: Struct | None = _typed(struct, field, (STRUCT,))
    return value


def items(struct: Struct, field: int, kind: int) -> list[Any] | None:
    """The items of a list; an empty one may claim any type."""
    value = _typed(struct, field, (LIST,))
    if value is None:
        return None
    of, found = value
    if found and of != kind:
        raise ThriftError(f"field {field} is a list of type {of}, not {kind}")
    return list(found)


def needed(value: Any, what: str) -> Any:
    if value is None:
        raise ThriftError(f"it has no {what}")
    return value


def _typed(struct: Struct, field: int, kinds: tuple[int, ...]) -> Any:
    kind, value = struct.get(field, (None, None))
    if kind is not None and kind not in kinds:
        raise ThriftError(f"field {field} has type {kind}")
    return value
