"""The JSON of a version, whose long lists are encoded piece by piece."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakewright.format import metadata
from lakewright.format.metadata import encoded


def version(table: str, *snapshots: int, **more: Any) -> dict[str, Any]:
    made = [{"snapshot-id": number, "summary": {"operation": "append", "né": '"'}} for number in snapshots]
    return {"table-uuid": table, "snapshots": made, "snapshot-log": [{"snapshot-id": number} for number in snapshots], "format-version": 2, **more}


@pytest.mark.parametrize("raw", [version("a"), {"table-uuid": "b"}, version("c", 1), version("d", 1, 2, refs={})])
def test_it_is_the_same_json(raw: dict[str, Any]) -> None:
    assert json.loads(encoded(raw)) == raw


def test_versions_in_a_row() -> None:
    for snapshots in ((1,), (1, 2), (1, 2, 3, 4), (3, 4), (3, 4, 5), (), (6,), (7,), (7, 8)):
        raw = version("growing", *snapshots)
        assert json.loads(encoded(raw)) == raw


def test_a_snapshot_that_differs_is_not_taken_for_the_one_before() -> None:
    encoded(version("differs", 1, 2))
    raw = version("differs", 1, 2, 3)
    raw["snapshots"][0] = {**raw["snapshots"][0], "summary": {"operation": "delete"}}
    assert json.loads(encoded(raw)) == raw


def test_what_was_encoded_is_not_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(metadata, "to_json", lambda value, original=metadata.to_json: given.append(value) or original(value))
    encoded(version("once", 1, 2))
    given.clear()
    encoded(version("once", 1, 2, 3))
    assert [[snapshot["snapshot-id"] for snapshot in value] for value in given if isinstance(value, list)] == [[3], [3]]


def test_many_tables_are_not_all_remembered() -> None:
    for number in range(metadata.MOST_ENCODED * 2):
        raw = version(f"table {number}", number, number + 1)
        assert json.loads(encoded(raw)) == raw
    assert len(metadata._encoded) <= metadata.MOST_ENCODED
