"""The two that run a statement, and what can be compared of what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

import lakewright as lw
from lakewright.errors import LakewrightError
from tests.interop.canonical import canonical
from tests.interop.peer import Peer, PeerError

if TYPE_CHECKING:
    from tests.interop.sql_stories import Story

QUERIES = ("SELECT", "WITH", "FROM", "TABLE", "SHOW", "DESCRIBE")
ERRORS = (LakewrightError, PySparkException, PeerError)  # any other is a mistake of ours, not of the statement

Rows = tuple[Any, list[str]]


@dataclass(frozen=True)
class Told:
    """What came of a statement, and how it left the story's table; equal if it is the same on both sides, whatever the words of the error."""

    failed: bool
    answer: Rows | None
    table: dict[str, Any] | None
    rows: Rows | None
    error: str | None = field(compare=False)


@dataclass(frozen=True)
class Side:
    """lake: Lakewright on the side's tables, which only looks their metadata up."""

    lake: Any
    sql: Callable[[str], Any]
    query: Callable[[str], Rows]
    _seen: dict[tuple[Any, ...], Rows] = field(default_factory=dict)

    def tell(self, statement: str, story: Story, version: int) -> Told:
        error, answer = self.ran(self._filled(statement, story, version))
        if not self.lake.table_exists(story.table):
            return Told(error is not None, answer, None, None, error)
        table = self.lake.table(story.table)
        return Told(error is not None, answer, _metadata(table), self._rows(table), error)

    def ran(self, statement: str) -> tuple[str | None, Rows | None]:
        """The error, if there was one, and the answer, if it was a query."""
        try:
            if statement.split()[0] in QUERIES:
                return None, self.query(statement)
            self.sql(statement)
        except ERRORS as error:
            return str(error).splitlines()[0], None
        return None, None

    def _rows(self, table: Any) -> Rows:
        """All of a table, read again only if a commit may have changed it."""
        metadata = table.iceberg.metadata
        version = metadata.table_uuid, metadata.current_snapshot_id, str(table.schema.as_struct())
        if version not in self._seen:
            self._seen[version] = self.query(f"SELECT * FROM {table.name}")
        return self._seen[version]

    def _filled(self, statement: str, story: Story, version: int) -> str:
        if "{" not in statement:
            return statement
        snapshots = self.lake.table(story.table).iceberg.snapshots() if self.lake.table_exists(story.table) else []
        times = [datetime.fromtimestamp(s.timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f") for s in snapshots]
        return statement.format(version=version, snapshot=[s.snapshot_id for s in snapshots], time=times)


def _metadata(table: Any) -> dict[str, Any]:
    """What must be the same about a table besides its rows, as its newest metadata file tells it."""
    metadata, name_of = table.iceberg.metadata, table.schema.find_column_name
    return {
        "format version": metadata.format_version,
        "columns": str(table.schema.as_struct()),
        "identifier fields": sorted(table.schema.identifier_field_names()),
        "partition fields": [(f.name, str(f.transform), name_of(f.source_id)) for f in table.spec.fields],
        "sort order": [(str(f.transform), name_of(f.source_id), f.direction.name, f.null_order.name) for f in table.sort_order.fields],
        "refs": sorted((name, ref.snapshot_ref_type.name, ref.max_ref_age_ms, ref.min_snapshots_to_keep, ref.max_snapshot_age_ms) for name, ref in metadata.refs.items()),
    }


def ours(spark: Any, folder: Path) -> Side:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    lake = lw.connect(str(folder), spark=session)

    def query(sql: str) -> Rows:
        frame = lake.sql(sql)
        return _columns(frame.schema.jsonValue()), canonical(frame.toArrow())

    return Side(lake, lake.sql, query)


def theirs(spark: Any, peer: Peer, catalog: str, folder: Path) -> Side:
    database = f"{folder}/catalog.db"
    peer.catalog(catalog, {"type": "jdbc", "uri": f"jdbc:sqlite:{database}", "warehouse": folder.as_uri(), "cache-enabled": "false", "jdbc.schema-version": "V1"})
    lake = lw.connect(str(folder), spark=spark, catalog={"name": catalog, "type": "sql", "uri": f"sqlite:///{database}"})

    def query(sql: str) -> Rows:
        schema, rows = peer.query(sql)
        return _columns(schema), canonical(rows)

    return Side(lake, peer.sql, query)


def _columns(schema: Any) -> list[Any]:
    """Names, types and comments. Whether a column can be null is compared in the metadata of tables: what Lakewright reads always can."""
    return [(field["name"], _type(field["type"]), field["metadata"].get("comment")) for field in schema["fields"]]


def _type(kind: Any) -> Any:
    match kind:
        case {"type": "struct", "fields": fields}:
            return [(field["name"], _type(field["type"])) for field in fields]
        case dict():
            return [_type(part) for key, part in kind.items() if key in ("elementType", "keyType", "valueType")]
        case _:
            return kind
