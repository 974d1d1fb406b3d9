"""Readers nobody here wrote. Each takes a table and gives its rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import pyarrow as pa

if TYPE_CHECKING:
    from tests.interop.peer import Peer
    from tests.interop.places import Place


def spark_runtime(peer: Peer, place: Place, table: Any, snapshot_id: int | None = None) -> pa.Table:
    """The Iceberg Spark runtime, through the catalog that Lakewright published to."""
    travel = "" if snapshot_id is None else f" VERSION AS OF {snapshot_id}"
    return peer.sql(f"SELECT * FROM {place.name}.{table.name}{travel}")


def pyiceberg(table: Any, snapshot_id: int | None = None) -> pa.Table:
    return table.iceberg.scan(snapshot_id=snapshot_id).to_arrow()


def duck(table: Any, snapshot_id: int | None = None, columns: str = "*") -> pa.Table:
    """DuckDB, from the metadata file; it opens local files only here."""
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for module, name in ((duckdb_extension_avro, "avro"), (duckdb_extension_iceberg, "iceberg")):
            extension = next(Path(module.__file__).parent.rglob(f"{name}.duckdb_extension"))
            connection.execute(f"LOAD '{extension}'")
        travel = "" if snapshot_id is None else f", snapshot_from_id = {snapshot_id}"
        return connection.execute(f"SELECT {columns} FROM iceberg_scan('{table.iceberg.metadata_location}'{travel})").to_arrow_table()
