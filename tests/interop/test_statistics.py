"""ANALYZE and the Iceberg runtime's own count of the same rows: the same numbers from the same sketches."""

from __future__ import annotations

from collections.abc import Callable

from tests.interop.peer import Peer
from tests.interop.places import Place

ROWS = """
    SELECT id, cast(id % 7 AS int) AS i, cast(id AS float) / 3 AS f, id / 3 AS d, cast(id / 4 AS decimal(20, 3)) AS m, concat('té', id % 50) AS s,
        id % 2 = 0 AS b, date_add(DATE '1969-11-11', cast(id % 90 AS int)) AS day, timestamp_micros(id * 1000003 - 9) AS at, unhex(hex(id)) AS bin
    FROM range(1000)
"""


def test_the_runtime_counts_and_sketches_the_same(place_of: Callable[[str], Place], peer: Peer) -> None:
    place = place_of("local")
    place.lake.sql(f"CREATE TABLE suite.analyzed AS {ROWS}")
    table = place.lake.table("suite.analyzed")
    place.lake.sql("ANALYZE TABLE suite.analyzed COMPUTE STATISTICS")
    ours = table.refresh().iceberg.metadata.statistics[0]
    peer.sql(f"CALL {place.name}.system.compute_table_stats(table => 'suite.analyzed')")
    theirs = table.iceberg.metadata.statistics[0]
    assert theirs.statistics_path != ours.statistics_path
    counted = peer.sketches(ours.statistics_path)
    assert len(counted) == 10 and all(estimate == int(number) for _, estimate, number in counted.values())
    assert counted == peer.sketches(theirs.statistics_path)
