"""Files of every writer, grafted by an UPDATE and a DELETE: each reader gets from them what it gets from a plainly written file, filters included."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakewright.plan.types import spark_struct
from lakewright.write.arrow_rows import file_schema
from tests.format.graft_kit import check_offsets, footer_of, write_duckdb
from tests.interop import lineage
from tests.interop.canonical import canonical
from tests.interop.peer import Peer
from tests.interop.places import Place

ROWS, GROUP = 6000, 1700
FLAT = "id bigint, name string, word string, price decimal(9,2), wide decimal(30,1), moment timestamp, day date, ratio double, size float, ok boolean, n int"
NESTED = ", place struct<x: bigint, y: string>, tags array<string>, counts map<string,bigint>"
STRUCT = ", place struct<x: bigint, y: string>"
UPDATED = "id BETWEEN 1650 AND 1760 OR id = 5000"
DELETED = "id BETWEEN 3500 AND 3600 AND id % 2 = 0"
FILTERS: dict[str, pc.Expression] = {
    "id >= 1000 AND id < 1010": (pc.field("id") >= 1000) & (pc.field("id") < 1010),
    "id IN (5, 1700, 3500, 3501)": pc.field("id").isin([5, 1700, 3500, 3501]),
    "name = 'name 77'": pc.field("name") == "name 77",
    "name = 'new 1700'": pc.field("name") == "new 1700",
    "name = 'name 1700'": pc.field("name") == "name 1700",
    "name = 'nowhere'": pc.field("name") == "nowhere",
    "name IS NULL": pc.field("name").is_null(),
    "word = 'word 3' AND id > 5900": (pc.field("word") == "word 3") & (pc.field("id") > 5900),
    "price < 0": pc.field("price") < Decimal("0"),
    "price > 59.9": pc.field("price") > Decimal("59.90"),
    "wide = 3503.5": pc.field("wide") == Decimal("3503.5"),
    "moment > timestamp '2020-01-01 01:39:00'": pc.field("moment") > datetime(2020, 1, 1, 1, 39, tzinfo=UTC),
    "day = DATE '2020-02-01' AND id < 2000": (pc.field("day") == date(2020, 2, 1)) & (pc.field("id") < 2000),
    "ratio BETWEEN 855.5 AND 857": (pc.field("ratio") >= 855.5) & (pc.field("ratio") <= 857),
    "size IS NULL AND id < 100": pc.field("size").is_null() & (pc.field("id") < 100),
    "ok AND n = 17": pc.field("ok") & (pc.field("n") == 17),
}


def source_rows() -> dict[str, list[Any]]:
    """Few distinct words, names and numbers that are all distinct, nulls and NaNs."""
    ids = range(ROWS)
    start = datetime(2020, 1, 1, tzinfo=UTC)
    return {
        "id": list(ids),
        "name": [None if i % 10 == 3 else f"name {i}" for i in ids],
        "word": [f"word {i % 7}" for i in ids],
        "price": [Decimal(i).scaleb(-2) for i in ids],
        "wide": [Decimal(i * 10 + 5).scaleb(-1) for i in ids],
        "moment": [start + timedelta(seconds=i) for i in ids],
        "day": [date(2020, 1, 1) + timedelta(days=i % 900) for i in ids],
        "ratio": [math.nan if i % 97 == 0 else i / 7 for i in ids],
        "size": [None if i % 13 == 0 else float(i) for i in ids],
        "ok": [i % 3 == 0 for i in ids],
        "n": [i % 1000 for i in ids],
        "place": [None if i % 7 == 0 else {"x": i, "y": f"y{i % 5}"} for i in ids],
        "tags": [None if i % 11 == 0 else [str(i % 50)] * (i % 3) for i in ids],
        "counts": [[("k", i), ("l", None)] for i in ids],
    }


def changed_rows() -> dict[str, list[Any]]:
    """What UPDATED and DELETED make of them."""
    rows = source_rows()
    for i in (*range(1650, 1761), 5000):
        rows["name"][i], rows["price"][i], rows["ratio"][i] = f"new {i}", -rows["price"][i], math.nan
    kept = [i for i in range(ROWS) if not (3500 <= i <= 3600 and i % 2 == 0)]
    return {name: [values[i] for i in kept] for name, values in rows.items()}


Write = Callable[[Place, Any, pa.Table, Path], None]


@dataclass(frozen=True)
class Writer:
    """Writes one file of several row groups with the table's field ids. Without `write`, the runtime inserts the rows itself.

    not_vectorised: columns whose encoding in such files the runtime's vectorised reader refuses, in any file of this writer.
    """

    name: str
    write: Write | None = None
    columns: str = FLAT + NESTED
    properties: dict[str, str] = field(default_factory=dict)
    not_vectorised: tuple[str, ...] = ()


def by_arrow(**options: Any) -> Write:
    def write(place: Place, table: Any, rows: pa.Table, folder: Path) -> None:
        blooms = {"id": {"ndv": GROUP}, "name": {"ndv": GROUP}}
        pq.write_table(rows, folder / "file.parquet", row_group_size=GROUP, data_page_size=2000, write_page_index=True, bloom_filter_options=blooms, **options)

    return write


def by_duckdb(**options: Any) -> Write:
    return lambda place, table, rows, folder: write_duckdb(rows, folder / "file.parquet", row_group_size=GROUP, **options)


def by_spark(version: str, codec: str) -> Write:
    options = {
        "parquet.writer.version": version,
        "compression": codec,
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.fieldId.write.enabled": "true",
        "parquet.bloom.filter.enabled#name": "true",
        "parquet.bloom.filter.expected.ndv#name": "2000",
        "parquet.block.row.count.limit": str(GROUP),
        "parquet.page.row.count.limit": "300",
    }

    def write(place: Place, table: Any, rows: pa.Table, folder: Path) -> None:
        kinds = spark_struct(table.schema.as_struct(), field_ids=True)
        place.lake.spark.createDataFrame([tuple(row.values()) for row in rows.to_pylist()], kinds).coalesce(1).write.options(**options).mode("append").parquet(str(folder))

    return write


RUNTIME = {
    "write.parquet.row-group-size-bytes": "30000",
    "write.parquet.row-group-check-min-record-count": "100",
    "write.parquet.page-row-limit": "300",
    "write.parquet.bloom-filter-enabled.column.name": "true",
    "write.parquet.bloom-filter-ndv.column.name": "2000",
}
WRITERS = [
    Writer("pyarrow_v1", by_arrow(compression="snappy", store_decimal_as_integer=True)),
    Writer("pyarrow_v2", by_arrow(compression="zstd", data_page_version="2.0", use_dictionary=["word"], store_schema=False), not_vectorised=("ok",)),
    Writer("duckdb_v1", by_duckdb(codec="snappy")),
    Writer("duckdb_v2", by_duckdb(codec="zstd", parquet_version="V2"), not_vectorised=("ok",)),
    # Spark writes no field ids on list elements, map keys and map values.
    Writer("spark_v1", by_spark("v1", "snappy"), FLAT + STRUCT),
    Writer("spark_v2", by_spark("v2", "zstd"), FLAT + STRUCT, not_vectorised=("ok",)),
    Writer("runtime_zstd", properties=RUNTIME),
    Writer("runtime_gzip", properties={**RUNTIME, "write.parquet.compression-codec": "gzip", "write.parquet.page-version": "v2"}, not_vectorised=("ok",)),
]


@pytest.fixture(params=WRITERS, ids=lambda writer: writer.name, scope="module")
def grafted(request: pytest.FixtureRequest, place_of: Callable[[str], Place], peer: Peer, tmp_path_factory: pytest.TempPathFactory) -> Grafted:
    return Grafted(request.param, place_of("local"), peer, tmp_path_factory.mktemp("grafts"))


class Grafted:
    """Two tables with the same rows: in one, the writer's file was changed by us; the other has one plainly written file.

    What is left of a row group that lost rows stands in a file of its own if Arrow cannot write it as the writer did.
    """

    def __init__(self, writer: Writer, place: Place, peer: Peer, folder: Path) -> None:
        self.writer, self.place, self.peer = writer, place, peer
        self.table = self._made("grafted", writer.properties)
        self._fill(self.table, source_rows(), folder / "source")
        (self.source,) = self.paths(self.table)
        self.table.update({"name": "concat('new ', id)", "price": "-price", "ratio": "double('NaN')"}, where=UPDATED)
        self.table.delete(DELETED)
        self.files = self.paths(self.table)
        (self.path,) = (path for path in self.files if footer_of(path).created_by == footer_of(self.source).created_by)
        plain = self._made("plain", {})
        self._fill(plain, changed_rows(), folder / "plain", by_arrow())
        (self.plain,) = self.paths(plain)
        self.names = [field.name for field in plain.schema.fields]
        self.grafted_name, self.plain_name = (f"{place.name}.{t.name}" for t in (self.table, plain))

    def _made(self, kind: str, properties: dict[str, str]) -> Any:
        name = f"grafts.{self.writer.name}_{kind}"
        spelled = "".join(f", '{key}'='{value}'" for key, value in properties.items())
        self.peer.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.place.name}.grafts")
        self.peer.sql(f"CREATE TABLE {self.place.name}.{name} ({self.writer.columns}) USING iceberg TBLPROPERTIES ('format-version'='3'{spelled})")
        return self.place.lake.table(name)

    def _fill(self, table: Any, values: dict[str, list[Any]], folder: Path, write: Write | None = None) -> None:
        folder.mkdir()
        schema = file_schema(table.schema)
        rows = pa.table([pa.array(values[f.name], f.type) for f in schema], schema=schema)
        write = write or self.writer.write
        if write is None:
            pq.write_table(rows, folder / "rows.parquet")
            self.peer.sql(f"INSERT INTO {self.place.name}.{table.name} SELECT /*+ COALESCE(1) */ * FROM parquet.`{folder}`")
            return
        write(self.place, table, rows, folder)
        self.peer.sql(f"CALL {self.place.name}.system.add_files(table => '{table.name}', source_table => '`parquet`.`{folder}`')")

    @staticmethod
    def paths(table: Any) -> list[Path]:
        files = table.files().where("content = 'data'").select("file_path").toArrow()
        return [Path(str(path).removeprefix("file://").removeprefix("file:")) for path in files["file_path"].to_pylist()]


def described(path: Path, what: str) -> set[str]:
    """Columns that have a bloom filter or an index of pages in any row group."""
    footer = footer_of(path)
    leaves = [".".join(leaf.path) for column in footer.columns for leaf in column.leaves]
    return {leaf for group in footer.row_groups for leaf, chunk in zip(leaves, group.chunks, strict=True) if getattr(chunk, what) is not None}


def test_the_file_is_a_graft(grafted: Grafted) -> None:
    before, after = footer_of(grafted.source), footer_of(grafted.path)
    assert len(before.row_groups) >= 3
    assert len(after.row_groups) == len(before.row_groups) - len(grafted.files) + 1
    check_offsets(grafted.path)
    assert described(grafted.path, "bloom") >= described(grafted.source, "bloom")
    assert described(grafted.path, "offset_index") >= described(grafted.source, "offset_index")
    if "duckdb" not in grafted.writer.name:
        assert {"name"} <= described(grafted.source, "bloom") and set(grafted.names) - {"place", "tags", "counts"} <= described(grafted.source, "offset_index")


def test_pyarrow(grafted: Grafted) -> None:
    for condition in (None, *FILTERS.values()):
        found, expected = (pq.read_table(path, columns=grafted.names, filters=condition) for path in (list(map(str, grafted.files)), grafted.plain))
        assert canonical(found) == canonical(expected), condition
    assert expected.num_rows


def test_duckdb(grafted: Grafted) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for condition in ("true", *FILTERS):
            query = f"SELECT {', '.join(grafted.names)} FROM read_parquet(?) WHERE {condition}"
            found, expected = (connection.execute(query, [list(map(str, paths))]).to_arrow_table() for paths in (grafted.files, [grafted.plain]))
            assert canonical(found) == canonical(expected), condition
    assert expected.num_rows


def filtered(source: str, columns: list[str]) -> str:
    """One query with a branch for each filter."""
    names = ", ".join(columns)
    usable = {place: condition for place, condition in enumerate(FILTERS) if "ok" in columns or "ok" not in condition.split()}
    return " UNION ALL ".join(f"SELECT {place} AS filter, {names} FROM {source} WHERE {condition}" for place, condition in usable.items())


def test_spark(grafted: Grafted) -> None:
    spark = grafted.place.lake.spark
    for paths, view in ((grafted.files, "grafted_rows"), ([grafted.plain], "plain_rows")):
        spark.read.parquet(*map(str, paths)).select(*grafted.names).createOrReplaceTempView(view)
    assert canonical(spark.table("grafted_rows").toArrow()) == canonical(spark.table("plain_rows").toArrow())
    found, expected = (spark.sql(filtered(view, grafted.names)).toArrow() for view in ("grafted_rows", "plain_rows"))
    assert canonical(found) == canonical(expected)


@pytest.mark.feature("I15")
@pytest.mark.parametrize("nested", [False, True], ids=["vectorised", "row_by_row"])
def test_the_iceberg_runtime(grafted: Grafted, nested: bool) -> None:
    columns = [name for name in grafted.names if nested or name not in ("place", "tags", "counts", *grafted.writer.not_vectorised)]
    names = (grafted.grafted_name, grafted.plain_name)
    found, expected = (grafted.peer.sql(f"SELECT {', '.join(columns)} FROM {name}") for name in names)
    assert canonical(found) == canonical(expected)
    assert found.num_rows == ROWS - 51
    found, expected = (grafted.peer.sql(filtered(name, columns)) for name in names)
    assert canonical(found) == canonical(expected)


@pytest.mark.feature("I15")
def test_counts_and_limits_in_the_metadata(grafted: Grafted) -> None:
    """The runtime answers these from the manifests."""
    limits = ", ".join(f"min({c}) AS least_{c}, max({c}) AS most_{c}, count({c}) AS some_{c}" for c in ("id", "price", "wide", "moment", "day", "size", "n"))
    found, expected = (grafted.peer.sql(f"SELECT count(*) AS rows, count(name) AS names, {limits} FROM {name}") for name in (grafted.grafted_name, grafted.plain_name))
    assert canonical(found) == canonical(expected)


@pytest.mark.feature("I25")
def test_row_ids(grafted: Grafted) -> None:
    """The file's rows got ids by their place, and kept them when others went."""
    found = lineage.ours(grafted.table)
    assert {key: row_id for key, (row_id, _) in found.items()} == {i: i for i in changed_rows()["id"]}
    assert {key for key, (_, sequence) in found.items() if sequence > 1} == {*range(1650, 1761), 5000}
    assert lineage.of_the_runtime(grafted.peer, grafted.place, grafted.table) == found
    with duckdb.connect() as connection:
        held = connection.execute("SELECT count(_row_id) FROM read_parquet(?)", [list(map(str, grafted.files))]).fetchone()
    assert held == (ROWS - 51,)
