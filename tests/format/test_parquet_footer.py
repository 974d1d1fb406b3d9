from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakewright.errors import CorruptFile
from lakewright.format.graft_layout import footer_bytes
from lakewright.format.parquet_footer import MAGIC, MAX_FOOTER, Footer, NotGraftable, read_footer
from lakewright.format.parquet_schema import MAX_DEPTH
from lakewright.format.thrift import BINARY, I32, I64, LIST, STRUCT, Struct, decode
from tests.format.graft_kit import KINDS, column, values, write_duckdb

KINDS_USED = ("long", "string", "struct", "list", "map", "deep")


def table() -> pa.Table:
    fields = [column(name, KINDS[name], place) for place, name in enumerate(KINDS_USED, 1)]
    return pa.Table.from_arrays([values(field.type, 30, 7) for field in fields], schema=pa.schema(fields))


def written(**options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table(), sink, row_group_size=11, write_page_index=True, bloom_filter_options={"long": True}, **options)
    return sink.getvalue()


def read(data: bytes) -> Footer:
    return read_footer(io.BytesIO(data), "a/b.parquet")


def split(data: bytes) -> tuple[bytes, bytes]:
    length = int.from_bytes(data[-8:-4], "little")
    return data[: -8 - length], data[-8 - length : -8]


def edited(edit: Callable[[Struct], Any]) -> bytes:
    """A file whose footer was changed."""
    body, footer = split(written())
    struct, _ = decode(footer)
    edit(struct)
    return body + footer_bytes(struct)


def chunk_of(struct: Struct) -> Struct:
    found: Struct = struct[4][1][1][1][1][1][1][0]
    return found


def meta_of(struct: Struct) -> Struct:
    found: Struct = chunk_of(struct)[3][1]
    return found


def test_columns_have_their_leaves_ids_and_levels() -> None:
    columns = read(written()).columns
    assert [(c.name, c.field_id, c.first_leaf) for c in columns] == [
        ("long", 1, 0),
        ("string", 2, 1),
        ("struct", 3, 2),
        ("list", 4, 4),
        ("map", 5, 5),
        ("deep", 6, 7),
    ]
    assert {".".join(leaf.path): (leaf.max_definition, leaf.max_repetition) for c in columns for leaf in c.leaves} == {
        "long": (1, 0),
        "string": (1, 0),
        "struct.x": (2, 0),
        "struct.y": (2, 0),
        "list.list.element": (3, 1),
        "map.key_value.key": (2, 1),
        "map.key_value.value": (3, 1),
        "deep.list.element.a.key_value.key": (5, 2),
        "deep.list.element.a.key_value.value.list.element": (8, 3),
        "deep.list.element.b": (4, 1),
    }


def test_row_groups_have_their_chunks_with_all_that_belongs_to_them() -> None:
    groups = read(written()).row_groups
    assert [group.num_rows for group in groups] == [11, 11, 8]
    first = groups[0].chunks[0]
    assert first.pages[0] == 4
    assert first.offset_index is not None and first.column_index is not None and first.bloom is not None
    assert groups[0].chunks[1].bloom is None


def test_a_footer_longer_than_the_first_read_is_read_whole() -> None:
    sink = io.BytesIO()
    wide = pa.table({f"column_{place}": [1] for place in range(1500)})
    pq.write_table(wide, sink)
    assert len(split(sink.getvalue())[1]) > 65536
    assert len(read(sink.getvalue()).columns) == 1500


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda s: s.pop(2), "no schema"),
        (lambda s: s[2][1][1].pop(), "ends too early"),
        (lambda s: s[2][1][1].append({4: (BINARY, b"x"), 1: (I32, 1)}), "outside of its tree"),
        (lambda s: s[2][1][1][1].pop(4), "no name"),
        (lambda s: s[2][1][1][1].update({4: (BINARY, b"\xff")}), "no text"),
        (lambda s: s[2][1][1][1].pop(1), "neither a column nor a group"),
        (lambda s: s[2][1][1][1].update({3: (I32, 9)}), "repetition 9"),
        (lambda s: s[7][1][1].pop(), "column orders"),
        (lambda s: s.update({3: (I64, 31)}), "states 31 rows and its row groups 30"),
        (lambda s: s[4][1][1].pop(), "states 30 rows"),
        (lambda s: s[4][1][1][0].update({3: (I64, -1)}), "-1 rows"),
        (lambda s: s[4][1][1][0][1][1][1].pop(), "9 column chunks for 10 columns"),
        (lambda s: chunk_of(s).pop(3), "no description of column long"),
        (lambda s: meta_of(s).update({1: (I32, 1)}), "another type"),
        (lambda s: meta_of(s).update({3: (LIST, (BINARY, [b"other"]))}), "another column"),
        (lambda s: meta_of(s).update({5: (I64, 12)}), "12 values for 11 rows"),
        (lambda s: meta_of(s).update({7: (I64, 1 << 40)}), "not in the file"),
        (lambda s: meta_of(s).update({7: (I64, -5)}), "not in the file"),
        (lambda s: meta_of(s).update({11: (I64, 1)}), "not in the file"),
        (lambda s: chunk_of(s).update({4: (I64, 1 << 40)}), "not in the file"),
        (lambda s: meta_of(s).update({14: (I64, 1 << 40)}), "not in the file"),
        (lambda s: meta_of(s).update({9: (I64, 4), 11: (I64, 4), 7: (I64, 4000)}), "overlap"),
    ],
)
def test_a_footer_that_contradicts_itself_is_damaged(edit: Callable[[Struct], Any], said: str) -> None:
    with pytest.raises(CorruptFile, match=rf"a/b\.parquet is damaged.*{said}"):
        read(edited(edit))


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda s: s.update({8: (STRUCT, {1: (STRUCT, {})})}), "encrypted"),
        (lambda s: s.update({9: (BINARY, b"key")}), "encrypted"),
        (lambda s: chunk_of(s).update({8: (STRUCT, {1: (STRUCT, {})})}), "column long is encrypted"),
        (lambda s: chunk_of(s).update({9: (BINARY, b"secret")}), "column long is encrypted"),
        (lambda s: chunk_of(s).update({1: (BINARY, b"elsewhere.parquet")}), "another file"),
        (lambda s: s.update({6: (BINARY, b"parquet-mr version 1.2.8")}), "too small"),
    ],
)
def test_a_file_of_another_making_is_left_to_others(edit: Callable[[Struct], Any], said: str) -> None:
    with pytest.raises(NotGraftable, match=said):
        read(edited(edit))


