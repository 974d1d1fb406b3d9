"""Format versions: made, upgraded, refused, and what only version 3 allows."""

from __future__ import annotations

from datetime import date

import pytest
from pyiceberg.table import StaticTable
from pyiceberg.types import IntegerType, NestedField

from lakewright.commit.create import checked_format_version
from lakewright.commit.metadata_changes import evolve_schema, set_properties, upgrade
from lakewright.commit.updates import apply, upgrade_format_version
from lakewright.errors import IllegalEvolution, UnsupportedOperation
from lakewright.format.metadata import Metadata
from tests.commit.kit import Kit
from tests.interop.readers import duck

DAY = date(2024, 5, 1)


def test_versions_that_can_be_made() -> None:
    assert [checked_format_version(asked, "db.t") for asked in (None, 2, 3)] == [2, 2, 3]


@pytest.mark.parametrize("asked", [0, 1, 4])
def test_versions_that_cannot_be_made(asked: int) -> None:
    with pytest.raises(UnsupportedOperation, match=rf"db\.t asks for format version {asked}"):
        checked_format_version(asked, "db.t")
    with pytest.raises(UnsupportedOperation, match=rf"db\.t asks for format version {asked}"):
        upgrade("db.t", asked)


def test_an_upgrade_is_one_update_of_the_metadata(kit: Kit) -> None:
    kit.append((1, "eu", DAY))
    assert upgrade("db.t", 3).updates(kit.metadata) == [{"action": "upgrade-format-version", "format-version": 3}]
    kit.publish(upgrade("db.t", 3))
    assert kit.metadata.raw["format-version"] == 3 and kit.metadata.raw["next-row-id"] == 0
    assert StaticTable.from_metadata(kit.state.metadata_location).metadata.format_version == 3


def test_an_upgrade_to_the_version_it_has_changes_nothing(v3: Kit) -> None:
    before = v3.state.metadata_location
    v3.publish(upgrade("db.t", 3))
    assert v3.load().metadata_location == before


def test_there_is_no_way_back(v3: Kit) -> None:
    with pytest.raises(UnsupportedOperation, match=r"db\.t has format version 3, which cannot become 2 again"):
        v3.publish(upgrade("db.t", 2))


def test_a_table_of_format_1_can_be_upgraded() -> None:
    first = Metadata({"format-version": 1, "schema": {}, "schemas": [], "partition-spec": [], "partition-specs": [], "current-snapshot-id": -1})
    raw = apply(first, upgrade_format_version(3)).raw
    assert (raw["format-version"], raw["last-sequence-number"], raw["next-row-id"]) == (3, 0, 0)
    assert not {"schema", "partition-spec", "current-snapshot-id"} & raw.keys()
    assert first.raw["format-version"] == 1


def test_an_upgrade_and_rows_in_one_commit(kit: Kit) -> None:
    kit.append((1, "eu", DAY))
    kit.publish(upgrade("db.t", 3), kit.change(added=[kit.file([(2, "eu", DAY)])]))
    assert kit.metadata.format_version == 3 and kit.metadata.next_row_id == 2
    assert kit.ids() == sorted(duck(kit)["id"].to_pylist()) == [1, 2]


def test_other_changes_keep_the_next_row_id(v3: Kit) -> None:
    v3.append((1, "eu", DAY), (2, "eu", DAY))
    v3.publish(set_properties({"owner": "ana"}))
    assert v3.metadata.next_row_id == 2 and v3.iceberg.properties["owner"] == "ana"


def test_defaults_are_for_format_3_only(kit: Kit) -> None:
    kit.append((1, "eu", DAY))
    change = evolve_schema("db.t", add={"stars": "int"}, defaults={"stars": 5})
    with pytest.raises(IllegalEvolution, match="version 3"):
        kit.publish(change)
    kit.publish(upgrade("db.t", 3), change)
    [stored] = [f for f in kit.metadata.raw["schemas"][-1]["fields"] if f["name"] == "stars"]
    assert (stored["initial-default"], stored["write-default"]) == (5, 5)
    assert kit.iceberg.schema().find_field("stars") == NestedField(4, "stars", IntegerType(), required=False, initial_default=5, write_default=5)
    assert duck(kit)["stars"].to_pylist() == [5]


def test_a_schema_with_defaults_goes_into_manifests(v3: Kit) -> None:
    v3.publish(evolve_schema("db.t", add={"stars": "int"}, defaults={"stars": 5}))
    v3.append((1, "eu", DAY))
    assert v3.ids() == [1]
