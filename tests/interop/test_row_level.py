"""Tables after DELETE, UPDATE and MERGE of ours, one on top of the other, in engines that others wrote: the same rows and row ids after each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.interop import lineage, readers
from tests.interop.canonical import canonical
from tests.interop.peer import Peer
from tests.interop.places import Place
from tests.interop.statements import MODES, STORIES, Alter, Story


@pytest.mark.feature("I14", "I15", "I16", "I25")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_every_reader_sees_what_was_changed(
    story: Story, mode: str, version: int, place_of: Callable[[str], Place], peer: Peer, told: Callable[[str], list[dict[int, Any]]]
) -> None:
    place = place_of("local")
    table = story.ours(place, f"changed.{story.name}_{mode}_{version}", version, MODES[mode])
    ledger = lineage.Ledger()
    for statement, expected in zip(story.statements, told(story.name), strict=True):
        statement.ours(place, table)
        rows = table.read().toArrow()
        assert lineage.by_id(rows) == expected
        ours = canonical(rows)
        assert canonical(readers.spark_runtime(peer, place, table)) == ours
        assert canonical(readers.duck(table)) == ours
        assert canonical(readers.pyiceberg(table)) == ours
        if version == 3:
            found = lineage.ours(table)
            ledger.step(expected, found, table.iceberg.metadata.last_sequence_number, isinstance(statement, Alter))
            assert lineage.of_the_runtime(peer, place, table) == found
            assert lineage.of_duckdb(table) == found
