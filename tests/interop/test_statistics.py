"""ANALYZE and the Iceberg runtime's own count of the same rows: the same numbers from the same sketches."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.interop.peer import Peer
from tests.interop.places import Place

ROWS = """
    SELECT id, cast(id % 7 AS int) AS i, cast(id AS float) / 3 AS f, id / 3 AS d, cast(id / 4 AS decimal(20, 3)) AS m, concat('té', id % 50) AS s,
        id % 2 = 0 AS b, date_add(DATE '1969-11-11', cast(id % 90 AS int)) AS day, timestamp_micros(id * 1000003 - 9) AS at, unhex(hex(id)) AS bin
    FROM range(1000)
"""


def sketches(path: str) -> dict[int, tuple[list[int], str]]:
    """Hashes of the distinct values and their number, by field id, from a Puffin file."""
    data = Path("/" + path.removeprefix("file:").lstrip("/")).read_bytes()
    size = int.from_bytes(data[-12:-8], "little")
    blobs: list[dict[str, Any]] = json.loads(data[-12 - size : -12])["blobs"]
    return {blob["fields"][0]: (_hashes(blob, data[blob["offset"] : blob["offset"] + blob["length"]]), blob["properties"]["ndv"]) for blob in blobs}


def _hashes(blob: dict[str, Any], stored: bytes) -> list[int]:
    if blob.get("compression-codec") == "zstd":
        with pa.CompressedInputStream(pa.BufferReader(stored), "zstd") as stream:
            stored = stream.read()
    return sorted(np.frombuffer(stored[8 * (stored[0] & 0x3F) :], "<u8").tolist())


def test_the_runtime_counts_and_sketches_the_same(place_of: Callable[[str], Place], peer: Peer) -> None:
    place = place_of("local")
    place.lake.sql(f"CREATE TABLE suite.analyzed AS {ROWS}")
    table = place.lake.table("suite.analyzed")
    place.lake.sql("ANALYZE TABLE suite.analyzed COMPUTE STATISTICS")
    ours = table.refresh().iceberg.metadata.statistics[0]
    peer.sql(f"CALL {place.name}.system.compute_table_stats(table => 'suite.analyzed')")
    theirs = table.iceberg.metadata.statistics[0]
    assert theirs.statistics_path != ours.statistics_path
    counted = sketches(ours.statistics_path)
    assert len(counted) == 10 and all(len(hashes) == int(number) for hashes, number in counted.values())
    assert counted == sketches(theirs.statistics_path)
