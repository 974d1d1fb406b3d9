"""A REST catalog: the server checks the requirements, applies the updates and swaps the pointer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import requests
from pyiceberg.catalog.rest import Endpoints, RestCatalog
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder

from lakewright.commit.store import CommitRaced, Identifier, PublishUnclear, Requirement, TableState, awaiting_answer, catalog_io, not_found
from lakewright.commit.updates import Update
from lakewright.config import redact_uri
from lakewright.errors import CatalogUnavailable, LakewrightError, TableExists, TableNotFound, UnsupportedOperation
from lakewright.format.metadata import Json, Metadata

DEFINITE_REFUSALS = range(400, 500)
OVERTAKEN = ("older than last sequence number", "first-row-id is behind table next-row-id")
CHOOSING = {"set-current-schema": "schema-id", "set-default-sort-order": "sort-order-id"}


class RestStore:
    def __init__(self, catalog: RestCatalog) -> None:
        self.catalog = catalog

    def load(self, identifier: Identifier, known: TableState | None = None) -> TableState:
        try:
            response = self.catalog._session.get(self._url(identifier))
        except requests.RequestException as error:
            raise CatalogUnavailable(f"The REST catalog at {redact_uri(self.catalog.uri)} did not answer: {error}") from error
        if response.status_code == 404:
            raise not_found(self.catalog, identifier)
        if not response.ok:
            raise CatalogUnavailable(f"The REST catalog answered {response.status_code} for {'.'.join(identifier)}: {_reason(response)}")
        try:
            answer = response.json()
        except ValueError as error:
            raise CatalogUnavailable(f"The REST catalog at {redact_uri(self.catalog.uri)} did not answer in JSON for {'.'.join(identifier)}: {error}") from error
        return self._state(identifier, answer)

    def create(self, identifier: Identifier, metadata: Metadata, run_id: str) -> TableState:
        raw = metadata.raw
        updates: list[Update] = [
            {"action": "assign-uuid", "uuid": raw["table-uuid"]},
            {"action": "upgrade-format-version", "format-version": raw["format-version"]},
            {"action": "set-location", "location": raw["location"]},
            {"action": "add-schema", "schema": raw["schemas"][0], "last-column-id": raw["last-column-id"]},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": raw["partition-specs"][0]},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": raw["sort-orders"][0]},
            {"action": "set-default-sort-order", "sort-order-id": -1},
            {"action": "set-properties", "updates": raw.get("properties", {})},
        ]
        for snapshot in raw.get("snapshots") or []:
            updates.append({"action": "add-snapshot", "snapshot": snapshot})
        for name, ref in (raw.get("refs") or {}).items():
            updates.append({"action": "set-snapshot-ref", "ref-name": name, **ref})
        try:
            return self._post(identifier, [{"type": "assert-create"}], updates)
        except (CommitRaced, PublishUnclear) as error:
            found = self._found(identifier)
            if found is not None and found.metadata.table_uuid == metadata.table_uuid:
                return found
            if isinstance(error, PublishUnclear):
                raise
            raise TableExists(f"Table {'.'.join(identifier)} is already there.", table=".".join(identifier)) from error

    def publish(self, base: TableState, after: Metadata, requirements: Sequence[Requirement], updates: Sequence[Update], run_id: str) -> TableState:
        return replace(self._post(base.identifier, requirements, named_where_known(base.metadata, updates)), io=base.io)

    def _found(self, identifier: Identifier) -> TableState | None:
        try:
            return self.load(identifier)
        except (TableNotFound, CatalogUnavailable):
            return None

    def _post(self, identifier: Identifier, requirements: Sequence[Requirement], updates: Sequence[Update]) -> TableState:
        name = {"namespace": list(identifier[:-1]), "name": identifier[-1]}
        body = json.dumps({"identifier": name, "requirements": list(requirements), "updates": list(updates)})
        with awaiting_answer():
            response = self._send(identifier, body)
        if response.status_code == 409 or _is_overtaken(response):
            raise CommitRaced(_reason(response))
        if response.status_code in DEFINITE_REFUSALS:
            if _asks_for_format_3(updates) and "format version" in _reason(response).lower():
                raise UnsupportedOperation(
                    f"The REST catalog at {redact_uri(self.catalog.uri)} does not hold tables of format version 3 ({_reason(response)}); "
                    f"make or keep {'.'.join(identifier)} in version 2, or use a catalog that does.",
                    table=".".join(identifier),
                )
            raise LakewrightError(f"The REST catalog refused the commit to {'.'.join(identifier)}: {_reason(response)}", table=".".join(identifier))
        if not response.ok:
            raise PublishUnclear(_reason(response))
        try:
            return self._state(identifier, response.json())
        except Exception as error:
            raise PublishUnclear(f"the catalog's answer cannot be read: {error}") from error

    def _send(self, identifier: Identifier, body: str) -> requests.Response:
        try:
            return self.catalog._session.post(self._url(identifier), data=body.encode())
        except requests.ConnectionError as error:
            if "refused" in str(error).lower():
                raise CatalogUnavailable(f"The REST catalog at {redact_uri(self.catalog.uri)} refused the connection; nothing was changed.") from error
            raise PublishUnclear(str(error)) from error
        except requests.RequestException as error:
            raise PublishUnclear(str(error)) from error

    def _state(self, identifier: Identifier, answer: Json) -> TableState:
        metadata = Metadata(answer["metadata"])
        location = answer.get("metadata-location") or ""
        return TableState(identifier, location, metadata, self._io(metadata, answer, location))

    def _io(self, metadata: Metadata, answer: Json, location: str) -> FileIO:
        credentials: list[dict[str, Any]] = answer.get("storage-credentials") or []
        fitting = [c for c in credentials if metadata.location.startswith(c.get("prefix", ""))]
        vended = max(fitting, key=lambda c: len(c.get("prefix", "")))["config"] if fitting else {}
        return catalog_io(self.catalog, {**metadata.properties, **(answer.get("config") or {}), **vended}, location or metadata.location)

    def _url(self, identifier: Identifier) -> str:
        return self.catalog.url(Endpoints.update_table, prefixed=True, **self.catalog._split_identifier_for_path(identifier))


def named_where_known(base: Metadata, updates: Sequence[Update]) -> list[Update]:
    """Updates as servers take them: "the last added" is only what this commit adds, so a schema or order the table has already goes by its id."""
    named: list[Update] = []
    known: int | None = None
    for update in updates:
        action = update["action"]
        if action in ("add-schema", "add-sort-order"):
            known = _known_id(base, update)
            named += [update] if known is None else []
        elif known is not None and action in CHOOSING:
            named.append({**update, CHOOSING[action]: known})
            known = None
        else:
            named.append(update)
    return named


def _known_id(base: Metadata, update: Update) -> int | None:
    if update["action"] == "add-schema":
        schema = Schema.model_validate(update["schema"])
        return next((int(s["schema-id"]) for s in base.raw["schemas"] if Schema.model_validate(s) == schema), None)
    fields = SortOrder.model_validate(update["sort-order"]).fields
    return next((int(o["order-id"]) for o in base.raw["sort-orders"] if SortOrder.model_validate(o).fields == fields), None)


def _asks_for_format_3(updates: Sequence[Update]) -> bool:
    return any(update["action"] == "upgrade-format-version" and update["format-version"] >= 3 for update in updates)


def _is_overtaken(response: requests.Response) -> bool:
    """A commit to another branch took the sequence number or row ids; servers without apache/iceberg#15126 call that a bad request."""
    return response.status_code == 400 and any(sign in _reason(response) for sign in OVERTAKEN)


def _reason(response: requests.Response) -> str:
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"{response.status_code} {response.reason}"
