"""Publishing a table: shards without changes are carried over; all are built, and it is said, where that cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakewright.errors import InvalidOption, UnknownOption
from lakewright.shards.build import write
from lakewright.shards.incremental import build_from_table
from lakewright.shards.routing import shard_of
from tests.shards.build_kit import Place, people

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakewright.lake import Lake
    from lakewright.table import Table

SHARDS = 16


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "users"))


BOTH_KINDS = pytest.mark.parametrize("users", ["keyed", "plain"], indirect=True)  # where it matters how rows change


@pytest.fixture
def users(request: pytest.FixtureRequest, lake: Lake, spark: SparkSession) -> Table:
    """400 people."""
    rows = people(spark, 400)
    if getattr(request, "param", "keyed") == "keyed":
        table = lake.create_table("crm.users", rows.schema, key="id")
        table.insert(rows)
    else:
        table = lake.create_table("crm.users", rows.schema)
        table.append(rows)
    return table


def publish(table: Table, place: Place, **options: Any) -> Any:
    how: dict[str, Any] = {"key": "id", "value": "payload"}
    if "max_keys_per_shard" not in options and "cel" not in options:
        how["num_shards"] = SHARDS
    return table.publish_shards(place.url, **{**how, **options})


def in_table(table: Table) -> dict[int, bytes]:
    return {row.id: bytes(row.payload) for row in table.read().select("id", "payload").collect()}


def keys_of(shards: set[int], count: int = 400) -> list[int]:
    return [key for key in range(count) if shard_of(key, SHARDS) in shards]


def paths(place: Place) -> dict[int, str | None]:
    return {entry.shard_id: entry.path for entry in place.manifest().shards}


@BOTH_KINDS
def test_changes_in_2_of_16_shards_rebuild_2(users: Table, place: Place) -> None:
    first = publish(users, place)
    assert (first.shards_rebuilt, first.shards_carried) == (16, 0) and "nothing was published" in str(first.full_because)
    before = paths(place)
    changed, gone = keys_of({3})[0], keys_of({11})[0]
    users.update({"payload": "cast('new' as binary)"}, where=f"id = {changed}")
    users.delete(f"id = {gone}")
    second = publish(users, place)
    assert (second.shards_rebuilt, second.shards_carried, second.full_because) == (2, 14, None)
    assert {shard for shard, path in paths(place).items() if path != before[shard]} == {3, 11}
    assert place.content() == in_table(users) and place.content()[changed] == b"new" and gone not in place.content()
    assert (second.version, second.rows) == (first.version + 1, 399)
    assert place.manifest().source_snapshot_id == users.refresh().iceberg.current_snapshot().snapshot_id  # type: ignore[union-attr]


@BOTH_KINDS
def test_new_rows_rebuild_their_shards(users: Table, place: Place, spark: SparkSession) -> None:
    publish(users, place)
    users.append(people(spark, 403).where("id >= 400"))
    result = publish(users, place)
    assert result.shards_rebuilt == len({shard_of(key, SHARDS) for key in range(400, 403)})
    assert place.content() == in_table(users)


def test_a_shard_that_loses_its_last_row_becomes_sparse(users: Table, place: Place) -> None:
    publish(users, place)
    users.delete(f"id IN ({', '.join(map(str, keys_of({5})))})")
    result = publish(users, place)
    assert (result.shards_rebuilt, paths(place)[5]) == (1, None) and place.content() == in_table(users)


def test_carried_shards_stay_where_they_are(users: Table, place: Place) -> None:
    """Through several publishes, each with its own run; what the table has is what is served."""
    for number, shard in enumerate([1, 2, 1, 9]):
        publish(users, place)
        users.update({"payload": f"cast('v{number}' as binary)"}, where=f"id = {keys_of({shard})[number]}")
        assert publish(users, place).shards_rebuilt == 1
        assert place.content() == in_table(users)


def test_nothing_new_is_published_once(users: Table, place: Place) -> None:
    first = publish(users, place)
    second = publish(users, place)
    assert (second.manifest_ref, second.version) == (first.manifest_ref, first.version)
    assert (second.shards_rebuilt, second.shards_carried, second.run_record_ref) == (0, 16, first.run_record_ref)


@BOTH_KINDS
def test_a_compaction_rebuilds_nothing(users: Table, place: Place, spark: SparkSession) -> None:
    users.append(people(spark, 401).where("id >= 400"))
    publish(users, place)
    assert users.compact().snapshot_id is not None
    result = publish(users, place)
    assert (result.shards_rebuilt, result.shards_carried) == (0, 16) and place.content() == in_table(users)


@BOTH_KINDS
def test_a_rollback_of_the_table_is_a_change(users: Table, place: Place) -> None:
    snapshot = users.refresh().iceberg.current_snapshot()
    assert snapshot is not None
    users.delete(f"id = {keys_of({7})[0]}")
    publish(users, place)
    users.rollback(snapshot.snapshot_id)
    result = publish(users, place)
    assert result.shards_rebuilt == 1 and place.content() == in_table(users)


@BOTH_KINDS
def test_rows_that_move_to_another_shard_leave_the_one_they_were_in(users: Table, place: Place) -> None:
    how: dict[str, Any] = {"cel": "region", "cel_columns": ["region"], "routing_values": ["eu", "us", "asia", "africa"]}
    publish(users, place, **how)
    users.update({"region": "'africa'"}, where="id = 3")
    result = publish(users, place, **how)
    assert result.shards_rebuilt == 2 and place.content() == in_table(users)
    assert place.by_shard()[3] == {3: b"payload-3"}


# Where all shards are built


def test_history_that_is_gone(users: Table, place: Place) -> None:
    publish(users, place)
    users.delete("id = 1")
    users.delete("id = 2")
    users.expire_snapshots(older_than="2999-01-01", retain_last=1)
    result = publish(users, place)
    assert (result.shards_rebuilt, result.shards_carried) == (16, 0) and "no longer kept" in str(result.full_because)
    assert place.content() == in_table(users)


@pytest.mark.parametrize("change", [{"num_shards": 8}, {"value": ["name"]}, {"backend": "slatedb"}, {"value": ["name"], "codec": "msgpack"}])
def test_a_configuration_that_changed(users: Table, place: Place, change: dict[str, Any]) -> None:
    publish(users, place)
    users.delete("id = 1")
    result = publish(users, place, **change)
    assert "configuration changed" in str(result.full_because) and result.shards_carried == 0 and result.rows == 399
    assert publish(users, place, **change).shards_rebuilt == 0


def test_what_was_published_from_a_data_frame(users: Table, place: Place, spark: SparkSession) -> None:
    write(people(spark, 30), place.config(num_shards=SHARDS), progress="off")
    result = publish(users, place)
    assert "made of a DataFrame" in str(result.full_because) and place.content() == in_table(users)


def test_full_when_asked(users: Table, place: Place) -> None:
    publish(users, place)
    assert publish(users, place, full=True).shards_rebuilt == 16


def test_more_shards_as_rows_become_more(users: Table, place: Place, spark: SparkSession) -> None:
    assert publish(users, place, max_keys_per_shard=100).shards_rebuilt == 4
    users.update({"payload": "cast('new' as binary)"}, where="id = 1")
    assert publish(users, place, max_keys_per_shard=100).shards_rebuilt == 1
    users.append(people(spark, 450).where("id >= 400"))
    result = publish(users, place, max_keys_per_shard=100)
    assert (result.num_shards, result.shards_rebuilt) == (5, 5) and "no longer make 4 shards" in str(result.full_because)
    assert place.content() == in_table(users)


def test_a_token_that_is_new(users: Table, place: Place) -> None:
    how: dict[str, Any] = {"cel": "region", "cel_columns": ["region"], "infer_routing_values": True}
    publish(users, place, **how)
    users.update({"name": "'x'"}, where="id = 3")
    assert publish(users, place, **how).shards_rebuilt == 1
    users.update({"region": "'africa'"}, where="id = 3")
    result = publish(users, place, **how)
    assert "need other shards" in str(result.full_because) and result.num_shards == 4 and place.content() == in_table(users)


# Around it


def test_an_empty_table_is_a_snapshot_too(lake: Lake, spark: SparkSession, place: Place) -> None:
    table = lake.create_table("crm.nobody", people(spark).schema, key="id")
    assert publish(table, place).rows == 0
    table.insert(people(spark, 20))
    publish(table, place)
    assert place.content() == in_table(table)


def test_the_tables_own_key_is_the_key(lake: Lake, spark: SparkSession, place: Place) -> None:
    table = lake.create_table("crm.users", people(spark).schema, key="id")
    table.insert(people(spark, 20))
    table.publish_shards(place.url, value=["name"], num_shards=2)
    assert json.loads(place.content()[7]) == {"name": "name-7"}


def test_a_table_without_a_key_needs_one_named(lake: Lake, spark: SparkSession, place: Place) -> None:
    table = lake.create_table("crm.users", people(spark).schema)
    with pytest.raises(InvalidOption, match="give key="):
        table.publish_shards(place.url, value="payload", num_shards=2)
    with pytest.raises(UnknownOption, match="Did you mean num_shards"):
        table.publish_shards(place.url, key="id", value="payload", num_shard=2)
    assert not Path(place.url).exists()


def test_the_command_builds_from_a_table(users: Table, lake: Lake, place: Place) -> None:
    result = build_from_table(lake.location, "crm.users", place.url, key="id", value="payload", num_shards=4, cel=None)
    assert result.rows == 400 and place.content() == in_table(users)
