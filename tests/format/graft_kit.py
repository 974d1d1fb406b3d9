"""Source files of many shapes, grafts of them, and what a plain rewrite would hold instead."""

from __future__ import annotations

import datetime
import decimal
import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from lakewright.format.graft import GraftWriter
from lakewright.format.parquet_footer import Footer, read_footer, read_range
from lakewright.format.thrift import STRUCT, Struct, child, decode, integer, items

SETTINGS: dict[str, Any] = {"compression": "zstd", "write_statistics": True, "store_schema": False, "store_decimal_as_integer": True}
KEY = b"PARQUET:field_id"


def column(name: str, kind: pa.DataType, field_id: int, nullable: bool = True) -> pa.Field:
    """A field with ids of its own on all that is below it."""
    return pa.field(name, _identified(kind, field_id * 100), nullable=nullable, metadata={KEY: str(field_id)})


def _identified(kind: pa.DataType, base: int) -> pa.DataType:
    def below(inner: pa.Field, place: int) -> pa.Field:
        return pa.field(inner.name, _identified(inner.type, (base + place) * 10), inner.nullable, {KEY: str(base + place)})

    if pa.types.is_struct(kind):
        return pa.struct([below(kind.field(i), i + 1) for i in range(kind.num_fields)])
    if pa.types.is_map(kind):
        return pa.map_(below(kind.key_field, 1), below(kind.item_field, 2))
    if pa.types.is_list(kind):
        return pa.list_(below(kind.value_field.with_name("element"), 1))
    return kind


KINDS: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "decimal9": pa.decimal128(9, 2),
    "decimal18": pa.decimal128(18, 4),
    "decimal38": pa.decimal128(38, 10),
    "struct": pa.struct([("x", pa.int64()), ("y", pa.string())]),
    "list": pa.list_(pa.int32()),
    "map": pa.map_(pa.string(), pa.int64()),
    "deep": pa.list_(pa.struct([("a", pa.map_(pa.int32(), pa.list_(pa.string()))), ("b", pa.float64())])),
}


def values(kind: pa.DataType, count: int, seed: int, nulls: float = 0.2) -> pa.Array:
    """Random values, few of them distinct for some seeds so that dictionaries come about."""
    chance = random.Random(seed)
    spread = chance.choice([5, 1_000_000])
    return pa.array([_value(kind, chance, spread, nulls) for _ in range(count)], type=kind)