def test_an_encrypted_footer_is_left_to_others() -> None:
    with pytest.raises(NotGraftable, match="encrypted"):
        read(b"PARE" + written()[4:-4] + b"PARE")


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1PAR1", b"x" * 100, MAGIC + bytes(20) + b"\xff\xff\xff\x7f" + MAGIC])
def test_what_is_no_parquet_file_is_named(data: bytes) -> None:
    with pytest.raises(CorruptFile, match=r"a/b\.parquet"):
        read(data)


def test_a_chain_of_groups_is_refused() -> None:
    group: Struct = {4: (BINARY, b"g"), 5: (I32, 1)}
    elements = [group] * (MAX_DEPTH + 100_000) + [{4: (BINARY, b"x"), 1: (I32, 1)}]
    with pytest.raises(CorruptFile, match="too deeply"):
        read(MAGIC + footer_bytes({1: (I32, 2), 2: (LIST, (STRUCT, elements)), 3: (I64, 0), 4: (LIST, (STRUCT, []))}))


def test_an_enormous_footer_is_left_to_others(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as out:
        out.write(MAGIC)
        out.seek(MAX_FOOTER + 100)
        out.write((MAX_FOOTER + 1).to_bytes(4, "little") + MAGIC)
    with path.open("rb") as data, pytest.raises(NotGraftable, match="footer"):
        read_footer(data, "x")


def judged(data: bytes) -> None:
    """It parses, or is refused, at once."""
    started = time.monotonic()
    try:
        read(data)
    except (CorruptFile, NotGraftable):
        pass
    assert time.monotonic() - started < 2


@given(st.binary(max_size=3000))
@example(bytes([0x19, 0xFC, 0xFF, 0xFF, 0x7F]))
def test_any_footer_is_read_or_refused(footer: bytes) -> None:
    judged(MAGIC + bytes(100) + footer + len(footer).to_bytes(4, "little") + MAGIC)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    path = tmp_path_factory.mktemp("footers") / "duckdb.parquet"
    write_duckdb(table(), path, row_group_size=11)
    return [written(), written(data_page_version="2.0", compression="gzip"), path.read_bytes()]


@given(data=st.data())
def test_a_footer_with_flipped_bits_is_read_or_refused(files: list[bytes], data: st.DataObject) -> None:
    body, footer = split(data.draw(st.sampled_from(files)))
    changed = bytearray(footer)
    for at in data.draw(st.lists(st.integers(0, len(footer) * 8 - 1), min_size=1, max_size=8)):
        changed[at // 8] ^= 1 << at % 8
    judged(body + changed + len(changed).to_bytes(4, "little") + MAGIC)


@given(data=st.data())
def test_a_truncated_file_is_refused(files: list[bytes], data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from(files))
    with pytest.raises(CorruptFile):
        read(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(data=st.data())
def test_a_footer_cut_short_is_refused(files: list[bytes], data: st.DataObject) -> None:
    body, footer = split(data.draw(st.sampled_from(files)))
    cut = footer[: data.draw(st.integers(0, len(footer) - 1))]
    with pytest.raises(CorruptFile):
        read(body + cut + len(cut).to_bytes(4, "little") + MAGIC)
