"""DELETE: what it removes, and when it does so without reading a data file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.rows.drawn import NULL
from tests.rows.expressions import Among, Both, Col, Compare, Expression, Is, Literal, Not
from tests.rows.kit import GRAFTED, LAYOUTS, MERGE_ON_READ, STREAMED, Layout, Trial, local, scans

NAN = Literal("double('NaN')", float("nan"))
ROWS = [
    {"id": 1, "p": "eu", "n": 1, "x": 1.5, "t": "a"},
    {"id": 2, "p": "eu", "n": None, "x": float("nan"), "t": "b"},
    {"id": 3, "p": "us", "n": 3, "x": None, "t": None},
    {"id": None, "p": None, "n": 4, "x": -0.0, "t": ""},
]


def is_(name: str, operator: str, value: Any) -> Expression:
    return Compare(Col((name,)), operator, Literal(f"'{value}'" if isinstance(value, str) else str(value), value))


def some(*chosen: tuple[str, int, bool, bool]) -> list[Layout]:
    return [layout for layout in LAYOUTS if (layout.way, layout.version, layout.partitioned, layout.nested) in chosen]


BOTH_WAYS = some((GRAFTED, 2, True, False), (MERGE_ON_READ, 3, True, False))


@pytest.fixture
def filled(lake: Any, layout: Layout) -> Trial:
    trial = Trial(lake, layout)
    trial.append(ROWS)
    return trial


class Unreadable:
    """Data files out of reach for a block, so that whoever reads one fails."""

    def __init__(self, trial: Trial) -> None:
        self.paths = [local(scanned.data_file.file_path) for scanned in scans(trial)]

    def __enter__(self) -> None:
        for path in self.paths:
            path.rename(_aside(path))

    def __exit__(self, *_: object) -> None:
        for path in self.paths:
            _aside(path).rename(path)


def _aside(path: Path) -> Path:
    return path.with_name(f"aside-{path.name}")


@pytest.mark.feature("I14", "I6")
@pytest.mark.parametrize("layout", BOTH_WAYS, ids=str)
@pytest.mark.parametrize("where", [is_("p", "=", "eu"), Is(Col(("p",)), True), is_("id", "<", 3), None], ids=["partition", "null partition", "bounds", "all"])
def test_whole_files_go_without_being_read(filled: Trial, where: Expression | None) -> None:
    """The other files are read for `bounds`, since the row without an id may or may not match; it is deleted first."""
    filled.delete(Is(Col(("id",)), True)) if where is not None and where.sql().startswith("`id`") else None
    expected = filled.model.delete(where)
    with Unreadable(filled):
        commit = filled.table.delete(where and where.sql())
    assert (commit.added_files, commit.summary.get("added-delete-files")) == (0, None)
    filled.check(commit, expected)


@pytest.mark.feature("I14", "I16")
@pytest.mark.parametrize("layout", some((MERGE_ON_READ, 3, False, False), (MERGE_ON_READ, 2, False, False)), ids=str)
def test_a_file_whose_last_rows_go_is_dropped_with_its_deletes(lake: Any, layout: Layout) -> None:
    trial = Trial(lake, layout)
    trial.append(ROWS[:3])
    trial.delete(is_("id", "=", 2))
    commit = trial.delete(is_("id", ">", 0))
    assert commit.deleted_rows == 2
    assert {key: commit.summary[key] for key in ("total-data-files", "total-delete-files", "total-position-deletes")} == {
        "total-data-files": "0",
        "total-delete-files": "0",
        "total-position-deletes": "0",
    }


@pytest.mark.feature("I14", "I15", "I16")
@pytest.mark.parametrize("layout", some((GRAFTED, 3, False, True), (STREAMED, 2, False, False), (MERGE_ON_READ, 2, True, True)), ids=str)
def test_nan_null_and_case(filled: Trial) -> None:
    """A null condition is not met, negated neither; NaN equals NaN and is the greatest."""
    x, n = Col(("x",), written="X"), Col(("n",), written="N")
    assert filled.delete(Compare(n, "=", NULL)).nothing_written
    assert filled.delete(Among(n, (Literal("7", 7), NULL), negated=True)).nothing_written
    assert filled.delete(Both(Compare(x, ">", Literal("100D", 100.0)), Compare(x, "=", NAN))).deleted_rows == 1
    assert filled.delete(Not(Compare(x, "<", Literal("0D", 0.0)))).deleted_rows == 2


@pytest.mark.feature("I14")
@pytest.mark.parametrize("layout", some((GRAFTED, 3, False, False), (MERGE_ON_READ, 2, True, False)), ids=str)
def test_an_empty_table(lake: Any, layout: Layout) -> None:
    trial = Trial(lake, layout)
    assert trial.delete().snapshot_id is None
    assert trial.delete(is_("id", "=", 1)).nothing_written
    assert trial.update({("n",): Literal("1", 1)}).nothing_written


@pytest.mark.feature("I14")
@pytest.mark.parametrize("layout", some((GRAFTED, 2, False, False)), ids=str)
def test_a_subquery_in_the_condition(filled: Trial) -> None:
    """Spark evaluates it; the model is told which rows it selects."""
    filled.lake.spark.createDataFrame([(1,), (3,)], "k bigint").createOrReplaceTempView("chosen_ids")
    expected = filled.model.delete(Among(Col(("id",)), (Literal("1", 1), Literal("3", 3))))
    filled.check(filled.table.delete("id in (select k from chosen_ids)"), expected)
