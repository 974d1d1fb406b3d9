"""Compare-and-swap on the SQLite catalog of a lake's folder, as PyIceberg's SQL catalog keeps it, for processes that live as long as one step.

Importing SQLAlchemy and PyIceberg's catalog on it takes longer than such a step does.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pyiceberg.io import FileIO

from lakewright.commit.store import CommitRaced, Identifier, PointerStore, PublishUnclear, TableState
from lakewright.errors import CatalogUnavailable
from lakewright.format.local_io import open_io
from lakewright.format.metadata import Metadata

WAIT_SECONDS = 60
OF_TABLE = "catalog_name = ? AND table_namespace = ? AND table_name = ?"


class SqliteCatalog:
    """The file, with what a store asks of a catalog."""

    def __init__(self, name: str, properties: Mapping[str, Any], file: Path) -> None:
        self.name = name
        self.properties = dict(properties)
        self._file = file

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """A connection that does not make the file, and waits for other writers."""
        with closing(sqlite3.connect(f"file:{quote(str(self._file))}?mode=rw", uri=True, timeout=WAIT_SECONDS)) as connection:
            yield connection

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        query = "SELECT table_name FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ?"
        with self.connection() as connection:
            return [(*namespace, name) for (name,) in connection.execute(query, (self.name, ".".join(namespace)))]

    def _load_file_io(self, properties: Mapping[str, Any], location: str) -> FileIO:
        return open_io({**self.properties, **properties}, location)


class SqliteStore(PointerStore):
    """Tables that are there already; `SqlStore` makes them."""

    catalog: SqliteCatalog

    def __init__(self, catalog: SqliteCatalog) -> None:
        super().__init__(catalog)

    def pointer(self, identifier: Identifier) -> str | None:
        try:
            with self.catalog.connection() as connection:
                row = connection.execute(f"SELECT metadata_location FROM iceberg_tables WHERE {OF_TABLE}", self._key(identifier)).fetchone()
        except sqlite3.Error as error:
            if "no such table" in str(error):  # whoever made the file did not come further
                return None
            raise unavailable(str(error)) from error
        return None if row is None else row[0]

    def swap(self, base: TableState, location: str, metadata: Metadata) -> None:
        statement = f"UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ? WHERE {OF_TABLE} AND metadata_location = ?"
        values = (location, base.metadata_location, *self._key(base.identifier), base.metadata_location)
        try:
            with self.catalog.connection() as connection:
                swapped = connection.execute(statement, values).rowcount
                if swapped == 1:
                    _commit(connection)
        except sqlite3.Error as error:
            raise CommitRaced(str(error)) if _is_busy(error) else unavailable(str(error)) from error
        if swapped != 1:
            raise CommitRaced(f"{base.name} has moved past {base.metadata_location}")

    def _key(self, identifier: Identifier) -> tuple[str, str, str]:
        return self.catalog.name, ".".join(identifier[:-1]), identifier[-1]


def _commit(connection: sqlite3.Connection) -> None:
    try:
        connection.commit()
    except sqlite3.Error as error:
        raise (CommitRaced if _is_busy(error) else PublishUnclear)(str(error)) from error


def _is_busy(error: sqlite3.Error) -> bool:
    """Another process holds the write lock; nothing was written then."""
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)


def unavailable(reason: str) -> CatalogUnavailable:
    return CatalogUnavailable(f"The SQL catalog did not answer: {reason}. Check that its database is up and writable; nothing was changed.")
