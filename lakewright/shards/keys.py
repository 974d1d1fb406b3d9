"""Keys of a sharded snapshot: whole numbers, text or bytes, one kind in a snapshot."""

from __future__ import annotations

import base64
import operator
import re
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import CorruptSnapshot, InvalidShardKey

KeyType = Literal["int", "str", "bytes"]
Key = int | str | bytes
KEY_TYPES: tuple[KeyType, ...] = ("int", "str", "bytes")
_NUMBER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
SMALLEST, LARGEST = -(2**63), 2**63 - 1


def key_type_of_arrow(type: pa.DataType) -> KeyType:
    """The kind of key a column makes."""
    if pa.types.is_signed_integer(type) or type in (pa.uint8(), pa.uint16(), pa.uint32()):
        return "int"
    if pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type):
        return "str"
    if pa.types.is_binary(type) or pa.types.is_large_binary(type) or pa.types.is_binary_view(type) or pa.types.is_fixed_size_binary(type):
        return "bytes"
    raise InvalidShardKey(f"A column of type {type} cannot be the key. Keys are whole numbers of up to 64 bits with a sign, strings or binary; cast it to one of these.")


def key_type_of(key: object) -> KeyType:
    """The kind of one key."""
    if isinstance(key, str):
        return "str"
    if isinstance(key, bytes | bytearray | memoryview):
        return "bytes"
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return "int"
    raise InvalidShardKey(f"{_shown(key)} cannot be a key. Keys are int, str or bytes.")


def checked(key: object, key_type: KeyType) -> Key:
    """The key as a plain int, str or bytes, or an error where it is of another kind than the snapshot's keys."""
    if key is None:
        raise InvalidShardKey("A key is None. Every row needs a key; every get, too.")
    found = key_type_of(key)
    if found != key_type:
        raise InvalidShardKey(f"{_shown(key)} is of type {found}; the keys of this snapshot are {key_type}.")
    if key_type == "str":
        return str(key)
    if key_type == "bytes":
        return bytes(cast(bytes, key))
    number = operator.index(cast(int, key))
    if not SMALLEST <= number <= LARGEST:
        raise InvalidShardKey(f"{number} does not fit a key of 64 bits with a sign.")
    return number


def canonical(key: object, key_type: KeyType | None = None) -> bytes:
    """The bytes that are hashed: a number as 8 bytes little-endian with a sign, text as UTF-8, bytes as they are."""
    plain = checked(key, key_type or key_type_of(key))
    if isinstance(plain, int):
        return plain.to_bytes(8, "little", signed=True)
    return plain if isinstance(plain, bytes) else encoded_text(plain)


def ordered(key: object, key_type: KeyType) -> bytes:
    """Bytes that sort as the keys do, for stores that know only bytes: a number big-endian with its sign flipped."""
    plain = checked(key, key_type)
    if isinstance(plain, int):
        return (plain - SMALLEST).to_bytes(8, "big")
    return plain if isinstance(plain, bytes) else encoded_text(plain)


def from_ordered(data: bytes, key_type: KeyType) -> Key:
    if key_type == "int":
        return int.from_bytes(data, "big") + SMALLEST
    return data.decode() if key_type == "str" else data


def encoded_text(key: str) -> bytes:
    try:
        return key.encode()
    except UnicodeEncodeError as error:
        raise InvalidShardKey(f"{_shown(key)} cannot be a key: it is no valid Unicode text ({error.reason}).") from None


def key_to_json(key: Key | None) -> Any:
    return {"base64": base64.b64encode(key).decode()} if isinstance(key, bytes) else key


def key_from_json(value: Any, key_type: KeyType) -> Key | None:
    if value is None:
        return None
    if key_type == "bytes" and isinstance(value, dict):
        return base64.b64decode(value["base64"])
    if type(value) is not (int if key_type == "int" else str) or key_type == "bytes":
        raise CorruptSnapshot(f"{_shown(value)} stands for a key of type {key_type}.")
    return cast(Key, value)


def key_from_text(text: Any, key_type: KeyType) -> Key:
    """A key typed or sent as text: bytes are base64, as in URLs."""
    if key_type == "str":
        return cast(str, text)
    if key_type == "int":
        if not _NUMBER.fullmatch(text):
            raise InvalidShardKey(f"{_shown(text)} is no key; the keys of this snapshot are whole numbers of 64 bits.")
        return checked(int(text), "int")
    try:
        return base64.b64decode(text.encode(), altchars=b"-_", validate=True)
    except (AttributeError, ValueError):
        raise InvalidShardKey(f"{_shown(text)} is no key; the keys of this snapshot are bytes, given in base64 for URLs.") from None


def key_array(column: pa.Array | pa.ChunkedArray, name: str = "key") -> pa.Array:
    """A column of keys as int64, or as large binary of the bytes that sort and hash; nulls are an error."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = key_type_of_arrow(array.type)
    if array.null_count:
        where = pc.index(array.is_null(), True).as_py()
        raise InvalidShardKey(f"Column {name} has {array.null_count} keys that are null, the first in row {where} of its batch. Every row needs a key.")
    if kind == "int":
        return array if array.type == pa.int64() else array.cast(pa.int64())
    return array if array.type == pa.large_binary() else array.cast(pa.large_binary())


def numbers(array: pa.Array) -> np.ndarray[Any, np.dtype[Any]]:
    """A column of whole numbers without nulls, as it lies in memory. Arrow's own conversions import pandas first, which takes a second."""
    type = np.dtype(f"{'i' if pa.types.is_signed_integer(array.type) else 'u'}{array.type.bit_width // 8}")
    data = array.buffers()[1]
    return np.empty(0, type) if data is None else np.frombuffer(data, type, len(array), array.offset * type.itemsize)


def _shown(key: object) -> str:
    text = repr(key)
    return text if len(text) <= 80 else f"{text[:80]}…"
