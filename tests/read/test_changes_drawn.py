"""Random commits in every layout: for any two of them the log leads from one state to the other, and the rows without it are the changed ones.

One table with several commits per layout, sixteen in `make soak`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

import lakewright as lw
from lakewright.session import settings as spark_settings
from tests.read.changes_kit import LAYOUTS, SMALL, History, Layout, Values, bag

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMITS = 5
PAIRS = 2
EXAMPLES = max(1, settings.default.max_examples // 30)
WANTED = {"insert", "update_before", "update_after", "delete", "roll back", "evolve", "overwrite"}
seen: Counter[str] = Counter()


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with spark_settings(spark, SMALL):
        yield lw.connect(str(tmp_path_factory.mktemp("changes") / "lake"), spark=spark, progress="off")


class Drawn:
    def __init__(self, chance: Random, history: History) -> None:
        self.chance, self.history, self._number = chance, history, 0

    def commit(self) -> None:
        chance, history = self.chance, self.history
        if chance.random() < 0.25:
            self._evolve()
        if len(history.head.line) > 2 and chance.random() < 0.2:
            history.roll_back(chance.choice(history.head.line[:-1]))
            seen["roll back"] += 1
        modulus, rest = chance.choice([2, 3]), chance.choice([0, 1])
        chosen = (f"k % {modulus} = {rest}", lambda row: row["k"] % modulus == rest)
        ways = [lambda: history.increase(*chosen), lambda: history.delete(*chosen), lambda: history.merge(self._rows(3, unique=True)), self._overwrite, self._append]
        chance.choice(ways)()

    def _append(self) -> None:
        taken = {held.values["k"] for held in self.history.head.rows} if self.history.layout.keyed else set()
        self.history.append([row for row in self._rows(3) if row["k"] not in taken] or self._rows(1, first=100))

    def _overwrite(self) -> None:
        seen["overwrite"] += 1
        region = self.chance.choice([None, "eu", "us"])
        taken = {held.values["k"] for held in self.history.head.rows if region is not None and held.values["p"] != region} if self.history.layout.keyed else set()
        kept = [dict(held.values) for held in self.history.head.rows if region in (None, held.values["p"])][:2]
        fresh = [{**row, "p": region or row["p"]} for row in self._rows(2, first=50) if row["k"] not in taken]
        self.history.overwrite([*kept, *fresh], region)

    def _rows(self, count: int, *, first: int = 0, unique: bool = False) -> list[Values]:
        """Few keys, so that they meet; without a key a row may be there twice."""
        chance = self.chance
        keys = chance.sample(range(first, first + 8), count) if unique or self.history.layout.keyed else [first + chance.randrange(8) for _ in range(count)]
        self._number += 10
        rows = [{"k": k, "p": chance.choice(["eu", "us", None]), "v": chance.choice([-1, self._number + at]), "c": f"c{k}"} for at, k in enumerate(keys)]
        return rows if unique or self.history.layout.keyed else [*rows, dict(rows[0])]

    def _evolve(self) -> None:
        seen["evolve"] += 1
        history, columns = self.history, dict(self.history.head.columns)
        if "c" not in columns:
            history.add_column("c")
        elif self.chance.random() < 0.5:
            history.rename_column("c", f"c{self._number}")
        else:
            history.table.evolve_partitions(**self.chance.choice([{"drop": ["p"]}, {"add": [f"bucket({self._number + 2}, k)"]}]) if len(history.table.spec.fields) == 1 else {"add": ["truncate(1, p)"]})


@pytest.mark.hypothesis
@pytest.mark.feature("H7")
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_the_log_leads_from_any_state_to_any_later_one(lake: Any, layout: Layout, seed: int) -> None:
    chance = Random(f"{layout} {seed}")
    history = History(lake, layout)
    drawn = Drawn(chance, history)
    history.append(drawn._rows(5))
    for _ in range(COMMITS):
        drawn.commit()
    assert bag(history.table.read().collect()) == history.head.bag(history.head.columns)
    line = history.head.line
    ends = [(chance.choice([None, line[0]]), None)]
    for _ in range(PAIRS):
        until = chance.choice(list(history.states))
        own = history.states[until].line
        rolled_back = [s for s in history.states if s not in line and s not in own]
        ends.append((chance.choice([*own, *(rolled_back if until in line else [])]), until))
    for since, until in ends:
        seen.update(history.check(since, until))


@pytest.mark.hypothesis
def test_what_the_commits_did() -> None:
    """Runs after the other of this module, and judges whether its commits did all there is to do."""
    missing = WANTED - set(+seen)
    assert not missing, f"never happened: {sorted(missing)}"
