"""What a graft carries along: descriptions, page indexes, bloom filters, metadata."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.format.parquet_footer import Footer, read_footer
from lakewright.format.thrift import BINARY, STRUCT, Struct, binary, integer, items
from tests.format.graft_kit import check_offsets, column, write_duckdb
from tests.format.graft_small import NAME, ROW_ID, ROWS, SCHEMA, Grafted, chunks, edited, written


def test_fields_no_one_knows_are_kept() -> None:
    def add(struct: Struct) -> None:
        for owner in (struct, struct[4][1][1][0], chunks(struct)[0], chunks(struct)[0][3][1], struct[2][1][1][1]):
            owner[999] = (BINARY, b"from the future")

    footer = Grafted(edited(written(), add), NAME).copy(None, None).footer
    owners = (
        footer.struct,
        footer.row_groups[0].struct,
        footer.row_groups[0].chunks[0].struct,
        footer.row_groups[0].chunks[0].meta,
        footer.columns[0].node.element,
    )
    assert [binary(owner, 999) for owner in owners] == [b"from the future"] * 5


def test_what_describes_a_chunk_is_kept() -> None:
    source = written()
    before, after = read_footer(io.BytesIO(source), "old"), Grafted(source, NAME).copy({"name": ["y", "z"]}, None).footer
    for place in (0, 2, 3):
        for described in (2, 4, 5, 6, 7, 12, 13, 16):
            assert after.row_groups[0].chunks[place].meta.get(described) == before.row_groups[0].chunks[place].meta.get(described)


@pytest.mark.parametrize("indexed", [True, False])
def test_page_indexes_are_carried_along_and_made_for_new_chunks(indexed: bool, tmp_path: Path) -> None:
    new = Grafted(written(write_page_index=indexed), NAME, ROW_ID, keep=[1, 2, 4]).copy({"name": ["y", "z"], "_row_id": [1, 2]}, {"_row_id": [3, 4]})
    path = tmp_path / "f.parquet"
    path.write_bytes(new.out.getvalue())
    assert check_offsets(path) == (8 if indexed else 0, 0)


def test_bloom_filters_are_carried_along_and_made_for_new_chunks(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    write_duckdb(
        pa.table({"a": ["x", "y"] * 2000, "b": ["p", "q"] * 2000}, pa.schema([column("a", pa.string(), 1), column("b", pa.string(), 2)])),
        path,
        row_group_size=2048,
    )
    new = Grafted(path.read_bytes(), column("b", pa.string(), 2)).copy({"b": ["r", "s"] * 1024}, None)
    path.write_bytes(new.out.getvalue())
    assert check_offsets(path) == (0, 4)
    assert [_excluded(path, "a", value) for value in ("x", "z")] == [[False, False], [True, True]]
    assert [_excluded(path, "b", value) for value in ("r", "q")] == [[False, True], [True, False]]


def _excluded(path: Path, name: str, value: str) -> list[bool]:
    with duckdb.connect() as connection:
        return [
            row[0]
            for row in connection.execute(
                f"SELECT bloom_filter_excludes FROM parquet_bloom_probe('{path}', '{name}', '{value}') ORDER BY row_group_id"
            ).fetchall()
        ]


def test_the_length_of_a_bloom_filter_may_be_in_its_header_only(tmp_path: Path) -> None:
    source = edited(written(bloom_filter_options={"name": True}), lambda struct: chunks(struct)[1][3][1].pop(15))
    path = tmp_path / "f.parquet"
    path.write_bytes(Grafted(source).copy(None, None).out.getvalue())
    assert check_offsets(path) == (0, 2)


SORTED = [pq.SortingColumn(3), pq.SortingColumn(1, descending=True), pq.SortingColumn(2)]


@pytest.mark.parametrize(
    ("keep", "given", "kept"),
    [
        (None, None, [3, 1, 2]),
        ([2, 3, 4], None, [2, 0, 1]),
        ([1, 3, 4], None, [2]),
        (None, {"name": ["y", "z"]}, [3]),
        ([1, 2, 3], None, []),
    ],
)
def test_sorting_columns_hold_up_to_the_first_that_changed(keep: list[int] | None, given: Any, kept: list[int]) -> None:
    source = written(sorting_columns=SORTED)
    new = Grafted(source, *([NAME] if given else []), keep=keep).copy(given, None)
    sorting = items(new.footer.row_groups[0].struct, 4, STRUCT)
    assert [integer(one, 1) for one in sorting or []] == kept
    assert sorting is None or kept


def pairs(footer: Footer) -> set[bytes]:
    return set(footer.key_values())


KEY_VALUES = {"mine": "kept", "org.apache.spark.version": "4.3.0", "org.apache.spark.sql.parquet.row.metadata": "{}"}


def test_metadata_that_still_holds_is_kept() -> None:
    source = written(ROWS, SCHEMA.with_metadata(KEY_VALUES))
    assert pairs(Grafted(source, NAME).copy({"name": ["y", "z"]}, None).footer) == {b"ARROW:schema", *(key.encode() for key in KEY_VALUES)}


def test_metadata_that_describes_other_columns_is_dropped() -> None:
    source = written(ROWS, SCHEMA.with_metadata(KEY_VALUES))
    assert pairs(Grafted(source, ROW_ID).copy({"_row_id": [1, 2]}, {"_row_id": [3, 4]}).footer) == {b"mine", b"org.apache.spark.version"}


OLD_WRITER = b"parquet-mr version 1.7.0"


def test_the_writer_of_copied_chunks_is_still_named() -> None:
    source = edited(written(), lambda struct: struct.update({6: (BINARY, OLD_WRITER)}))
    assert Grafted(source, NAME).copy({"name": ["y", "z"]}, None).footer.created_by == OLD_WRITER.decode()
    whole = Grafted(source)
    whole.writer.encode_group(ROWS.to_batches())
    whole.writer.close()
    assert whole.footer.created_by.startswith("parquet-cpp-arrow")


def test_statistics_without_an_order_stay_without_one() -> None:
    source = edited(written(), lambda struct: struct.pop(7))
    new = Grafted(source, NAME, ROW_ID).copy({"name": ["y", "z"], "_row_id": [1, 2]}, {"_row_id": [3, 4]})
    assert 7 not in new.footer.struct
    assert new.table["_row_id"].to_pylist() == [1, 2, 3, 4]


def test_footer_entries_agree_with_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    path.write_bytes(Grafted(written(), NAME).copy({"name": ["y", "z"]}, None).out.getvalue())
    check_offsets(path)
