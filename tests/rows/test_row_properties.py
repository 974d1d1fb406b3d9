"""Random statements on random tables, in every layout, against the model: after each one the rows, their lineage, the counts and the metrics agree.

One table with several statements per layout, twenty in `make soak`.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tests.rows.drawn import Drawn
from tests.rows.kit import LAYOUTS, Layout, Trial

PARTITIONS = (["p"], ["bucket(2, id)", "p"], ["truncate(2, n)"], ["truncate(1, t)"])
STATEMENTS = 3
WANTED = {
    *("delete", "update", "several matches", "matched: delete", "matched: update", "not matched: insert"),
    *("not matched by source: delete", "not matched by source: update", "add", "rename", "promote", "upgrade"),
}
seen: Counter[str] = Counter()


@pytest.mark.feature("I14", "I15", "I16", "I6")
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@settings(max_examples=max(1, settings.default.max_examples // len(LAYOUTS)))
@given(seeds=st.lists(st.integers(0, 2**32 - 1), min_size=STATEMENTS, max_size=STATEMENTS, unique=True))
def test_statements_agree_with_the_model(lake: Any, layout: Layout, seeds: list[int]) -> None:
    """A seed stands for a statement: drawn choice by choice few examples would be too much alike."""
    chance = Random(f"{layout} {seeds[0]}")
    partition_by = chance.choice(PARTITIONS)
    note(f"partitioned by {partition_by if layout.partitioned else []}")
    trial = Trial(lake, layout, partition_by=partition_by, **{"write.delete.granularity": chance.choice(["file", "partition"])})
    Drawn(chance, trial).append(12)
    for seed in seeds:
        Drawn(Random(f"{layout} {seed}"), trial).run()
    seen.update(trial.seen)


@pytest.mark.hypothesis
def test_what_the_statements_did() -> None:
    """Runs after the other of this module, and judges whether its statements changed rows in all ways there are."""
    print(dict(seen.most_common()))
    missing = WANTED - set(+seen)
    assert not missing, f"never happened: {sorted(missing)}"
