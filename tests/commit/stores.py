"""Stores that behave badly in chosen ways, around a real one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lakewright.commit.store import CommitRaced, Identifier, PointerStore, Store, TableState
from lakewright.errors import CatalogUnavailable
from lakewright.format.metadata import Metadata


class Wrapped:
    """Passes everything on; the subclasses change one thing."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.publishes = 0

    def load(self, identifier: Identifier, known: TableState | None = None) -> TableState:
        return self.inner.load(identifier, known)

    def create(self, identifier: Identifier, metadata: Metadata, run_id: str) -> TableState:
        return self.inner.create(identifier, metadata, run_id)

    def publish(self, base: TableState, after: Metadata, requirements: Sequence[Any], updates: Sequence[Any], run_id: str) -> TableState:
        self.publishes += 1
        return self.inner.publish(base, after, requirements, updates, run_id)


class Rival(Wrapped):
    """Lets another writer commit just before each of the first `times` publishes."""

    def __init__(self, inner: Store, act: Callable[[], object], times: int = 1) -> None:
        super().__init__(inner)
        self.act, self.times = act, times

    def publish(self, *args: Any) -> TableState:
        if self.publishes < self.times:
            self.act()
        return super().publish(*args)


class Swaps:
    """Puts a function around the pointer swap of a store, for as long as it is entered."""

    def __init__(self, store: Store, around: Callable[[Callable[[], None], int], None]) -> None:
        assert isinstance(store, PointerStore)
        self.store, self.around, self.calls = store, around, 0

    def __enter__(self) -> Swaps:
        self.original = self.store.swap

        def swap(base: TableState, location: str, metadata: Metadata) -> None:
            self.calls += 1
            self.around(lambda: self.original(base, location, metadata), self.calls)

        self.store.swap = swap  # type: ignore[method-assign]
        return self

    def __exit__(self, *exc: object) -> None:
        self.store.swap = self.original  # type: ignore[method-assign]


class Unreachable(Wrapped):
    """Answers no load once the first publish was tried."""

    def load(self, identifier: Identifier, known: TableState | None = None) -> TableState:
        if self.publishes:
            raise CatalogUnavailable("the catalog is down")
        return super().load(identifier, known)


def always_raced(swap: Callable[[], None], call: int) -> None:
    raise CommitRaced("another was first")
