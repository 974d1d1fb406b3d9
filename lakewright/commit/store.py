"""Where tables are kept: load a version, and publish the next one by compare-and-swap.

`PointerStore` serves catalogs that hold only the path of the newest metadata file; `RestStore` one that holds the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from pyiceberg.io import FileIO

from lakewright.commit.updates import Update, now_ms
from lakewright.errors import CatalogUnavailable, InvalidOption, LakewrightError, TableExists, TableNotFound
from lakewright.format.local_io import LocalFileIO, is_local
from lakewright.format.metadata import Json, Metadata, read_metadata, write_metadata
from lakewright.format.storage import try_delete
from lakewright.options import METADATA_DELETE_AFTER, METADATA_PREVIOUS_MAX

Identifier = tuple[str, ...]
Requirement = Json
UNPUBLISHED = ""  # metadata_location of a table that is still being made


class CommitRaced(Exception):
    """Someone else published first; this publish certainly did not happen."""


class PublishUnclear(Exception):
    """The catalog did not say whether the publish happened."""


class PublishInterrupted(PublishUnclear):
    """The publish was cut short from this side (Ctrl-C, an unforeseen error), so no answer came either."""


class NotAsked(Exception):
    """The publish failed, for the given reason, before the catalog was asked; so it certainly did not happen."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__(str(reason))
        self.reason = reason


@dataclass(frozen=True)
class TableState:
    """One version of a table as the catalog gave it."""

    identifier: Identifier
    metadata_location: str
    metadata: Metadata
    io: FileIO

    @property
    def name(self) -> str:
        return ".".join(self.identifier)


class CatalogView(Protocol):
    """What is asked of a catalog of any kind; PyIceberg's have it."""

    name: str
    properties: dict[str, Any]

    def list_tables(self, namespace: Identifier) -> list[Identifier]: ...

    def _load_file_io(self, properties: dict[str, Any], location: str) -> FileIO: ...


class Store(Protocol):
    def load(self, identifier: Identifier, known: TableState | None = None) -> TableState:
        """The newest version; `known` spares reading it again when nothing changed."""

    def create(self, identifier: Identifier, metadata: Metadata, run_id: str) -> TableState:
        """Publish the first version of a table; `TableExists` if there is one already."""

    def publish(self, base: TableState, after: Metadata, requirements: Sequence[Requirement], updates: Sequence[Update], run_id: str) -> TableState:
        """Publish `after`, which is `base` with `updates`; raises CommitRaced, PublishUnclear or NotAsked."""


def open_store(catalog: CatalogView) -> Store:
    kinds = {kind.__name__ for kind in type(catalog).__mro__}  # by name, since importing the other kinds takes long
    known: Any = catalog
    if "SqlCatalog" in kinds:
        from lakewright.commit.store_sql import SqlStore

        return SqlStore(known)
    if "SqliteCatalog" in kinds:
        from lakewright.commit.store_sqlite import SqliteStore

        return SqliteStore(known)
    if "RestCatalog" in kinds:
        from lakewright.commit.store_rest import RestStore

        return RestStore(known)
    if "HiveCatalog" in kinds:
        from lakewright.commit.store_hive import HiveStore

        return HiveStore(known)
    raise InvalidOption(f"A {type(catalog).__name__} cannot publish Lakewright's commits; use a SQL (SQLite, PostgreSQL), REST or Hive catalog.")


