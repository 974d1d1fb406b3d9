"""The commit step: validate, build on the newest head, publish by compare-and-swap, and try again when another was first."""

from __future__ import annotations

import itertools
import json
import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakewright.commit.change import MetadataChange, SnapshotChange, Step
from lakewright.commit.result import TOKEN, TOKENS_TAKEN_IN, Commit, commit_of
from lakewright.commit.snapshot import SnapshotBuilder
from lakewright.commit.store import UNPUBLISHED, CommitRaced, NotAsked, PublishInterrupted, PublishUnclear, Requirement, Store, TableState
from lakewright.commit.updates import Update, add_snapshot, apply, set_ref
from lakewright.commit.validate import require_branch, validate
from lakewright.errors import CatalogUnavailable, CommitConflict, CommitOutcomeUnknown, CommitRetriesExhausted, LakewrightError, TableExists
from lakewright.format.metadata import MAIN, Metadata, Snapshot
from lakewright.format.storage import explained
from lakewright.options import RETRIES, RETRY_MAX_WAIT, RETRY_MIN_WAIT, RETRY_TOTAL, Options

log = logging.getLogger("lakewright")
KEEP_ALL = {"max-ref-age-ms": 2**63 - 1, "max-snapshot-age-ms": 2**63 - 1, "min-snapshots-to-keep": 2**31 - 1}


@dataclass(frozen=True)
class Published:
    """The table after a publish, and the commits of its data steps, in order."""

    state: TableState
    commits: tuple[Commit, ...]


def find_token(metadata: Metadata, branch: str, token: str | None) -> Snapshot | None:
    """The snapshot of this branch's line that carries the token, if the write was already committed; or the one of main that took it in."""
    if token is None:
        return None
    line = metadata.ancestors(metadata.refs.get(branch, {}).get("snapshot-id"))
    main = metadata.ancestors(metadata.refs.get(MAIN, {}).get("snapshot-id"))
    written = (s for s in line if s.raw.get("summary", {}).get(TOKEN) == token)
    taken_in = (s for s in main if TOKENS_TAKEN_IN in (summary := s.raw.get("summary", {})) and token in json.loads(summary[TOKENS_TAKEN_IN]))
    return next(written, None) or next(taken_in, None)


def publish(
    store: Store, state: TableState, steps: Sequence[Step], *, run_id: str, options: Options, check_run: Callable[[], None] = lambda: None
) -> Published:
    """Publish all steps in one new version of the table, or none of them.

    `check_run` is called before each attempt, and raises where the run has meanwhile been taken for dead.
    """
    numbers = itertools.count()
    builders = {id(step): SnapshotBuilder(state.io, step, run_id, options, numbers) for step in steps if isinstance(step, SnapshotChange)}
    give_up_at = time.monotonic() + options[RETRY_TOTAL] / 1000
    unclear: Exception | None = None
    head = state
    attempt = 0
    try:
        while True:
            try:
                if state.metadata_location == UNPUBLISHED:
                    return _create(store, state, steps, builders, run_id)
                head = store.load(state.identifier, known=head)
                done = _already_there(head, steps, builders)
                if done is not None:
                    return done
                for builder in builders.values():
                    builder.discard_attempt()
                check_run()
                return _attempt(store, head, steps, builders, run_id, attempt)
            except PublishInterrupted as error:
                raise _given_up(state, attempt, error) from error
            except PublishUnclear as error:
                log.warning("the catalog did not say whether the commit to %s happened, looking: %s", state.name, error)
                unclear = error
                for builder in builders.values():
                    builder.keep_attempt()
            except CatalogUnavailable as error:
                if unclear is None:
                    raise
                log.warning("still not known whether the commit to %s happened: %s", state.name, error)
            except CommitRaced as error:
                log.info("another commit to %s was first, trying again: %s", state.name, error)
            attempt += 1
            if attempt > options[RETRIES] or time.monotonic() > give_up_at:
                raise _given_up(state, attempt, unclear)
            time.sleep(_wait(attempt, options))
    except CommitOutcomeUnknown:
        raise
    except BaseException as error:
        if unclear is not None and not isinstance(error, TableExists):
            raise _given_up(state, attempt, unclear) from error
        for builder in builders.values():
            builder.discard_all()
        typed = explained(error, state.name)
        if typed is error:
            raise
        raise typed from error


def _attempt(store: Store, head: TableState, steps: Sequence[Step], builders: dict[int, SnapshotBuilder], run_id: str, attempt: int) -> Published:
    requirements: list[Requirement] = [{"type": "assert-table-uuid", "uuid": head.metadata.table_uuid}]
    updates: list[Update] = []
    after = head.metadata
    for step in steps:
        made = _metadata_updates(step, head.metadata, after, requirements) if isinstance(step, MetadataChange) else _snapshot_updates(head, step, after, builders[id(step)], attempt, requirements)
        updates.extend(made)
        after = apply(after, made)
    if not updates:
        return Published(head, ())
    return _asked(lambda: Published(store.publish(head, after, requirements, updates, run_id), _commits(after, steps, builders)))


