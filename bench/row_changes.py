"""What the row-level cases change, in words every contender understands; and the updates to merge, made once and kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import duckdb

from bench.data import lineitem
from bench.places import DATA

COPY_ON_WRITE, MERGE_ON_READ = "copy-on-write", "merge-on-read"
KEY, PRICE = "l_skey", "l_extendedprice"


@dataclass(frozen=True)
class Change:
    """`updates`: a Parquet file to merge by key, setting the price or all columns; else a `where` for `command`. sort_by, files: how the table is laid out."""

    command: str
    mode: str
    updates: str = ""
    all_columns: bool = False
    where: str = ""
    sort_by: str = ""
    read: bool = False
    files: int = 0

    def params(self, files: list[str]) -> dict[str, Any]:
        return {"files": files, "change": asdict(self)}


def updates(rows: int, count: int) -> str:
    """One new version of `count` keys chosen at random, as whole rows with the price raised."""
    path = DATA / f"updates-{rows}-{count}.parquet"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        chosen = f"select * replace ({PRICE} + 1 as {PRICE}) from read_parquet(?) qualify row_number() over (partition by {KEY} order by l_ts, l_orderkey) = 1 order by hash({KEY}) limit {count}"
        with duckdb.connect() as connection:
            connection.execute(f"copy ({chosen}) to '{part}' (format parquet, compression zstd)", [lineitem(rows)])
        part.rename(path)
    return str(path)
