"""Rows on their way to a shard: packed by the shard of their key, unpacked, and put in order, in memory or through files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.errors import InvalidShardKey
from lakewright.shards import moving
from lakewright.shards.failures import TaskFailed, typed
from lakewright.shards.moving import packed, sorted_by_key, unpacked
from lakewright.shards.routing import HashRouting, shard_of

KEYS = {"int": st.integers(-(2**63), 2**63 - 1), "str": st.text(max_size=12), "bytes": st.binary(max_size=12)}
TYPES = {"int": pa.int64(), "str": pa.string(), "bytes": pa.binary()}


def batches(keys: list[object], type: pa.DataType, rows: int = 7) -> list[pa.RecordBatch]:
    table = pa.table({"id": pa.array(keys, type), "payload": pa.array([repr(key).encode() for key in keys], pa.binary()), "at": pa.array(range(len(keys)), pa.int32())})
    return table.to_batches(max_chunksize=rows)


def packs(given: list[pa.RecordBatch], num_shards: int, only: list[int] | None = None) -> dict[int, list[pa.RecordBatch]]:
    found: dict[int, list[pa.RecordBatch]] = {}
    for pack in packed(iter(given), HashRouting(num_shards).to_json(), "id", ["id", "payload"], only, "x"):
        for at, place in enumerate(pack.column(0).to_pylist()):
            found.setdefault(place, []).append(pack.slice(at, 1))
    return found


@pytest.mark.feature("S1", "S3")
@pytest.mark.parametrize("kind", list(KEYS))
@given(data=st.data(), num_shards=st.integers(1, 9), enough=st.sampled_from([1, 200, 1 << 20]))
def test_rows_arrive_at_the_shard_of_their_key_in_order(kind: str, data: st.DataObject, num_shards: int, enough: int) -> None:
    keys = data.draw(st.lists(KEYS[kind], max_size=60, unique=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moving, "PACK_BYTES", enough)
        patch.setattr(moving, "SHARD_BYTES", 1)
        found = packs(batches(list(keys), TYPES[kind]), num_shards)
    arrived = {}
    for shard, rows in found.items():
        batch = pa.Table.from_batches(sorted_by_key(unpacked(iter(rows)), "id", None, 5, "/nowhere"))
        own = [key for key in keys if shard_of(key, num_shards) == shard]
        in_order = sorted(own, key=lambda key: key.encode() if isinstance(key, str) else key)
        assert batch.column("id").to_pylist() == in_order
        arrived.update(zip(batch.column("id").to_pylist(), batch.column("payload").to_pylist(), strict=True))
    assert arrived == {key: repr(key).encode() for key in keys}


def test_only_wanted_shards_are_packed_at_their_place() -> None:
    keys = list(range(300))
    found = packs(batches(list(keys), pa.int64()), 8, only=[6, 2])
    in_place = {place: {key for batch in unpacked(iter(rows)) for key in batch.column("id").to_pylist()} for place, rows in found.items()}
    assert in_place == {0: {key for key in keys if shard_of(key, 8) == 6}, 1: {key for key in keys if shard_of(key, 8) == 2}}


@pytest.mark.parametrize("ordering", [None, "at"])
@pytest.mark.parametrize("limit", [1, 2_000, 1 << 30])
def test_rows_that_do_not_fit_in_memory_wait_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, ordering: str | None) -> None:
    monkeypatch.setattr(moving, "HELD_BYTES", limit)
    keys = [(n * 7919) % 1000 - 500 for n in range(1000)]
    rows = pa.Table.from_batches(sorted_by_key(iter(batches(list(keys), pa.int64(), 50)), "id", ordering, 64, str(tmp_path)))
    assert rows.column("id").to_pylist() == sorted(keys)
    assert rows.column("payload").to_pylist() == [repr(key).encode() for key in sorted(keys)]
    files = len(list(tmp_path.iterdir()))
    assert files > 1 if limit < 1 << 30 else files == 0


def test_within_a_key_rows_are_in_the_order_of_the_ordering_and_nulls_lose(tmp_path: Path) -> None:
    given = pa.record_batch({"id": pa.array([1, 2, 1, 1]), "at": pa.array([5, None, None, 3])})
    rows = pa.Table.from_batches(sorted_by_key(iter([given]), "id", "at", 10, str(tmp_path)))
    assert rows.to_pydict() == {"id": [1, 1, 1, 2], "at": [None, 3, 5, None]}


def test_no_rows_pack_to_nothing() -> None:
    assert packs([], 4) == {} and packs(batches([], pa.int64()), 4) == {}
    assert list(sorted_by_key(iter([]), "id", None, 10, "/nowhere")) == []


def test_a_null_key_is_told_with_the_place() -> None:
    with pytest.raises(TaskFailed) as caught:
        packs(batches([1, None], pa.int64()), 4)
    error = typed(caught.value)
    assert isinstance(error, InvalidShardKey) and error.url == "x"


def test_a_worker_does_not_import_pandas(tmp_path: Path) -> None:
    """It takes a second, in every worker."""
    pq.write_table(pa.table({"id": pa.array(range(1000)), "payload": pa.array([b"x"] * 1000)}), tmp_path / "rows.parquet")
    code = f"""
import sys
import pyarrow.parquet as pq
from lakewright.shards.moving import packed
from lakewright.shards.tasks import ShardTask, write_packed
from lakewright.shards.values import ValueCodec
routing = {HashRouting(1).to_json()!r}
given = packed(pq.ParquetFile({str(tmp_path / "rows.parquet")!r}).iter_batches(), routing, "id", ["id", "payload"], None, "x")
task = ShardTask({str(tmp_path)!r}, {{}}, "run", routing, "id", "int", ValueCodec("binary", ("payload",)), None, ("payload",), "sqlite", True, "error", None, 100, None, None, 20)
message = write_packed(task, given, 0, 0, 1)
assert message.entry.rows == 1000 and message.to_bytes()
print("pandas" in sys.modules)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False"]
