"""Damaged files: a graft of one is made, or refused by name, and takes no time."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.errors import CorruptFile
from lakewright.format.graft import GraftWriter, NotGraftable
from lakewright.format.graft_layout import footer_bytes
from lakewright.format.thrift import I64, decode
from tests.format.graft_kit import KINDS, SETTINGS, column, values, write_duckdb

FIELDS = [column(name, KINDS[name], place) for place, name in enumerate(("long", "string", "decimal18", "deep", "timestamp"), 1)]
NEW = column("added", pa.int64(), 50)


def graft(data: bytes) -> bytes:
    """Everything copied, one column changed, one added."""
    out = io.BytesIO()
    writer = GraftWriter(io.BytesIO(data), out, keep=[1, 2, 3, 4], changed=pa.schema([FIELDS[1], NEW]), settings=SETTINGS, path="a/b.parquet")
    for index, rows in enumerate(writer.row_group_rows):
        given = {name: values(kind, rows, 5) for name, kind in (("string", pa.string()), ("added", pa.int64()))}
        writer.copy_group(index, pa.table(given))
    writer.close()
    return out.getvalue()


def split(data: bytes) -> tuple[bytes, bytes]:
    length = int.from_bytes(data[-8:-4], "little")
    return data[: -8 - length], data[-8 - length : -8]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    table = pa.Table.from_arrays([values(field.type, 40, 3) for field in FIELDS], schema=pa.schema(FIELDS))
    arrow, duck = io.BytesIO(), tmp_path_factory.mktemp("damaged") / "duck.parquet"
    pq.write_table(table, arrow, row_group_size=15, write_page_index=True, bloom_filter_options={"long": True}, data_page_size=100)
    write_duckdb(table, duck, row_group_size=15)
    return [arrow.getvalue(), duck.read_bytes()]


def judged(data: bytes) -> None:
    started = time.monotonic()
    try:
        assert len(graft(data)) < 3 * len(data) + 20_000
    except (CorruptFile, NotGraftable):
        pass
    assert time.monotonic() - started < 3


@given(data=st.data())
def test_a_footer_with_flipped_bits_makes_a_file_or_is_refused(files: list[bytes], data: st.DataObject) -> None:
    body, footer = split(data.draw(st.sampled_from(files)))
    changed = bytearray(footer)
    for at in data.draw(st.lists(st.integers(0, len(footer) * 8 - 1), min_size=1, max_size=4)):
        changed[at // 8] ^= 1 << at % 8
    judged(body + changed + len(changed).to_bytes(4, "little") + b"PAR1")


@given(data=st.data())
def test_page_indexes_and_filters_with_flipped_bits_make_a_file_or_are_refused(files: list[bytes], data: st.DataObject) -> None:
    whole = bytearray(files[0])
    end = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for at in data.draw(st.lists(st.integers(0, 8 * 2500), min_size=1, max_size=8)):
        whole[end - 1 - at // 8] ^= 1 << at % 8
    judged(bytes(whole))


def test_an_offset_index_that_leads_out_of_its_chunk_is_named(files: list[bytes]) -> None:
    body, footer = split(files[0])
    struct, _ = decode(footer)
    chunks = struct[4][1][1][0][1][1][1]
    chunks[0][4], chunks[0][5] = chunks[2][4], chunks[2][5]
    with pytest.raises(CorruptFile, match=r"a/b\.parquet.*outside of its column chunk"):
        graft(body + footer_bytes(struct))


def test_a_bloom_filter_whose_header_lies_is_named(files: list[bytes]) -> None:
    body, footer = split(files[0])
    struct, _ = decode(footer)
    meta = struct[4][1][1][0][1][1][1][0][3][1]
    del meta[15]
    meta[14] = (I64, meta[14][1] + 3)
    with pytest.raises(CorruptFile, match=r"a/b\.parquet"):
        graft(body + footer_bytes(struct))


def test_a_source_that_shrinks_while_it_is_read_is_named(files: list[bytes], tmp_path: Path) -> None:
    path = tmp_path / "shrinking.parquet"
    path.write_bytes(files[0])
    with path.open("rb+") as source:
        writer = GraftWriter(source, io.BytesIO(), keep=None, changed=pa.schema([]), settings=SETTINGS)
        source.truncate(50)
        with pytest.raises(CorruptFile, match="shrinking.parquet"):
            writer.copy_group(0)
