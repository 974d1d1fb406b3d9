"""One history, written by Lakewright and the Iceberg Spark runtime in turns: the rows and row ids are right after each statement, whoever reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.interop import lineage, readers
from tests.interop.canonical import canonical
from tests.interop.peer import Peer
from tests.interop.places import Place
from tests.interop.statements import ALL, FLAT, FLAT_ROWS, MERGE_ON_READ, MIXED, MODES, Alter, Append, Delete, Story, Update

STORIES = {story.name: story for story in ALL}
Told = Callable[[str], list[dict[int, Any]]]
OURS, THEIRS = "ours", "theirs"


@dataclass(frozen=True)
class Run:
    """The authors take turns, `first` with the first statement."""

    story: str
    mode: str
    version: int
    first: str

    def __str__(self) -> str:
        return f"{self.story}-{self.mode}-v{self.version}-{self.first}"


RUNS = [
    *(Run("partitioned", mode, 3, first) for mode in ("copy_on_write", "merge_on_read", "mixed") for first in (OURS, THEIRS)),
    Run("evolved", "copy_on_write", 3, OURS),
    Run("evolved", "merge_on_read", 3, THEIRS),
    Run("nested", "copy_on_write", 3, THEIRS),
    Run("nested", "merge_on_read", 3, OURS),
    Run("partitioned", "copy_on_write", 2, THEIRS),
    Run("transformed", "merge_on_read", 2, OURS),
    Run("evolved", "merge_on_read", 2, OURS),
]


def check(peer: Peer, place: Place, table: Any, expected: dict[int, Any]) -> None:
    rows = table.read().toArrow()
    assert lineage.by_id(rows) == expected
    assert canonical(readers.spark_runtime(peer, place, table)) == canonical(rows)


def agreed_lineage(peer: Peer, place: Place, table: Any) -> lineage.Lineage:
    found = lineage.ours(table)
    assert lineage.of_the_runtime(peer, place, table) == found
    return found


def begun(peer: Peer, place: Place, story: Story, run: Run) -> Any:
    name = f"turns.{run.story}_{run.mode}_{run.version}_{run.first}"
    settings = {**MODES, "mixed": MIXED}[run.mode]
    if run.first == OURS:
        return story.ours(place, name, run.version, settings)
    story.theirs(peer, f"{place.name}.{name}", run.version, settings)
    return place.lake.table(name)


@pytest.mark.feature("I14", "I15", "I16", "I25")
@pytest.mark.parametrize("run", RUNS, ids=str)
def test_the_authors_take_turns(run: Run, place_of: Callable[[str], Place], peer: Peer, told: Told) -> None:
    place, story = place_of("local"), STORIES[run.story]
    table = begun(peer, place, story, run)
    ledger = lineage.Ledger()
    for turn, (statement, expected) in enumerate(zip(story.statements, told(story.name), strict=True)):
        if (turn % 2 == 0) is (run.first == OURS):
            statement.ours(place, table)
        else:
            statement.theirs(peer, f"{place.name}.{table.name}")
        check(peer, place, table, expected)
        if run.version == 3:
            ledger.step(expected, agreed_lineage(peer, place, table), table.iceberg.metadata.last_sequence_number, isinstance(statement, Alter))


@pytest.mark.feature("I16", "I25")
@pytest.mark.parametrize("story", ["partitioned", "transformed", "evolved"])
def test_a_history_goes_on_in_format_3(story: str, place_of: Callable[[str], Place], peer: Peer, told: Told) -> None:
    """Delete files of format 2 lie under the vectors of both authors."""
    place = place_of("local")
    table = STORIES[story].ours(place, f"turns.upgraded_{story}", 2, MERGE_ON_READ)
    ledger, upgrade_at = lineage.Ledger(), 4
    for turn, (statement, expected) in enumerate(zip(STORIES[story].statements, told(story), strict=True)):
        if turn == upgrade_at:
            table.upgrade(3)
        if turn % 2 == 0:
            statement.ours(place, table)
        else:
            statement.theirs(peer, f"{place.name}.{table.name}")
        check(peer, place, table, expected)
        if turn >= upgrade_at:
            found = agreed_lineage(peer, place, table)
            if turn == upgrade_at:
                assert None not in {row_id for row_id, _ in found.values()}
                ledger.begin(expected, found)
            else:
                ledger.step(expected, found, table.iceberg.metadata.last_sequence_number, isinstance(statement, Alter))


def delete_files(peer: Peer, place: Place, table: Any) -> list[tuple[str, int]]:
    """Format and number of rows of each, as the runtime lists them."""
    found = peer.sql(f"SELECT file_format, record_count FROM {place.name}.{table.name}.delete_files").to_pylist()
    return sorted((row["file_format"], row["record_count"]) for row in found)


@pytest.mark.feature("I16")
@pytest.mark.parametrize(("granularity", "before", "after"), [("file", [2, 2], [("PARQUET", 2), ("PUFFIN", 4)]), ("partition", [4], [("PARQUET", 4), ("PUFFIN", 4)])])
@pytest.mark.parametrize("author", [OURS, THEIRS])
def test_a_vector_takes_in_the_position_deletes_of_its_file(
    author: str, granularity: str, before: list[int], after: list[tuple[str, int]], place_of: Callable[[str], Place], peer: Peer
) -> None:
    """Position delete files of that one data file go; one that is for others too stays, and counts for those alone."""
    place = place_of("local")
    story = Story("vectors", FLAT, (), properties={"write.delete.granularity": granularity})
    table = story.ours(place, f"turns.vectors_{granularity}_{author}", 2, MERGE_ON_READ)
    name, present = f"{place.name}.{table.name}", set(range(20))
    for start in (0, 10):
        rows = place.lake.spark.sql(FLAT_ROWS.format(start=start, end=start + 10))
        table.append(rows.coalesce(1))

    def run(by: str, statement: Append | Delete | Update, *gone: int) -> None:
        if by == OURS:
            statement.ours(place, table)
        else:
            statement.theirs(peer, name)
        present.difference_update(gone)
        rows = readers.spark_runtime(peer, place, table)
        assert canonical(rows) == canonical(table.read().toArrow())
        assert set(rows["id"].to_pylist()) == present
        assert {row["id"] for row in readers.duck(table, columns="id").to_pylist()} == present

    run(author, Delete("id IN (1, 2, 11, 12)"), 1, 2, 11, 12)
    assert delete_files(peer, place, table) == [("PARQUET", rows) for rows in before]
    table.upgrade(3)
    run(OURS, Delete("id IN (3, 4)"), 3, 4)
    assert delete_files(peer, place, table) == after
    run(THEIRS, Delete("id IN (5, 15)"), 5, 15)
    run(OURS, Delete("id IN (6, 16)"), 6, 16)
    assert [count for kind, count in delete_files(peer, place, table) if kind == "PUFFIN"] == [4, 6]
    known = agreed_lineage(peer, place, table)
    table.set_properties({"write.update.mode": "copy-on-write"})
    run(OURS, Update({"ratio": "7"}, "id = 7"))
    kept = agreed_lineage(peer, place, table)
    assert kept == {**known, 7: (known[7][0], table.iceberg.metadata.last_sequence_number)}
    assert [count for kind, count in delete_files(peer, place, table) if kind == "PUFFIN"] == [4]
