from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.format import thrift
from lakewright.format.thrift import BINARY, BYTE, DOUBLE, FALSE, I16, I32, I64, LIST, MAP, SET, STRUCT, TRUE, UUID, Struct, ThriftError, decode, encode

SCALARS: dict[int, st.SearchStrategy[Any]] = {
    TRUE: st.just(True),
    FALSE: st.just(False),
    BYTE: st.integers(0, 255),
    I16: st.integers(-(2**15), 2**15 - 1),
    I32: st.integers(-(2**31), 2**31 - 1),
    I64: st.integers(-(2**63), 2**63 - 1),
    DOUBLE: st.binary(min_size=8, max_size=8),
    UUID: st.binary(min_size=16, max_size=16),
    BINARY: st.binary(max_size=40),
}


def typed(inner: st.SearchStrategy[Struct]) -> st.SearchStrategy[tuple[int, Any]]:
    def of(kind: int) -> st.SearchStrategy[tuple[int, Any]]:
        return st.tuples(st.just(kind), st.lists(SCALARS.get(kind, inner), max_size=20))

    kinds = st.sampled_from([kind for kind in SCALARS if kind != FALSE] + [STRUCT])
    pairs = st.lists(st.tuples(SCALARS[BINARY], SCALARS[I64]), min_size=1, max_size=20)
    return st.one_of(
        *(st.tuples(st.just(kind), values) for kind, values in SCALARS.items()),
        st.tuples(st.just(STRUCT), inner),
        st.tuples(st.sampled_from((LIST, SET)), kinds.flatmap(of)),
        st.tuples(st.just(MAP), st.tuples(st.just(BINARY), st.just(I64), pairs)),
    )


structs = st.recursive(st.just({}), lambda inner: st.dictionaries(st.integers(-(2**15), 2**15 - 1), typed(inner), max_size=6), max_leaves=20)


def nested(depth: int) -> bytes:
    return b"\x1c" * depth + b"\x00" * (depth + 1)


@given(structs)
def test_what_is_written_is_read_back(struct: Struct) -> None:
    data = encode(struct)
    assert decode(data) == (struct, len(data))


@given(structs, st.data())
def test_a_part_of_a_struct_is_an_error(struct: Struct, data: st.DataObject) -> None:
    whole = encode(struct)
    with pytest.raises(ThriftError):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.binary(max_size=2000))
def test_any_bytes_are_a_struct_or_an_error(data: bytes) -> None:
    try:
        struct, end = decode(data)
    except ThriftError:
        return
    assert end <= len(data)
    assert decode(encode(struct))[0] == struct


def test_structs_can_be_nested_so_deep_and_no_deeper() -> None:
    decode(nested(thrift.MAX_DEPTH))
    with pytest.raises(ThriftError, match="too deeply"):
        decode(nested(thrift.MAX_DEPTH + 1))


def test_lists_in_lists_are_nested_too() -> None:
    with pytest.raises(ThriftError, match="too deeply"):
        decode(b"\x19" + b"\x19" * 100_000)


@pytest.mark.parametrize("container", [b"\x19\xf5", b"\x19\xfc", b"\x1b"])
def test_a_container_cannot_claim_more_items_than_there_are_bytes(container: bytes) -> None:
    with pytest.raises(ThriftError, match="past its end"):
        decode(container + b"\xff\xff\xff\xff\x07" + bytes(100))


def test_a_binary_cannot_claim_more_bytes_than_there_are() -> None:
    with pytest.raises(ThriftError, match="past its end"):
        decode(b"\x18\xff\xff\xff\xff\x07" + bytes(100))


@pytest.mark.parametrize("number", [b"\xff" * 10_000, b"\xff" * 9 + b"\x7f"])
def test_an_integer_has_sixty_four_bits(number: bytes) -> None:
    with pytest.raises(ThriftError, match="integer"):
        decode(b"\x16" + number)


def test_a_field_is_there_once() -> None:
    with pytest.raises(ThriftError, match="twice"):
        decode(b"\x15\x02\x05\x02\x02\x00")


def test_millions_of_empty_structs_are_refused_before_they_are_made() -> None:
    size = thrift.MAX_VALUES + 1
    data = b"\x19\xfc" + bytes((size & 127 | 128, size >> 7 & 127 | 128, size >> 14 & 127 | 128, size >> 21)) + bytes(size + 1)
    started = time.monotonic()
    with pytest.raises(thrift.TooManyValues):
        decode(data)
    assert time.monotonic() - started < 1


@pytest.mark.parametrize(
    ("read", "field"),
    [
        (lambda: thrift.integer({1: (BINARY, b"")}, 1), 1),
        (lambda: thrift.binary({2: (I32, 1)}, 2), 2),
        (lambda: thrift.child({3: (LIST, (I32, []))}, 3), 3),
        (lambda: thrift.items({4: (LIST, (I32, [1]))}, 4, STRUCT), 4),
    ],
)
def test_a_field_of_another_type_is_an_error(read: Any, field: int) -> None:
    with pytest.raises(ThriftError, match=f"field {field}"):
        read()
