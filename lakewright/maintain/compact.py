"""compact(): beside writers, without ever failing one of them or being failed by them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TYPE_CHECKING

from lakewright.commit.change import REPLACE
from lakewright.commit.result import COMPACT, POSTPONED_BRANCH, Commit, is_compaction, nothing_written
from lakewright.commit.store import TableState
from lakewright.errors import CommitConflict
from lakewright.format.metadata import Metadata
from lakewright.keys.postpone import pending
from lakewright.options import COMPACT_AFTER, REPLANS, Options, resolve
from lakewright.plan.keys import is_keyed
from lakewright.plan.request import CompactRequest
from lakewright.session import session_options
from lakewright.transaction import Transaction

if TYPE_CHECKING:
    from lakewright.lake import Lake

log = logging.getLogger("lakewright")


def compact(lake: Lake, state: TableState, request: CompactRequest) -> tuple[TableState, Commit]:
    """Combine small files, split large ones and apply deletes, in one commit; the table after it, and what was committed.

    Bins that others changed meanwhile are left as they are. Where that is all of them, the compaction is planned again, as often as a
    row-level write would be, and then nothing is written.
    """
    replans = resolve(request.options, session_options(lake.spark), state.metadata.properties)[REPLANS]
    for attempt in range(replans + 1):
        state = lake.store.load(state.identifier, known=state)
        try:
            with Transaction(lake, state, operation=COMPACT) as tx:
                tx.compact(request)
        except CommitConflict as error:
            log.warning("compaction of %s gave way to other writers: %s", state.name, error)
            return state, nothing_written(state.metadata.head(request.branch), COMPACT, tx.run_id, request.token)
        if not tx.gave_way:
            return tx.state, tx.commit
        log.info("compaction of %s lost all it had rewritten to other commits (attempt %d of %d)", state.name, attempt + 1, replans + 1)
        state = tx.state
    log.warning("compaction of %s wrote nothing: in each of %d attempts other commits changed every file it had rewritten", state.name, replans + 1)
    return state, tx.commit


def in_background(work: Callable[[], Commit], name: str) -> Future[Commit]:
    """Run it in a thread that does not keep the process from ending: what a compaction leaves half-done is found by its run record."""
    done: Future[Commit] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    Thread(target=run, name=name, daemon=True).start()
    return done


def commits_since_compaction(metadata: Metadata, branch: str) -> int:
    """Data commits to the branch after the last compaction, or all there are."""
    head = metadata.head(branch)
    count = 0
    for snapshot in metadata.ancestors(head.snapshot_id if head else None):
        if is_compaction(snapshot):
            break
        count += snapshot.operation != REPLACE
    return count


def compact_if_due(lake: Lake, state: TableState, branch: str, options: Options) -> TableState:
    """What a write does after its commit where the table asks for it; it is committed already, so no failure here is one of the write."""
    every = options[COMPACT_AFTER]
    is_waiting = branch == POSTPONED_BRANCH and is_keyed(state.metadata.properties)
    if every is None or (len(pending(state.metadata)) if is_waiting else commits_since_compaction(state.metadata, branch)) < every:
        return state
    try:
        return _taken_in(lake, state) if is_waiting else compact(lake, state, CompactRequest(branch=branch))[0]
    except Exception as error:
        log.warning("compaction of %s after a write failed, the write is committed: %s", state.name, error)
        return state


def _taken_in(lake: Lake, state: TableState) -> TableState:
    """What waits on the branch goes to main; the branch itself is not rewritten."""
    from lakewright.table import Table

    table = Table(lake, state)
    table.compact()
    return table._state
