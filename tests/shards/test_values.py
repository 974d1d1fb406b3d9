"""Values of several columns, and of one."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.errors import InvalidShardValue, UnsupportedSnapshot
from lakewright.shards.values import CODECS, ValueCodec, checked_values, codec_for

RECORDS = ["json", "msgpack", "avro"]
ROW = st.fixed_dictionaries({"id": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), "name": st.one_of(st.none(), st.text()), "score": st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)), "on": st.booleans(), "tags": st.lists(st.text(max_size=5), max_size=3)})
SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "score": pa.float64(), "on": pa.bool_(), "tags": pa.list_(pa.string())})


@pytest.mark.parametrize("name", RECORDS)
@given(st.lists(ROW, max_size=10))
def test_records_come_back(name: str, rows: list[dict[str, Any]]) -> None:
    codec = codec_for(name, SCHEMA.names, SCHEMA)
    again = ValueCodec.from_json(pickle.loads(pickle.dumps(codec)).to_json())
    assert again == codec
    assert [again.decode(value) for value in codec.encode(pa.RecordBatch.from_pylist(rows, SCHEMA)).to_pylist()] == rows


def test_what_the_codecs_make_of_other_types() -> None:
    row = {"at": datetime(2024, 5, 1, 12, 30, tzinfo=UTC), "day": date(2024, 5, 1), "price": Decimal("1.50"), "photo": b"\0\xff", "place": {"x": 1}}
    batch = pa.RecordBatch.from_pylist([row], pa.schema({"at": pa.timestamp("us", "UTC"), "day": pa.date32(), "price": pa.decimal128(9, 2), "photo": pa.binary(), "place": pa.struct({"x": pa.int32()})}))
    made = {name: codec_for(name, batch.schema.names, batch.schema) for name in RECORDS}
    decoded = {name: codec.decode(codec.encode(batch)[0].as_py()) for name, codec in made.items()}
    assert decoded["avro"] == row
    assert decoded["msgpack"] == {"at": "2024-05-01T12:30:00+00:00", "day": "2024-05-01", "price": "1.50", "photo": b"\0\xff", "place": {"x": 1}}
    assert decoded["json"] == {**decoded["msgpack"], "photo": "AP8="}


@pytest.mark.parametrize("type", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2)])
def test_bytes_are_kept_as_they_are(type: pa.DataType) -> None:
    batch = pa.record_batch({"v": pa.array([b"ab", b"\0\xff"], type)})
    codec = codec_for("binary", ["v"], batch.schema)
    encoded = codec.encode(batch)
    assert encoded.type in (pa.binary(), pa.large_binary()) and [codec.decode(value) for value in encoded.to_pylist()] == [b"ab", b"\0\xff"]


def test_values_that_are_null() -> None:
    batch = pa.record_batch({"v": pa.array([b"a", None], pa.binary())})
    with pytest.raises(InvalidShardValue, match="1 values that are null, the first in row 1"):
        codec_for("binary", ["v"], batch.schema).encode(batch)
    with pytest.raises(InvalidShardValue, match="takes binary"):
        checked_values(pa.array(["text"]))
    with pytest.raises(InvalidShardValue, match="takes binary"):
        checked_values([b"a"])  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "columns", "message"), [("xml", ["id"], "takes one of"), ("json", [], "none is named"), ("json", ["nope"], "no column nope"), ("binary", ["name"], "not one binary column"), ("avro", ["odd"], "no form in Avro")])
def test_what_cannot_be_a_value(name: str, columns: list[str], message: str) -> None:
    with pytest.raises(InvalidShardValue, match=message):
        codec_for(name, columns, SCHEMA.append(pa.field("odd", pa.duration("s"))))


def test_numbers_json_has_no_form_for() -> None:
    batch = pa.record_batch({"score": [float("nan")]})
    with pytest.raises(InvalidShardValue, match="cannot be written as json"):
        codec_for("json", ["score"], batch.schema).encode(batch)


@pytest.mark.parametrize("name", RECORDS)
def test_bytes_that_are_no_record(name: str) -> None:
    with pytest.raises(InvalidShardValue, match=f"cannot be read as {name}"):
        codec_for(name, ["id", "name"], SCHEMA).decode(b"\xc1\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")


def test_a_codec_from_the_future() -> None:
    assert "binary" in CODECS
    with pytest.raises(UnsupportedSnapshot):
        ValueCodec.from_json({"name": "protobuf"})
