"""One task's writer, without Spark."""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, IntegerType, ListType, MapType, NestedField, StringType, StructType, UUIDType

from lakewright.errors import NullInRequiredColumn
from lakewright.plan.write_plan import WritePlan
from lakewright.write import fanout
from lakewright.write.task import write_batches

MakePlan = Callable[..., WritePlan]
Listing = Callable[[], set[str]]
MIB = 1024 * 1024


def local(location: str) -> str:
    return location.removeprefix("file://")


def batch(**columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def numbers(rows: int, partitions: int, seed: int = 0) -> pa.RecordBatch:
    """Rows that hardly compress, in random partitions."""
    random = np.random.default_rng(seed)
    return pa.RecordBatch.from_arrays(
        [pa.array(random.integers(0, partitions, rows), pa.int32()), pa.array(random.integers(0, 2**62, rows), pa.int64()), pa.array(random.random(rows))],
        names=["p", "n", "x"],
    )


SCHEMA = "p int, n bigint, x double"


@pytest.mark.feature("I7", "I10", "D5", "P6")
def test_unpartitioned_rows_and_their_metadata(make_plan: MakePlan, on_disk: Listing) -> None:
    plan = make_plan(SCHEMA)
    message = write_batches(plan, iter([batch(p=[1, None], n=[5, 6], x=[math.nan, 1.5]), batch(p=[3], n=[7], x=[2.5])]), 4, 1, 99)
    (file,) = message.files
    assert (message.task, message.attempt, message.task_attempt_id) == (4, 1, 99)
    assert file.file_path == f"{plan.data_prefix}/00004-1-99-00000.parquet" and on_disk() == {file.file_path}
    assert (file.record_count, file.partition, file.file_size_in_bytes) == (3, (), os.path.getsize(local(file.file_path)))
    assert (file.null_value_counts, file.nan_value_counts) == ({1: 1, 2: 0, 3: 0}, {3: 1})
    assert pq.read_table(local(file.file_path)).column("n").to_pylist() == [5, 6, 7]


@pytest.mark.feature("I7", "D4")
def test_fanout_gives_each_partition_its_own_files(make_plan: MakePlan) -> None:
    plan = make_plan(SCHEMA, ["p"])
    message = write_batches(plan, iter(numbers(1000, 5, seed) for seed in range(4)), 0, 0, 0)
    assert sorted(f.partition for f in message.files) == [(n,) for n in range(5)]
    assert sum(f.record_count for f in message.files) == 4000
    for file in message.files:
        assert set(pq.read_table(local(file.file_path)).column("p").to_pylist()) == {file.partition[0]}


@pytest.mark.feature("I7")
def test_fanout_closes_the_fullest_past_the_limit_of_open_files(make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    open_at_once: list[int] = []
    real = fanout.FanoutWriter._writer

    def counted(self: fanout.FanoutWriter, partition: tuple[Any, ...]) -> Any:
        writer = real(self, partition)
        open_at_once.append(len(self._writers))
        return writer

    monkeypatch.setattr(fanout.FanoutWriter, "_writer", counted)
    plan = make_plan(SCHEMA, ["p"], max_open_files=3)
    message = write_batches(plan, iter(numbers(500, 10, seed) for seed in range(3)), 0, 0, 0)
    assert max(open_at_once) == 3
    assert sum(f.record_count for f in message.files) == 1500 and {f.partition for f in message.files} == {(n,) for n in range(10)}


@pytest.mark.feature("I7")
def test_clustered_keeps_one_file_open(make_plan: MakePlan) -> None:
    plan = make_plan(SCHEMA, ["p"])
    rows = pa.Table.from_batches([numbers(3000, 6)]).sort_by("p")
    message = write_batches(plan, iter(rows.to_batches(max_chunksize=400)), 0, 0, 0, clustered=True)
    assert [f.partition for f in message.files] == [(n,) for n in range(6)]
    again = write_batches(plan, iter([batch(p=[1, 2, 1], n=[1, 2, 3], x=[0.0] * 3), batch(p=[2], n=[4], x=[0.0])]), 1, 0, 1, clustered=True)
    assert sum(f.record_count for f in again.files) == 4


def test_memory_is_bounded_over_all_open_files(make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fanout, "MOST_BUFFERED", 100_000)
    plan = make_plan(SCHEMA, ["p"])
    message = write_batches(plan, iter(numbers(2000, 8, seed) for seed in range(20)), 0, 0, 0)
    assert len(message.files) == 8
    assert all(len(f.split_offsets) > 1 for f in message.files), "buffers were written early, as row groups"


@pytest.mark.feature("I9", "D4")
@pytest.mark.parametrize("target", [MIB, 4 * MIB])
@pytest.mark.parametrize("compressible", [False, True])
def test_file_sizes_are_within_30_percent_of_the_target(make_plan: MakePlan, target: int, compressible: bool) -> None:
    plan = make_plan("n bigint, s string", target_file_size_bytes=target)

    def batches() -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(1)
        for _ in range(80 * target // MIB):
            keys = random.integers(0, 50 if compressible else 2**60, 10_000)
            yield pa.RecordBatch.from_arrays([pa.array(keys), pa.array([f"name {k} and more text" for k in keys])], names=["n", "s"])

    message = write_batches(plan, batches(), 0, 0, 0)
    *full, _ = message.files
    assert len(full) >= 1
    assert all(0.7 * target <= f.file_size_in_bytes <= 1.3 * target for f in full), [f.file_size_in_bytes for f in full]


def test_row_group_options(make_plan: MakePlan) -> None:
    plan = make_plan(SCHEMA, row_group_limit=1000, compression_codec="gzip", compression_level=3)
    (file,) = write_batches(plan, iter([numbers(4500, 1)]), 0, 0, 0).files
    footer = pq.read_metadata(local(file.file_path))
    assert [footer.row_group(n).num_rows for n in range(footer.num_row_groups)] == [1000] * 4 + [500]
    assert footer.row_group(0).column(0).compression == "GZIP"


@pytest.mark.parametrize("enabled", [True, False])
def test_dictionaries_only_where_values_repeat(make_plan: MakePlan, enabled: bool) -> None:
    plan = make_plan("few string, many string", dictionary_enabled=enabled)
    rows = batch(few=[f"v{n % 7}" for n in range(5000)], many=[f"unique {n}" for n in range(5000)])
    (file,) = write_batches(plan, iter([rows]), 0, 0, 0).files
    group = pq.read_metadata(local(file.file_path)).row_group(0)
    assert [group.column(n).has_dictionary_page for n in (0, 1)] == [enabled, False]


NESTED = Schema(
    NestedField(1, "id", UUIDType(), required=True),
    NestedField(2, "tags", ListType(3, StructType(NestedField(10, "k", UUIDType()), NestedField(11, "v", IntegerType())), False)),
    NestedField(4, "props", MapType(5, StringType(), 6, ListType(7, IntegerType(), False), False)),
    NestedField(8, "code", FixedType(3)),
    NestedField(9, "s", StructType(NestedField(12, "r", IntegerType(), required=True), NestedField(13, "d", StringType()))),
)


def nested_batch(ids: list[str | None]) -> pa.RecordBatch:
    rows = len(ids)
    kinds = {
        "id": pa.string(),
        "tags": pa.list_(pa.struct([("k", pa.string()), ("v", pa.int32())])),
        "props": pa.map_(pa.string(), pa.list_(pa.int32())),
        "code": pa.binary(),
        "s": pa.struct([("r", pa.int32()), ("d", pa.string())]),
    }
    values = {
        "id": ids,
        "tags": [None, [], [{"k": ids[0], "v": 1}, {"k": None, "v": 2}, None]][:rows],
        "props": [[("a", [1, None])], None, []][:rows],
        "code": [b"abc", None, b"xyz"][:rows],
        "s": [{"r": 1, "d": None}, None, {"r": 3, "d": "x"}][:rows],
    }
    return pa.RecordBatch.from_arrays([pa.array(values[name], kind) for name, kind in kinds.items()], names=list(kinds))


def test_nested_types_have_field_ids_and_logical_types(make_plan: MakePlan) -> None:
    ids = [str(uuid.UUID(int=n)) for n in range(3)]
    (file,) = write_batches(make_plan(NESTED), iter([nested_batch(ids)]), 0, 0, 0).files
    shown = str(pq.read_metadata(local(file.file_path)).schema)
    assert {int(part.split(" ")[0]) for part in shown.split("field_id=")[1:]} - {-1} == set(range(1, 14))
    assert "fixed_len_byte_array(16) field_id=1 id (UUID)" in shown and "fixed_len_byte_array(3) field_id=8 code" in shown
    read = pq.read_table(local(file.file_path)).to_pylist()
    assert [row["s"] for row in read] == [{"r": 1, "d": None}, None, {"r": 3, "d": "x"}]
    assert [row["props"] for row in read] == [[("a", [1, None])], None, []]
    assert read[2]["tags"][1:] == [{"k": None, "v": 2}, None] and read[0]["tags"] is None and read[1]["tags"] == []


def test_uuid_and_binary_partitions(make_plan: MakePlan) -> None:
    ids = [str(uuid.UUID(int=n << 100)) for n in (1, 2, 1)]
    plan = make_plan(NESTED, ["id", "bucket(8, id)", "code"])
    message = write_batches(plan, iter([nested_batch(ids)]), 0, 0, 0)
    assert {f.partition[0] for f in message.files} == {uuid.UUID(ids[0]), uuid.UUID(ids[1])}
    assert {f.partition[2] for f in message.files} == {b"abc", None, b"xyz"}


def test_null_nan_and_empty_partitions_are_apart(make_plan: MakePlan) -> None:
    plan = make_plan("s string, d double, c decimal(9,2)", ["s", "d", "truncate(100, c)"])
    rows = batch(s=["", None, "null", ""], d=[math.nan, None, -0.0, math.nan], c=[Decimal("-0.01"), None, Decimal("5.00"), Decimal("-1.00")])
    rows = rows.set_column(2, "c", rows.column(2).cast(pa.decimal128(9, 2)))
    message = write_batches(plan, iter([rows]), 0, 0, 0)
    assert sorted((f.record_count, f.partition[0], f.partition[2]) for f in message.files if f.partition[0] is not None) == [
        (1, "null", Decimal("5.00")),
        (2, "", Decimal("-1.00")),
    ]
    assert len({f.file_path.rsplit("/", 1)[0] for f in message.files}) == 3


@pytest.mark.feature("I22")
def test_a_task_that_fails_deletes_its_files(make_plan: MakePlan, on_disk: Listing) -> None:
    plan = make_plan(SCHEMA, ["p"], max_open_files=2)
    seen: list[set[str]] = []

    def failing() -> Iterator[pa.RecordBatch]:
        yield numbers(1000, 6)
        seen.append(on_disk())
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        write_batches(plan, failing(), 0, 0, 0)
    assert seen[0] and not on_disk()


@pytest.mark.parametrize("nested", [False, True])
def test_null_in_a_required_column(make_plan: MakePlan, on_disk: Listing, nested: bool) -> None:
    rows = nested_batch([None, None]) if not nested else nested_batch([str(uuid.UUID(int=1))] * 3)
    if nested:
        bad = pa.array([{"r": None, "d": "x"}, None, None], rows.schema.field("s").type)
        rows = rows.set_column(4, "s", bad)
    with pytest.raises(NullInRequiredColumn, match="'s.r'" if nested else "'id'") as raised:
        write_batches(make_plan(NESTED), iter([rows]), 0, 0, 0)
    assert raised.value.table == "db.t" and not on_disk()


def test_spread_paths(make_plan: MakePlan) -> None:
    plan = make_plan(SCHEMA, ["p"], object_storage_enabled=True)
    files = write_batches(plan, iter([numbers(100, 3)]), 0, 0, 0).files
    assert len({f.file_path.removeprefix(plan.data_prefix).split("/")[1] for f in files}) == 3


def test_no_rows_no_files(make_plan: MakePlan, on_disk: Listing) -> None:
    assert write_batches(make_plan(SCHEMA), iter([numbers(0, 1)]), 0, 0, 0).files == () and not on_disk()
