"""Setting a branch back: to an earlier commit of its own line, or to a savepoint."""

from __future__ import annotations

import itertools

from lakewright.commit.change import MetadataChange
from lakewright.commit.refs import unchanged
from lakewright.commit.result import Commit, command_of, commit_of
from lakewright.commit.store import Store, TableState
from lakewright.commit.updates import Update, set_ref
from lakewright.commit.validate import require_branch
from lakewright.errors import NotAnAncestor, RefNotFound, SavepointNotFound
from lakewright.format.metadata import Metadata, Snapshot
from lakewright.maintain.recorded import publish_recorded
from lakewright.maintain.savepoints import savepoints

NAMED = 5


def rollback(store: Store, state: TableState, to: int | Commit, branch: str) -> tuple[TableState, Commit]:
    """Set a branch back to one of its earlier commits. Those after it leave its line, and are there until they expire."""
    wanted = to.snapshot_id if isinstance(to, Commit) else to

    def target(metadata: Metadata) -> Snapshot:
        head = _head(metadata, branch, state.name)
        found = next((s for s in metadata.ancestors(head.snapshot_id) if s.snapshot_id == wanted), None)
        if found is None:
            raise NotAnAncestor(
                f"Snapshot {wanted} is not in the line of {branch} of {state.name}, so the branch cannot be rolled back to it. "
                f"It can be to {_named(metadata, head)}; t.restore(name) goes back to a savepoint.",
                table=state.name,
            )
        return found

    change = MetadataChange("rollback", lambda metadata: _moved(metadata, branch, target(metadata)), lambda metadata: [unchanged(metadata, branch)])
    return _set_back(store, state, branch, change)


def restore(store: Store, state: TableState, name: str, branch: str) -> tuple[TableState, Commit]:
    """Set a branch to a savepoint, also one that is not in its line any more."""

    def target(metadata: Metadata) -> Snapshot:
        _head(metadata, branch, state.name)
        known = savepoints(metadata)
        if name not in known:
            raise SavepointNotFound(
                f"{state.name} has no savepoint {name!r}; it has {', '.join(sorted(known)) or 'none'}. t.savepoint(name) makes one; t.rollback(snapshot) goes back without.",
                table=state.name,
            )
        return metadata.snapshot(known[name].snapshot_id)

    change = MetadataChange(
        "restore", lambda metadata: _moved(metadata, branch, target(metadata)), lambda metadata: [unchanged(metadata, branch), unchanged(metadata, name)]
    )
    return _set_back(store, state, branch, change)


def _set_back(store: Store, state: TableState, branch: str, change: MetadataChange) -> tuple[TableState, Commit]:
    def head(metadata: Metadata) -> Snapshot:
        return _head(metadata, branch, state.name)

    after = publish_recorded(store, state, change.what, change, branch, at=lambda metadata: head(metadata).snapshot_id)
    return after, commit_of(head(after.metadata))


def _moved(metadata: Metadata, branch: str, to: Snapshot) -> list[Update]:
    ref = metadata.refs[branch]
    if ref["snapshot-id"] == to.snapshot_id:
        return []
    return [{**set_ref(branch, to.snapshot_id), **{key: value for key, value in ref.items() if key not in ("snapshot-id", "type")}}]


def _head(metadata: Metadata, branch: str, table: str) -> Snapshot:
    require_branch(metadata, branch, table)
    head = metadata.head(branch)
    if head is None:
        raise RefNotFound(f"{table} has no snapshot yet, so there is nothing to go back to.", table=table)
    return head


def _named(metadata: Metadata, head: Snapshot) -> str:
    line = list(itertools.islice(metadata.ancestors(head.snapshot_id), NAMED + 1))
    said = ", ".join(f"{s.snapshot_id} ({command_of(s)})" for s in line[:NAMED])
    return said + (" and earlier ones (t.history())" if len(line) > NAMED else "")
