"""Avro files of any writer, decoded by the schema in their header into dicts by Iceberg field id.

Written by hand because fastavro takes over twice as long for the maps of column metrics, and makes a Python date of a day,
which ends with the year 9999; and because PyIceberg's reader drops the fields of format 3. It stands on PyIceberg's compiled
decoder, which never looks for the end of its input; so a block gets zeros behind it, and every length is checked before or,
for runs of integers, after.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Collection, Iterator
from operator import methodcaller
from typing import Any

from pyiceberg.avro.codecs import AVRO_CODEC_KEY, KNOWN_CODECS
from pyiceberg.avro.decoder import BinaryDecoder, new_decoder

Decode = Callable[[BinaryDecoder], Any]
FIELD_ID = "field-id"
_MAGIC = b"Obj\x01"
_SYNC_SIZE = 16
_DOUBLE = struct.Struct("<d")

_SCALARS: dict[str, Decode] = {
    "null": lambda decoder: None,
    "boolean": methodcaller("read_boolean"),
    "int": methodcaller("read_int"),
    "long": methodcaller("read_int"),
    "float": methodcaller("read_float"),
    "double": lambda decoder: _DOUBLE.unpack(decoder.read(8))[0],  # the compiled read_double rounds to a float
}
# What the scalars of one record may read past the end before it is checked; the maps need twice the block itself.
_SPARE = 1 << 16


class AvroFile:
    """`schema` is the writer's; iterating gives the records, with None for the maps whose field ids are in `skip`."""

    def __init__(self, data: bytes, skip: Collection[int] = ()) -> None:
        self._bytes = _Bytes(data)
        metadata = self._bytes.header()
        codec = KNOWN_CODECS[metadata.get(AVRO_CODEC_KEY, b"null").decode()]  # type: ignore[index]
        self._decompress: Callable[[bytes], bytes] = bytes if codec is None else codec.decompress
        self.schema: Any = json.loads(metadata["avro.schema"])
        self._compiler = _Compiler(skip)
        self._decode = self._compiler.compile(self.schema)

    def __iter__(self) -> Iterator[dict[Any, Any]]:
        decode, check = self._decode, self._compiler.check
        for count, packed in self._bytes.blocks():
            data = self._decompress(packed)
            size = self._compiler.block_size = len(data)
            decoder = new_decoder(data + bytes(2 * size + _SPARE))
            for _ in range(count):
                record = decode(decoder)
                check(decoder)
                yield record
            if decoder.tell() != size:
                raise ValueError("a block holds more than its records")


