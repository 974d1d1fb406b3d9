"""Run records: what a run is doing, where its files are, and until when it counts as alive.

A record lives at `runs/<run id>.json` below the table. It is written before the first file and renewed while the run goes
on, so that clean-up can tell the files of a dead run from those a live one may still commit. As long as the run is not over
there is also an empty file `runs/running/<run id>`: a writer that looks for dead runs lists that small folder, however many
runs there have been. Builds of sharded snapshots keep theirs the same way below their url, in a folder of the caller's choice.
"""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pyiceberg.io import FileIO

from lakewright.commit.updates import now_ms
from lakewright.errors import CommitConflict, CommitOutcomeUnknown, CorruptFile
from lakewright.format.storage import list_files, read_bytes, try_delete, write_atomically

MARKER_WITHOUT_RECORD_MS = 3_600_000  # it is written just before the record: past this its process died in between
LAST_RUN = "lakewright.last-metadata-run"  # table property: the newest run that published without a snapshot
RUNS = "runs"  # the folder below a table
BEATS, BY_TASKS = "beats", "tasks"
RUNNING, SUCCEEDED, FAILED, ROLLED_BACK = "running", "succeeded", "failed", "rolled back"
log = logging.getLogger("lakewright")


@dataclass(frozen=True)
class RunRecord:
    run_id: str
    table: str
    operation: str
    state: str
    prefix: str
    branch: str
    token: str | None
    started_ms: int
    heartbeat_ms: int
    lease_seconds: int
    finished_ms: int | None = None
    snapshot_id: int | None = None
    rows: int | None = None
    files: int | None = None
    error: str | None = None
    read_snapshot_id: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def alive(self) -> bool:
        return self.state == RUNNING and now_ms() < self.heartbeat_ms + self.lease_seconds * 1000


def new_run_id() -> str:
    return str(uuid.uuid4())


def data_prefix(table_location: str, run_id: str) -> str:
    return f"{table_location}/data/{run_id}"


def record_path(table_location: str, run_id: str, folder: str = RUNS) -> str:
    return f"{table_location}/{folder}/{run_id}.json"


def mark_path(table_location: str, run_id: str, folder: str = RUNS) -> str:
    """Beside the record, and never written by the run itself: a heartbeat cannot wipe it out."""
    return f"{table_location}/{folder}/{run_id}.rolled-back"


def running_path(table_location: str, run_id: str, folder: str = RUNS) -> str:
    return f"{table_location}/{folder}/running/{run_id}"


def write_record(io: FileIO, table_location: str, record: RunRecord, folder: str = RUNS) -> None:
    write_atomically(io, record_path(table_location, record.run_id, folder), json.dumps(asdict(record), separators=(",", ":")).encode())


def read_record(io: FileIO, path: str) -> RunRecord:
    try:
        return RunRecord(**json.loads(read_bytes(io, path)))
    except (ValueError, TypeError) as error:
        raise CorruptFile(f"Run record {path} cannot be read: {error}. Remove it once its run is known to be over.") from error


def list_runs(io: FileIO, table_location: str, folder: str = RUNS) -> list[RunRecord]:
    """All runs of a table, oldest first."""
    records = []
    for file in list_files(io, f"{table_location}/{folder}"):
        if file.path.endswith(".json"):
            records.append(read_record(io, file.path))
    return sorted(records, key=lambda r: (r.started_ms, r.run_id))


def running_runs(io: FileIO, table_location: str, folder: str = RUNS) -> list[RunRecord]:
    """Runs that have not ended, alive or dead, for the price of one listing; markers that outlived their run are removed."""
    records = []
    for marker in list(list_files(io, f"{table_location}/{folder}/running")):
        try:
            record = read_record(io, record_path(table_location, marker.path.rsplit("/", 1)[-1], folder))
        except FileNotFoundError:
            if marker.modified_ms < now_ms() - MARKER_WITHOUT_RECORD_MS:
                try_delete(io, marker.path)
            continue
        except CorruptFile as error:
            log.warning("%s", error)
            continue
        if record.state == RUNNING:
            records.append(record)
        else:
            try_delete(io, marker.path)
    return records


