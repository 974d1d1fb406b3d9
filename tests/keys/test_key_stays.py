"""A key has one live row also where the table around it changes: its names, its types, its history, how its deletes are kept."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright import transaction
from lakewright.errors import UnsupportedOperation
from lakewright.lake import Lake
from tests.keys.kit import before_the_next, keyed, records, rows

PAIRS = "a int, b int, v int"


def test_deletes_of_a_whole_partition_do_not_make_a_table_empty(lake: Lake) -> None:
    properties = {"write.delete.mode": "merge-on-read", "write.delete.granularity": "partition"}
    table = keyed(lake, format_version=2, properties=properties)
    table.bulk_insert(records(lake, *[(i, "eu", 0.0, 1) for i in range(4)]))
    table.bulk_insert(records(lake, *[(i, "eu", 0.0, 1) for i in range(4, 8)]), trust=True)
    table.delete("id % 2 = 0")
    table.upsert(records(lake, (1, "eu", 9.0, 2)))
    assert rows(table, where="id = 1") == [(1, "eu", 9.0, 2)]


@pytest.mark.parametrize("how", [{"key": "id"}, {"key": "id % 100"}, {"key": "at", "ordering": "id"}])
def test_names_of_the_key_do_not_move_to_other_columns(lake: Lake, how: dict[str, Any]) -> None:
    schema = "id bigint, other bigint, at bigint"
    table = keyed(lake, schema, **{"ordering": None, **how})
    table.upsert(records(lake, (1, 10, 1), (2, 10, 2), schema=schema))
    with pytest.raises(UnsupportedOperation, match="id"):
        table.evolve_schema(rename={"id": "legacy", "other": "id"})
    assert table.schema.find_field("id").field_id == 1


@pytest.mark.parametrize("at_hand", [True, False])
def test_a_key_is_found_though_its_type_grew_meanwhile(lake: Lake, monkeypatch: pytest.MonkeyPatch, at_hand: bool) -> None:
    table = lake.create_table(f"keys.promoted_{at_hand}", PAIRS, key=["a", "b"], properties={} if at_hand else {"lakewright.driver-batch-size-bytes": "0"})
    table.upsert(records(lake, (1, 1, 0), schema=PAIRS))
    _grow_before_the_next_commit(lake, table.name, monkeypatch)
    table.upsert(records(lake, (1, 1, 2), schema=PAIRS))
    assert rows(table) == [(1, 1, 2)]


def test_a_merge_finds_rows_though_their_type_grew_meanwhile(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create_table("keys.merged", PAIRS, format_version=3)
    table.append(records(lake, (1, 1, 0), schema=PAIRS))
    _grow_before_the_next_commit(lake, table.name, monkeypatch)
    merge = table.merge(records(lake, (1, 1, 2), schema=PAIRS), on="t.a = s.a AND t.b = s.b", target_alias="t", source_alias="s")
    merge.when_matched_update(set={"v": "s.v"}).when_not_matched_insert_all().execute()
    assert rows(table) == [(1, 1, 2)]


def _grow_before_the_next_commit(lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = lake.table(name)

    def grow() -> None:
        other.evolve_schema(promote={"a": "bigint"})
        other.update({"v": "v + 1"})

    before_the_next(monkeypatch, transaction, "publish", grow)


@pytest.mark.feature("H12")
def test_rows_of_another_key_do_not_come_back(lake: Lake) -> None:
    schema = "id bigint, region string not null"
    table = lake.create_table("keys.changed", schema, key=["id"])
    before = table.insert(records(lake, (1, "eu"), (2, "eu"), schema=schema))
    table.savepoint("s")
    table.delete()
    with pytest.raises(UnsupportedOperation, match="savepoint|snapshot"):
        table.set_properties({"lakewright.key": "region"})
    table.rollback(before)
    assert len(rows(table)) == 2
