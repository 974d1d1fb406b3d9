"""The shard of a key is the same for the writer, which routes columns, and the reader, which routes one key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

import lakewright as lw
from lakewright.errors import InvalidRouting, InvalidShardKey, UnsupportedSnapshot
from lakewright.shards.keys import canonical, from_ordered, key_type_of, key_type_of_arrow, ordered
from lakewright.shards.routing import HashRouting, hashes, routing_from_json, shard_of, shards_for

NUMBERS = st.integers(-(2**63), 2**63 - 1)
KEYS = {"int": NUMBERS, "str": st.text(), "bytes": st.binary(max_size=600)}
ARROW = {"int": pa.int64(), "str": pa.string(), "bytes": pa.binary()}
BORDERS = [0, 1, -1, 255, 256, 2**31 - 1, 2**31, 2**32, -(2**31), 2**63 - 1, -(2**63)]
pytestmark = pytest.mark.feature("S1")


def reference(key: Any) -> int:
    data = key.to_bytes(8, "little", signed=True) if isinstance(key, int) else key.encode() if isinstance(key, str) else key
    return xxhash.xxh3_64(data, seed=0).intdigest()


@pytest.mark.parametrize("kind", ["int", "str", "bytes"])
@given(st.data(), st.integers(1, 5000))
def test_columns_are_routed_as_single_keys(kind: str, data: st.DataObject, num_shards: int) -> None:
    keys = data.draw(st.lists(KEYS[kind], max_size=50))
    column = pa.array(keys, ARROW[kind])
    assert hashes(column).tolist() == [reference(key) for key in keys]
    routed = HashRouting(num_shards).shards_of(pa.record_batch({"k": column}), "k")
    assert routed.type == pa.int32()
    assert routed.to_pylist() == [shard_of(key, num_shards) for key in keys] == [reference(key) % num_shards for key in keys]


@pytest.mark.parametrize("num_shards", [1, 2, 3, 16, 17, 1000, 99_991])
def test_borders_and_whole_blocks(num_shards: int) -> None:
    keys = BORDERS + np.random.default_rng(7).integers(-(2**63), 2**63, 40_000).tolist()
    routed = HashRouting(num_shards).shards_of(pa.record_batch({"k": pa.array(keys, pa.int64())}), "k")
    assert routed.to_pylist() == [reference(key) % num_shards for key in keys]


@pytest.mark.parametrize("length", [0, 1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 1024, 100_000])
def test_every_length_of_bytes(length: int) -> None:
    keys = [bytes([seed]) * length for seed in range(3)]
    assert hashes(pa.array(keys)).tolist() == [reference(key) for key in keys]


@pytest.mark.parametrize("type", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()])
def test_every_width_of_numbers_hashes_alike(type: pa.DataType) -> None:
    assert hashes(pa.array([0, 1, 127], type)).tolist() == [reference(key) for key in (0, 1, 127)]


@pytest.mark.parametrize("type", [pa.string(), pa.large_string(), pa.string_view()])
def test_every_layout_of_text_hashes_alike(type: pa.DataType) -> None:
    keys = ["", "a", "żółć", "𝛑" * 100, "a\0b"]
    assert hashes(pa.array(keys, type)).tolist() == [reference(key) for key in keys]


def test_slices_and_chunks() -> None:
    keys = pa.array([f"user-{i}" for i in range(100)])
    assert hashes(keys[10:20]).tolist() == [reference(f"user-{i}") for i in range(10, 20)]
    assert hashes(pa.chunked_array([keys[:3], keys[3:5]])).tolist() == [reference(f"user-{i}") for i in range(5)]
    numbers = pa.array(range(100))
    assert hashes(numbers[90:]).tolist() == [reference(i) for i in range(90, 100)]


@pytest.mark.parametrize("kind", ["int", "str", "bytes"])
@given(st.data())
def test_ordered_bytes_sort_as_the_keys_and_lead_back(kind: Any, data: st.DataObject) -> None:
    keys = data.draw(st.lists(KEYS[kind], max_size=20))
    assert sorted(keys) == sorted(keys, key=lambda key: ordered(key, kind))
    assert [from_ordered(ordered(key, kind), kind) for key in keys] == keys


@given(NUMBERS)
@example(2**63 - 1)
def test_numbers_of_numpy_are_numbers(key: int) -> None:
    assert canonical(np.int64(key), "int") == canonical(key, "int") == key.to_bytes(8, "little", signed=True)


@pytest.mark.parametrize("key", [None, 1.5, True, (1,), 2**63, -(2**63) - 1, "\ud800"])
def test_what_cannot_be_a_key(key: Any) -> None:
    with pytest.raises(InvalidShardKey):
        shard_of(key, 4)


@pytest.mark.parametrize("type", [pa.float64(), pa.bool_(), pa.uint64(), pa.timestamp("us"), pa.list_(pa.int64()), pa.null()])
def test_what_cannot_be_a_key_column(type: pa.DataType) -> None:
    with pytest.raises(InvalidShardKey, match="cannot be the key"):
        key_type_of_arrow(type)


def test_a_null_key_is_named_with_its_row() -> None:
    with pytest.raises(InvalidShardKey, match=r"Column id has 1 keys that are null, the first in row 1"):
        HashRouting(4).shards_of(pa.record_batch({"id": pa.array([1, None, 3])}), "id")


@pytest.mark.parametrize("num_shards", [0, -1, 100_001, 1.5, True, "4"])
def test_numbers_of_shards_that_cannot_be(num_shards: Any) -> None:
    with pytest.raises(InvalidRouting):
        HashRouting(num_shards)
    with pytest.raises(InvalidRouting):
        shard_of(1, num_shards)


def test_shards_for_a_number_of_keys() -> None:
    assert [shards_for(rows, 100) for rows in (0, 1, 100, 101, 1000)] == [1, 1, 1, 2, 10]
    with pytest.raises(InvalidRouting):
        shards_for(10, 0)


def test_the_routing_in_a_manifest() -> None:
    assert routing_from_json(HashRouting(7).to_json()) == HashRouting(7)
    for unknown in ({"kind": "rendezvous"}, {"kind": "hash", "function": "murmur3", "seed": 0, "num_shards": 4}, {"kind": "hash", "function": "xxh3_64", "seed": 1, "num_shards": 4}, {}):
        with pytest.raises(UnsupportedSnapshot, match="newer"):
            routing_from_json(unknown)


def test_the_public_name() -> None:
    assert lw.shards.routing.shard_of("user-1", 16) == reference("user-1") % 16
    assert [key_type_of(key) for key in (1, "a", b"a")] == ["int", "str", "bytes"]
