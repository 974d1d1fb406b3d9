"""First versions, replaced tables, properties and metadata files."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from lakewright.commit.change import SnapshotChange
from lakewright.commit.create import first_version, replace_table
from lakewright.commit.metadata_changes import evolve_partitions, evolve_schema, set_properties, set_sort_order
from lakewright.commit.publish import publish
from lakewright.commit.runs import new_run_id
from lakewright.commit.store import UNPUBLISHED, PointerStore, PublishUnclear, TableState
from lakewright.errors import CommitOutcomeUnknown, TableExists, TableNotFound
from lakewright.format.storage import local_path
from lakewright.plan.partitioning import build_sort_order, build_spec
from tests.commit.kit import SCHEMA, Kit

DAY = date(2024, 5, 1)


def unpublished(kit: Kit, name: str = "new") -> TableState:
    metadata = first_version(f"{kit.config.location}/db/{name}", SCHEMA, build_spec(SCHEMA, ["region"]), build_sort_order(SCHEMA, ["id desc"]), {"a": "b"}, 2)
    return TableState(("db", name), UNPUBLISHED, metadata, kit.state.io)


def test_a_new_table_is_what_pyiceberg_expects(kit: Kit) -> None:
    state = publish(kit.store, unpublished(kit), [], run_id=new_run_id(), options=kit.options()).state
    table = kit.catalog.load_table(("db", "new"))
    assert table.schema().fields == SCHEMA.fields
    assert [f.name for f in table.spec().fields] == ["region"] and table.sort_order().fields[0].source_id == 1
    assert table.properties == {"a": "b"} and table.metadata.format_version == 2
    assert state.metadata_location == table.metadata_location


def test_a_table_and_its_first_rows_are_one_version(kit: Kit) -> None:
    state = unpublished(kit)
    change = SnapshotChange("append", state.metadata.schema, state.metadata.specs, added=[kit.file([(1, "eu", DAY)], state.metadata.spec)])
    published = publish(kit.store, state, [change], run_id=new_run_id(), options=kit.options())
    assert published.state.metadata_location.rsplit("/", 1)[-1].startswith("00000-")
    assert kit.catalog.load_table(("db", "new")).scan().to_arrow()["id"].to_pylist() == [1]


def test_a_table_that_is_there_is_left_alone(kit: Kit) -> None:
    state = TableState(("db", "t"), UNPUBLISHED, kit.state.metadata, kit.state.io)
    before = kit.stored()
    with pytest.raises(TableExists, match=r"db\.t"):
        publish(kit.store, state, [], run_id=new_run_id(), options=kit.options())
    assert kit.stored() == before


@pytest.mark.parametrize("happened", [True, False])
def test_a_create_without_an_answer_is_looked_for(kit: Kit, monkeypatch: pytest.MonkeyPatch, happened: bool) -> None:
    insert: Callable[..., None] = kit.store.insert  # type: ignore[attr-defined]
    calls = []

    def unheard(self: PointerStore, *args: object) -> None:
        calls.append(args)
        if happened or len(calls) > 1:
            insert(*args)
        if len(calls) == 1:
            raise PublishUnclear("connection reset")

    monkeypatch.setattr(type(kit.store), "insert", unheard)
    publish(kit.store, unpublished(kit), [], run_id=new_run_id(), options=kit.options())
    assert kit.catalog.load_table(("db", "new")).properties == {"a": "b"}
    assert len(calls) == (1 if happened else 2)


def test_a_create_that_lands_late_is_ours(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    insert: Callable[..., None] = kit.store.insert  # type: ignore[attr-defined]
    held: list[tuple[object, ...]] = []

    def late(self: PointerStore, *args: object) -> None:
        if not held:
            held.append(args)
            raise PublishUnclear("timed out")
        insert(*held[0])
        insert(*args)

    monkeypatch.setattr(type(kit.store), "insert", late)
    publish(kit.store, unpublished(kit), [], run_id=new_run_id(), options=kit.options())
    assert kit.catalog.load_table(("db", "new")).properties == {"a": "b"}


def test_a_create_nobody_can_tell_about(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    def unheard(self: PointerStore, *args: object) -> None:
        raise PublishUnclear("connection reset")

    monkeypatch.setattr(type(kit.store), "insert", unheard)
    with pytest.raises(CommitOutcomeUnknown, match=r"db\.new"):
        publish(kit.store, unpublished(kit), [], run_id=new_run_id(), options=kit.options(commit_retry_num_retries=1))


def test_replacing_starts_main_anew_and_keeps_history(kit: Kit) -> None:
    first = kit.append((1, "eu", DAY))
    step = replace_table(SCHEMA, 3, build_spec(SCHEMA, ["region"], spec_id=1), build_sort_order(SCHEMA, []), {"k": "v"})
    kit.publish(step)
    assert kit.ids() == [] and kit.iceberg.current_snapshot() is None
    assert kit.metadata.snapshot(first.snapshot_id).operation == "append"
    assert kit.metadata.properties["k"] == "v" and kit.metadata.default_spec_id == 1
    assert kit.append((2, "us", DAY)).parent_id is None
    assert kit.ids() == [2]


def test_properties_are_set_and_removed(kit: Kit) -> None:
    kit.publish(set_properties({"a": 1, "b": True, "c": "x"}))
    assert kit.metadata.properties == {"a": "1", "b": "true", "c": "x"}
    kit.publish(set_properties({"a": None, "missing": None, "c": "y"}))
    assert kit.metadata.properties == {"b": "true", "c": "y"} == kit.iceberg.properties


def test_setting_what_is_set_publishes_nothing(kit: Kit) -> None:
    kit.publish(set_properties({"a": "1"}))
    before = kit.load().metadata_location
    kit.publish(set_properties({"a": "1"}))
    assert kit.load().metadata_location == before


def test_a_spec_or_order_had_before_gets_its_id_again(kit: Kit) -> None:
    kit.publish(evolve_partitions("db.t", ["region"], []))
    kit.publish(evolve_partitions("db.t", [], ["region"]))
    kit.publish(set_sort_order("db.t", ["id"]))
    kit.publish(set_sort_order("db.t", []))
    assert kit.metadata.default_spec_id == 0 and len(kit.metadata.specs) == 2
    kit.publish(evolve_partitions("db.t", ["region"], []))
    assert kit.metadata.default_spec_id == 1 and kit.metadata.raw["default-sort-order-id"] == 0
    assert kit.iceberg.spec().spec_id == 1


def test_a_schema_had_before_gets_its_id_again(kit: Kit) -> None:
    kit.publish(evolve_schema("db.t", rename={"region": "area"}))
    kit.publish(evolve_schema("db.t", rename={"area": "region"}))
    assert kit.metadata.current_schema_id == 0 and len(kit.metadata.schemas) == 2


@pytest.mark.parametrize("delete", [True, False])
def test_the_metadata_log_is_bounded(tmp_path: Path, delete: bool) -> None:
    kit = Kit(tmp_path / "lake", properties={"write.metadata.previous-versions-max": "3", "write.metadata.delete-after-commit.enabled": str(delete).lower()})
    for n in range(6):
        kit.publish(set_properties({"n": n}))
    log = [entry["metadata-file"] for entry in kit.metadata.raw["metadata-log"]]
    assert len(log) == 3 and all(Path(local_path(path) or "").exists() for path in log)
    assert len(kit.stored()) == (4 if delete else 7)
    assert [StaticTable.from_metadata(path).properties["n"] for path in log] == ["2", "3", "4"]


def test_a_missing_table_suggests_a_near_name(kit: Kit) -> None:
    publish(kit.store, unpublished(kit, "trips"), [], run_id=new_run_id(), options=kit.options())
    with pytest.raises(TableNotFound, match=r"Did you mean db\.trips"):
        kit.store.load(("db", "trip"))
    with pytest.raises(TableNotFound, match="namespace nowhere"):
        kit.store.load(("nowhere", "t"))
