"""Random files, grafted in random ways, read as a plain rewrite does."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.format.graft_kit import (
    KEY,
    KINDS,
    SETTINGS,
    Graft,
    check_offsets,
    column,
    duckdb_rows,
    footer_of,
    graft,
    rows_of,
    statistics_of,
    values,
    write_duckdb,
)

CODECS = ("none", "snappy", "gzip", "zstd", "lz4", "brotli")
seeds = st.integers(0, 2**32)


@st.composite
def sources(draw: st.DrawFn) -> tuple[pa.Table, str, dict[str, Any]]:
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=5))
    count, seed = draw(st.integers(1, 60)), draw(seeds)
    fields = [column(f"{name}_{place}", KINDS[name], place + 1) for place, name in enumerate(names)]
    table = pa.Table.from_arrays([values(field.type, count, seed + i) for i, field in enumerate(fields)], schema=pa.schema(fields))
    writer = draw(st.sampled_from(("arrow", "duckdb")))
    if writer == "duckdb":
        codec = draw(st.sampled_from(("uncompressed", "snappy", "gzip", "zstd", "lz4_raw", "brotli")))
        return table, writer, {"codec": codec, "parquet_version": draw(st.sampled_from(("V1", "V2"))), "row_group_size": draw(st.integers(1, 60))}
    options = {
        "compression": draw(st.sampled_from(CODECS)),
        "data_page_version": draw(st.sampled_from(("1.0", "2.0"))),
        "use_dictionary": draw(st.booleans()),
        "write_page_index": draw(st.booleans()),
        "data_page_size": draw(st.sampled_from((20, 200, 1_000_000))),
        "write_batch_size": 5,
        "row_group_size": draw(st.integers(1, 60)),
        "store_schema": draw(st.booleans()),
        "store_decimal_as_integer": draw(st.booleans()),
    }
    if draw(st.booleans()):
        options["bloom_filter_options"] = {f.name: True for f in fields if f.type in (pa.int32(), pa.int64(), pa.string())}
    return table, writer, options


def write(source: tuple[pa.Table, str, dict[str, Any]], path: Path) -> None:
    table, writer, options = source
    if writer == "duckdb":
        write_duckdb(table, path, **options)
    else:
        pq.write_table(table, path, **options)


@st.composite
def grafts(draw: st.DrawFn, path: Path) -> Graft:
    """Some columns changed, some dropped, some appended; groups copied, or encoded whole without some of their rows."""
    metadata = pq.read_metadata(path)
    old = list(metadata.schema.to_arrow_schema())
    chance = random.Random(draw(seeds))
    fates = {field.name: draw(st.sampled_from(("keep", "keep", "change", "drop"))) for field in old}
    appended = [
        column(f"new_{name}", KINDS[name], 90 + place) for place, name in enumerate(draw(st.lists(st.sampled_from(sorted(KINDS)), max_size=2, unique=True)))
    ]
    if not appended and set(fates.values()) == {"drop"}:
        fates[old[0].name] = "keep"
    fields = [field for field in old if fates[field.name] == "change"] + appended
    changed = {field.name: pa.chunked_array([values(field.type, metadata.num_rows, chance.randrange(1 << 30))]) for field in fields}
    groups, kept = {}, {}
    for index in range(metadata.num_row_groups):
        rows = metadata.row_group(index).num_rows
        groups[index] = draw(st.one_of(st.none(), st.frozensets(st.sampled_from(sorted(changed)))) if changed else st.sampled_from((None, frozenset())))
        kept[index] = [chance.random() < 0.7 for _ in range(rows)]
    settings = {**SETTINGS, "data_page_version": draw(st.sampled_from(("1.0", "2.0"))), "use_dictionary": draw(st.booleans())}
    return Graft(changed, fields, frozenset(name for name, fate in fates.items() if fate == "drop"), groups, kept, settings)


@pytest.mark.feature("I15")
@given(source=sources(), data=st.data())
def test_it_reads_as_a_plain_rewrite(source: Any, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("graft")
    old, new, plain = folder / "old.parquet", folder / "new.parquet", folder / "plain.parquet"
    write(source, old)
    expected = graft(old, new, data.draw(grafts(old)))
    pq.write_table(expected, plain)
    found = pq.read_table(new)
    assert found.column_names == expected.column_names
    assert rows_of(found) == rows_of(expected)
    assert [field.metadata[KEY] for field in found.schema] == [field.metadata[KEY] for field in expected.schema]
    assert duckdb_rows(new) == duckdb_rows(plain)
    check_offsets(new)


@given(source=sources(), data=st.data())
def test_statistics_are_kept_or_those_of_the_new_values(source: Any, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("graft")
    old, new, plain = folder / "old.parquet", folder / "new.parquet", folder / "plain.parquet"
    write(source, old)
    how = data.draw(grafts(old))
    how.groups = {index: wanted if wanted is not None else frozenset(how.changed) for index, wanted in how.groups.items()}
    expected = graft(old, new, how)
    with pq.ParquetWriter(plain, expected.schema, **how.settings) as writer:
        start = 0
        for group in footer_of(old).row_groups:
            writer.write_table(expected.slice(start, group.num_rows))
            start += group.num_rows
    before, after, computed = statistics_of(old), statistics_of(new), statistics_of(plain)
    everywhere = {f.name for f in how.fields} - {f.name for f in pq.read_schema(old)}
    for path, chunks in after.items():
        for index, chunk in enumerate(chunks):
            top = path.split(".")[0]
            if top in everywhere or top in (how.groups[index] or ()):
                assert chunk == computed[path][index], path
            elif top in how.changed:  # copied, or encoded because its form differs
                assert chunk in (before[path][index], computed[path][index]), path
            else:
                assert chunk == before[path][index], path
