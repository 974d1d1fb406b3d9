"""A keyed table by any contender: made once as a folder, kept aside, and put back before each run."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from bench.job import Job, Params
from bench.places import LOADED

LOAD, UPSERT, READ, INCREMENTAL = "load", "upsert", "read", "incremental"
Listing = dict[str, tuple[int, int, int]]


class KeyedTable(Job):
    """`task` says what is measured: the first load, an upsert, or reading all or the last commit after one. Everything a table is lies in `live`.

    A loaded table of a peer is kept for other cases too, since loading takes longer than all else; ours may be loaded by other code next time.
    """

    is_peer = True
    first: Any = None

    def __init__(self, scratch: Path) -> None:
        super().__init__(scratch)
        self.live, self.kept = scratch / "live", scratch / "kept"
        self.made = False

    def _place_of_loaded(self) -> None:
        if self.is_peer:
            self.kept = LOADED / f"{self.scratch.name}-{Path(self.files[0]).parent.name}"

    def prepare(self, params: Params) -> None:
        self.task, self.files, self.changes = params["task"], params["files"], params["changes"]
        if self.task == LOAD:
            self._wipe()
            self.create()
        elif not self.made:
            self._place_of_loaded()
            note = self.kept.with_suffix(".json")
            if not note.exists():
                self._wipe()
                self.create()
                self.load()
                self.loaded()
                put(self.live, self.kept)
                note.write_text(json.dumps(self.first))
            put(self.kept, self.live)
            self.first = json.loads(note.read_text())
        if self.task == UPSERT:
            put(self.kept, self.live)
            self.reopen()
        elif self.task in (READ, INCREMENTAL) and not self.made:
            self.reopen()
            self.upsert()
        self.made = self.task != LOAD
        self.before = listed(self.live)

    def run(self) -> dict[str, float] | None:
        {LOAD: self.load, UPSERT: self.upsert, READ: self.read, INCREMENTAL: self.read_last_commit}[self.task]()
        return None

    def outcome(self, full: bool) -> dict[str, Any]:
        written = [size for path, (size, *rest) in listed(self.live).items() if self.before.get(path) != (size, *rest)]
        told: dict[str, Any] = {"file_count": len(written), "bytes": sum(written), "facts": {}}
        if full:
            told["facts"] = self.last_commit_facts() if self.task == INCREMENTAL else self.facts()
        return told

    def clean(self) -> None:
        """The table is kept for the next round."""

    def _wipe(self) -> None:
        shutil.rmtree(self.live, ignore_errors=True)
        self.live.mkdir(parents=True)

    def create(self) -> None:
        """An empty table, and whatever a first load needs that is not measured."""
        raise NotImplementedError

    def load(self) -> None:
        raise NotImplementedError

    def loaded(self) -> None:
        """Remember the commit that an incremental read begins after."""

    def reopen(self) -> None:
        """Forget what is known of the table: its folder was replaced."""

    def upsert(self) -> None:
        raise NotImplementedError

    def read(self) -> None:
        raise NotImplementedError

    def read_last_commit(self) -> None:
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """Of the whole table: what must be the same whoever wrote it."""
        raise NotImplementedError

    def last_commit_facts(self) -> dict[str, Any]:
        raise NotImplementedError


def put(source: Path, target: Path) -> None:
    """Parquet files, which nobody writes again, are linked; all else is copied."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=lambda a, b: os.link(a, b) if a.endswith(".parquet") else shutil.copy2(a, b))


def listed(folder: Path) -> Listing:
    """Size, inode and time of every file but the checksums that Hadoop's local file system puts beside each."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            if not name.endswith(".crc"):
                stat = os.stat(os.path.join(place, name))
                found[os.path.join(place, name)] = (stat.st_size, stat.st_ino, stat.st_mtime_ns)
    return found
