"""What a task that materialises a delta tells the driver, and what the driver makes of all of them."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakewright.errors import MultipleMatches
from lakewright.format.data_file import DataFile
from lakewright.write.messages import TaskMessage

_PLACE = re.compile(r"Row (\d+) of data file (.+) is matched by more than one source row")


@dataclass(frozen=True)
class Materialised:
    """The files a delta became, and the files it does away with. matched: those it has rows of, changed or not; began: when the first task did."""

    added: tuple[DataFile, ...]
    deletes: tuple[DataFile, ...]
    touched: frozenset[str]
    replaced: frozenset[str]
    superseded_vectors: frozenset[str]
    superseded_deletes: frozenset[str]
    counts: Mapping[int, int]
    copied: int
    matched: frozenset[str] = frozenset()
    began: float = 0.0


@dataclass(frozen=True, slots=True)
class DeltaMessage(TaskMessage):
    """`files` are the data files it made; `rewritten` the places in DeltaPlan.files whose rows are now in new files or gone."""

    deletes: tuple[DataFile, ...] = ()
    rewritten: frozenset[int] = frozenset()
    touched: frozenset[str] = frozenset()
    replaced: frozenset[str] = frozenset()
    superseded_vectors: frozenset[str] = frozenset()
    superseded_deletes: frozenset[str] = frozenset()
    counts: Mapping[int, int] = field(default_factory=dict)
    copied: int = 0
    matched: frozenset[str] = frozenset()
    began: float = 0.0

    def to_bytes(self) -> bytes:
        return pickle.dumps(self, protocol=5)

    @staticmethod
    def from_bytes(data: bytes) -> DeltaMessage:
        restored = pickle.loads(data)
        assert isinstance(restored, DeltaMessage)
        return restored


def joined(messages: Iterable[DeltaMessage]) -> Materialised:
    ordered = list(messages)
    counts: Counter[int] = Counter()
    for message in ordered:
        counts.update(message.counts)
    return Materialised(
        added=tuple(file for message in ordered for file in message.files),
        deletes=tuple(file for message in ordered for file in message.deletes),
        touched=frozenset().union(*(message.touched for message in ordered)),
        replaced=frozenset().union(*(message.replaced for message in ordered)),
        superseded_vectors=frozenset().union(*(message.superseded_vectors for message in ordered)),
        superseded_deletes=frozenset().union(*(message.superseded_deletes for message in ordered)),
        counts=dict(counts),
        copied=sum(message.copied for message in ordered),
        matched=frozenset().union(*(message.matched for message in ordered)),
        began=min((message.began for message in ordered), default=0.0),
    )


def matched_twice(path: str, position: int, table: str) -> MultipleMatches:
    """What a task raises; only its text reaches the driver."""
    return MultipleMatches(
        f"Row {position} of data file {path} is matched by more than one source row; keep one source row for each. Table {table} is as before.", table=table
    )


def place_of_match(message: str) -> tuple[str, int] | None:
    """The data file and position in what `matched_twice` says."""
    told = _PLACE.search(message)
    return (told.group(2), int(told.group(1))) if told else None
