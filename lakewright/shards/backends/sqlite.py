"""A shard as one SQLite file with one table of keys and values."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar, cast
from urllib.parse import quote

import pyarrow as pa

from lakewright.errors import CorruptSnapshot, DuplicateShardKey, ShardError, StorageFull
from lakewright.shards.backends.protocol import Keys, LocalFile, after_prefix, check_sizes, listed
from lakewright.shards.backends.sqlite_pages import PageReader
from lakewright.shards.keys import Key, KeyType, encoded_text, key_array

FILE = "shard.sqlite"
_GET = "SELECT v FROM kv WHERE k=?"
_TABLES = {
    "int": "CREATE TABLE kv (k INTEGER PRIMARY KEY, v BLOB NOT NULL)",
    "bytes": "CREATE TABLE kv (k BLOB PRIMARY KEY NOT NULL, v BLOB NOT NULL) WITHOUT ROWID",
}
_FOR_LOADING = ("page_size=4096", "journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE", "temp_store=MEMORY", "cache_size=-32768")
_ROWS = 100  # of one statement: half the time of a statement for each row
_INSERT = "INSERT OR FAIL INTO kv VALUES (?, ?)"  # rows before one that fails stay, so that it can be told which one it was
_INSERT_MANY = _INSERT + ", (?, ?)" * (_ROWS - 1)
_BY_PAGES_FROM = 32  # keys of a shard
_MANY = (512, 64, 8, 1)  # sizes of a statement for many keys: few enough to stay prepared


@dataclass(frozen=True)
class SqliteBackend:
    max_value_bytes: int = 1_000_000_000 - 65_536  # SQLite's limit for a row, less what a key may take

    @property
    def name(self) -> str:
        return "sqlite"

    def writer(self, scratch: str, key_type: KeyType) -> SqliteWriter:
        return SqliteWriter(scratch, key_type, self.max_value_bytes)

    def open(self, folder: str, key_type: KeyType) -> SqliteShard:
        return _SHARDS[key_type](os.path.join(folder, FILE))


class SqliteWriter:
    """Loads in one transaction without a journal: a shard that is not finished is thrown away."""

    def __init__(self, scratch: str, key_type: KeyType, max_value_bytes: int) -> None:
        self.rows = 0
        self._limit, self._path = max_value_bytes, os.path.join(scratch, FILE)
        self._connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        for setting in _FOR_LOADING:
            self._connection.execute(f"PRAGMA {setting}")
        self._connection.execute(_TABLES["int" if key_type == "int" else "bytes"])
        self._connection.execute("BEGIN")

    def write(self, keys: pa.Array, values: pa.Array) -> None:
        check_sizes(values, self._limit, "SQLite")
        plain, given, before = key_array(keys).to_pylist(), values.to_pylist(), self._connection.total_changes
        whole = len(plain) - len(plain) % _ROWS
        try:
            for start in range(0, whole, _ROWS):
                pairs: list[Any] = [None] * (2 * _ROWS)
                pairs[::2], pairs[1::2] = plain[start : start + _ROWS], given[start : start + _ROWS]
                self._connection.execute(_INSERT_MANY, pairs)
            self._connection.executemany(_INSERT, zip(plain[whole:], given[whole:], strict=True))
        except sqlite3.IntegrityError:
            key = keys[self._connection.total_changes - before].as_py()
            raise DuplicateShardKey(f"The key {key!r} comes twice. Say by which column the last of a key's rows is known, or keep one row for each key.") from None
        except sqlite3.OperationalError as error:
            raise _explained(error, self._path) from error
        self.rows += len(plain)

    def finish(self) -> list[LocalFile]:
        try:
            self._connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise _explained(error, self._path) from error
        self._connection.close()
        return [LocalFile(FILE, self._path)]

    def abort(self) -> None:
        self._connection.close()


class SqliteShard:
    """Cursors wait in a list that every get takes one from and gives it back to, which needs no lock.

    They are closed when the last get that holds the shard lets go of it.
    """

    gains_by_threads: ClassVar[bool] = False  # short steps in this process: threads would mostly wait for each other

    def __init__(self, path: str) -> None:
        self._path = path
        self._url = f"file:{quote(path)}?mode=ro&immutable=1"
        self._free: list[sqlite3.Cursor] = []
        self._free.append(self._cursor())

    def get(self, key: Any) -> bytes | None:
        free = self._free
        try:
            cursor = free.pop()
        except IndexError:
            cursor = self._cursor()
        try:
            row = cursor.execute(_GET, (key,)).fetchone()
        except sqlite3.Error as error:
            raise self._damaged(error) from error
        free.append(cursor)
        return row if row is None else row[0]

    async def get_async(self, key: Key) -> bytes | None:
        return self.get(key)

    def multi_get(self, keys: Keys, found: dict[Key, bytes | None]) -> None:
        keys = listed(keys)
        try:
            cursor = self._free.pop()
        except IndexError:
            cursor = self._cursor()
        try:
            start = 0
            while start < len(keys):
                size = next(size for size in _MANY if size <= len(keys) - start)
                found.update(cursor.execute(_MANY_GETS[size], keys[start : start + size]).fetchall())
                start += size
        except sqlite3.Error as error:
            raise self._damaged(error) from error
        self._free.append(cursor)

    def scan(self, start: Key | None = None, end: Key | None = None, prefix: str | bytes | None = None) -> Iterator[tuple[Key, bytes]]:
        conditions, given = [], []
        for condition, key in (("k >= ?", start), ("k < ?", end)):
            if key is not None:
                conditions.append(condition)
                given.append(self._stored(key))
        if prefix is not None:
            stem = cast(bytes, self._stored(prefix))
            bounds = (("k >= ?", stem), ("k < ?", after_prefix(stem)))
            conditions += [condition for condition, bound in bounds if bound is not None]
            given += [bound for _, bound in bounds if bound is not None]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        cursor = self._cursor()
        with closing(cursor.connection):
            try:
                for key, value in cursor.execute(f"SELECT k, v FROM kv{where} ORDER BY k", given):
                    yield key, value
            except sqlite3.Error as error:
                raise self._damaged(error) from error

    def close(self) -> None:
        free, self._free = self._free, []
        for cursor in free:
            cursor.connection.close()

    __del__ = close

    def _stored(self, key: Key) -> int | bytes:
        return encoded_text(key) if isinstance(key, str) else key

    def _cursor(self) -> sqlite3.Cursor:
        try:
            connection = sqlite3.connect(self._url, uri=True, isolation_level=None, check_same_thread=False, cached_statements=16)
            cursor = connection.cursor()
            cursor.execute("PRAGMA cache_size=-4096")
            cursor.execute("SELECT k FROM kv LIMIT 1").fetchone()
        except sqlite3.Error as error:
            raise self._damaged(error) from error
        return cursor

    def _damaged(self, error: Exception) -> CorruptSnapshot:
        return CorruptSnapshot(f"The shard {self._path} cannot be read: {error}. Roll back to another version, or build it again.", url=self._path)


class SqliteNumberShard(SqliteShard):
    """Whole numbers can be looked up many at a time in the file's pages."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._pages: PageReader | None = None

    def multi_get(self, keys: Keys, found: dict[Key, bytes | None]) -> None:
        left = keys
        if len(keys) >= _BY_PAGES_FROM:
            try:
                if self._pages is None:
                    self._pages = PageReader(self._path, self._root_page())
                left = self._pages.get(cast("Sequence[int]", keys), found)
            except (IndexError, OSError, ValueError) as error:
                raise self._damaged(error) from error
        super().multi_get(left, found)

    def _root_page(self) -> int:
        cursor = self._cursor()
        with closing(cursor.connection):
            return int(cursor.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'kv'").fetchone()[0])


class SqliteTextShard(SqliteShard):
    """Text is kept as its UTF-8 bytes, which sort as its characters do."""

    def get(self, key: Any) -> bytes | None:
        return super().get(encoded_text(key))

    def multi_get(self, keys: Keys, found: dict[Key, bytes | None]) -> None:
        encoded: dict[Key, bytes | None] = {}
        super().multi_get([encoded_text(cast(str, key)) for key in keys], encoded)
        found.update((cast(bytes, key).decode(), value) for key, value in encoded.items())

    def scan(self, start: Key | None = None, end: Key | None = None, prefix: str | bytes | None = None) -> Iterator[tuple[Key, bytes]]:
        for key, value in super().scan(start, end, prefix):
            yield cast(bytes, key).decode(), value


_SHARDS: dict[KeyType, type[SqliteShard]] = {"int": SqliteNumberShard, "str": SqliteTextShard, "bytes": SqliteShard}


def _explained(error: sqlite3.OperationalError, path: str) -> Exception:
    if "full" in str(error):
        return StorageFull(f"There is no space left for {path}: {error}. Free some, or set another scratch folder.")
    return ShardError(f"The shard {path} cannot be written: {error}.", url=path)


_MANY_GETS = {size: f"SELECT k, v FROM (VALUES {','.join(['(?)'] * size)}) CROSS JOIN kv ON k=column1" for size in _MANY}
