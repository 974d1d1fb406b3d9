"""Which snapshot a read sees."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from lakewright.errors import InvalidOption, RefNotFound
from lakewright.format.metadata import Metadata, Snapshot
from lakewright.read.timetravel import read_schema, resolve, to_millis

T0 = 1_600_000_000_000


def column(name: str) -> dict[str, Any]:
    return {"id": 1, "name": name, "required": False, "type": "int"}


def metadata(**changes: Any) -> Metadata:
    """Main went 1, 2, back to 1 by a rollback, then 3. Tag v1 is 1; branch dev is 2."""
    log = [(1, 0), (2, 10), (1, 20), (3, 30)]
    raw = {
        "format-version": 2,
        "current-schema-id": 1,
        "schemas": [{"schema-id": 0, "type": "struct", "fields": [column("old")]}, {"schema-id": 1, "type": "struct", "fields": [column("new")]}],
        "snapshots": [{"snapshot-id": i, "timestamp-ms": T0 + t, "schema-id": 0 if i < 3 else 1, "manifest-list": ""} for i, t in ((1, 0), (2, 10), (3, 30))],
        "snapshot-log": [{"snapshot-id": i, "timestamp-ms": T0 + t} for i, t in log],
        "refs": {
            "main": {"snapshot-id": 3, "type": "branch"},
            "v1": {"snapshot-id": 1, "type": "tag"},
            "dev": {"snapshot-id": 2, "type": "branch"},
        },
    }
    return Metadata({**raw, **changes})


def snapshot_id(snapshot: Snapshot | None) -> int | None:
    return snapshot.snapshot_id if snapshot else None


@pytest.mark.parametrize(("after", "expected"), [(0, 1), (9, 1), (10, 2), (19, 2), (20, 1), (29, 1), (30, 3), (10**9, 3)])
def test_as_of_is_what_main_was_then(after: int, expected: int) -> None:
    assert snapshot_id(resolve(metadata(), as_of=T0 + after)) == expected


@pytest.mark.parametrize(("given", "expected"), [({}, 3), ({"snapshot_id": 2}, 2), ({"ref": "v1"}, 1), ({"ref": "dev"}, 2), ({"ref": "main"}, 3)])
def test_head_id_and_refs(given: dict[str, Any], expected: int) -> None:
    assert snapshot_id(resolve(metadata(), **given)) == expected


def test_a_commit_means_its_snapshot() -> None:
    assert snapshot_id(resolve(metadata(), as_of=SimpleNamespace(snapshot_id=2))) == 2
    assert snapshot_id(resolve(metadata(), snapshot_id=SimpleNamespace(snapshot_id=1))) == 1


def test_a_table_without_snapshots() -> None:
    empty = metadata(snapshots=[], refs={}, **{"snapshot-log": []})
    assert resolve(empty) is None
    with pytest.raises(RefNotFound, match="no snapshot yet"):
        resolve(empty, as_of=T0)


def test_before_the_first_snapshot_names_the_earliest() -> None:
    with pytest.raises(RefNotFound, match="earliest usable state is snapshot 1"):
        resolve(metadata(), as_of=T0 - 1)


@pytest.mark.parametrize("given", [{"snapshot_id": 99}, {"ref": "nope"}])
def test_unknown_snapshot_or_ref(given: dict[str, Any]) -> None:
    with pytest.raises(RefNotFound):
        resolve(metadata(), **given)


def test_only_one_at_a_time() -> None:
    with pytest.raises(InvalidOption, match="snapshot_id and ref"):
        resolve(metadata(), snapshot_id=1, ref="v1")


def test_times_in_every_form() -> None:
    noon = datetime(2020, 5, 1, 12, tzinfo=UTC)
    millis = 1_588_334_400_000
    assert to_millis(noon) == millis
    assert to_millis(noon.astimezone(timezone(timedelta(hours=5)))) == millis
    assert to_millis("2020-05-01T12:00:00Z") == millis
    assert to_millis(str(millis)) == to_millis(millis) == millis
    assert to_millis("2020-05-01 14:00", "Europe/Berlin") == millis
    assert to_millis(datetime(2020, 5, 1, 14), "Europe/Berlin") == millis
    assert to_millis("2020-05-01 14:00", "+02:00") == millis
    assert to_millis(datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=UTC)) == -1


@pytest.mark.parametrize("nonsense", ["yesterday", 1.5, True])
def test_what_is_no_time(nonsense: Any) -> None:
    with pytest.raises(InvalidOption, match="as_of"):
        resolve(metadata(), as_of=nonsense)


@pytest.mark.parametrize(
    ("given", "expected"), [({}, "new"), ({"ref": "dev"}, "new"), ({"ref": "v1"}, "old"), ({"snapshot_id": 2}, "old"), ({"as_of": T0}, "old")]
)
def test_the_schema_of_a_read(given: dict[str, Any], expected: str) -> None:
    table = metadata()
    assert read_schema(table, resolve(table, **given), **given).fields[0].name == expected