class Run:
    """A run in progress, with a heartbeat of its own. `finish` and `fail` end it."""

    def __init__(self, io: FileIO, table_location: str, record: RunRecord, folder: str = RUNS) -> None:
        self.io, self.table_location, self.record, self.folder = io, table_location, record, folder
        self._over = threading.Event()
        self._writing = threading.Lock()

    @property
    def run_id(self) -> str:
        return self.record.run_id

    @property
    def prefix(self) -> str:
        return self.record.prefix

    def begin(self) -> None:
        write_atomically(self.io, running_path(self.table_location, self.run_id, self.folder), b"")
        self._write()

    def beat(self) -> None:
        """Renew the lease until the run is over; a beat that fails is tried again at the next one."""
        while not self._over.wait(self.record.lease_seconds / 3):
            try:
                self.renew()
            except Exception as error:
                log.warning("could not renew the lease of run %s: %s", self.run_id, error)

    def renew(self) -> None:
        with self._writing:
            if not self._over.is_set():
                self.record = replace(self.record, heartbeat_ms=now_ms())
                self._write()

    def require_alive(self) -> None:
        """Raise where a clean-up took this run for dead, since its files may be gone."""
        if self.io.new_input(mark_path(self.table_location, self.run_id, self.folder)).exists():
            raise CommitConflict(
                f"Run {self.run_id} on {self.record.table} did not renew its lease in time and was rolled back; nothing was changed. Run the write again.",
                table=self.record.table,
            )
        self.renew()

    def finish(self, state: str, **outcome: Any) -> None:
        with self._writing:
            self._over.set()
            self.record = replace(self.record, state=state, finished_ms=now_ms(), heartbeat_ms=now_ms(), **outcome)
            self._write()
            try_delete(self.io, running_path(self.table_location, self.run_id, self.folder))

    def stop_beating(self) -> None:
        self._over.set()

    def _write(self) -> None:
        write_record(self.io, self.table_location, self.record, self.folder)


@contextmanager
def open_run(
    io: FileIO,
    *,
    table: str,
    table_location: str,
    operation: str,
    branch: str,
    token: str | None,
    lease_seconds: int,
    run_id: str | None = None,
    read_snapshot_id: int | None = None,
    prefix: str | None = None,
    folder: str = RUNS,
) -> Iterator[Run]:
    """A run with its record and heartbeat. Leaving by an exception marks it failed, unless its outcome is not known.

    `read_snapshot_id`: the snapshot its plan rests on, which expiry keeps for as long as the run is alive. `prefix`: where its files
    are, the table's data folder unless given.
    """
    run_id = run_id or new_run_id()
    now = now_ms()
    record = RunRecord(
        run_id=run_id,
        table=table,
        operation=operation,
        state=RUNNING,
        prefix=prefix or data_prefix(table_location, run_id),
        branch=branch,
        token=token,
        started_ms=now,
        heartbeat_ms=now,
        lease_seconds=lease_seconds,
        read_snapshot_id=read_snapshot_id,
    )
    run = Run(io, table_location, record, folder)
    run.begin()
    with beating(run):
        try:
            yield run
        except CommitOutcomeUnknown:
            raise
        except BaseException as error:
            try:
                run.finish(FAILED, error=f"{type(error).__name__}: {error}"[:2000])
            except Exception as reason:
                log.warning("could not record the failure of run %s: %s", run_id, reason)
            raise


@contextmanager
def beating(run: Run) -> Iterator[None]:
    """A thread that renews the run's lease for as long as the block goes on."""
    threading.Thread(target=run.beat, name=f"lakewright-lease-{run.run_id}", daemon=True).start()
    try:
        yield
    finally:
        run.stop_beating()
