"""Random statements with compactions between them, against the model: a compaction changes neither rows nor their lineage, in any layout."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.write import combine
from tests.rows.drawn import Drawn
from tests.rows.kit import GRAFTED, MERGE_ON_READ, STREAMED, Layout, Trial, bag

LAYOUTS = [
    Layout(MERGE_ON_READ, 2, True, False),
    Layout(MERGE_ON_READ, 3, False, True),
    Layout(GRAFTED, 3, True, True),
    *(
        pytest.param(layout, marks=pytest.mark.soak)
        for layout in (Layout(MERGE_ON_READ, 3, True, False), Layout(GRAFTED, 3, False, True), Layout(GRAFTED, 2, True, True), Layout(STREAMED, 3, True, False))
    ),
]
COPY_ALL, COPY_NONE = {"compact_min_row_group_size": 0}, {"compact_copy_chunks": False}
STATEMENTS = 2


def compacted(trial: Trial, **how: Any) -> None:
    commit = trial.table.compact(**how)
    if trial._has_ids:
        trial._check_lineage(commit)
    elif trial.version == 3 and not commit.nothing_written:
        trial._take_lineage()
    else:
        assert bag(trial.table.read().toArrow().to_pylist()) == bag(held.values for held in trial.model.rows)
    trial.check_files()
    head = trial.table._state.metadata.head()
    assert head is not None
    assert commit.nothing_written or {head.summary[f"total-{what}"] for what in ("delete-files", "position-deletes")} == {"0"}
    assert trial.table.compact(**how).nothing_written, "nothing is left to do"


@pytest.mark.feature("H4")
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@settings(max_examples=max(1, settings.default.max_examples // 30))
@given(seeds=st.lists(st.integers(0, 2**32 - 1), min_size=STATEMENTS, max_size=STATEMENTS, unique=True))
def test_compactions_change_no_row(lake: Any, layout: Layout, seeds: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(f"{layout} {seeds[0]}")
    monkeypatch.setattr(combine, "HERE_FILES", chance.choice([64, 0]))
    trial = Trial(lake, layout, partition_by=chance.choice([["p"], ["truncate(2, n)"]]), **{"write.delete.granularity": chance.choice(["file", "partition"])})
    Drawn(chance, trial).append(12)
    for number, seed in enumerate(seeds):
        drawn = Drawn(Random(f"{layout} {seed}"), trial)
        drawn.evolve()
        drawn.append(6)
        drawn.run()
        compacted(trial, **(COPY_ALL, COPY_NONE, {})[number % 3])
    Drawn(chance, trial).run()
