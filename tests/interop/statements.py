"""Row-level statements that can be run by Lakewright and, as SQL, by the Iceberg Spark runtime, and the tables they are run on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tests.interop.peer import Peer
    from tests.interop.places import Place

COMMANDS = ("delete", "update", "merge")


class Statement(Protocol):
    def ours(self, place: Place, table: Any) -> None: ...

    def theirs(self, peer: Peer, name: str) -> None: ...


@dataclass(frozen=True)
class Append:
    rows: str

    def ours(self, place: Place, table: Any) -> None:
        table.append(place.lake.spark.sql(self.rows))

    def theirs(self, peer: Peer, name: str) -> None:
        peer.sql(f"INSERT INTO {name} {self.rows}")


@dataclass(frozen=True)
class Delete:
    where: str

    def ours(self, place: Place, table: Any) -> None:
        table.delete(self.where)

    def theirs(self, peer: Peer, name: str) -> None:
        peer.sql(f"DELETE FROM {name} WHERE {self.where}")


@dataclass(frozen=True)
class Update:
    set: Mapping[str, str]
    where: str

    def ours(self, place: Place, table: Any) -> None:
        table.update(self.set, where=self.where)

    def theirs(self, peer: Peer, name: str) -> None:
        peer.sql(f"UPDATE {name} SET {_assignments(self.set)} WHERE {self.where}")


@dataclass(frozen=True)
class Merge:
    """`source` is a query, called s; the table is called t. Rows it matches on id: `delete_when`, else `update`; new ones: `insert`."""

    source: str
    delete_when: str
    update: Mapping[str, str]
    insert: Mapping[str, str]
    by_source: tuple[Mapping[str, str], str] | None = None

    def ours(self, place: Place, table: Any) -> None:
        merge = table.merge(place.lake.spark.sql(self.source), on="t.id = s.id").when_matched_delete(self.delete_when)
        merge = merge.when_matched_update(self.update).when_not_matched_insert(self.insert)
        if self.by_source is not None:
            merge = merge.when_not_matched_by_source_update(self.by_source[0], condition=self.by_source[1])
        merge.execute()

    def theirs(self, peer: Peer, name: str) -> None:
        by_source = "" if self.by_source is None else f"WHEN NOT MATCHED BY SOURCE AND {self.by_source[1]} THEN UPDATE SET {_assignments(self.by_source[0], 't.')}"
        peer.sql(
            f"MERGE INTO {name} t USING ({self.source}) s ON t.id = s.id WHEN MATCHED AND {self.delete_when} THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {_assignments(self.update, 't.')} "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(self.insert)}) VALUES ({', '.join(self.insert.values())}) {by_source}"
        )


@dataclass(frozen=True)
class Alter:
    """A change of the table's shape."""

    change: Callable[[Any], Any]
    sql: tuple[str, ...]

    def ours(self, place: Place, table: Any) -> None:
        self.change(table)

    def theirs(self, peer: Peer, name: str) -> None:
        for statement in self.sql:
            peer.sql(f"ALTER TABLE {name} {statement}")


def _assignments(values: Mapping[str, str], prefix: str = "") -> str:
    return ", ".join(f"{prefix}{column} = {value}" for column, value in values.items())


@dataclass(frozen=True)
class Story:
    """A table and what happens to it. No two rows have the same id, and a statement that updates a row changes it."""

    name: str
    columns: str
    statements: tuple[Statement, ...]
    partition_by: tuple[str, ...] = ()
    partitioned_by: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)

    def ours(self, place: Place, name: str, version: int, modes: Mapping[str, str]) -> Any:
        return place.lake.create_table(name, self.columns, partition_by=list(self.partition_by), format_version=version, properties={**self.properties, **modes})

    def theirs(self, peer: Peer, name: str, version: int, modes: Mapping[str, str]) -> None:
        layout = f"PARTITIONED BY ({self.partitioned_by})" if self.partitioned_by else ""
        properties = {**self.properties, **modes, "format-version": str(version)}
        spelled = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
        peer.sql(f"CREATE NAMESPACE IF NOT EXISTS {name.rsplit('.', 1)[0]}")
        peer.sql(f"CREATE TABLE {name} ({self.columns}) USING iceberg {layout} TBLPROPERTIES ({spelled})")


