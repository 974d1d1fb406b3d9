from __future__ import annotations

from pathlib import Path

import pytest

from bench.cases import Scale
from bench.harness import CaseResult
from bench.report import load, plot, save, table, verdicts
from bench.stats import paired_ratio
from bench.targets import TARGETS, Best, Figure, Target, judge


def append(ours: list[float], floor: list[float]) -> CaseResult:
    def rounds(seconds: list[float]) -> dict[int, dict[str, float]]:
        return {n: {"wall": s, "cpu": s, "driver_peak": 1e8, "jvm_peak": 1e9} for n, s in enumerate(seconds)}

    return CaseResult("append", "append", {"lakewright": rounds(ours), "spark-parquet": rounds(floor)})


def test_the_ratio_is_the_median_of_paired_rounds() -> None:
    ratio = paired_ratio([1.0, 20.0, 3.0], [1.0, 10.0, 3.0])
    assert ratio.median == 1.0
    assert ratio.low <= ratio.median <= ratio.high


def test_a_steady_ratio_has_no_spread() -> None:
    ratio = paired_ratio([2.2] * 9, [2.0] * 9)
    assert (ratio.low, ratio.high) == (pytest.approx(1.1), pytest.approx(1.1))


@pytest.mark.parametrize(("ours", "passed"), [([1.1] * 9, True), ([1.1] * 6 + [1.3] * 3, False), ([1.2] * 9, False)])
def test_a_target_is_judged_by_the_upper_end(ours: list[float], passed: bool) -> None:
    assert [v.passed for v in judge({"append": append(ours, [1.0] * 9)}, TARGETS)] == [passed]


def test_results_are_kept_printed_and_drawn(tmp_path: Path) -> None:
    results = {"append": append([1.1] * 3, [1.0] * 3)}
    path = tmp_path / "results.json"
    save(results, Scale(rows=1), 3, path)
    assert load(path) == results
    assert "lakewright" in table(results["append"])
    assert "pass" in verdicts(results)
    plot(results, tmp_path / "results.png")
    assert (tmp_path / "results.png").stat().st_size > 1000


def test_the_best_peer_is_the_one_with_the_least_median_of_those_that_ran() -> None:
    result = append([1.0] * 3, [4.0] * 3)
    result.figures["hudi"] = {n: {"wall": wall} for n, wall in enumerate([1.0, 9.0, 9.0])}
    target = Target("best", "append", Figure("lakewright", "wall"), Best(("hudi", "spark-parquet", "absent"), "wall"), 0.5)
    assert [(v.ratio.median, v.passed) for v in judge({"append": result}, (target,))] == [(0.25, True)]
    nobody = Target("best", "append", Figure("lakewright", "wall"), Best(("absent",), "wall"), 0.5)
    assert judge({"append": result}, (nobody,)) == []
