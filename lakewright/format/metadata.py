"""Table metadata as the JSON it is, with typed views on the parts that are looked at.

Written by hand because PyIceberg's model parses and serialises every snapshot of the history at each commit, which makes
the cost of a commit grow with the table's age, and cannot serialise format v3 at all.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

from pydantic_core import from_json, to_json
from pyiceberg.io import FileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder

from lakewright.errors import CorruptFile, RefNotFound

Json = dict[str, Any]
MAIN = "main"


@dataclass(frozen=True)
class Snapshot:
    """A view on one snapshot's JSON."""

    raw: Json

    @property
    def snapshot_id(self) -> int:
        return int(self.raw["snapshot-id"])

    @property
    def parent_id(self) -> int | None:
        return self.raw.get("parent-snapshot-id")

    @property
    def sequence_number(self) -> int:
        return int(self.raw.get("sequence-number", 0))

    @property
    def timestamp_ms(self) -> int:
        return int(self.raw["timestamp-ms"])

    @property
    def manifest_list(self) -> str:
        return str(self.raw["manifest-list"])

    @property
    def operation(self) -> str:
        return str(self.raw.get("summary", {}).get("operation", ""))

    @property
    def summary(self) -> dict[str, str]:
        return dict(self.raw.get("summary", {}))

    @property
    def schema_id(self) -> int | None:
        return self.raw.get("schema-id")

    @property
    def first_row_id(self) -> int | None:
        """Of format 3: the row ids of this snapshot start here."""
        return self.raw.get("first-row-id")

    @property
    def added_rows(self) -> int | None:
        """Of format 3: how many row ids this snapshot took."""
        return self.raw.get("added-rows")


class Metadata:
    """One version of a table. Never changed in place: `commit.updates.apply` makes the next one."""

    def __init__(self, raw: Json) -> None:
        self.raw = raw

    @property
    def format_version(self) -> int:
        return int(self.raw["format-version"])

    @property
    def table_uuid(self) -> str:
        return str(self.raw["table-uuid"])

    @property
    def location(self) -> str:
        return str(self.raw["location"]).rstrip("/")

    @property
    def properties(self) -> dict[str, str]:
        return dict(self.raw.get("properties", {}))

    @property
    def last_sequence_number(self) -> int:
        return int(self.raw.get("last-sequence-number", 0))

    @property
    def next_row_id(self) -> int:
        """Of format 3: the first row id that no snapshot of any branch has taken."""
        return int(self.raw.get("next-row-id") or 0)

    @property
    def last_column_id(self) -> int:
        return int(self.raw["last-column-id"])

    @property
    def last_partition_id(self) -> int:
        return int(self.raw.get("last-partition-id", 999))

    @property
    def current_schema_id(self) -> int:
        return int(self.raw["current-schema-id"])

    @property
    def default_spec_id(self) -> int:
        return int(self.raw["default-spec-id"])

    @cached_property
    def schemas(self) -> Mapping[int, Schema]:
        return {s["schema-id"]: Schema.model_validate(s) for s in self.raw["schemas"]}

    @property
    def schema(self) -> Schema:
        return self.schemas[self.current_schema_id]

    @cached_property
    def specs(self) -> Mapping[int, PartitionSpec]:
        return {s["spec-id"]: PartitionSpec.model_validate(s) for s in self.raw["partition-specs"]}

    @property
    def spec(self) -> PartitionSpec:
        return self.specs[self.default_spec_id]

    @cached_property
    def sort_orders(self) -> Mapping[int, SortOrder]:
        return {s["order-id"]: SortOrder.model_validate(s) for s in self.raw.get("sort-orders", [{"order-id": 0, "fields": []}])}

    @property
    def sort_order(self) -> SortOrder:
        return self.sort_orders[int(self.raw.get("default-sort-order-id", 0))]

    @cached_property
    def _snapshots(self) -> Mapping[int, Json]:
        return {s["snapshot-id"]: s for s in self.raw.get("snapshots") or []}

    def snapshots(self) -> Iterator[Snapshot]:
        return (Snapshot(raw) for raw in self.raw.get("snapshots") or [])

    def has_snapshot(self, snapshot_id: int) -> bool:
        return snapshot_id in self._snapshots

    def snapshot(self, snapshot_id: int) -> Snapshot:
        newest = (self.raw.get("snapshots") or [None])[-1]  # mostly the one asked for: then no index of the whole history is made
        if newest is not None and newest["snapshot-id"] == snapshot_id:
            return Snapshot(newest)
        if snapshot_id not in self._snapshots:
            raise RefNotFound(f"Snapshot {snapshot_id} is not in the table's history; t.history() lists those that are.")
        return Snapshot(self._snapshots[snapshot_id])

    @property
    def refs(self) -> dict[str, Json]:
        """Name to {"snapshot-id", "type": "branch" | "tag", …}."""
        refs = dict(self.raw.get("refs") or {})
        current = self.raw.get("current-snapshot-id")
        if MAIN not in refs and current not in (None, -1):
            refs[MAIN] = {"snapshot-id": current, "type": "branch"}
        return refs

    def head(self, branch: str = MAIN) -> Snapshot | None:
        """The newest snapshot of a branch or tag; None for a main that has none yet."""
        ref = self.refs.get(branch)
        if ref is None:
            if branch == MAIN:
                return None
            raise RefNotFound(f"There is no branch or tag {branch!r}; this table has {', '.join(sorted(self.refs)) or 'none'}.")
        return self.snapshot(ref["snapshot-id"])

    def head_if_any(self, branch: str) -> Snapshot | None:
        """The same, and None for a branch that a write is about to begin."""
        return self.head(branch) if branch in self.refs else None

    def ancestors(self, snapshot_id: int | None) -> Iterator[Snapshot]:
        """The snapshot and its parents, newest first, as far back as the history is kept."""
        while snapshot_id is not None and snapshot_id in self._snapshots:
            snapshot = Snapshot(self._snapshots[snapshot_id])
            yield snapshot
            snapshot_id = snapshot.parent_id


