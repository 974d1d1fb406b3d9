"""Keys as numbers: found in columns as Python would find tuples in a set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.keys.at_hand.key_codes import KeyCodes, KeyPlaces

KINDS: dict[str, Any] = {
    "int": lambda values: pa.array(values, pa.int64()),
    "wide": lambda values: pa.array([None if v is None else (v - 3) * 2**61 for v in values], pa.int64()),
    "least": lambda values: pa.array([None if v is None else v - 2**63 for v in values], pa.int64()),
    "most": lambda values: pa.array([None if v is None else 2**63 - 1 - v for v in values], pa.int64()),
    "some far": lambda values: pa.array([None if v is None else v - 3 if v < 5 else (v - 6) * 2**62 + 2**40 for v in values], pa.int64()),
    "date": lambda values: pa.array(values, pa.int32()).cast(pa.date32()),
    "time": lambda values: pa.array(values, pa.int64()).cast(pa.timestamp("us")),
    "text": lambda values: pa.array([None if v is None else "x" * v for v in values], pa.large_string()),
    "bytes": lambda values: pa.array([None if v is None else bytes([v]) for v in values], pa.large_binary()),
    "flag": lambda values: pa.array([None if v is None else v > 3 for v in values], pa.bool_()),
}
number = st.integers(0, 6)


@settings(max_examples=300)
@given(kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3), data=st.data())
def test_codes_tell_keys_apart_and_find_them(kinds: list[str], data: st.DataObject) -> None:
    batch = data.draw(st.lists(st.tuples(*(number for _ in kinds)), max_size=20))
    asked = data.draw(st.lists(st.tuples(*(st.none() | number for _ in kinds)), max_size=40))
    own = [KINDS[kind]([row[n] for row in batch]) for n, kind in enumerate(kinds)]
    table = [KINDS[kind]([row[n] for row in asked]) for n, kind in enumerate(kinds)]
    keys, rows = (list(zip(*(column.to_pylist() for column in columns), strict=True)) for columns in (own, table))
    codes = KeyCodes(own)
    assert codes.count == len(set(keys)) == len(set(zip(codes.own.tolist(), keys, strict=True)))
    last = {key: n for n, key in enumerate(keys)}
    chosen = np.array(sorted(last.values()), dtype=np.int64)
    found, whose = KeyPlaces(codes, codes.own[chosen]).find(table)
    assert [(int(row), keys[chosen[record]]) for row, record in zip(found, whose, strict=True)] == [(n, row) for n, row in enumerate(rows) if row in last]
