"""Every snapshot of a history Lakewright made, in every reader."""

from __future__ import annotations

from collections.abc import Callable

from tests.interop import readers
from tests.interop.canonical import canonical
from tests.interop.peer import Peer
from tests.interop.places import Place
from tests.interop.tables import COLUMNS, MORE, ROWS, frame


def test_every_snapshot_reads_the_same(place_of: Callable[[str], Place], peer: Peer) -> None:
    place = place_of("local")
    table = place.lake.create_table("suite.history", COLUMNS, partition_by=["name"])
    commits = [
        table.append(frame(place.lake, ROWS)),
        table.append(frame(place.lake, MORE)),
        table.overwrite_partitions(frame(place.lake, MORE[:1])),
        table.overwrite(frame(place.lake, MORE[1:2]), where="name = 'us'"),
        table.overwrite(frame(place.lake, MORE)),
    ]
    for commit in commits:
        ours = canonical(table.read(snapshot_id=commit.snapshot_id).toArrow())
        assert canonical(readers.spark_runtime(peer, place, table, commit.snapshot_id)) == ours
        assert canonical(readers.pyiceberg(table, commit.snapshot_id)) == ours
        assert canonical(readers.duck(table, commit.snapshot_id)) == ours


def test_the_runtime_counts_what_the_summaries_say(place_of: Callable[[str], Place], peer: Peer) -> None:
    place = place_of("local")
    table = place.lake.create_table("suite.counted", COLUMNS, partition_by=["name"])
    table.append(frame(place.lake, ROWS))
    table.overwrite(frame(place.lake, MORE[:1]), where="name = 'eu'")
    files = peer.sql(f"SELECT count(*) AS files, sum(record_count) AS records, sum(file_size_in_bytes) AS bytes FROM {place.name}.suite.counted.files").to_pylist()[0]
    summary = peer.sql(f"SELECT summary FROM {place.name}.suite.counted.snapshots ORDER BY committed_at DESC LIMIT 1").to_pylist()[0]["summary"]
    totals = dict(summary)
    assert (int(totals["total-data-files"]), int(totals["total-records"]), int(totals["total-files-size"])) == (files["files"], files["records"], files["bytes"])
