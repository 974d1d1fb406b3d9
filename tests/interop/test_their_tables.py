"""Tables that the Iceberg Spark runtime wrote, read by Lakewright: plain, evolved, and with deletes to apply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.interop.canonical import canonical
from tests.interop.peer import Peer
from tests.interop.places import Place
from tests.interop.tables import frame

COLUMNS = "id int, region string, at timestamp, day date, price decimal(9,2), score double, tags array<string>, attributes map<string,int>, spot struct<x:int,y:string>"
ROWS = """
SELECT cast(id AS int), CASE WHEN id % 5 = 0 THEN NULL WHEN id % 2 = 0 THEN 'eu' ELSE 'us' END, timestamp_seconds(id * 86400 - 500000),
       date_add(DATE '1969-12-25', cast(id AS int)), cast(id * 1.25 AS decimal(9,2)), if(id = 3, double('NaN'), id / 7),
       if(id = 4, NULL, array('a', NULL, cast(id AS string))), if(id = 6, NULL, map('k', cast(id AS int))), if(id = 8, NULL, named_struct('x', cast(id AS int), 'y', ''))
FROM range({start}, {end})
"""
MERGE_ON_READ = "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read'"


@dataclass(frozen=True)
class Theirs:
    """A table the runtime makes: how it is laid out, and what is done to it after forty rows are in."""

    name: str
    partitioned: str = ""
    properties: str = "'format-version'='2'"
    statements: tuple[str, ...] = ()
    equality_deletes: tuple[tuple[list[str], list[list[object]], dict[str, object] | None], ...] = ()


DELETES = ("DELETE FROM {t} WHERE id IN (3, 4, 17)", "DELETE FROM {t} WHERE region = 'eu' AND id > 30")
TABLES = [
    Theirs("plain"),
    Theirs("format_version_1", "PARTITIONED BY (region)", "'format-version'='1'"),
    Theirs("transforms", "PARTITIONED BY (bucket(4, id), truncate(1, region), days(at), years(day))"),
    Theirs("copy_on_write", "PARTITIONED BY (region)", statements=DELETES),
    Theirs("position_deletes", "", MERGE_ON_READ, DELETES),
    Theirs("position_deletes_partitioned", "PARTITIONED BY (region)", MERGE_ON_READ, (*DELETES, "UPDATE {t} SET score = -1 WHERE id = 9")),
    Theirs("position_deletes_by_partition", "PARTITIONED BY (region)", MERGE_ON_READ + ", 'write.delete.granularity'='partition'", DELETES),
    Theirs("deletes_then_rows_again", "PARTITIONED BY (region)", MERGE_ON_READ, ("DELETE FROM {t} WHERE id < 10", "INSERT INTO {t} " + ROWS.format(start=0, end=12))),
    Theirs(
        "evolved",
        "PARTITIONED BY (days(day))",
        MERGE_ON_READ,
        (
            "ALTER TABLE {t} ADD COLUMN extra string",
            "ALTER TABLE {t} RENAME COLUMN score TO points",
            "ALTER TABLE {t} ALTER COLUMN id TYPE bigint",
            "ALTER TABLE {t} DROP COLUMN price",
            "ALTER TABLE {t} REPLACE PARTITION FIELD day_day WITH bucket(3, id)",
            "INSERT INTO {t} VALUES (5000000000, 'eu', TIMESTAMP '1900-01-01 00:00:00', NULL, 1.5, array(), map(), NULL, 'x')",
            "DELETE FROM {t} WHERE id IN (2, 3)",
        ),
    ),
    Theirs("equality_deletes", equality_deletes=((["id"], [[1], [2], [39]], None), (["id", "region"], [[6, "eu"], [7, "eu"], [10, None]], None))),
    Theirs("equality_deletes_partitioned", "PARTITIONED BY (region)", equality_deletes=((["id"], [[2], [3], [4]], {"region": "eu"}), (["region"], [["us"]], {"region": "us"}))),
    Theirs("both_kinds_of_deletes", "PARTITIONED BY (region)", MERGE_ON_READ, DELETES, ((["id"], [[6], [8]], {"region": "eu"}),)),
    Theirs("merged_rows", "", MERGE_ON_READ, ("MERGE INTO {t} USING (SELECT cast(id AS int) AS key FROM range(35, 45)) s ON id = key WHEN MATCHED AND id = 36 THEN DELETE WHEN MATCHED THEN UPDATE SET region = 'm' WHEN NOT MATCHED THEN INSERT (id, region) VALUES (key, 'n')",)),
]
IN_EVERY_PLACE = ("position_deletes_partitioned", "equality_deletes", "evolved")


def make(peer: Peer, place: Place, theirs: Theirs) -> str:
    name = f"{place.name}.theirs.{theirs.name}"
    peer.sql(f"CREATE NAMESPACE IF NOT EXISTS {place.name}.theirs")
    peer.sql(f"CREATE TABLE {name} ({COLUMNS}) USING iceberg {theirs.partitioned} TBLPROPERTIES ({theirs.properties})")
    peer.sql(f"INSERT INTO {name} {ROWS.format(start=0, end=40)}")
    for statement in theirs.statements:
        peer.sql(statement.format(t=name))
    for columns, rows, partition_of in theirs.equality_deletes:
        peer.equality_delete(name, columns, rows, partition_of)
    return name


RUNS = [(where, theirs) for where in ("local", "postgres", "rest", "hive", "s3", "s3native") for theirs in TABLES if where == "local" or theirs.name in IN_EVERY_PLACE]


@pytest.mark.parametrize(("where", "theirs"), RUNS, ids=[f"{where}-{theirs.name}" for where, theirs in RUNS])
def test_reads_what_the_runtime_wrote(where: str, theirs: Theirs, place_of: Callable[[str], Place], peer: Peer) -> None:
    place = place_of(where)
    name = make(peer, place, theirs)
    expected = canonical(peer.sql(f"SELECT * FROM {name}"))
    table = place.lake.table(f"theirs.{theirs.name}")
    assert expected
    assert canonical(table.read().toArrow()) == expected
    filtered = canonical(peer.sql(f"SELECT * FROM {name} WHERE region = 'eu' AND id > 5"))
    assert canonical(table.read("region = 'eu' AND id > 5").toArrow()) == filtered


@pytest.mark.parametrize("where", ["local", "postgres", "rest", "hive", "s3"])
def test_writes_to_a_table_of_the_runtime(where: str, place_of: Callable[[str], Place], peer: Peer) -> None:
    """Deletes the runtime left apply to its own rows and not to rows written after them, and the runtime can go on afterwards."""
    place = place_of(where)
    name = f"{place.name}.theirs.shared"
    columns = "id int, name string"
    peer.sql(f"CREATE NAMESPACE IF NOT EXISTS {place.name}.theirs")
    peer.sql(f"CREATE TABLE {name} ({columns}) USING iceberg PARTITIONED BY (name) TBLPROPERTIES ({MERGE_ON_READ})")
    peer.sql(f"INSERT INTO {name} VALUES (1, 'eu'), (2, 'eu'), (3, 'us'), (4, NULL)")
    peer.sql(f"DELETE FROM {name} WHERE id = 1")
    table = place.lake.table("theirs.shared")
    table.append(frame(place.lake, [(1, "eu"), (5, "apac")], columns))
    assert canonical(peer.sql(f"SELECT * FROM {name}")) == canonical(table.read().toArrow())
    table.overwrite(frame(place.lake, [(9, "us")], columns), where="name = 'us'")
    peer.sql(f"DELETE FROM {name} WHERE id = 5")
    peer.sql(f"INSERT INTO {name} VALUES (10, 'us')")
    ours = table.read().toArrow()
    assert canonical(ours) == canonical(peer.sql(f"SELECT * FROM {name}"))
    assert sorted(ours["id"].to_pylist()) == [1, 2, 4, 9, 10]
