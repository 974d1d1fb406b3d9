"""Changes of metadata that the timeline shows, though they make no snapshot: rollback, restore, savepoints, expiry.

Each has a run record. The version it publishes names the run in a property, so that a run which died before it could record
its end is still known to have happened.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from lakewright.commit.change import MetadataChange
from lakewright.commit.publish import publish
from lakewright.commit.runs import LAST_RUN, SUCCEEDED, Run, open_run
from lakewright.commit.store import Store, TableState
from lakewright.commit.updates import Update, set_properties
from lakewright.format.metadata import MAIN, Metadata
from lakewright.maintain.dead_runs import roll_back_dead_runs
from lakewright.options import LEASE_SECONDS, Options, resolve

log = logging.getLogger("lakewright")


@dataclass(frozen=True)
class Recorded:
    """A run of a metadata-only operation, and how it publishes."""

    store: Store
    state: TableState
    options: Options
    run: Run

    def publish(self, change: MetadataChange) -> TableState:
        named = replace(change, updates=self._naming(change.updates))
        return publish(self.store, self.state, [named], run_id=self.run.run_id, options=self.options, check_run=self.run.require_alive).state

    def finish(self, **outcome: Any) -> None:
        try:
            self.run.finish(SUCCEEDED, **outcome)
        except Exception as error:  # the version is published; the next writer settles the record
            log.warning("could not record the end of run %s: %s", self.run.run_id, error)

    def _naming(self, updates: Callable[[Metadata], list[Update]]) -> Callable[[Metadata], list[Update]]:
        def with_the_run(metadata: Metadata) -> list[Update]:
            made = updates(metadata)
            return [*made, *set_properties({LAST_RUN: self.run.run_id})] if made else []

        return with_the_run


def publish_recorded(store: Store, state: TableState, operation: str, change: MetadataChange, branch: str = MAIN, *, at: Callable[[Metadata], int | None]) -> TableState:
    """Publish a change, if it is one: what changes nothing leaves no trace. `at`: the snapshot it is about, for the record."""
    if not change.updates(state.metadata):
        return state
    with recorded(store, state, operation, resolve({}, {}, state.metadata.properties), branch) as run:
        state = run.publish(change)
        run.finish(snapshot_id=at(state.metadata))
    return state


@contextmanager
def recorded(store: Store, state: TableState, operation: str, options: Options, branch: str = MAIN) -> Iterator[Recorded]:
    roll_back_dead_runs(store, state)
    opened = open_run(
        state.io, table=state.name, table_location=state.metadata.location, operation=operation, branch=branch, token=None, lease_seconds=options[LEASE_SECONDS]
    )
    with opened as run:
        yield Recorded(store, state, options, run)
