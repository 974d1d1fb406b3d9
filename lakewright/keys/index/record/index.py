"""The record index at work: brought up to date with the table's files, asked for a batch's keys, and made anew where it is damaged.

It rests on the set of data files it covers, and not on the history that led to them: a live file that it does not know is always
a candidate, whoever committed it, and one that is gone is never asked about.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakewright.errors import InvalidOption
from lakewright.format.data_file import DATA, DataFile
from lakewright.format.storage import try_delete
from lakewright.keys.definition import Definition
from lakewright.keys.index.ranges import FEW_FILES
from lakewright.keys.index.record.pointer import Damaged, Pointer, Run, exists, folder, read_paths, read_pointer, write_paths, write_pointer
from lakewright.keys.index.record.shards import FILE, HASH, Place, look_up, merge_shards, write_shards
from lakewright.read.layout import FILE as READ_FROM
from lakewright.read.located import located_rows
from lakewright.read.scan import FileScan, live_entries
from lakewright.session import time_zone

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakewright.rows.merge_source import MergeSource
    from lakewright.rows.row_plan import RowContext

ROWS_PER_SHARD, MOST_SHARDS, OUTGROWN = 1_000_000, 4_096, 8
MOST_RUNS = 8
HASHED = frozenset(("integer", "long", "string", "date", "decimal", "binary", "boolean", "timestamp", "timestamp_ntz"))
log = logging.getLogger("lakewright")


@dataclass(frozen=True)
class RecordIndex:
    """only_if_there: whether it is used, and kept up, only where the table has one already."""

    definition: Definition
    only_if_there: bool = False

    def candidates(self, context: RowContext, source: MergeSource, files: Sequence[FileScan]) -> Sequence[FileScan]:
        """Files with a hash of the batch, and those the index does not know. Whatever fails here leaves all files to be read."""
        if self.only_if_there and (len(files) <= FEW_FILES or not exists(context.state.io, context.metadata.location)):
            return files
        key = self._hashed_as(context, source)
        if key is None:
            return files
        work = _Work(context, self.definition, key)
        try:
            index = work.loaded()
            try:
                index = work.up_to_date(index)
                return work.narrowed(index, source, files)
            except Damaged as damage:
                if work.is_replaced(index):
                    log.info("the record index of %s was replaced meanwhile, all files are read: %s", context.table, damage)
                else:
                    log.warning("the record index of %s is damaged and made anew, all files are read: %s", context.table, damage)
                    work.up_to_date(None)
        except Exception as error:  # an index is there to save time, and no reason to fail
            log.warning("the record index of %s is not used, all files are read: %s", context.table, _line(error))
        return files

    def _hashed_as(self, context: RowContext, source: MergeSource) -> str | None:
        """What hashes depend on beside the rows: the key, its types, and for expressions the session's time zone. None if they cannot be relied on."""
        types = source.rows.select(*key_columns(self.definition)).schema
        for part, field in zip(self.definition.key, types, strict=True):
            if field.dataType.typeName() not in HASHED or field.dataType.simpleString().startswith("string collate"):
                if self.only_if_there:
                    return None
                raise InvalidOption(
                    f"lakewright.index of {context.table} is record, and its key {part.text} is {field.dataType.simpleString()}, which cannot be hashed reliably; use range.",
                    table=context.table,
                )
        sources = [(s, context.schema.find_field(part.column or s).field_id) for part in self.definition.key for s in part.sources]
        zone = [] if all(part.column for part in self.definition.key) else [time_zone(context.spark)]
        return "; ".join([*(f"{part.text} {field.dataType.simpleString()}" for part, field in zip(self.definition.key, types, strict=True)), str(sources), *zone])


def is_outgrown(pointer: Pointer) -> bool:
    """Whether its shards have become too large for a task: their number stays as it was when the index was made."""
    return pointer.shards < MOST_SHARDS and pointer.rows > OUTGROWN * ROWS_PER_SHARD * pointer.shards


def key_columns(definition: Definition) -> list[Column]:
    from pyspark.sql import functions as F

    return [F.expr(part.of(None)).alias(f"key{n}") for n, part in enumerate(definition.key)]


def _require_all(written: int, rows: int) -> None:
    """A row that is not in the index would not be found again."""
    if written != rows:
        raise ValueError(f"{written} of {rows} rows were hashed")


def _line(error: Exception) -> str:
    """What Spark says goes on with its stack."""
    return next(iter(str(error).splitlines()), type(error).__name__)


@dataclass(frozen=True)
class _Known:
    """The index and which data files each of its runs covers."""

    pointer: Pointer
    paths: tuple[list[str], ...]

    @property
    def covered(self) -> set[str]:
        return {path for paths in self.paths for path in paths}


