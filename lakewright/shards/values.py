"""How a value is made of columns when written, and what a get makes of its bytes."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal, cast
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidShardValue, UnsupportedSnapshot

CodecName = Literal["binary", "json", "msgpack", "avro"]
CODECS: tuple[CodecName, ...] = ("binary", "json", "msgpack", "avro")


@dataclass(frozen=True)
class ValueCodec:
    """Bytes of one column as they are, or a record of several columns as JSON, MessagePack or Avro. `schema` is Avro's."""

    name: CodecName
    columns: tuple[str, ...] = ()
    schema: str | None = None

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """The values of a batch's rows, as binary or large binary."""
        if self.name == "binary":
            return checked_values(batch.column(self.columns[0]), self.columns[0])
        rows = batch.select(list(self.columns)).to_pylist()
        try:
            return pa.array([self._encoder(row) for row in rows], pa.large_binary())
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            raise InvalidShardValue(f"The columns {', '.join(self.columns)} cannot be written as {self.name}: {error}.") from error

    def decode(self, data: bytes) -> Any:
        """What a get answers: bytes, or a dict by column name."""
        try:
            return self.decoder(data)
        except Exception as error:
            raise InvalidShardValue(f"A value of {len(data)} bytes cannot be read as {self.name}: {error}.") from error

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "columns": list(self.columns), "schema": None if self.schema is None else json.loads(self.schema)}

    @classmethod
    def from_json(cls, described: Mapping[str, Any]) -> ValueCodec:
        name = described.get("name")
        if name not in CODECS:
            raise UnsupportedSnapshot(f"The values are written as {name!r}, which this version does not know. Read the snapshot with a newer one.")
        schema = described.get("schema")
        return cls(name, tuple(described.get("columns") or ()), None if schema is None else _text(schema))

    @cached_property
    def decoder(self) -> Callable[[bytes], Any]:
        """The bare function behind `decode`."""
        if self.name == "binary":
            return bytes
        if self.name == "json":
            return json.loads
        if self.name == "msgpack":
            import msgpack

            return lambda data: msgpack.unpackb(data, timestamp=3)
        import fastavro

        parsed = fastavro.parse_schema(json.loads(cast(str, self.schema)))
        return lambda data: fastavro.schemaless_reader(io.BytesIO(data), parsed, None)

    @cached_property
    def _encoder(self) -> Callable[[dict[str, Any]], bytes]:
        if self.name == "json":
            encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_for_json).encode
            return lambda row: encode(row).encode()
        if self.name == "msgpack":
            import msgpack

            pack = msgpack.Packer(default=_plain, autoreset=True).pack
            return lambda row: cast(bytes, pack(row))
        import fastavro

        parsed = fastavro.parse_schema(json.loads(cast(str, self.schema)))

        def avro(row: dict[str, Any]) -> bytes:
            stream = io.BytesIO()
            fastavro.schemaless_writer(stream, parsed, row)
            return stream.getvalue()

        return avro

    def __getstate__(self) -> dict[str, Any]:  # what is made at first use stays behind
        return {"name": self.name, "columns": self.columns, "schema": self.schema}


def codec_for(name: str, columns: Sequence[str], schema: pa.Schema) -> ValueCodec:
    """The codec for columns of a DataFrame, given its Arrow schema."""
    if name not in CODECS:
        raise InvalidShardValue(f"Values cannot be written as {name!r}; it takes one of {', '.join(CODECS)}.")
    missing = [column for column in columns if column not in schema.names]
    if missing or not columns:
        raise InvalidShardValue(f"The rows have no column {', '.join(missing) or '(none is named)'} to make values of; they have {', '.join(schema.names)}.")
    if name == "binary":
        type = schema.field(columns[0]).type
        if len(columns) > 1 or not _is_binary(type):
            raise InvalidShardValue(f"The value {', '.join(columns)} of type {type} is not one binary column. Cast it, or name columns to be written as json, msgpack or avro.")
        return ValueCodec("binary", tuple(columns))
    if name == "avro":
        fields = [{"name": column, "type": _nullable(_avro_type(schema.field(column).type, column))} for column in columns]
        return ValueCodec("avro", tuple(columns), _text({"type": "record", "name": "value", "fields": fields}))
    return ValueCodec(cast(CodecName, name), tuple(columns))


def checked_values(values: pa.Array | pa.ChunkedArray, name: str = "value") -> pa.Array:
    """Values as binary or large binary without nulls, as backends take them; also for what a user's function made."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if not isinstance(array, pa.Array) or not _is_binary(array.type):
        raise InvalidShardValue(f"The values of {name} are {getattr(array, 'type', type(array).__name__)}; a backend takes binary.")
    if array.null_count:
        raise InvalidShardValue(f"Column {name} has {array.null_count} values that are null, the first in row {pc.index(array.is_null(), True).as_py()} of its batch. Leave such rows out, or fill them.")
    return array if array.type in (pa.binary(), pa.large_binary()) else array.cast(pa.large_binary())


def _is_binary(type: pa.DataType) -> bool:
    return bool(pa.types.is_binary(type) or pa.types.is_large_binary(type) or pa.types.is_binary_view(type) or pa.types.is_fixed_size_binary(type))


def _plain(value: Any) -> Any:
    """Dates and times as ISO text, numbers with a fixed point as text: nothing is rounded."""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal | UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in it")


def _for_json(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else _plain(value)


def _avro_type(type: pa.DataType, name: str) -> Any:
    simple = {
        pa.bool_(): "boolean",
        **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()), "int"),
        **dict.fromkeys((pa.int64(), pa.uint32()), "long"),
        **dict.fromkeys((pa.float16(), pa.float32()), "float"),
        pa.float64(): "double",
        pa.date32(): {"type": "int", "logicalType": "date"},
    }
    if type in simple:
        return simple[type]
    if pa.types.is_string(type) or pa.types.is_large_string(type):
        return "string"
    if _is_binary(type):
        return "bytes"
    if pa.types.is_timestamp(type):
        return {"type": "long", "logicalType": "timestamp-micros" if type.tz else "local-timestamp-micros"}
    if pa.types.is_decimal(type):
        return {"type": "bytes", "logicalType": "decimal", "precision": type.precision, "scale": type.scale}
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        return {"type": "array", "items": _nullable(_avro_type(type.value_type, f"{name}_element"))}
    if pa.types.is_struct(type):
        return {"type": "record", "name": f"{name}_record", "fields": [{"name": f.name, "type": _nullable(_avro_type(f.type, f"{name}_{f.name}"))} for f in type]}
    raise InvalidShardValue(f"Column {name} of type {type} has no form in Avro. Cast it, or write the values as json or msgpack.")


def _nullable(type: Any) -> list[Any]:
    return ["null", type]


def _text(schema: Any) -> str:
    return json.dumps(schema, separators=(",", ":"), sort_keys=True)
