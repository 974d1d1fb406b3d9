"""Bloom filters of other writers are read right: no value is missed, and few are taken for present that are not."""

from __future__ import annotations

import datetime
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.format.bloom import BloomFilter, Hashed, read_bloom, value_hashes
from lakewright.format.parquet_footer import Footer, Input, read_footer
from lakewright.format.thrift import ThriftError
from lakewright.keys.index.filters import KeyValues, file_may_have, has_filters

MANY = 2_000
KINDS: dict[str, tuple[pa.DataType, Any]] = {
    "int": (pa.int32(), lambda n: n - 5),
    "long": (pa.int64(), lambda n: n * 10**9 - 7),
    "date": (pa.date32(), lambda n: n - 900),
    "string": (pa.string(), lambda n: f"key {n} é"),
    "binary": (pa.binary(), lambda n: bytes([n % 256, n // 256, 0, 255])),
    "small decimal": (pa.decimal128(9, 2), lambda n: Decimal(n - 50).scaleb(-2)),
    "large decimal": (pa.decimal128(30, 4), lambda n: Decimal(n * 10**20 - 1).scaleb(-4)),
}


def written(values: pa.Array, **settings: Any) -> io.BytesIO:
    stream = io.BytesIO()
    field = pa.field("k", values.type, metadata={"PARQUET:field_id": "7"})
    pq.write_table(pa.table([values], pa.schema([field])), stream, bloom_filter_options={"k": {"ndv": MANY, "fpp": 0.01}}, **settings)
    return stream


def opened(stream: Input) -> tuple[Footer, BloomFilter]:
    footer = read_footer(stream, "a file")
    found = read_bloom(stream, footer.file_size, footer.row_groups[0].chunks[0])
    assert found is not None
    return footer, found


def share(footer: Footer, found: BloomFilter, values: list[Any], scale: int = 0) -> float:
    hashed = value_hashes(values, footer.columns[0].leaves[0], scale)
    assert isinstance(hashed, Hashed) and hashed.storable.all()
    return float(found.may_have(hashed.hashes).mean())


@pytest.mark.feature("H18")
@pytest.mark.parametrize("kind", KINDS)
def test_values_of_each_type(kind: str) -> None:
    arrow, value = KINDS[kind]
    given = [value(n) for n in range(2 * MANY)]
    stored = [datetime.date(1970, 1, 1) + datetime.timedelta(days=n) for n in given] if kind == "date" else given
    footer, found = opened(written(pa.array(stored[:MANY], arrow), store_decimal_as_integer=True))
    scale = arrow.scale if "decimal" in kind else 0
    assert share(footer, found, given[:MANY], scale) == 1
    assert share(footer, found, given[MANY:], scale) < 0.03


@pytest.mark.feature("H18")
def test_a_column_that_was_narrower_has_no_larger_numbers() -> None:
    footer, found = opened(written(pa.array([1, 2, 3], pa.int32())))
    hashed = value_hashes([2, 2**40], footer.columns[0].leaves[0])
    assert hashed is not None
    assert (found.may_have(hashed.hashes) & hashed.storable).tolist() == [True, False]


@pytest.mark.feature("H18")
def test_filters_of_duckdb(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    duckdb.sql(f"COPY (SELECT concat('k', i % 500) AS k, (i % 500)::BIGINT AS n FROM range(20000) t(i)) TO '{path}' (FORMAT parquet, FIELD_IDS {{k: 7, n: 8}})")
    with path.open("rb") as stream:
        footer, found = opened(stream)
        assert share(footer, found, [f"k{n}" for n in range(500)]) == 1
        assert share(footer, found, [f"k{n}" for n in range(500, 5000)]) < 0.03
    there, gone = [KeyValues(7, ["k3"]), KeyValues(8, [3])], [KeyValues(7, ["k3", "none"]), KeyValues(8, [99999, 4])]
    from lakewright.format.local_io import LocalFileIO

    assert has_filters(LocalFileIO(), str(path), {7}) and not has_filters(LocalFileIO(), str(path), {9})
    assert file_may_have(LocalFileIO(), str(path), there)
    assert not file_may_have(LocalFileIO(), str(path), gone)  # each part of a key is there, though of different records


@pytest.mark.feature("H18")
def test_what_cannot_be_told_is_taken_for_a_yes(tmp_path: Path) -> None:
    from lakewright.format.local_io import LocalFileIO

    stream = written(pa.array(["a", "b"]))
    data, (footer, _) = bytearray(stream.getvalue()), opened(stream)
    offset, length = footer.row_groups[0].chunks[0].bloom or (0, 0)
    path, io_, gone = tmp_path / "file.parquet", LocalFileIO(), [KeyValues(7, ["c"])]
    path.write_bytes(data)
    assert not file_may_have(io_, str(path), gone)
    assert file_may_have(io_, str(path), [KeyValues(8, ["c"])])  # no such column
    assert file_may_have(io_, str(path), [KeyValues(7, [5])])  # not a text
    for damage in (b"\x00\x00\x00", b"\x15\x41\x1c"):  # a header without a size, one of 33 bytes less a half
        path.write_bytes(data[:offset] + damage + data[offset + 3 :])
        assert file_may_have(io_, str(path), gone)
    path.write_bytes(data[: len(data) // 2])
    assert file_may_have(io_, str(path), gone)
    assert file_may_have(io_, str(tmp_path / "missing.parquet"), gone)
    assert length


@pytest.mark.feature("H18")
def test_a_filter_past_the_end_of_the_file() -> None:
    stream = written(pa.array(["a", "b"]))
    footer, _ = opened(stream)
    with pytest.raises(ThriftError, match="is not in the file"):
        read_bloom(stream, (footer.row_groups[0].chunks[0].bloom or (0, 0))[0] + 20, footer.row_groups[0].chunks[0])


def test_a_filter_is_asked_for_many_at_once() -> None:
    blocks = np.zeros((4, 8), np.uint32)
    assert not BloomFilter(blocks).may_have(np.arange(100, dtype=np.uint64) << np.uint64(40)).any()
    assert BloomFilter(~blocks).may_have(np.arange(100, dtype=np.uint64) << np.uint64(57)).all()
