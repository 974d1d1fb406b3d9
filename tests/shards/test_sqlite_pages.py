"""Many keys at once from the pages of a SQLite file: the same answers as SQL gives, for any key and any size of value."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.errors import CorruptSnapshot
from lakewright.shards.backends.sqlite import SqliteBackend, SqliteNumberShard
from lakewright.shards.backends.sqlite_pages import PageReader

NUMBERS = st.integers(-(2**63), 2**63 - 1)
# Around where a payload's size takes another byte, and where it no longer fits a page of 4096 bytes.
SIZES = st.sampled_from([0, 1, 100, 115, 122, 123, 124, 125, 126, 127, 4050, 4055, 4056, 4057, 4058, 4059, 5000, 16_380, 16_384, 70_000])


def found(shard: SqliteNumberShard, keys: Any) -> dict[Any, Any]:
    values: dict[Any, Any] = {}
    shard.multi_get(keys, values)
    return values


def written(folder: Path, rows: dict[int, bytes]) -> SqliteNumberShard:
    folder.mkdir(exist_ok=True)
    writer = SqliteBackend().writer(str(folder), "int")
    keys = sorted(rows)
    writer.write(pa.array(keys, pa.int64()), pa.array([rows[key] for key in keys], pa.binary()))
    writer.finish()
    shard = SqliteBackend().open(str(folder), "int")
    assert isinstance(shard, SqliteNumberShard)
    return shard


@settings(max_examples=60)
@given(st.dictionaries(NUMBERS, SIZES, max_size=60), st.lists(NUMBERS, max_size=40))
def test_any_keys_and_sizes(tmp_path_factory: pytest.TempPathFactory, sizes: dict[int, int], others: list[int]) -> None:
    rows = {key: os.urandom(size) for key, size in sizes.items()}
    shard = written(tmp_path_factory.mktemp("shard"), rows)
    asked = [*rows, *others, *(key + 1 for key in rows if key < 2**63 - 1), -(2**63), 2**63 - 1, 0]
    assert found(shard, asked * 2) == {key: rows[key] for key in asked if key in rows}


@pytest.mark.parametrize(("low", "high"), [(0, 10**5), (0, 10**12), (-(2**63), 2**63 - 1), (2**55, 2**57), (-300, 30_000)])
@pytest.mark.parametrize("size", [0, 100, 1000, 5000])
def test_trees_of_several_levels(low: int, high: int, size: int, tmp_path: Path) -> None:
    draw = random.Random(high + size)
    keys = {draw.randint(low, high) for _ in range(30_000 if size < 1000 else 3000)}
    rows = {key: (b"%d" % key).ljust(size, b".") for key in keys}
    shard = written(tmp_path / "shard", rows)
    asked = [*draw.sample(sorted(keys), 1000), *(draw.randint(low, high) for _ in range(500)), min(keys), max(keys)]
    expected = {key: rows[key] for key in asked if key in rows}
    assert found(shard, asked) == expected == found(shard, np.array(asked, np.int64)) == {key: value for key in asked if (value := shard.get(key)) is not None}


def test_values_that_fit_a_page_need_no_sql(tmp_path: Path) -> None:
    shard = written(tmp_path / "shard", {1: b"short", 2: b"x" * 5000, 3: b""})
    values: dict[Any, Any] = {}
    assert PageReader(str(tmp_path / "shard" / "shard.sqlite"), shard._root_page()).get([3, 2, 1, 0], values) == [2]
    assert values == {1: b"short", 3: b""}


def test_a_file_that_is_cut_below_a_reader_is_a_typed_error(tmp_path: Path) -> None:
    rows = dict.fromkeys(range(20000), b"x" * 100)
    shard = written(tmp_path / "shard", rows)
    assert found(shard, range(100)) == {key: rows[key] for key in range(100)}
    with open(tmp_path / "shard" / "shard.sqlite", "r+b") as stream:
        stream.truncate(8192)
    with pytest.raises(CorruptSnapshot, match="was cut"):
        found(shard, range(10_000, 10_100))


@pytest.mark.parametrize("seed", range(20))
def test_damaged_pages_end_in_a_typed_error_or_an_answer(seed: int, tmp_path: Path) -> None:
    rows = dict.fromkeys(range(5000), b"x" * 100)
    written(tmp_path / "shard", rows).close()
    path, draw = tmp_path / "shard" / "shard.sqlite", random.Random(seed)
    data = bytearray(path.read_bytes())
    for _ in range(200):
        data[draw.randrange(4096, len(data))] = draw.randrange(256)
    path.write_bytes(bytes(data))
    try:
        found(SqliteNumberShard(str(path)), range(0, 5000, 3))
    except CorruptSnapshot:
        pass