class PointerStore:
    """A catalog that maps a table's name to its newest metadata file, and can swap that for another."""

    def __init__(self, catalog: CatalogView) -> None:
        self.catalog = catalog
        self._unclear: set[str] = set()

    def pointer(self, identifier: Identifier) -> str | None:
        raise NotImplementedError

    def insert(self, identifier: Identifier, location: str, metadata: Metadata) -> None:
        """Raises TableExists."""
        raise NotImplementedError

    def swap(self, base: TableState, location: str, metadata: Metadata) -> None:
        """Raises CommitRaced or PublishUnclear."""
        raise NotImplementedError

    def load(self, identifier: Identifier, known: TableState | None = None) -> TableState:
        location = self.pointer(identifier)
        if location is None:
            raise not_found(self.catalog, identifier)
        if known is not None and known.metadata_location == location:
            return known
        bootstrap = self._io({}, location)
        metadata = read_metadata(bootstrap, location)
        return TableState(identifier, location, metadata, self._io(metadata.properties, location))

    def create(self, identifier: Identifier, metadata: Metadata, run_id: str) -> TableState:
        location = metadata_path(metadata.location, 0, run_id)
        io = self._io(metadata.properties, location)
        _write_or_nothing(io, location, metadata)
        try:
            with awaiting_answer():
                self.insert(identifier, location, metadata)
        except PublishInterrupted:
            raise
        except (TableExists, PublishUnclear) as error:
            found = self._pointer_now(identifier, error)
            if found != location:
                if isinstance(error, TableExists):
                    try_delete(io, location)
                raise
        except (CommitRaced, LakewrightError):
            try_delete(io, location)
            raise
        return TableState(identifier, location, metadata, io)

    def publish(self, base: TableState, after: Metadata, requirements: Sequence[Requirement], updates: Sequence[Update], run_id: str) -> TableState:
        after, dropped = with_metadata_log(base, after)
        location = self._new_metadata_path(base, after, run_id)
        _write_or_nothing(base.io, location, after)
        try:
            with awaiting_answer():
                self.swap(base, location, after)
        except PublishUnclear:
            self._unclear.add(location)
            raise
        except (CommitRaced, LakewrightError):
            try_delete(base.io, location)
            raise
        if dropped and METADATA_DELETE_AFTER.parse(after.properties.get(str(METADATA_DELETE_AFTER.table_property), False)):
            for old in dropped:
                try_delete(base.io, old)
        return TableState(base.identifier, location, after, base.io)

    def _new_metadata_path(self, base: TableState, after: Metadata, run_id: str) -> str:
        """A name no earlier attempt used whose outcome is still open: that one may yet be published, as it was written."""
        version = metadata_version(base.metadata_location) + 1
        while metadata_path(after.location, version, run_id) in self._unclear:
            version += 1
        return metadata_path(after.location, version, run_id)

    def _pointer_now(self, identifier: Identifier, unclear: Exception) -> str | None:
        try:
            return self.pointer(identifier)
        except CatalogUnavailable as error:
            raise PublishUnclear(str(unclear)) from error

    def _io(self, properties: dict[str, str], location: str) -> FileIO:
        return catalog_io(self.catalog, properties, location)


@contextmanager
def awaiting_answer() -> Iterator[None]:
    """Around the call that publishes: what cuts it short, other than the catalog's own answer, leaves the outcome open."""
    try:
        yield
    except (CommitRaced, PublishUnclear, LakewrightError):
        raise
    except BaseException as error:
        raise PublishInterrupted(f"{type(error).__name__}: {error}") from error


def _write_or_nothing(io: FileIO, location: str, metadata: Metadata) -> None:
    try:
        write_metadata(io, location, metadata)
    except BaseException as error:
        try_delete(io, location)
        raise NotAsked(error) from error


def metadata_path(table_location: str, version: int, run_id: str) -> str:
    return f"{table_location}/metadata/{version:05d}-{run_id}.metadata.json"


def metadata_version(location: str) -> int:
    """The number in front of a metadata file's name; -1 for a foreign name."""
    match = re.match(r"v?(\d+)", location.rsplit("/", 1)[-1])
    return int(match.group(1)) if match else -1


def with_metadata_log(base: TableState, after: Metadata) -> tuple[Metadata, list[str]]:
    """The new version remembering the one it replaces, and the metadata files that fell off the list."""
    kept = METADATA_PREVIOUS_MAX.parse(after.properties.get(str(METADATA_PREVIOUS_MAX.table_property), METADATA_PREVIOUS_MAX.default))
    replaced = {"timestamp-ms": int(base.metadata.raw.get("last-updated-ms", now_ms())), "metadata-file": base.metadata_location}
    log = [*(after.raw.get("metadata-log") or []), replaced]
    return Metadata({**after.raw, "metadata-log": log[-kept:]}), [entry["metadata-file"] for entry in log[:-kept]]


def catalog_io(catalog: CatalogView, properties: Mapping[str, Any], location: str) -> FileIO:
    """The FileIO for a table's properties over the catalog's."""
    merged = {**catalog.properties, **properties}
    return LocalFileIO(merged) if is_local(merged, location) else catalog._load_file_io(dict(properties), location)


def not_found(catalog: CatalogView, identifier: Identifier) -> TableNotFound:
    import difflib

    name = ".".join(identifier)
    try:
        known = [".".join(t) for t in catalog.list_tables(identifier[:-1])]
    except Exception:
        return TableNotFound(f"There is no table {name}: the namespace {'.'.join(identifier[:-1])} is not in the catalog either.", table=name)
    near = difflib.get_close_matches(name, known, n=3)
    hint = f"Did you mean {', '.join(near)}?" if near else "lake.tables() lists those there are; lake.create_table() or lake.write() makes one."
    return TableNotFound(f"There is no table {name}. {hint}", table=name)