@dataclass(frozen=True)
class _Work:
    context: RowContext
    definition: Definition
    key: str

    @property
    def _location(self) -> str:
        return self.context.metadata.location

    @property
    def _place(self) -> Place:
        return dict(self.context.state.io.properties), self._location

    def loaded(self) -> _Known | None:
        """The index as it is stored; None where there is none, or one of another key."""
        try:
            pointer = read_pointer(self.context.state.io, self._location)
            if pointer is None or pointer.key != self.key or is_outgrown(pointer):
                return None
            return _Known(pointer, tuple(read_paths(self.context.state.io, self._location, run) for run in pointer.runs))
        except Damaged as damage:
            log.warning("the record index of %s is damaged and made anew: %s", self.context.table, damage)
            return None

    def is_replaced(self, known: _Known | None) -> bool:
        """Whether another writer has put its own runs in place of these, whose parts it may have deleted."""
        stored = self._stored()
        return known is not None and stored is not None and not set(known.pointer.runs) <= set(stored.runs)

    def _stored(self) -> Pointer | None:
        try:
            return read_pointer(self.context.state.io, self._location)
        except Damaged:
            return None

    def up_to_date(self, known: _Known | None) -> _Known:
        """The index with the data files of the newest snapshot that it did not cover."""
        head = self.context.head
        assert head is not None
        if known is not None and known.pointer.snapshot_id == head.snapshot_id:
            return known
        live = [e.data_file for e in live_entries(self.context.state.io, self.context.metadata, head, with_metrics=False) if e.data_file.content == DATA]
        covered = known.covered if known else set[str]()
        fresh = [file for file in live if file.file_path not in covered]
        if known is not None and not fresh:
            return known
        before = self._stored() if known is None else None
        shards = known.pointer.shards if known else max(1, min(MOST_SHARDS, -(-sum(f.record_count for f in fresh) // ROWS_PER_SHARD)))
        added = self._hashed(fresh, shards)
        runs, paths = (known.pointer.runs, known.paths) if known else ((), ())
        grown = _Known(Pointer(self.key, head.snapshot_id, shards, (*runs, added)), (*paths, [f.file_path for f in fresh]))
        now = self._merged(grown, {file.file_path for file in live}) if len(grown.pointer.runs) > MOST_RUNS else grown
        write_pointer(self.context.state.io, self._location, now.pointer)
        for part in {*grown.pointer.parts, *(before.parts if before else ())} - set(now.pointer.parts):
            try_delete(self.context.state.io, f"{folder(self._location)}/{part.name}")
        return now

    def narrowed(self, index: _Known, source: MergeSource, files: Sequence[FileScan]) -> Sequence[FileScan]:
        from pyspark.sql import functions as F

        hashes = source.rows.select(F.xxhash64(*key_columns(self.definition)).alias(HASH))
        found = {index.paths[run][file] for run, file in look_up(self._place, hashes, index.pointer.runs, index.pointer.shards)}
        covered = index.covered
        return [f for f in files if f.data_file.file_path in found or f.data_file.file_path not in covered]

    def _hashed(self, files: list[DataFile], shards: int) -> Run:
        """A run of these files: only their key columns are read. Rows that are deleted in them do no harm."""
        from pyspark.sql import functions as F

        context = self.context
        scans = [FileScan(file, 0, None) for file in files]
        rows, names = located_rows(context.spark, context.state.io, context.metadata, scans, context.schema, row_ids=False)
        numbers = pa.table({"path": [names[f.file_path] for f in files], FILE: pa.array(range(len(files)), pa.int32())})
        hashed = rows.select(F.xxhash64(*key_columns(self.definition)).alias(HASH), F.col(READ_FROM).alias("path"))
        entries = hashed.join(F.broadcast(context.spark.createDataFrame(numbers)), "path").select(HASH, FILE)
        written, parts = write_shards(self._place, entries, shards)
        _require_all(written, sum(f.record_count for f in files))
        return Run(written, len(files), write_paths(context.state.io, self._location, [f.file_path for f in files]), parts)

    def _merged(self, index: _Known, live: set[str]) -> _Known:
        """One run of all those after the first, or of all where those have grown to half of it; so a row is written again only a few times."""
        runs = index.pointer.runs
        kept = 1 if sum(run.rows for run in runs[1:]) < runs[0].rows / 2 else 0
        paths = list(dict.fromkeys(path for run in index.paths[kept:] for path in run if path in live))
        number = {path: n for n, path in enumerate(paths)}
        numbers = [np.array([number.get(path, -1) for path in run], np.int32) for run in index.paths[kept:]]
        try:
            rows, shards = merge_shards(self.context.spark, self._place, runs[kept:], numbers, index.pointer.shards)
        except Exception as error:
            raise Damaged(f"its runs cannot be merged: {_line(error)}") from error
        merged = Run(rows, len(paths), write_paths(self.context.state.io, self._location, paths), shards)
        return _Known(replace(index.pointer, runs=(*runs[:kept], merged)), (*index.paths[:kept], paths))
