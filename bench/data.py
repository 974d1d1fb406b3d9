"""The data sets, made once and kept: a lineitem-like table, and a table of many small files."""

from __future__ import annotations

from pathlib import Path

import duckdb

from bench.places import DATA, made_whole

FILES = 8
COLUMNS = """
    (hash(i) % 60000000)::bigint as l_orderkey, (hash(i+11) % 200000)::int as l_partkey, (i % 7)::int as l_linenumber,
    ((hash(i+22) % 5000) / 100.0)::decimal(12,2) as l_quantity, ((hash(i+33) % 10000000) / 100.0)::decimal(12,2) as l_extendedprice,
    ((hash(i+44) % 11) / 100.0)::double as l_discount,
    ['A','N','R'][1 + (hash(i+55) % 3)::int] as l_returnflag,
    ['AIR','MAIL','SHIP','TRUCK','RAIL','FOB','REG AIR'][1 + (hash(i+66) % 7)::int] as l_shipmode,
    (date '2019-01-01' + (hash(i+77) % 1945)::int) as l_shipdate,
    (timestamp '2019-01-01' + to_seconds((hash(i+88) % 168000000)::bigint)) as l_ts,
    printf('Customer#%010d', (hash(i+99) % 100000000)::bigint) as l_skey,
    ['quick','slow','bold','final','even','ironic','silent','pending'][1 + (hash(i+101) % 8)::int] || ' ' ||
      substr(md5(i::varchar), 1, 12) || ' ' || ['deposits','requests','packages','accounts','theodolites'][1 + (hash(i+102) % 5)::int] as l_comment
"""


def lineitem(rows: int) -> list[str]:
    """Paths of a data set of `rows` rows and 12 columns in 8 Parquet files (10M rows: 350 MB)."""
    folder = DATA / f"lineitem-{rows}"
    if not folder.exists():
        _make_lineitem(folder, rows)
    return sorted(str(path) for path in folder.glob("*.parquet"))


def _make_lineitem(folder: Path, rows: int) -> None:
    with made_whole(folder) as part, duckdb.connect() as connection:
        for n in range(FILES):
            low, high = n * rows // FILES, (n + 1) * rows // FILES
            connection.execute(
                f"copy (select {COLUMNS} from range({low}, {high}) t(i)) to '{part}/part-{n:05d}.parquet'"
                " (format parquet, compression zstd, row_group_size 250000)"
            )


def checksum(files: list[str], columns: list[str] | None) -> dict[str, int]:
    """Row count, and with columns an order-free checksum of the values, read by an engine that wrote none of them."""
    facts = "count(*)" if columns is None else f"count(*), sum(hash({', '.join(columns)}))"
    with duckdb.connect() as connection:
        row = connection.execute(f"select {facts} from read_parquet(?, hive_partitioning = false)", [files]).fetchone()
    assert row is not None
    return {"rows": int(row[0])} if columns is None else {"rows": int(row[0]), "checksum": int(row[1])}


def lineitem_columns() -> list[str]:
    with duckdb.connect() as connection:
        return [column[0] for column in connection.execute(f"select {COLUMNS} from range(0) t(i)").description]
