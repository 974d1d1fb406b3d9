from __future__ import annotations

from pathlib import Path

import pytest

from bench import harness, process
from bench.cases import Case, Entry
from bench.contenders import Contender
from bench.harness import ResultsDiffer, run_case
from bench.process import ContenderFailed

FAKE = Contender("fake", "tests.bench.fake_contender")
SHORT, LONG = {"seconds": 0.2}, {"seconds": 0.6}


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (harness, process):
        monkeypatch.setattr(module, "SCRATCH", tmp_path / "scratch")
    monkeypatch.setattr(process, "LOGS", tmp_path / "logs")


def case(*entries: Entry, fresh: bool = False) -> Case:
    return Case("fake", "a fake case", entries, lambda outcome, full: {"rows": outcome["rows"]}, fresh=fresh)


def quiet(text: str) -> None:
    pass


def test_cpu_of_a_child_that_ended_is_counted() -> None:
    result = run_case(case(Entry(FAKE, "burn", SHORT, label="short"), Entry(FAKE, "burn", LONG, label="long")), 1, quiet)
    assert result.figures["short"][0]["cpu"] == pytest.approx(0.2, abs=0.15)
    assert result.figures["long"][0]["cpu"] >= 0.55


@pytest.mark.parametrize("fresh", [False, True])
def test_figures_of_every_round_are_kept_without_the_warm_up(fresh: bool) -> None:
    result = run_case(case(Entry(FAKE, "burn", SHORT), fresh=fresh), 3, quiet)
    assert sorted(result.figures["fake"]) == [0, 1, 2]
    figures = result.figures["fake"][0]
    assert figures["own_figure"] == 42.0
    assert figures["driver_peak"] > 1_000_000


def test_an_entry_joins_every_nth_round() -> None:
    result = run_case(case(Entry(FAKE, "burn", SHORT, label="always"), Entry(FAKE, "burn", SHORT, label="rarely", every=2)), 3, quiet)
    assert sorted(result.figures["always"]) == [0, 1, 2]
    assert sorted(result.figures["rarely"]) == [0, 2]


def test_contenders_that_did_different_work_are_not_compared() -> None:
    with pytest.raises(ResultsDiffer, match="rows"):
        run_case(case(Entry(FAKE, "burn", SHORT, label="one"), Entry(FAKE, "differ", SHORT, label="other")), 1, quiet)


def test_a_failure_names_the_contender_and_its_reason() -> None:
    with pytest.raises(ContenderFailed, match=r"fake failed at run[\s\S]*the disk is full"):
        run_case(case(Entry(FAKE, "fail", SHORT)), 1, quiet)