def modes(**of: str) -> dict[str, str]:
    return {f"write.{command}.mode": mode for command, mode in of.items()}


COPY_ON_WRITE, MERGE_ON_READ = modes(**dict.fromkeys(COMMANDS, "copy-on-write")), modes(**dict.fromkeys(COMMANDS, "merge-on-read"))
MIXED = modes(delete="merge-on-read", update="copy-on-write", merge="merge-on-read")
MODES = {"copy_on_write": COPY_ON_WRITE, "merge_on_read": MERGE_ON_READ}

FLAT = "id int, region string, at timestamp, price decimal(9,2), score double, ratio float, data binary"
FLAT_ROWS = """
SELECT cast(id AS int) AS id, CASE WHEN id % 5 = 0 THEN NULL WHEN id % 2 = 0 THEN 'eu' ELSE 'us' END AS region,
       timestamp_seconds(id * 86400 - 500000) AS at, cast(id * 1.25 AS decimal(9,2)) AS price, if(id % 7 = 3, double('NaN'), id / 7) AS score,
       cast(if(id % 11 = 0, NULL, -id) AS float) AS ratio, if(id = 4, NULL, cast(concat('b', id) AS binary)) AS data FROM range({start}, {end})
"""
FLAT_STATEMENTS = (
    Append(FLAT_ROWS.format(start=0, end=30)),
    Append(FLAT_ROWS.format(start=30, end=50)),
    Delete("id IN (3, 4, 17, 31)"),
    Update({"score": "coalesce(score, 0) - 1000", "ratio": "float('NaN')"}, "id % 4 = 0"),
    Delete("region = 'eu' AND id > 20"),
    Update({"region": "'ap'"}, "id IN (1, 2, 33)"),
    Merge(
        "SELECT id, concat('m', id) AS word FROM range(25, 55)",
        "s.id % 3 = 0",
        {"data": "cast(s.word AS binary)", "price": "t.price + 1"},
        {"id": "cast(s.id AS int)", "region": "'new'"},
        ({"price": "-0.5"}, "t.id < 2"),
    ),
    Delete("region = 'us'"),
    Append(FLAT_ROWS.format(start=60, end=64)),
    Update({"data": "NULL", "at": "timestamp_seconds(1900000000 + id)"}, "id >= 50"),
)
NESTED = (
    "id int, tags array<string>, attributes map<string,int>, place struct<city: string, geo: struct<lat: double, lon: double>>, "
    "visits array<struct<at: date, pages: array<int>>>, note string"
)
NESTED_ROWS = """
SELECT cast(id AS int) AS id, if(id % 6 = 4, NULL, array('a', NULL, cast(id AS string))) AS tags, if(id % 5 = 1, NULL, map('k', cast(id AS int), 'n', NULL)) AS attributes,
       if(id % 4 = 3, NULL, named_struct('city', concat('c', id), 'geo', if(id % 3 = 0, NULL, named_struct('lat', id / 3, 'lon', double(-id))))) AS place,
       if(id % 2 = 0, array(), array(named_struct('at', date_add(DATE '1969-12-25', cast(id AS int)), 'pages', array(1, cast(id AS int))))) AS visits, 'n' AS note
FROM range({start}, {end})
"""
NESTED_STATEMENTS = (
    Append(NESTED_ROWS.format(start=0, end=20)),
    Append(NESTED_ROWS.format(start=20, end=30)),
    Update({"note": "concat('u', id)"}, "id % 3 = 0"),
    Update({"tags": "array('x', note)", "place": "named_struct('city', 'z', 'geo', place.geo)"}, "id IN (3, 4, 5)"),
    Delete("place.geo.lat > 5 OR id = 1"),
    Merge(
        "SELECT id, map('s', cast(id AS int)) AS given FROM range(10, 35)",
        "s.id % 5 = 0",
        {"attributes": "s.given"},
        {"id": "cast(s.id AS int)", "attributes": "s.given", "visits": "array()"},
    ),
    Delete("id > 30"),
)
EVOLVED_LATER = "SELECT concat('e', id) AS extra, id * 5000000000 AS id, cast(id AS string) AS title, cast(id * 1000.25 AS decimal(12,2)) AS price, named_struct('x', cast(id AS int), 'y', 'y') AS at, 'us' AS region FROM range({start}, {end})"
EVOLVED_STATEMENTS = (
    Append("SELECT cast(id AS int) AS id, concat('n', id) AS name, 'gone' AS gone, cast(id AS decimal(5,2)) AS price, if(id % 4 = 1, NULL, named_struct('x', cast(id AS int))) AS at, if(id % 2 = 0, 'eu', 'us') AS region FROM range(0, 12)"),
    Delete("id = 5"),
    Alter(
        lambda t: t.evolve_schema(add={"extra": "string", "at.y": "string"}, rename={"name": "title"}, drop=["gone"], promote={"id": "bigint", "price": "decimal(12,2)"}, move={"extra": "first"}),
        ("ADD COLUMN extra string FIRST", "ADD COLUMN at.y string", "RENAME COLUMN name TO title", "DROP COLUMN gone", "ALTER COLUMN id TYPE bigint", "ALTER COLUMN price TYPE decimal(12,2)"),
    ),
    Append(EVOLVED_LATER.format(start=20, end=24)),
    Update({"title": "concat(title, '!')"}, "id IN (2, 3, 100000000000)"),
    Alter(lambda t: t.evolve_partitions(add=["bucket(2, id)"], drop=["region"]), ("DROP PARTITION FIELD region", "ADD PARTITION FIELD bucket(2, id)")),
    Delete("id IN (0, 3)"),
    Append(EVOLVED_LATER.format(start=30, end=33)),
    Merge(
        "SELECT id, 'merged' AS word FROM range(7, 14)",
        "s.id = 8",
        {"extra": "s.word", "at": "named_struct('x', -1, 'y', s.word)"},
        {"id": "s.id", "extra": "s.word", "price": "1.5"},
    ),
    Update({"price": "price * 10", "region": "concat(region, '2')"}, "id > 1 AND id < 11"),
    Delete("at.y = 'y'"),
)
STORIES = [
    Story("flat", FLAT, FLAT_STATEMENTS),
    Story("partitioned", FLAT, FLAT_STATEMENTS, ("region",), "region"),
    Story("transformed", FLAT, FLAT_STATEMENTS, ("bucket(2, id)", "year(at)"), "bucket(2, id), years(at)", {"write.delete.granularity": "partition"}),
    Story("nested", NESTED, NESTED_STATEMENTS),
    Story("evolved", "id int, name string, gone string, price decimal(5,2), at struct<x: int>, region string", EVOLVED_STATEMENTS, ("region",), "region"),
]
SHORT = Story(
    "short",
    FLAT,
    (
        Append(FLAT_ROWS.format(start=0, end=12)),
        Delete("id IN (1, 2)"),
        Merge("SELECT id FROM range(6, 15)", "s.id = 7", {"ratio": "cast(s.id + 0.5 AS float)"}, {"id": "cast(s.id AS int)", "region": "'eu'"}),
        Update({"score": "-1.5"}, "id % 4 = 0"),
        Delete("region = 'eu' AND id < 7"),
        Merge("SELECT id FROM range(3, 17)", "s.id = 14", {"price": "-1"}, {"id": "cast(s.id AS int)", "region": "'us'"}),
    ),
    ("region",),
    "region",
)
ALL = (*STORIES, SHORT)
