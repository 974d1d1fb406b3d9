"""What a record index consists of, as its pointer says: a small file, replaced as a whole, that names all others with their checksums.

    index/record/pointer.json    {"checksum", "index": {version, key, snapshot-id, shards, runs, …}}
    index/record/<id>.json       the data files of a run, in the order of their numbers
    index/record/<id>.parquet    one shard of a run: hash and file number, sorted by hash

A run covers some data files whole. What is not covered by a run of the pointer is not known to the index.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from pyiceberg.io import FileIO

from lakewright.format.storage import delete_file, delete_tree, read_bytes, write_atomically

VERSION = 1
FOLDER, POINTER = "index/record", "pointer.json"


class Damaged(Exception):
    """A part of the index is missing, or is not what was written."""


@dataclass(frozen=True)
class Part:
    """A file of the index, by its name in the index's folder."""

    name: str
    size: int
    checksum: int


@dataclass(frozen=True)
class Run:
    """files: the list of data files it covers, of which there are `covered`; shards: those that are not empty, by number."""

    rows: int
    covered: int
    files: Part
    shards: Mapping[int, Part] = field(hash=False)

    @property
    def parts(self) -> Iterator[Part]:
        yield self.files
        yield from self.shards.values()


@dataclass(frozen=True)
class Pointer:
    """key: what is hashed. snapshot_id: the newest snapshot whose data files it covers, for people to see. shards: into how many hashes are divided."""

    key: str
    snapshot_id: int
    shards: int
    runs: tuple[Run, ...]

    @property
    def rows(self) -> int:
        return sum(run.rows for run in self.runs)

    @property
    def parts(self) -> Iterator[Part]:
        for run in self.runs:
            yield from run.parts


def folder(location: str) -> str:
    return f"{location}/{FOLDER}"


def pointer_path(location: str) -> str:
    return f"{folder(location)}/{POINTER}"


def exists(io: FileIO, location: str) -> bool:
    return io.new_input(pointer_path(location)).exists()


def read_pointer(io: FileIO, location: str) -> Pointer | None:
    """The index as it is now, None if there is none; raises Damaged."""
    if not exists(io, location):
        return None
    try:
        stored = json.loads(read_bytes(io, pointer_path(location)))
        body = stored["index"]
        if stored["checksum"] != _checksum(_text(body)) or body["version"] != VERSION:
            raise Damaged("its pointer is of another version, or not as it was written")
        return Pointer(body["key"], body["snapshot-id"], body["shards"], tuple(map(_run, body["runs"])))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"its pointer cannot be read: {error}") from error


def write_pointer(io: FileIO, location: str, pointer: Pointer) -> None:
    body = {
        "version": VERSION,
        "key": pointer.key,
        "snapshot-id": pointer.snapshot_id,
        "shards": pointer.shards,
        "rows": pointer.rows,
        "files": sum(run.covered for run in pointer.runs),
        "runs": [
            {"rows": run.rows, "covered": run.covered, "files": vars(run.files), "shards": {str(number): vars(part) for number, part in run.shards.items()}}
            for run in pointer.runs
        ],
    }
    write_atomically(io, pointer_path(location), json.dumps({"checksum": _checksum(_text(body)), "index": body}, indent=1).encode())


def index_files(io: FileIO, location: str) -> Iterator[str]:
    """The files an index consists of; of one that is damaged only its pointer, which is replaced at the next use."""
    yield pointer_path(location)
    try:
        pointer = read_pointer(io, location)
    except Damaged:
        return
    for part in pointer.parts if pointer else ():
        yield f"{folder(location)}/{part.name}"


def drop_index(io: FileIO, location: str) -> None:
    """The pointer goes first: without it, the rest means nothing."""
    delete_file(io, pointer_path(location))
    delete_tree(io, folder(location))


def write_part(io: FileIO, location: str, data: bytes, kind: str) -> Part:
    """A file under a name that no other has, so that two writers never meet."""
    name = f"{uuid4().hex}.{kind}"
    with io.new_output(f"{folder(location)}/{name}").create(overwrite=True) as stream:
        stream.write(data)
    return Part(name, len(data), _checksum(data))


def read_part(io: FileIO, location: str, part: Part) -> bytes:
    """The bytes of a file of the index, which are as they were written; raises Damaged."""
    try:
        data = read_bytes(io, f"{folder(location)}/{part.name}")
    except OSError as error:
        raise Damaged(f"{part.name} cannot be read: {error}") from error
    if len(data) != part.size or _checksum(data) != part.checksum:
        raise Damaged(f"{part.name} is not as it was written")
    return data


def read_paths(io: FileIO, location: str, run: Run) -> list[str]:
    """The data files of a run, by their numbers."""
    paths: list[str] = json.loads(read_part(io, location, run.files))
    return paths


def write_paths(io: FileIO, location: str, paths: list[str]) -> Part:
    return write_part(io, location, json.dumps(paths).encode(), "json")


def _run(stored: dict[str, Any]) -> Run:
    return Run(stored["rows"], stored["covered"], Part(**stored["files"]), {int(number): Part(**part) for number, part in stored["shards"].items()})


def _text(body: Any) -> bytes:
    return json.dumps(body, sort_keys=True).encode()


def _checksum(data: bytes) -> int:
    return zlib.crc32(data)
