"""Tables of format 3 on Iceberg's own REST server, read and continued by the Iceberg Spark runtime: row ids, vectors, upgrades."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from itertools import count
from typing import Any

import pytest

from lakewright.commit.metadata_changes import upgrade
from lakewright.commit.refs import create
from lakewright.format.data_file import DATA, DataFile
from tests.commit.kit import Kit
from tests.commit.stores import Rival
from tests.interop.peer import Peer
from tests.interop.services.rest import RestCatalog

DAY = date(2024, 5, 1)
CATALOG = "format3"
NUMBERS = count()
Tables = Callable[..., Kit]


@pytest.fixture
def table(rest: RestCatalog, peer: Peer) -> Tables:
    catalog = {"name": "rest", "type": "rest", "uri": rest.uri}
    peer.catalog(CATALOG, {"type": "rest", "uri": rest.uri, "cache-enabled": "false"})
    return lambda **how: Kit(rest.warehouse, catalog=catalog, name=f"format3_{next(NUMBERS)}", **how)


def rows(first: int, number: int) -> list[tuple[int, str | None, date | None]]:
    return [(first + n, "eu", DAY) for n in range(number)]


def data_files(kit: Kit) -> list[DataFile]:
    """By their least id."""
    return sorted((f for f in kit.live() if f.content == DATA), key=lambda f: f.lower_bounds[1])


def name(kit: Kit) -> str:
    return f"{CATALOG}.db.{kit.identifier[-1]}"


def lineage(peer: Peer, kit: Kit) -> dict[int, tuple[int, int]]:
    """For each value of id its row id and sequence number, as the Iceberg runtime reads them."""
    found: list[dict[str, Any]] = peer.sql(f"SELECT id, _row_id, _last_updated_sequence_number AS last FROM {name(kit)}").to_pylist()
    return {row["id"]: (row["_row_id"], row["last"]) for row in found}


@pytest.mark.feature("I25")
def test_row_ids_and_vectors_are_read_by_the_iceberg_runtime(table: Tables, peer: Peer) -> None:
    kit = table(format_version=3)
    kit.append(*rows(10, 3))
    kit.publish(kit.change(added=[kit.file(rows(20, 2)), kit.file(rows(30, 2))]))
    first, second, _ = data_files(kit)
    kit.publish(kit.delta(*kit.vectors(first, second, positions=[1]), touched=[first, second]))
    kit.publish(kit.delta(*kit.vectors(second, positions=[0, 1]), touched=[second], removed_vectors=frozenset({second.file_path})))
    assert lineage(peer, kit) == {10: (0, 1), 12: (2, 1), 30: (5, 2), 31: (6, 2)}
    assert kit.ids() == [10, 12, 30, 31]


@pytest.mark.feature("I16")
def test_summaries_count_vectors_as_the_iceberg_runtime_does(table: Tables, peer: Peer) -> None:
    ours, theirs = table(format_version=3), table(format_version=3, properties={"write.delete.mode": "merge-on-read"})
    for kit in (ours, theirs):
        kit.append(*rows(10, 3))
    [file] = data_files(ours)
    ours.publish(ours.delta(*ours.vectors(file, positions=[1]), touched=[file]))
    peer.sql(f"DELETE FROM {name(theirs)} WHERE id = 11")
    counts = [{k: v for k, v in kit.metadata.raw["snapshots"][-1]["summary"].items() if k.startswith(("added-", "total-"))} for kit in (ours, theirs)]
    assert counts[0] == counts[1]


@pytest.mark.feature("I25")
def test_a_history_continued_by_the_iceberg_runtime_never_gives_an_id_twice(table: Tables, peer: Peer) -> None:
    kit = table(format_version=3)
    kit.append(*rows(10, 3))
    peer.sql(f"INSERT INTO {name(kit)} VALUES (20, 'eu', DATE '2024-05-01'), (21, 'eu', DATE '2024-05-01')")
    kit.load()
    kit.append(*rows(30, 2))
    peer.sql(f"DELETE FROM {name(kit)} WHERE id = 11")
    before = lineage(peer, kit)
    kit.load()
    kit.publish(kit.replacement([f for f in data_files(kit) if f.first_row_id == before[30][0]], kit.file(rows(40, 1))))
    after = lineage(peer, kit)
    assert sorted(after) == [10, 12, 20, 21, 40]
    assert {key: after[key] for key in (10, 12, 20, 21)} == {key: before[key] for key in (10, 12, 20, 21)}
    assert len({row_id for row_id, _ in (*before.values(), after[40])}) == 7


@pytest.mark.feature("I25")
def test_an_upgraded_table_is_read_by_the_iceberg_runtime(table: Tables, peer: Peer) -> None:
    kit = table()
    kit.append(*rows(10, 3))
    old = kit.position_deletes(data_files(kit)[0])
    kit.publish(kit.delta(old, touched=data_files(kit)))
    kit.publish(upgrade("db.t", 3))
    kit.append(*rows(20, 2))
    assert lineage(peer, kit) == {20: (0, 3), 21: (1, 3), 11: (3, 1), 12: (4, 1)}
    assert kit.metadata.next_row_id == 5


def test_commits_to_two_branches_at_once_take_different_ids(table: Tables) -> None:
    kit = table(format_version=3)
    kit.append(*rows(10, 3))
    kit.publish(create("db.t", "audit", None, "branch"))
    change = kit.change(added=[kit.file(rows(30, 2))])
    kit.publish(change, store=Rival(kit.store, lambda: kit.append(*rows(20, 4), branch="audit")))
    assert {f.first_row_id for f in kit.live()} == {0, 7} and {f.first_row_id for f in kit.live("audit")} == {0, 3}
    assert kit.metadata.next_row_id == 9
