"""Processes that write to one table at once, at the commit layer: no JVM, so that the race is in the commit and not in starting up.

The catalog is a parameter: the same functions run on SQLite here and on the services of tests/interop.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from lakewright.catalogs import open_catalog
from lakewright.commit.change import SnapshotChange
from lakewright.commit.create import first_version
from lakewright.commit.metadata_changes import evolve_partitions
from lakewright.commit.publish import publish
from lakewright.commit.refs import create
from lakewright.commit.runs import SUCCEEDED, new_run_id, open_run
from lakewright.commit.store import Store, TableState, open_store
from lakewright.config import resolve_lake
from lakewright.format.data_file import DataFile
from lakewright.options import LEASE_SECONDS, resolve
from lakewright.plan.partitioning import build_sort_order, build_spec
from lakewright.plan.write_plan import WritePlan
from lakewright.write.task import write_batches

NAME = ("db", "events")
SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "region", StringType(), required=False))
REGIONS = ("eu", "us", "asia")
WORKERS, APPENDS, BRANCHES = 8, 10, 4


@dataclass(frozen=True)
class Place:
    """A lake by its location and, where it is not embedded, its catalog."""

    location: str
    catalog: Mapping[str, Any] | None = None

    def open(self) -> tuple[Catalog, Store]:
        catalog = open_catalog(resolve_lake(self.location, self.catalog))
        return catalog, open_store(catalog)


def make_table(place: Place, partition_by: tuple[str, ...] = ("region",)) -> TableState:
    catalog, store = place.open()
    catalog.create_namespace_if_not_exists(NAME[:-1])
    location = "/".join([resolve_lake(place.location, place.catalog).location, *NAME])
    metadata = first_version(location, SCHEMA, build_spec(SCHEMA, partition_by), build_sort_order(SCHEMA, []), {}, 2)
    return store.create(NAME, metadata, new_run_id())


def append_rows(store: Store, ids: list[int], branch: str = "main") -> None:
    """One append as the library makes it: run record, files of the table's spec at that time, commit with the default retries."""
    state = store.load(NAME)
    options = resolve({}, {}, state.metadata.properties)
    run_id = new_run_id()
    with open_run(
        state.io, table=state.name, table_location=state.metadata.location, operation="append", branch=branch, token=None, lease_seconds=options[LEASE_SECONDS], run_id=run_id
    ) as run:
        change = SnapshotChange("append", state.metadata.schema, state.metadata.specs, added=_files(state, ids, run_id, run.prefix), branch=branch)
        commit = publish(store, state, [change], run_id=run_id, options=options, check_run=run.require_alive).commits[0]
        run.finish(SUCCEEDED, snapshot_id=commit.snapshot_id)


def _files(state: TableState, ids: list[int], run_id: str, prefix: str) -> tuple[DataFile, ...]:
    metadata = state.metadata
    rows = pa.RecordBatch.from_pydict({"id": ids, "region": [REGIONS[n % 3] for n in ids]}, schema=schema_to_pyarrow(SCHEMA, include_field_ids=False))
    options = resolve({}, {}, metadata.properties)
    plan = WritePlan(state.name, run_id, prefix, metadata.schema, metadata.spec, metadata.sort_order, "arrow", "none", options, state.io.properties, None)
    return write_batches(plan, iter([rows]), 0, 0, 0).files


def append_worker(place: Place, worker: int, branch: str, start: Barrier) -> None:
    _, store = place.open()
    start.wait()
    for n in range(APPENDS):
        first = (worker * APPENDS + n) * 3
        append_rows(store, [first, first + 1, first + 2], branch)


def spec_worker(place: Place, worker: int, branch: str, start: Barrier) -> None:
    """Changes the partitioning there and back while the others append."""
    _, store = place.open()
    start.wait()
    for n in range(4):
        state = store.load(NAME)
        add, drop = (["bucket(4, id)"], ["region"]) if n % 2 == 0 else (["region"], ["bucket(4, id)"])
        publish(store, state, [evolve_partitions(state.name, add, drop)], run_id=new_run_id(), options=resolve({}, {}, {}))


Worker = Callable[[Place, int, str, Barrier], None]


def run_together(place: Place, workers: list[tuple[Worker, str]]) -> list[int | None]:
    """Exit codes of processes that all begin at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "lakewright.commit.store_sql", "pyarrow.parquet"])
    start = context.Barrier(len(workers))
    processes = [context.Process(target=work, args=(place, n, branch, start)) for n, (work, branch) in enumerate(workers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(240)
    codes = [process.exitcode for process in processes]
    for process in processes:
        if process.is_alive():
            process.kill()
    return codes


# What must be true afterwards, the same on every catalog


def check_eight_writers(place: Place) -> TableState:
    make_table(place)
    assert run_together(place, [(append_worker, "main")] * WORKERS) == [0] * WORKERS
    return check_line(place, WORKERS)


def check_writers_with_spec_change(place: Place) -> TableState:
    make_table(place)
    assert run_together(place, [(append_worker, "main")] * WORKERS + [(spec_worker, "main")]) == [0] * (WORKERS + 1)
    state = check_line(place, WORKERS)
    assert len(state.metadata.specs) == 2
    return state


def check_branches(place: Place) -> TableState:
    state = make_table(place)
    _, store = place.open()
    append_rows(store, [-1])
    branches = [f"b{n}" for n in range(BRANCHES)]
    publish(store, state, [create(state.name, name, None, "branch") for name in branches], run_id=new_run_id(), options=resolve({}, {}, {}))
    assert run_together(place, [(append_worker, name) for name in branches]) == [0] * BRANCHES
    for n, name in enumerate(branches):
        first = n * APPENDS * 3
        assert _ids(place, name) == [-1, *range(first, first + APPENDS * 3)]
    assert _ids(place, "main") == [-1]
    return store.load(NAME)


def check_line(place: Place, workers: int) -> TableState:
    """All appends committed, in one line of parents, and every row is there once."""
    _, store = place.open()
    state = store.load(NAME)
    snapshots = list(state.metadata.snapshots())
    assert len(snapshots) == workers * APPENDS
    assert [s.parent_id for s in snapshots] == [None, *(s.snapshot_id for s in snapshots[:-1])]
    assert [s.sequence_number for s in snapshots] == list(range(1, len(snapshots) + 1))
    assert _ids(place, "main") == list(range(workers * APPENDS * 3))
    assert snapshots[-1].summary["total-records"] == str(workers * APPENDS * 3)
    return state


def _ids(place: Place, branch: str) -> list[int]:
    """What PyIceberg reads."""
    catalog, store = place.open()
    head = store.load(NAME).metadata.head(branch)
    assert head is not None
    rows = catalog.load_table(NAME).scan(snapshot_id=head.snapshot_id).to_arrow()
    assert all(region == REGIONS[n % 3] for n, region in zip(rows["id"].to_pylist(), rows["region"].to_pylist(), strict=True))
    return sorted(rows["id"].to_pylist())