def _value(kind: pa.DataType, chance: random.Random, spread: int, nulls: float) -> Any:
    if chance.random() < nulls:
        return None
    number = chance.randrange(spread)
    if pa.types.is_struct(kind):
        return {kind.field(i).name: _value(kind.field(i).type, chance, spread, nulls) for i in range(kind.num_fields)}
    if pa.types.is_map(kind):
        return [(_value(kind.key_type, random.Random(i), 10, 0), _value(kind.item_type, chance, spread, nulls)) for i in range(chance.randrange(3))]
    if pa.types.is_list(kind):
        return [_value(kind.value_type, chance, spread, nulls) for _ in range(chance.randrange(4))]
    simple: dict[Any, Callable[[], Any]] = {
        pa.types.is_boolean: lambda: number % 2 == 0,
        pa.types.is_integer: lambda: number - spread // 2,
        pa.types.is_floating: lambda: number / 7 if kind == pa.float64() else float(number),
        pa.types.is_string: lambda: f"text {number} äß",
        pa.types.is_binary: lambda: str(number).encode(),
        pa.types.is_fixed_size_binary: lambda: uuid.UUID(int=number).bytes,
        pa.types.is_date: lambda: datetime.date(1970, 1, 1) + datetime.timedelta(days=number % 40_000),
        pa.types.is_timestamp: lambda: datetime.datetime(1960, 1, 1, tzinfo=datetime.UTC if kind.tz else None) + datetime.timedelta(seconds=number * 997),
        pa.types.is_decimal: lambda: decimal.Decimal(number - spread // 2).scaleb(-kind.scale),
    }
    return next(make() for is_kind, make in simple.items() if is_kind(kind))


def write_duckdb(table: pa.Table, path: Path, *, row_group_size: int, **options: Any) -> None:
    """DuckDB ends a row group where a batch ends, so it gets batches of that size."""
    ids = ", ".join(f"{field.name}: {_duckdb_ids(field)}" for field in table.schema)
    spelled = "".join(f", {name} {value}" for name, value in options.items())
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("rows", pa.Table.from_batches(table.to_batches(max_chunksize=row_group_size)))
        connection.execute(f"COPY rows TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE {row_group_size}, FIELD_IDS {{{ids}}}{spelled})")


def _duckdb_ids(field: pa.Field) -> str:
    own, kind = field.metadata[KEY].decode(), field.type
    if pa.types.is_struct(kind):
        names = {kind.field(i).name: kind.field(i) for i in range(kind.num_fields)}
    elif pa.types.is_map(kind):
        names = {"key": kind.key_field, "value": kind.item_field}
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        names = {"element": kind.value_field}
    else:
        return str(own)
    return f"{{__duckdb_field_id: {own}, {', '.join(f'{name}: {_duckdb_ids(inner)}' for name, inner in names.items())}}}"


@dataclass
class Graft:
    """What is done to a file. groups: for each row group None (encode the rows of `kept`) or the names of changed columns to encode."""

    changed: Mapping[str, pa.ChunkedArray]
    fields: Sequence[pa.Field]
    dropped: frozenset[str] = frozenset()
    groups: Mapping[int, frozenset[str] | None] = field(default_factory=dict)
    kept: Mapping[int, Sequence[bool]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=lambda: dict(SETTINGS))


def graft(source: Path, target: Path, how: Graft) -> pa.Table:
    """Writes the graft; returns the rows it should hold."""
    old = pq.read_table(source)
    keep = None if not how.dropped else [int(f.metadata[KEY]) for f in old.schema if f.name not in how.dropped]
    expected: list[pa.Table] = []
    with source.open("rb") as data, target.open("wb") as out:
        writer = GraftWriter(data, out, keep=keep, changed=pa.schema(how.fields), settings=how.settings)
        start = 0
        for index, rows in enumerate(writer.row_group_rows):
            columns: dict[str, pa.ChunkedArray] = {name: old.column(name).slice(start, rows) for name in old.column_names if name not in how.dropped}
            wanted = how.groups.get(index, frozenset())
            if wanted is None and writer.can_encode_groups:
                columns |= {name: new.slice(start, rows) for name, new in how.changed.items()}
                part = pa.table(columns).filter(pa.array(how.kept.get(index, [True] * rows)))
                assert writer.encode_group(part.to_batches(max_chunksize=7)) == part.num_rows
            else:
                chosen = (wanted or frozenset()) | writer.encode_everywhere
                given = {name: new.slice(start, rows) for name, new in how.changed.items() if name in chosen}
                columns |= given
                part = pa.table(columns)
                writer.copy_group(index, pa.table(given) if given else None)
            expected.append(part)
            start += rows
        size, metadata = writer.close()
    assert size == target.stat().st_size
    assert metadata.equals(pq.read_metadata(target))
    assert metadata.schema.to_arrow_schema().names == writer.arrow_schema.names
    ids = {f.name: f.metadata for f in (*old.schema, *how.fields)}
    rows = pa.concat_tables(expected)
    return rows.cast(pa.schema([f.with_metadata(ids[f.name]) for f in rows.schema]))


def footer_of(path: Path) -> Footer:
    with path.open("rb") as data:
        return read_footer(data, str(path))


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    return table.to_pylist()


def duckdb_rows(path: Path) -> list[dict[str, Any]]:
    with duckdb.connect() as connection:
        return connection.execute(f"SELECT * FROM read_parquet('{path}')").to_arrow_table().to_pylist()


def statistics_of(path: Path) -> dict[str, list[Struct | None]]:
    """For each leaf the statistics of its chunks, as written."""
    footer = footer_of(path)
    leaves = [leaf for column in footer.columns for leaf in column.leaves]
    return {".".join(leaf.path): [child(group.chunks[i].meta, 12) for group in footer.row_groups] for i, leaf in enumerate(leaves)}


def check_offsets(path: Path) -> tuple[int, int]:
    """Every offset of the footer points to what it claims; returns how many page indexes and bloom filters there are."""
    footer = footer_of(path)
    indexes = filters = 0
    with path.open("rb") as data:
        for ordinal, group in enumerate(footer.row_groups):
            assert integer(group.struct, 7) == ordinal
            assert integer(group.struct, 5) == min(chunk.pages[0] for chunk in group.chunks)
            assert integer(group.struct, 6) == sum(chunk.pages[1] for chunk in group.chunks)
            assert integer(group.struct, 2) == sum(chunk.raw_size for chunk in group.chunks)
            for chunk in group.chunks:
                pages = _page_offsets(read_range(data, chunk.pages), chunk.pages[0])
                if chunk.offset_index is not None:
                    index, _ = decode(read_range(data, chunk.offset_index))
                    locations = [(integer(at, 1), integer(at, 2)) for at in items(index, 1, STRUCT) or []]
                    assert locations == pages
                    indexes += 1
                    if chunk.column_index is not None:
                        limits, end = decode(read_range(data, chunk.column_index))
                        assert end == chunk.column_index[1]
                        assert len(limits[1][1][1]) == len(pages)
                if chunk.bloom is not None:
                    assert chunk.bloom[1] is not None
                    header, end = decode(read_range(data, (chunk.bloom[0], chunk.bloom[1])))
                    assert end + (integer(header, 1) or 0) == chunk.bloom[1]
                    filters += 1
    return indexes, filters


def _page_offsets(chunk: bytes, start: int) -> list[tuple[int, int]]:
    """Data pages of a chunk, by walking their headers."""
    found, at = [], 0
    while at < len(chunk):
        header, end = decode(chunk, at)
        size = end - at + (integer(header, 3) or 0)
        if integer(header, 1) != 2:
            found.append((start + at, size))
        at += size
    assert at == len(chunk)
    return found