def read_metadata(io: FileIO, location: str) -> Metadata:
    try:
        with io.new_input(location).open() as stream:
            data = stream.read()
        if location.endswith(".gz.metadata.json") or data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        raw = from_json(data)
    except FileNotFoundError as error:
        raise CorruptFile(f"The catalog points to {location}, which is not there: {error}") from error
    except (OSError, ValueError, EOFError) as error:
        raise CorruptFile(f"Table metadata {location} cannot be read: {error}") from error
    return Metadata(raw)


def write_metadata(io: FileIO, location: str, metadata: Metadata) -> None:
    with io.new_output(location).create(overwrite=True) as stream:
        stream.write(encoded(metadata.raw))


def encoded(raw: Json) -> bytes:
    """The JSON of a version. What grows with the history only grows at its end, so what a table's last version had is not encoded again."""
    grown = [key for key in GROWING if raw.get(key)]
    parts = [to_json({key: value for key, value in raw.items() if key not in grown})[:-1]]
    for key in grown:
        parts.append(b',"%s":[%s]' % (key.encode(), _encoded_list(f"{raw['table-uuid']} {key}", raw[key])))
    return b"".join((*parts, b"}"))


def _encoded_list(name: str, items: list[Json]) -> bytes:
    with _lock:
        known, text = _encoded.pop(name, ([], b""))
    if items[: len(known)] != known:
        known, text = [], b""
    fresh = items[len(known) :]
    if fresh:
        text = b"".join((text, b"," if text else b"", to_json(fresh)[1:-1]))
    with _lock:
        _encoded[name] = (items, text)
        while len(_encoded) > MOST_ENCODED:
            _encoded.pop(next(iter(_encoded)))
    return text


GROWING = ("snapshots", "snapshot-log")
MOST_ENCODED = 16
_lock = Lock()
_encoded: dict[str, tuple[list[Json], bytes]] = {}  # by table and list, the last used at the end
