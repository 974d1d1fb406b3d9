"""Avro files of any writer, decoded by the schema in their header into dicts by Iceberg field id.

fastavro opens the blocks. Records are decoded by hand, because that is over twice as fast for the maps of column metrics, and
numbers stay numbers: a day past the year 9999 is no Python date. It stands on PyIceberg's compiled decoder, which never looks
for the end of its input; so a block gets zeros behind it, and every length is checked before or, for runs of integers, after.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from io import BytesIO
from operator import methodcaller
from typing import Any

import fastavro.read
from pyiceberg.avro.decoder import BinaryDecoder, new_decoder

Decode = Callable[[BinaryDecoder], Any]
FIELD_ID = "field-id"

_SCALARS: dict[str, Decode] = {
    "null": lambda decoder: None,
    "boolean": methodcaller("read_boolean"),
    "int": methodcaller("read_int"),
    "long": methodcaller("read_int"),
    "float": methodcaller("read_float"),
    "double": methodcaller("read_double"),
}
# What the scalars of one record may read past the end before it is checked; the maps need twice the block itself.
_SPARE = 1 << 16


class AvroFile:
    """`schema` is the writer's; iterating gives the records, with None for the maps whose field ids are in `skip`."""

    def __init__(self, data: bytes, skip: Collection[int] = ()) -> None:
        self._blocks: Any = fastavro.read.block_reader(BytesIO(data))
        self.schema: Any = self._blocks.writer_schema
        self._compiler = _Compiler(skip)
        self._decode = self._compiler.compile(self.schema)

    def __iter__(self) -> Iterator[dict[Any, Any]]:
        decode, check = self._decode, self._compiler.check
        for block in self._blocks:
            data = block.bytes_.read()
            size = self._compiler.block_size = len(data)
            decoder = new_decoder(data + bytes(2 * size + _SPARE))
            for _ in range(block.num_records):
                record = decode(decoder)
                check(decoder)
                yield record
            if decoder.tell() != size:
                raise ValueError("a block holds more than its records")


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