def _create(store: Store, state: TableState, steps: Sequence[Step], builders: dict[int, SnapshotBuilder], run_id: str) -> Published:
    """The first version of a table, rows included. Nobody else can have changed it."""
    after = state.metadata
    for step in steps:
        made = step.updates(after) if isinstance(step, MetadataChange) else _snapshot_updates(state, step, after, builders[id(step)], 0, [])
        after = apply(after, made)
    return _asked(lambda: Published(store.create(state.identifier, after, run_id), _commits(after, steps, builders)))


def _asked(publish: Callable[[], Published]) -> Published:
    """Once the catalog was asked, only its own refusal says that nothing was published; anything else leaves that open."""
    try:
        return publish()
    except NotAsked as error:
        raise error.reason from None
    except (CommitRaced, PublishUnclear, LakewrightError):
        raise
    except BaseException as error:
        raise PublishInterrupted(f"{type(error).__name__}: {error}") from error


def _metadata_updates(step: MetadataChange, head: Metadata, working: Metadata, requirements: list[Requirement]) -> list[Update]:
    made = step.updates(working)
    if made:
        _require(requirements, step.requirements(head))
    return made


def _snapshot_updates(
    head: TableState, step: SnapshotChange, working: Metadata, builder: SnapshotBuilder, attempt: int, requirements: list[Requirement]
) -> list[Update]:
    require_branch(working, step.branch, head.name, may_be_new=step.makes_branch)
    validate(head.io, step, working, head.name)
    snapshot = builder.build(working, attempt)
    parent = head.metadata.refs.get(step.branch, {}).get("snapshot-id")
    _require(requirements, [{"type": "assert-ref-snapshot-id", "ref": step.branch, "snapshot-id": parent}])
    kept = {k: v for k, v in working.refs.get(step.branch, {}).items() if k not in ("snapshot-id", "type")}
    retention = KEEP_ALL if step.makes_branch else kept
    return [add_snapshot(snapshot), {**set_ref(step.branch, builder.snapshot_id), **retention}]


def _require(requirements: list[Requirement], more: list[Requirement]) -> None:
    requirements.extend(r for r in more if r not in requirements)


def _commits(metadata: Metadata, steps: Sequence[Step], builders: dict[int, SnapshotBuilder]) -> tuple[Commit, ...]:
    return tuple(commit_of(metadata.snapshot(builders[id(step)].snapshot_id)) for step in steps if isinstance(step, SnapshotChange))


def _already_there(head: TableState, steps: Sequence[Step], builders: dict[int, SnapshotBuilder]) -> Published | None:
    """A publish whose answer was lost, or an earlier run with the same token: recognised by looking, never by guessing."""
    if builders and all(head.metadata.has_snapshot(b.snapshot_id) for b in builders.values()):
        return Published(head, _commits(head.metadata, steps, builders))
    tokens = [(step.branch, step.token) for step in steps if isinstance(step, SnapshotChange) and step.token]
    earlier = [snapshot for branch, token in tokens if (snapshot := find_token(head.metadata, branch, token)) is not None]
    if not earlier:
        return None
    if len(earlier) < len(tokens):
        raise CommitConflict(f"Token {commit_of(earlier[0]).token!r} was committed to {head.name} meanwhile, other tokens of the same transaction were not; run it again.", table=head.name)
    for builder in builders.values():
        builder.discard_all()
    return Published(head, tuple(commit_of(snapshot) for snapshot in earlier))


def _given_up(state: TableState, attempts: int, unclear: Exception | None) -> Exception:
    if unclear is not None:
        return CommitOutcomeUnknown(
            f"It is not known whether the commit to {state.name} happened ({unclear}). Nothing was deleted. "
            "Run it again with the same token: if it did happen, that is a no-op.",
            table=state.name,
        )
    return CommitRetriesExhausted(
        f"Other writers were first in all {attempts} attempts to commit to {state.name}; nothing was changed. "
        "Raise commit.retry.num-retries, or let fewer writers commit at once.",
        table=state.name,
    )


def _wait(attempt: int, options: Options) -> float:
    """Exponential back-off with full jitter, so that writers that collided once do not collide in step again."""
    ceiling = min(options[RETRY_MAX_WAIT], options[RETRY_MIN_WAIT] * 2 ** min(attempt - 1, 20))
    return float(random.uniform(0.1, 1.0) * ceiling / 1000)


