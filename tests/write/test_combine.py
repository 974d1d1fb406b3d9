"""Data files combined by one task, against a plain-Python model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType

from lakewright.errors import CorruptFile
from lakewright.format.data_file import DataFile
from lakewright.format.graft_layout import footer_bytes
from lakewright.format.parquet_footer import FileField, read_footer
from lakewright.format.thrift import BINARY
from lakewright.options import COMPACT_MIN_ROW_GROUP
from lakewright.plan.combine import Bin
from lakewright.plan.delta import TargetFile
from lakewright.plan.partitioning import build_spec
from lakewright.plan.write_plan import WritePlan
from lakewright.read.arrow_scan import ArrowFile
from lakewright.read.scan import FileScan
from lakewright.write import sorted_rows
from lakewright.write.combine_task import CombineMessage, combine_bins
from lakewright.write.delta_messages import DeltaMessage
from tests.write.delta_kit import Kit, local
from tests.write.test_copy_on_write import chunks, comparable, group_rows, rows

MakePlan = Callable[..., WritePlan]
VERSIONS = pytest.mark.parametrize("version", [2, 3])
SCHEMA = "id bigint, t string, x double, n int"
COPIED = {COMPACT_MIN_ROW_GROUP.keyword: 0}


def combined(kit: Kit, *bins: tuple[int, ...]) -> CombineMessage:
    """The targets of these numbers combined, all in one bin unless told; the rows must be what they were."""
    before = comparable(kit.before())
    made = [Bin(tuple(kit.targets[number] for number in bin_)) for bin_ in bins or [tuple(range(len(kit.targets)))]]
    kit.made += 1
    message = combine_bins(kit.plan(), made, range(len(made)), 5, 0, kit.made)
    gone = frozenset(target.file.scan.data_file.file_path for bin_ in made for target in bin_.files)
    assert comparable(kit.live(DeltaMessage(0, 0, 0, message.files, replaced=gone))) == before
    return message


def path_of(kit: Kit, number: int) -> str:
    return local(kit.targets[number].file.scan.data_file.file_path)


@VERSIONS
@pytest.mark.feature("H4", "H8")
def test_chunks_are_copied_as_bytes(make_plan: MakePlan, version: int) -> None:
    kit = Kit(make_plan(SCHEMA, **COPIED), version=version)
    for start in (0, 300, 600):
        kit.add(rows(start, 200))
    message = combined(kit)
    (file,) = message.files
    assert group_rows(file.file_path) == [100] * 6 and message.copied == 600
    before, after = [chunk for number in range(3) for chunk in chunks(path_of(kit, number))], chunks(local(file.file_path))
    per_group = len(after) // 6
    assert per_group == (4 if version == 2 else 6), "format 3 has two columns of lineage beside them"
    assert [after[group * per_group + place] for group in range(6) for place in range(4)] == before


@VERSIONS
@pytest.mark.feature("H8")
def test_small_row_groups_become_one(make_plan: MakePlan, version: int) -> None:
    kit = Kit(make_plan(SCHEMA), version=version)
    for start in range(0, 500, 50):
        kit.add(rows(start, 50), group_rows=10)
    message = combined(kit)
    (file,) = message.files
    assert group_rows(file.file_path) == [500] and message.copied == 0


@VERSIONS
@pytest.mark.feature("H4")
def test_deletes_of_all_kinds_are_applied(make_plan: MakePlan, version: int) -> None:
    kit = Kit(make_plan(SCHEMA, **COPIED), version=version)
    kit.add(rows(0, 300), vector=[3, 120] if version == 3 else (), deleted=[3, 120] if version == 2 else (), equality=("id", [7, 9]))
    kit.add(rows(300, 300), deleted=[5])
    kit.add(rows(600, 100), deleted=list(range(100)))
    message = combined(kit)
    (file,) = message.files
    assert file.record_count == 595 and message.copied == 300
    assert group_rows(file.file_path) == [100, 100, 100, 295], "groups without a deleted row first, the others joined after them"


@pytest.mark.feature("H4")
def test_files_without_a_row_left_become_none(make_plan: MakePlan, on_disk: Any) -> None:
    kit = Kit(make_plan(SCHEMA))
    kit.add(rows(0, 20), vector=list(range(20)))
    kit.add(rows(20, 1), vector=[0])
    old = on_disk()
    message = combined(kit)
    assert message.files == () and message.made == {0: ()} and on_disk() == old


@pytest.mark.feature("H4")
def test_metrics_are_those_of_the_rows(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA, **COPIED))
    kit.add(rows(0, 300), with_nans=False)
    kit.add(rows(300, 200), vector=[27])
    kit.add(rows(500, 100))
    (file,) = combined(kit).files
    stored = pq.read_table(local(file.file_path))
    assert file.record_count == 599 and file.nan_value_counts == {3: sum(math.isnan(v) for v in stored.column("x").to_pylist())}
    assert file.nan_value_counts == {3: 14} and file.null_value_counts[4] == stored.column("n").null_count
    assert file.lower_bounds[1] == bytes(8) and file.upper_bounds[1] == (599).to_bytes(8, "little")
    assert file.file_size_in_bytes == kit.size(file.file_path) and len(file.split_offsets) == len(group_rows(file.file_path))


@pytest.mark.feature("H8")
def test_files_of_the_commit_at_hand_share_a_bin_with_old_ones(make_plan: MakePlan) -> None:
    """A new file says ids of rows that moved and nothing of new ones; the commit gives both its sequence number."""
    kit = Kit(make_plan(SCHEMA, **COPIED))
    kit.add(rows(0, 200))
    moved = kit.plan().write
    schema = pa.schema([*[pa.field(f.name, f.type, metadata={"PARQUET:field_id": str(n + 1)}) for n, f in enumerate(_plain())], *_lineage()])
    table = pa.Table.from_pylist([{**row, "_row_id": 7 if row["id"] == 501 else None} for row in rows(500, 3)], schema=schema)
    kit.add(table, first_row_id=None)
    kit.targets[1] = replace(kit.targets[1], is_new=True)
    assert moved.spec.spec_id == kit.targets[1].file.scan.data_file.spec_id
    message = combine_bins(kit.plan(), [Bin(tuple(kit.targets))], [0], 5, 0, 99)
    (file,) = message.files
    stored = {row["id"]: (row["_row_id"], row["_last_updated_sequence_number"]) for row in pq.read_table(local(file.file_path)).to_pylist()}
    assert stored[0] == (1000, 7) and stored[199] == (1199, 7)
    assert {key: stored[key] for key in (500, 501, 502)} == {500: (None, None), 501: (7, None), 502: (None, None)}


def _plain() -> pa.Schema:
    return pa.schema([("id", pa.int64()), ("t", pa.string()), ("x", pa.float64()), ("n", pa.int32())])


def _lineage() -> list[pa.Field]:
    return [
        pa.field("_row_id", pa.int64(), metadata={"PARQUET:field_id": "2147483540"}),
        pa.field("_last_updated_sequence_number", pa.int64(), metadata={"PARQUET:field_id": "2147483539"}),
    ]


OLD = Schema(NestedField(1, "id", LongType(), False), NestedField(2, "old", StringType(), False), NestedField(4, "n", IntegerType(), False), NestedField(9, "gone", DoubleType(), False))
NEW = Schema(
    NestedField(1, "id", LongType(), False), NestedField(2, "t", StringType(), False), NestedField(3, "x", DoubleType(), False, initial_default=2.5), NestedField(4, "n", LongType(), False)
)


@VERSIONS
@pytest.mark.parametrize("options", [COPIED, {}], ids=["copied", "joined"])
@pytest.mark.feature("H4")
def test_old_schemas_are_carried_to_the_current_one(make_plan: MakePlan, version: int, options: dict[str, Any]) -> None:
    """Renamed, promoted, added with a default, dropped: only the columns whose form changed are encoded."""
    kit = Kit(make_plan(NEW, **options), version=version)
    kit.add([{"id": i, "old": f"t{i}", "n": i, "gone": 1.0} for i in range(250)], schema=OLD)
    kit.add([{"id": i, "t": f"t{i}", "x": 0.5, "n": 2**40} for i in range(250, 350)])
    before = {row["id"]: row for number in range(2) for row in pq.ParquetFile(path_of(kit, number)).read().to_pylist()}
    made = [Bin(tuple(kit.targets))]
    message = combine_bins(kit.plan(), made, [0], 5, 0, 1)
    (file,) = message.files
    stored = pq.ParquetFile(local(file.file_path)).read()
    assert stored.schema.field("n").type == pa.int64() and {*stored.schema.names} >= {"id", "t", "x", "n"} and "gone" not in stored.schema.names
    for row in stored.to_pylist():
        old = before[row["id"]]
        assert (row["t"], row["n"], row["x"]) == (old.get("t", old.get("old")), old["n"], old.get("x", 2.5))
    if options:
        old_chunks, new_chunks = chunks(path_of(kit, 0)), chunks(local(file.file_path))
        assert old_chunks[:2] == new_chunks[:2], "id and t of the first row group"


@pytest.mark.feature("H4")
def test_a_form_that_later_rows_do_not_fit_is_given_up(make_plan: MakePlan, on_disk: Any) -> None:
    """The largest file has a column required, in which another has nulls."""
    strict = Schema(*(NestedField(f.field_id, f.name, f.field_type, required=f.name == "n") for f in Kit(make_plan(SCHEMA)).schema.fields))
    kit = Kit(make_plan(SCHEMA, **COPIED))
    kit.add([{**row, "n": 1} for row in rows(0, 400)], schema=strict)
    kit.add(rows(400, 10))
    old = on_disk()
    (file,) = combined(kit).files
    assert on_disk() - old == {file.file_path}


@VERSIONS
@pytest.mark.feature("H4")
def test_rows_are_in_the_order_of_the_table(make_plan: MakePlan, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_rows, "RUN_BYTES", 4000)
    monkeypatch.setattr(sorted_rows, "BATCH_ROWS", 16)
    plan = make_plan(SCHEMA, sort_by=["n desc nulls last", "truncate(2, t)", "x nulls first"])
    kit = Kit(plan, version=version)
    for start in (300, 0, 600):
        kit.add(rows(start, 300), vector=[5] if version == 3 else (), deleted=[5] if version == 2 else ())
    (file,) = combined(kit).files
    assert file.sort_order_id == plan.sort_order.order_id and file.record_count == 897
    found = [(row["n"], row["t"][:2], row["x"]) for row in pq.read_table(local(file.file_path)).to_pylist()]

    def key(row: tuple[Any, ...]) -> tuple[Any, ...]:
        n, t, x = row
        return (n is None, -(n or 0)), t, (math.isnan(x), 0 if math.isnan(x) else x)

    assert [key(row) for row in found] == sorted(key(row) for row in found)


def test_a_sorted_file_stays_so_without_being_sorted_again(make_plan: MakePlan) -> None:
    plan = make_plan(SCHEMA, sort_by=["id"], **COPIED)
    kit = Kit(plan)
    kit.add(rows(0, 300), vector=[3, 250], sort_order_id=plan.sort_order.order_id)
    message = combined(kit)
    (file,) = message.files
    assert file.sort_order_id == plan.sort_order.order_id and message.copied == 100 and group_rows(file.file_path) == [99, 100, 99]
    found = pq.read_table(local(file.file_path)).column("id").to_pylist()
    assert found == sorted(found)


@VERSIONS
@pytest.mark.feature("H4")
def test_rows_of_an_older_spec_go_to_their_partitions(make_plan: MakePlan, version: int) -> None:
    plan = make_plan(SCHEMA, ["n"])
    plan = replace(plan, spec=plan.spec.model_copy(update={"spec_id": 1}))
    kit = Kit(plan, version=version, specs={0: build_spec(plan.schema, [])})
    kit.add(rows(0, 200), spec_id=0)
    kit.add(rows(200, 100), spec_id=0, deleted=[1])
    message = combined(kit)
    assert {file.partition for file in message.files} == {(n,) for n in (None, 0, 1, 2, 3, 4)} and len(message.files) == 6
    assert {file.spec_id for file in message.files} == {1}


@pytest.mark.parametrize("group", [1000, 20_000], ids=["between row groups", "within one"])
@pytest.mark.feature("H8")
def test_large_files_are_split_evenly(make_plan: MakePlan, group: int) -> None:
    kit = Kit(make_plan(SCHEMA, target_file_size_bytes=40_000, row_group_limit=1000, **COPIED))
    kit.add(rows(0, 20_000), group_rows=group)
    size = kit.targets[0].file.scan.data_file.file_size_in_bytes
    message = combined(kit)
    sizes = [file.file_size_in_bytes for file in message.files]
    assert size > 100_000 and len(sizes) > 2 and max(sizes) < 72_000, (size, sizes)
    assert min(sizes) > 20_000 or group == 20_000, "what rows take when they are encoded anew is not known before"


def test_each_bin_has_its_own_files(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA, ["n"]))
    for number in range(6):
        kit.add([{**row, "n": number % 2} for row in rows(100 * number, 50)], partition=(number % 2,))
    message = combined(kit, (0, 2, 4), (1, 3, 5))
    assert {number: [file.partition for file in files] for number, files in message.made.items()} == {0: [(0,)], 1: [(1,)]}


def test_what_is_encoded_follows_the_table_and_what_is_copied_stays(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA, compression_codec="gzip", page_size_bytes=2000, **COPIED))
    kit.add(rows(0, 2000), group_rows=2000)
    kit.add(rows(2000, 4000), group_rows=4000, deleted=[7])
    (file,) = combined(kit).files
    footer = pq.read_metadata(local(file.file_path))
    codecs = [{footer.row_group(g).column(c).compression for c in range(4)} for g in range(2)]
    assert codecs == [{"ZSTD"}, {"GZIP"}]
    kit = Kit(make_plan(SCHEMA, compression_codec="gzip", compact_copy_chunks=False))
    kit.add(rows(0, 2000))
    kit.add(rows(2000, 10))
    message = combined(kit)
    footer = pq.read_metadata(local(message.files[0].file_path))
    assert message.copied == 0 and {footer.row_group(0).column(c).compression for c in range(footer.num_columns)} == {"GZIP"}


@pytest.mark.parametrize(("writers", "copied", "named"), [(("impala version 1.0", "impala version 1.0"), 200, "impala"), ((None, "impala version 1.0"), 100, "parquet-cpp-arrow"), ((None, "parquet-mr version 1.16.0 (build x)"), 200, "parquet-cpp-arrow")])
def test_bytes_of_writers_that_readers_distrust_stand_under_their_own_name(make_plan: MakePlan, writers: tuple[str | None, ...], copied: int, named: str) -> None:
    kit = Kit(make_plan(SCHEMA, **COPIED))
    kit.add(rows(0, 100))
    kit.add(rows(100, 100))
    for number, writer in enumerate(writers):
        if writer:
            _written_by(Path(path_of(kit, number)), writer)
    message = combined(kit)
    assert message.copied == copied and pq.read_metadata(local(message.files[0].file_path)).created_by.startswith(named)


def _written_by(path: Path, writer: str) -> None:
    data = path.read_bytes()
    footer = read_footer(pa.BufferReader(data), str(path))
    footer.struct[FileField.CREATED_BY] = (BINARY, writer.encode())
    path.write_bytes(data[: -8 - int.from_bytes(data[-8:-4], "little")] + footer_bytes(footer.struct))


def test_page_indexes_and_filters_come_along(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(SCHEMA, **COPIED))
    extras = {"parquet": {"write_page_index": True, "bloom_filter_options": {"id": {"ndv": 100, "fpp": 0.01}}}}
    kit.add(rows(0, 100), **extras)
    kit.add(rows(100, 100), vector=[1], **extras)
    (file,) = combined(kit).files
    footer = pq.read_metadata(local(file.file_path))
    for group in range(2):
        assert footer.row_group(group).column(0).has_column_index and footer.row_group(group).column(0).has_offset_index
    raw = read_footer(pa.OSFile(local(file.file_path)), "x")
    assert all(group.chunks[0].bloom is not None for group in raw.row_groups)


@pytest.mark.feature("I22")
def test_a_damaged_file_fails_the_task_and_leaves_nothing(make_plan: MakePlan, on_disk: Any) -> None:
    kit = Kit(make_plan(SCHEMA))
    kit.add(rows(0, 100))
    kit.add(rows(100, 100))
    Path(path_of(kit, 1)).write_bytes(b"PAR1 not really PAR1")
    old = on_disk()
    with pytest.raises(CorruptFile, match="002|001"):
        combine_bins(kit.plan(), [Bin(tuple(kit.targets))], [0], 5, 0, 1)
    assert on_disk() == old


def test_a_combined_file_is_combined_again(make_plan: MakePlan) -> None:
    """Its row groups are copied, lineage included."""
    kit = Kit(make_plan(SCHEMA, **COPIED))
    kit.add(rows(0, 100))
    kit.add(rows(100, 100))
    (file,) = combined(kit).files
    first = kit.targets[0].file.scan
    again: DataFile = replace(file, first_row_id=9000)
    kit.targets = [TargetFile(ArrowFile(FileScan(again, 20, 5), {})), *kit.targets[2:]]
    kit.add(rows(200, 100))
    message = combined(kit)
    assert first.sequence_number == 7 and message.copied == 300
    assert chunks(local(message.files[0].file_path))[:12] == chunks(local(file.file_path))
