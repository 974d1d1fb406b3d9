"""The SQLite catalog of a lake's folder without SQLAlchemy, against the store that uses it."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from lakewright.catalogs import open_sqlite
from lakewright.commit import store_sqlite
from lakewright.commit.store import CommitRaced, PublishUnclear, TableState, open_store
from lakewright.commit.store_sqlite import SqliteStore
from lakewright.config import resolve_lake
from lakewright.errors import CatalogUnavailable, ConfigurationError, CorruptFile, TableNotFound
from tests.commit.kit import Kit


@pytest.fixture
def store(kit: Kit) -> SqliteStore:
    opened = open_store(open_sqlite(kit.config))
    assert isinstance(opened, SqliteStore)
    return opened


def database(kit: Kit) -> Path:
    assert kit.config.folder is not None
    return kit.config.folder / "catalog.db"


def moved(state: TableState, store: SqliteStore, location: str) -> None:
    store.swap(state, location, state.metadata)


def test_both_stores_see_the_same_table(kit: Kit, store: SqliteStore) -> None:
    kit.append((1, "eu", None))
    ours, theirs = store.load(kit.identifier), kit.load()
    assert (ours.metadata_location, ours.metadata.raw, ours.name) == (theirs.metadata_location, theirs.metadata.raw, "db.t")
    assert dict(ours.io.properties) == dict(theirs.io.properties)


def test_what_one_publishes_the_other_finds(kit: Kit, store: SqliteStore) -> None:
    state = store.load(kit.identifier)
    published = store.publish(state, state.metadata, [], [], "run")
    assert kit.load().metadata_location == published.metadata_location != state.metadata_location
    row = sqlite3.connect(database(kit)).execute("SELECT metadata_location, previous_metadata_location FROM iceberg_tables").fetchone()
    assert row == (published.metadata_location, state.metadata_location)


def test_a_swap_from_an_older_version_changes_nothing(kit: Kit, store: SqliteStore) -> None:
    old = store.load(kit.identifier)
    kit.append((1, "eu", None))
    with pytest.raises(CommitRaced, match="has moved past"):
        moved(old, store, "file:///x")
    assert store.load(kit.identifier).metadata_location == kit.load().metadata_location


def test_of_many_swaps_at_once_one_wins(kit: Kit, store: SqliteStore) -> None:
    state, raced = store.load(kit.identifier), []

    def swap(number: int) -> None:
        try:
            moved(state, store, f"file:///{number}")
        except CommitRaced:
            raced.append(number)

    threads = [threading.Thread(target=swap, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = set(range(8)) - set(raced)
    assert store.pointer(kit.identifier) == f"file:///{winner}"


def test_a_table_of_another_name_is_left_alone(kit: Kit, store: SqliteStore) -> None:
    other = Kit(database(kit).parent, name="other")
    state = store.load(kit.identifier)
    moved(state, store, "file:///x")
    assert store.load(other.identifier).metadata_location == other.state.metadata_location


def test_a_swap_behind_another_writer_is_a_lost_race(kit: Kit, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_sqlite, "WAIT_SECONDS", 0.1)
    state = store.load(kit.identifier)
    holder = sqlite3.connect(database(kit))
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(CommitRaced, match="locked"):
        moved(state, store, "file:///x")
    holder.close()
    assert store.pointer(kit.identifier) == state.metadata_location


def test_a_commit_behind_a_reader_is_a_lost_race(kit: Kit, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_sqlite, "WAIT_SECONDS", 0.1)
    state = store.load(kit.identifier)
    reader = sqlite3.connect(database(kit))
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM iceberg_tables").fetchone()
    with pytest.raises(CommitRaced, match="locked"):
        moved(state, store, "file:///x")
    reader.close()
    assert store.pointer(kit.identifier) == state.metadata_location


def test_a_commit_that_fails_otherwise_may_have_happened() -> None:
    class Failing(sqlite3.Connection):
        def commit(self) -> None:
            raise sqlite3.OperationalError("disk I/O error")

    with pytest.raises(PublishUnclear, match="disk I/O error"):
        store_sqlite._commit(sqlite3.connect(":memory:", factory=Failing))


def test_a_missing_table_comes_with_those_that_are_near(kit: Kit, store: SqliteStore) -> None:
    Kit(database(kit).parent, name="trips")
    with pytest.raises(TableNotFound, match=r"There is no table db\.trip\. Did you mean db\.trips"):
        store.load(("db", "trip"))


def test_a_catalog_whose_making_was_cut_short_has_no_tables(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").touch()
    with pytest.raises(TableNotFound, match=r"db\.t"):
        open_store(open_sqlite(resolve_lake(tmp_path))).load(("db", "t"))


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"no database" * 100)
    with pytest.raises(CorruptFile, match="is not a SQLite catalog"):
        open_sqlite(resolve_lake(tmp_path))


def test_no_lake_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="There is no lake"):
        open_sqlite(resolve_lake(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_a_catalog_that_went_away(kit: Kit, store: SqliteStore) -> None:
    state = store.load(kit.identifier)
    database(kit).unlink()
    for action in (lambda: store.pointer(kit.identifier), lambda: moved(state, store, "file:///x")):
        with pytest.raises(CatalogUnavailable, match="did not answer"):
            action()
    assert not database(kit).exists()


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    kit = Kit(tmp_path / "a lake 100 % ä")
    assert open_store(open_sqlite(kit.config)).load(kit.identifier).metadata_location == kit.state.metadata_location


def test_an_unpublished_state_swaps_with_nothing(kit: Kit, store: SqliteStore) -> None:
    """The state that tasks get has no metadata location."""
    with pytest.raises(CommitRaced):
        moved(replace(store.load(kit.identifier), metadata_location=""), store, "file:///x")