class _Bytes:
    """The container around the records: a header, and blocks that each end with the header's marker."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def header(self) -> dict[str, bytes]:
        if self._take(len(_MAGIC)) != _MAGIC:
            raise ValueError("it is no Avro file")
        metadata: dict[str, bytes] = {}
        while count := self._long():
            if count < 0:
                self._long()
            for _ in range(abs(count)):
                key = self._take(self._long()).decode()
                metadata[key] = self._take(self._long())
        self._sync = self._take(_SYNC_SIZE)
        return metadata

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        while self._at < len(self._data):
            count = self._long()
            packed = self._take(self._long())
            if count < 0 or self._take(_SYNC_SIZE) != self._sync:
                raise ValueError("a block does not end where it should")
            yield count, packed

    def _take(self, length: int) -> bytes:
        if not 0 <= length <= len(self._data) - self._at:
            raise EOFError("it ends too early")
        self._at += length
        return self._data[self._at - length : self._at]

    def _long(self) -> int:
        number = shift = 0
        while True:
            (group,) = self._take(1)
            number |= (group & 0x7F) << shift
            if group < 0x80:
                return number >> 1 ^ -(number & 1)
            shift += 7


class _Compiler:
    """Turns a schema into a function once, so that decoding a record makes no decisions."""

    def __init__(self, skip: Collection[int]) -> None:
        self.block_size = 0
        self._skip = skip
        self._named: dict[str, Decode] = {"bytes": self._bytes, "string": self._string, **_SCALARS}

    def check(self, decoder: BinaryDecoder) -> None:
        if decoder.tell() > self.block_size:
            raise EOFError("a record runs past the end of its block")

    def compile(self, schema: Any, skipped: bool = False) -> Decode:
        if isinstance(schema, list):
            branches = [self.compile(branch, skipped) for branch in schema]
            return lambda decoder: branches[decoder.read_int()](decoder)
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind == "array":
            return self._array(schema["items"], skipped)
        if kind == "record":
            self._named[schema["name"]] = decode = self._record(schema["fields"])
            return decode
        if kind == "fixed":
            self._named[schema["name"]] = decode = self._fixed(schema["size"])
            return decode
        return self._named[kind]

    def _record(self, fields: list[Any]) -> Decode:
        compiled = [(field.get(FIELD_ID, field["name"]), self.compile(field["type"], field.get(FIELD_ID) in self._skip)) for field in fields]

        def decode(decoder: BinaryDecoder) -> dict[Any, Any]:
            return {key: decode_field(decoder) for key, decode_field in compiled}

        return decode

    def _fixed(self, size: int) -> Decode:
        return lambda decoder: self._read(decoder, size)

    def _bytes(self, decoder: BinaryDecoder) -> bytes:
        return self._read(decoder, decoder.read_int())

    def _string(self, decoder: BinaryDecoder) -> str:
        return self._read(decoder, decoder.read_int()).decode()

    def _read(self, decoder: BinaryDecoder, length: int) -> bytes:
        if not 0 <= length <= self.block_size - decoder.tell():
            raise EOFError("a value runs past the end of its block")
        return decoder.read(length)

    def _array(self, items: Any, skipped: bool) -> Decode:
        pair = [field["type"] for field in items.get("fields", ())] if isinstance(items, dict) else []
        if pair == ["int", "long"]:
            return self._skip_integers if skipped else self._integers_by_id
        if pair == ["int", "bytes"]:
            return self._skip_bytes if skipped else self._bytes_by_id
        item = self.compile(items)
        return lambda decoder: [item(decoder) for count in self._runs(decoder) for _ in range(count)]

    def _runs(self, decoder: BinaryDecoder) -> Iterator[int]:
        """How many items each part of an array has; none may have more than the block could hold."""
        while count := decoder.read_int():
            if count < 0:
                decoder.read_int()
                count = -count
            if count > self.block_size // 2:
                raise EOFError("an array has more items than its block")
            yield count
            self.check(decoder)

    def _integers_by_id(self, decoder: BinaryDecoder) -> dict[int, int]:
        values: dict[int, int] = {}
        for count in self._runs(decoder):
            flat = decoder.read_ints(count * 2)
            values.update(zip(flat[::2], flat[1::2], strict=True))
        return values

    def _skip_integers(self, decoder: BinaryDecoder) -> None:
        for count in self._runs(decoder):
            decoder.read_ints(count * 2)

    def _bytes_by_id(self, decoder: BinaryDecoder) -> dict[int, bytes]:
        read_int, read = decoder.read_int, decoder.read
        limit = self.block_size
        values: dict[int, bytes] = {}
        for count in self._runs(decoder):
            for _ in range(count):
                field_id, length = read_int(), read_int()
                if not 0 <= length <= limit:
                    raise EOFError("a bound runs past the end of its block")
                values[field_id] = read(length)
        return values

    def _skip_bytes(self, decoder: BinaryDecoder) -> None:
        self._bytes_by_id(decoder)


def not_null(schema: Any) -> Any:
    """The type inside an optional."""
    return next(branch for branch in schema if branch != "null") if isinstance(schema, list) else schema


def field_type(record: Any, field_id: int) -> Any:
    return next(not_null(field["type"]) for field in record["fields"] if field.get(FIELD_ID) == field_id)
