"""Changes to table metadata in the REST catalog's own words, and what each one does to the JSON.

The same list of updates is sent to a REST catalog as it is, and applied here for catalogs that only hold a pointer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder

from lakewright.format.metadata import MAIN, Json, Metadata

Update = dict[str, Any]
LAST_ADDED = -1
UNSORTED = 0


def now_ms() -> int:
    return int(time.time() * 1000)


def dump(model: Schema | PartitionSpec | SortOrder) -> Json:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def add_schema(schema: Schema, last_column_id: int) -> list[Update]:
    return [
        {"action": "add-schema", "schema": dump(schema), "last-column-id": last_column_id},
        {"action": "set-current-schema", "schema-id": LAST_ADDED},
    ]


def add_spec(spec: PartitionSpec) -> list[Update]:
    return [{"action": "add-spec", "spec": dump(spec)}, {"action": "set-default-spec", "spec-id": LAST_ADDED}]


def set_default_spec(spec_id: int) -> list[Update]:
    return [{"action": "set-default-spec", "spec-id": spec_id}]


def add_sort_order(order: SortOrder) -> list[Update]:
    return [{"action": "add-sort-order", "sort-order": dump(order)}, {"action": "set-default-sort-order", "sort-order-id": LAST_ADDED}]


def upgrade_format_version(version: int) -> list[Update]:
    return [{"action": "upgrade-format-version", "format-version": version}]


def set_properties(properties: dict[str, str]) -> list[Update]:
    return [{"action": "set-properties", "updates": properties}]


def remove_properties(names: Iterable[str]) -> list[Update]:
    return [{"action": "remove-properties", "removals": list(names)}]


def add_snapshot(snapshot: Json) -> Update:
    return {"action": "add-snapshot", "snapshot": snapshot}


def set_ref(name: str, snapshot_id: int, kind: str = "branch", **retention: int) -> Update:
    limits = {key.replace("_", "-"): value for key, value in retention.items()}
    return {"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": snapshot_id, **limits}


def remove_ref(name: str) -> Update:
    return {"action": "remove-snapshot-ref", "ref-name": name}


def remove_snapshots(snapshot_ids: Iterable[int]) -> Update:
    return {"action": "remove-snapshots", "snapshot-ids": list(snapshot_ids)}


def set_statistics(statistics: Json) -> Update:
    return {"action": "set-statistics", "snapshot-id": statistics["snapshot-id"], "statistics": statistics}


def apply(metadata: Metadata, updates: Iterable[Update]) -> Metadata:
    """The next version of a table. The given one is left as it was."""
    raw = dict(metadata.raw)
    for update in updates:
        _ACTIONS[update["action"]](raw, update)
    raw["last-updated-ms"] = max(now_ms(), int(raw.get("last-updated-ms", 0)))
    return Metadata(raw)


def _add_schema(raw: Json, update: Update) -> None:
    schema = dict(update["schema"])
    same = next((s["schema-id"] for s in raw["schemas"] if _without(s, "schema-id") == _without(schema, "schema-id")), None)
    if same is None:
        schema["schema-id"] = max((s["schema-id"] for s in raw["schemas"]), default=-1) + 1
        raw["schemas"] = [*raw["schemas"], schema]
        same = schema["schema-id"]
    raw["last-column-id"] = max(int(raw["last-column-id"]), int(update.get("last-column-id", 0)))
    raw["_last-schema"] = same


def _set_current_schema(raw: Json, update: Update) -> None:
    chosen = update["schema-id"]
    raw["current-schema-id"] = raw.pop("_last-schema") if chosen == LAST_ADDED else chosen
    raw.pop("_last-schema", None)


def _add_spec(raw: Json, update: Update) -> None:
    spec = update["spec"]
    raw["partition-specs"] = [*raw["partition-specs"], spec]
    raw["last-partition-id"] = max([int(raw.get("last-partition-id", 999)), *(f["field-id"] for f in spec["fields"])])
    raw["_last-spec"] = spec["spec-id"]


def _set_default_spec(raw: Json, update: Update) -> None:
    chosen = update["spec-id"]
    raw["default-spec-id"] = raw.pop("_last-spec") if chosen == LAST_ADDED else chosen
    raw.pop("_last-spec", None)


def _add_sort_order(raw: Json, update: Update) -> None:
    order = dict(update["sort-order"])
    same = next((o["order-id"] for o in raw["sort-orders"] if o["fields"] == order["fields"]), None)
    if same is None:
        order["order-id"] = max((o["order-id"] for o in raw["sort-orders"]), default=0) + 1 if order["fields"] else UNSORTED
        raw["sort-orders"] = [*raw["sort-orders"], order]
        same = order["order-id"]
    raw["_last-order"] = same


def _set_default_sort_order(raw: Json, update: Update) -> None:
    chosen = update["sort-order-id"]
    raw["default-sort-order-id"] = raw.pop("_last-order") if chosen == LAST_ADDED else chosen
    raw.pop("_last-order", None)


def _upgrade_format_version(raw: Json, update: Update) -> None:
    """Old snapshots stay as they are. Rows get their ids with the next snapshot of their branch."""
    version = int(update["format-version"])
    raw["format-version"] = version
    raw.setdefault("last-sequence-number", 0)
    raw.setdefault("last-partition-id", 999)
    for only_in_format_1 in ("schema", "partition-spec"):
        raw.pop(only_in_format_1, None)
    if version >= 3:
        raw.setdefault("next-row-id", 0)
        if raw.get("current-snapshot-id") == -1:
            raw.pop("current-snapshot-id")


def _set_properties(raw: Json, update: Update) -> None:
    raw["properties"] = {**raw.get("properties", {}), **update["updates"]}


def _remove_properties(raw: Json, update: Update) -> None:
    raw["properties"] = {k: v for k, v in raw.get("properties", {}).items() if k not in update["removals"]}


def _add_snapshot(raw: Json, update: Update) -> None:
    snapshot = update["snapshot"]
    raw["snapshots"] = [*(raw.get("snapshots") or []), snapshot]
    if int(raw["format-version"]) >= 3:
        raw["next-row-id"] = int(raw.get("next-row-id") or 0) + int(snapshot["added-rows"])
    raw["last-sequence-number"] = max(int(raw.get("last-sequence-number", 0)), int(snapshot["sequence-number"]))
    raw["last-updated-ms"] = max(int(raw.get("last-updated-ms", 0)), int(snapshot["timestamp-ms"]))


def _set_snapshot_ref(raw: Json, update: Update) -> None:
    ref = {key: value for key, value in update.items() if key not in ("action", "ref-name")}
    raw["refs"] = {**(raw.get("refs") or {}), update["ref-name"]: ref}
    if update["ref-name"] == MAIN:
        raw["current-snapshot-id"] = update["snapshot-id"]
        made = next((s["timestamp-ms"] for s in reversed(raw.get("snapshots") or []) if s["snapshot-id"] == update["snapshot-id"]), now_ms())
        log = raw.get("snapshot-log") or []
        newest = log[-1]["timestamp-ms"] if log else 0
        current_since = made if made >= newest else max(now_ms(), newest)
        raw["snapshot-log"] = [*log, {"snapshot-id": update["snapshot-id"], "timestamp-ms": current_since}]


def _remove_snapshot_ref(raw: Json, update: Update) -> None:
    raw["refs"] = {name: ref for name, ref in (raw.get("refs") or {}).items() if name != update["ref-name"]}
    if update["ref-name"] == MAIN:
        raw.pop("current-snapshot-id", None)


def _remove_snapshots(raw: Json, update: Update) -> None:
    """Time travel goes by the log, so it may have no gap: what was current before a snapshot that is gone is dropped with it."""
    gone = set(update["snapshot-ids"])
    raw["snapshots"] = [s for s in raw.get("snapshots") or [] if s["snapshot-id"] not in gone]
    log = raw.get("snapshot-log") or []
    raw["snapshot-log"] = log[max((at + 1 for at, entry in enumerate(log) if entry["snapshot-id"] in gone), default=0) :]
    raw["refs"] = {name: ref for name, ref in (raw.get("refs") or {}).items() if ref["snapshot-id"] not in gone}
    for kind in ("statistics", "partition-statistics"):
        if raw.get(kind):
            raw[kind] = [s for s in raw[kind] if s["snapshot-id"] not in gone]


def _set_statistics(raw: Json, update: Update) -> None:
    statistics = update["statistics"]
    others = [s for s in raw.get("statistics") or [] if s["snapshot-id"] != statistics["snapshot-id"]]
    raw["statistics"] = [*others, statistics]


def _without(mapping: Json, key: str) -> Json:
    return {k: v for k, v in mapping.items() if k != key}


_ACTIONS: dict[str, Callable[[Json, Update], None]] = {
    "add-schema": _add_schema,
    "set-current-schema": _set_current_schema,
    "add-spec": _add_spec,
    "set-default-spec": _set_default_spec,
    "add-sort-order": _add_sort_order,
    "set-default-sort-order": _set_default_sort_order,
    "upgrade-format-version": _upgrade_format_version,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "add-snapshot": _add_snapshot,
    "set-snapshot-ref": _set_snapshot_ref,
    "remove-snapshot-ref": _remove_snapshot_ref,
    "remove-snapshots": _remove_snapshots,
    "set-statistics": _set_statistics,
}
