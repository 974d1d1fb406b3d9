"""Which columns and row groups a graft copies, encodes and refuses."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.format.graft import GraftWriter, NotGraftable
from lakewright.format.parquet_footer import read_footer
from lakewright.format.thrift import BINARY, I32, STRUCT, Struct, items
from tests.format.graft_kit import KEY, SETTINGS, column
from tests.format.graft_small import ID, NAME, PRICE, ROW_ID, ROWS, SCHEMA, TAGS, Grafted, edited, written


@pytest.mark.feature("I15")
def test_a_changed_column_is_given_for_some_row_groups_only() -> None:
    new = Grafted(written(), NAME).copy(None, {"name": ["z", None]})
    assert new.table["name"].to_pylist() == ["a", None, "z", None]
    assert new.table.drop(["name"]).to_pylist() == ROWS.drop(["name"]).to_pylist()
    assert new.writer.encode_everywhere == frozenset()


def test_unchanged_chunks_are_the_same_bytes() -> None:
    source = written(compression="gzip")
    new = Grafted(source, NAME).copy({"name": ["y", "z"]}, None)
    for before, after in zip(read_footer(io.BytesIO(source), "old").row_groups, new.footer.row_groups, strict=True):
        for place in (0, 2, 3):
            (start, size), (moved, same) = before.chunks[place].pages, after.chunks[place].pages
            assert new.out.getvalue()[moved : moved + same] == source[start : start + size]


def test_a_new_column_is_appended_and_must_be_given_everywhere() -> None:
    new = Grafted(written(), ROW_ID)
    assert new.writer.encode_everywhere == {"_row_id"}
    with pytest.raises(ValueError, match="_row_id"):
        new.writer.copy_group(0)
    new.copy({"_row_id": [7, 8]}, {"_row_id": [None, 10]})
    assert new.table.to_pylist() == [{**row, "_row_id": i} for row, i in zip(ROWS.to_pylist(), [7, 8, None, 10], strict=True)]
    assert new.table.schema.field("_row_id").metadata[KEY] == b"2147483540"
    assert len(items(new.footer.struct, 7, STRUCT) or []) == 5


def test_columns_are_dropped_by_field_id() -> None:
    new = Grafted(written(), keep=[1, 3]).copy(None, None)
    assert new.table.to_pylist() == ROWS.select(["id", "price"]).to_pylist()
    assert len(items(new.footer.struct, 7, STRUCT) or []) == 2


def test_a_column_takes_its_new_name() -> None:
    new = Grafted(written(), TAGS.with_name("labels")).copy({"labels": [["q"], None]}, None)
    assert new.table["labels"].to_pylist() == [["q"], None, None, ["y", None]]
    assert items(new.footer.row_groups[1].chunks[3].meta, 3, BINARY) == [b"labels", b"list", b"element"]


@pytest.mark.parametrize("keep", [None, [1, 2, 3, 4]])
def test_a_name_that_another_column_still_has_cannot_be_taken(keep: list[int] | None) -> None:
    with pytest.raises(NotGraftable, match="named Name"):
        Grafted(written(), column("Name", pa.int32(), 9), keep=keep)


def test_a_dropped_column_leaves_its_name() -> None:
    new = Grafted(written(), column("name", pa.int32(), 9), keep=[1, 3]).copy({"name": [1, 2]}, {"name": [3, 4]})
    assert new.table.column_names == ["id", "price", "name"]


@pytest.mark.parametrize(
    ("field", "columns"),
    [
        (column("id", pa.float64(), 1), [1.5, 2.5]),
        (column("price", pa.decimal128(12, 2), 3), [None, None]),
        (column("name", pa.binary(), 2), [b"x", b"y"]),
        (column("tags", pa.list_(pa.int64()), 4), [[1], None]),
    ],
)
def test_another_physical_form_must_be_given_everywhere(field: pa.Field, columns: list[Any]) -> None:
    new = Grafted(written(), field)
    assert new.writer.encode_everywhere == {field.name}
    values = pa.array(columns, field.type)
    new.copy({field.name: values}, {field.name: values})
    assert new.table[field.name].to_pylist() == values.to_pylist() * 2
    assert new.table.drop([field.name]).to_pylist() == ROWS.drop([field.name]).to_pylist()


def test_values_of_a_column_required_in_the_file_fit_in_though_the_table_lets_it_be_null() -> None:
    new = Grafted(written(), ID.with_nullable(True))
    assert new.writer.encode_everywhere == frozenset()
    assert new.copy({"id": [8, 9]}, None).table["id"].to_pylist() == [8, 9, 3, 4]


def test_a_null_has_no_place_in_a_column_required_in_the_file() -> None:
    new = Grafted(written(), ID.with_nullable(True))
    with pytest.raises(NotGraftable, match="column id is required"):
        new.writer.copy_group(0, pa.table({"id": pa.array([8, None], pa.int64())}))


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        (pa.struct([pa.field("x", pa.int64(), nullable=False)]), [{"x": None}]),
        (pa.struct([pa.field("x", pa.struct([("y", pa.int64())]), nullable=False)]), [{"x": None}]),
        (pa.list_(pa.field("element", pa.struct([("y", pa.int64())]), nullable=False)), [[None]]),
        (pa.map_(pa.string(), pa.field("value", pa.struct([("y", pa.int64())]), nullable=False)), [[("k", None)]]),
    ],
)
def test_a_null_has_no_place_in_a_required_field_further_down(kind: pa.DataType, bad: list[Any]) -> None:
    field = column("c", kind, 1)
    source = written(pa.table({"c": pa.array([None, None], field.type)}), pa.schema([field]))
    new = Grafted(source, column("c", _all_nullable(kind), 1))
    assert not new.writer.encode_everywhere
    values = pa.array([None, *bad], new.writer._layout.targets[0].field.type)
    with pytest.raises(NotGraftable, match=r"column c\..* is required"):
        new.writer.copy_group(0, pa.table({"c": values}))
    new.writer.copy_group(0, pa.table({"c": values.slice(0, 1).take([0, 0])}))
    new.writer.close()
    assert new.table["c"].to_pylist() == [None, None]


def _all_nullable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([kind.field(i).with_nullable(True) for i in range(kind.num_fields)])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_nullable(True))
    return pa.list_(kind.value_field.with_nullable(True))


def test_a_file_without_field_ids_is_not_given_some() -> None:
    source = written(ROWS, pa.schema([field.remove_metadata() for field in SCHEMA]))
    with pytest.raises(NotGraftable, match="column id has no field id"):
        Grafted(source, ROW_ID)
    assert Grafted(source).copy(None, None).table.equals(ROWS.cast(pa.schema([ID.remove_metadata(), *(f.remove_metadata() for f in list(SCHEMA)[1:])])))


def test_a_whole_row_group_is_encoded_beside_a_copied_one() -> None:
    new = Grafted(written(), NAME, ROW_ID)
    assert new.writer.can_encode_groups
    rows = ROWS.slice(0, 1).append_column("_row_id", [[5]])
    assert new.writer.encode_group(rows.select(["_row_id", "tags", "price", "name", "id"]).to_batches()) == 1
    new.writer.copy_group(1, pa.table({"_row_id": [6, 7]}))
    new.writer.close()
    assert new.table.to_pylist() == [{**ROWS.to_pylist()[place], "_row_id": i} for place, i in ((0, 5), (2, 6), (3, 7))]


def test_a_row_group_without_a_row_is_not_written() -> None:
    new = Grafted(written())
    assert new.writer.encode_group([pa.RecordBatch.from_pylist([], schema=SCHEMA)]) == 0
    new.writer.copy_group(1)
    assert new.writer.close()[1].num_row_groups == 1
    assert new.table.to_pylist() == ROWS.slice(2).to_pylist()


def test_rows_beyond_the_memory_limit_go_through_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakewright.format.graft.MOST_BUFFERED", 50)
    new = Grafted(written(), NAME)
    assert new.writer.encode_group(ROWS.to_batches(max_chunksize=1)) == 4
    assert new.writer.close()[1].num_row_groups == 1
    assert new.table.to_pylist() == ROWS.to_pylist()


def test_decimals_kept_as_bytes_do_not_mix_with_encoded_groups() -> None:
    new = Grafted(written(store_decimal_as_integer=False), NAME)
    assert not new.writer.can_encode_groups
    with pytest.raises(NotGraftable):
        new.writer.encode_group(ROWS.to_batches())
    assert Grafted(written(store_decimal_as_integer=False), PRICE).writer.encode_everywhere == {"price"}


@pytest.mark.parametrize("columns", [{"price": [1, 2]}, {"name": ["only one"]}])
def test_values_that_do_not_fit_the_call_are_refused(columns: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Grafted(written(), NAME).writer.copy_group(0, pa.table(columns))


def test_dates_do_not_go_into_a_file_in_another_calendar() -> None:
    day = column("day", pa.date32(), 5)
    source = written(ROWS, SCHEMA.with_metadata({"org.apache.spark.version": "2.4.8"}))
    with pytest.raises(NotGraftable, match="calendar"):
        Grafted(source, day)
    assert Grafted(source, NAME).writer.can_encode_groups


def test_a_column_in_another_order_must_be_given_everywhere() -> None:
    def total_order(struct: Struct) -> None:
        struct[7][1][1][1] = {2: (STRUCT, {})}

    new = Grafted(edited(written(), total_order), NAME, ID)
    assert new.writer.encode_everywhere == {"name"}


def test_annotations_spelled_the_old_way_are_the_same() -> None:
    def spell(struct: Struct) -> None:
        for element in struct[2][1][1]:
            element.pop(10, None)
        struct[2][1][1][1][6] = (I32, 18)

    new = Grafted(edited(written(), spell), ID, NAME, PRICE, TAGS)
    assert new.writer.encode_everywhere == frozenset()
    assert new.writer.can_encode_groups


def test_ids_missing_inside_a_column_are_added() -> None:
    source = edited(written(), lambda struct: struct[2][1][1][6].pop(9))
    new = Grafted(source, TAGS).copy({"tags": [["q"], None]}, None)
    assert new.footer.columns[3].node.children[0].children[0].field_id == 401
    assert new.table["tags"].to_pylist() == [["q"], None, None, ["y", None]]


def test_neighbouring_chunks_are_read_at_once() -> None:
    class Counted(io.BytesIO):
        reads = 0

        def read(self, size: int | None = -1, /) -> bytes:
            self.reads += 1
            return super().read(size)

    source = Counted(written())
    writer = GraftWriter(source, io.BytesIO(), keep=None, changed=pa.schema([]), settings=SETTINGS)
    source.reads = 0
    writer.copy_group(0)
    assert source.reads == 1


def test_arrow_files_are_sources_and_targets(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(written())
    with pa.OSFile(str(tmp_path / "old")) as source, pa.OSFile(str(tmp_path / "new"), "w") as out:
        writer = GraftWriter(source, out, keep=None, changed=pa.schema([NAME]), settings=SETTINGS)
        writer.copy_group(0, pa.record_batch({"name": ["y", "z"]}))
        size, _ = writer.close()
    assert (tmp_path / "new").stat().st_size == size
    assert pq.read_table(tmp_path / "new")["name"].to_pylist() == ["y", "z"]


def test_a_row_group_of_no_rows_in_the_source_is_left_out() -> None:
    new = Grafted(written(ROWS.slice(0, 0)), NAME)
    assert new.writer.row_group_rows == [0]
    new.copy({"name": pa.array([], pa.string())})
    assert new.table.num_rows == 0
    assert new.footer.row_groups == ()
