"""What is printed, kept as JSON and drawn."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import psutil  # type: ignore[import-untyped]

from bench.cases import Scale
from bench.harness import CaseResult
from bench.keyed_peers import HUDI, PAIMON
from bench.peer import RUNTIME, peer_pyspark
from bench.stats import paired_ratio
from bench.targets import ALSO, TARGETS, Verdict, judge

MIB = 1024**2
PACKAGES = ("lakewright", "pyspark", "pyiceberg", "pyiceberg-core", "pyarrow", "deltalake", "duckdb", "fastavro")


def table(result: CaseResult) -> str:
    """Medians of each contender, and its ratios to the first one's rounds with their 90% interval."""
    reference = next(name for name, rounds in result.figures.items() if rounds)
    lines = [f"\n{result.title}", f"  {'':22} {'wall s':>8} {'CPU s':>8} {'driver':>8} {'JVM':>8}   {f'wall / {reference}':26} {f'CPU / {reference}':26} files"]
    for name, rounds in result.figures.items():
        figures = list(rounds.values())
        if not figures:
            continue
        medians = {metric: median(f[metric] for f in figures) for metric in ("wall", "cpu", "driver_peak", "jvm_peak")}
        spread = [_spread(result, name, reference, metric) for metric in ("wall", "cpu")]
        outcome = result.outcomes.get(name, {})
        files = f"{outcome['file_count']} of {outcome['bytes'] / MIB:,.0f} MiB" if "file_count" in outcome else ""
        lines.append(
            f"  {name:22} {medians['wall']:8.2f} {medians['cpu']:8.2f} {medians['driver_peak'] / MIB:5,.0f} M  {medians['jvm_peak'] / MIB:5,.0f} M"
            f"   {spread[0]:26} {spread[1]:26} {files}"
        )
    return "\n".join(lines)


def _spread(result: CaseResult, name: str, reference: str, metric: str) -> str:
    ours, base = result.figures[name], result.figures[reference]
    rounds = [n for n in ours if n in base and base[n][metric] > 0]
    if not rounds:
        return "-"
    ratio = paired_ratio([ours[n][metric] for n in rounds], [base[n][metric] for n in rounds])
    return f"{ratio.median:.2f} [{ratio.low:.2f}-{ratio.high:.2f}] n={ratio.rounds}"


def verdicts(results: dict[str, CaseResult]) -> str:
    lines = ["\ntargets (median ratio [90% interval], judged by its upper end)"]
    lines += [f"  {'pass' if v.passed else 'FAIL'}  {v.target.text:56} {_figures(v)}  at most {v.target.bound:.2f}" for v in judge(results, TARGETS)]
    lines += [f"        {v.target.text:56} {_figures(v)}" for v in judge(results, ALSO)]
    return "\n".join(lines)


def _figures(verdict: Verdict) -> str:
    ratio = verdict.ratio
    return f"{ratio.median:6.2f} [{ratio.low:.2f}-{ratio.high:.2f}]"


def save(results: dict[str, CaseResult], scale: Scale, rounds: int, path: Path) -> None:
    """Write the JSON; cases of an earlier run at the same scale that did not run now are kept."""
    head = {"machine": _machine(), "versions": _versions(), "scale": asdict(scale), "rounds": rounds}
    earlier = json.loads(path.read_text()) if path.exists() else {}
    cases = earlier.get("cases", {}) if earlier.get("scale") == head["scale"] else {}
    cases |= {name: asdict(result) for name, result in results.items()}
    judged = judge({name: loaded(case) for name, case in cases.items()}, TARGETS)
    told = [{**asdict(v.target), "ratio": asdict(v.ratio), "passed": v.passed} for v in judged]
    path.write_text(json.dumps({**head, "targets": told, "cases": cases}, indent=1) + "\n")


def load(path: Path) -> dict[str, CaseResult]:
    return {name: loaded(case) for name, case in json.loads(path.read_text())["cases"].items()}


def loaded(case: dict[str, Any]) -> CaseResult:
    figures = {name: {int(n): values for n, values in rounds.items()} for name, rounds in case["figures"].items()}
    return CaseResult(**{**case, "figures": figures})


def plot(results: dict[str, CaseResult], path: Path) -> None:
    """Left: each target's ratio, with its interval, as a part of its bound. Right: CPU and wall seconds of the appends."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    judged = judge(results, TARGETS)[::-1]
    appends = [results[name] for name in ("append", "append-by-month") if name in results]
    figure, (left, right) = plt.subplots(1, 2, figsize=(15, 1.5 + 0.45 * max(len(judged), 8)), width_ratios=[3, 2])
    for n, verdict in enumerate(judged):
        ratio, bound = verdict.ratio, verdict.target.bound
        colour = "tab:green" if verdict.passed else "tab:red"
        left.plot([ratio.low / bound, ratio.high / bound], [n, n], color=colour, linewidth=3, solid_capstyle="butt")
        left.plot(ratio.median / bound, n, "o", color=colour)
        left.annotate(f"{ratio.median:.2f} of {bound:.2f}", (ratio.median / bound, n), xytext=(0, 7), textcoords="offset points", ha="center", fontsize=8)
    left.axvline(1, color="black", linewidth=1)
    left.set_yticks(range(len(judged)), [verdict.target.text for verdict in judged])
    left.set_xlim(left=0)
    left.set_ylim(-0.6, len(judged) - 0.2)
    left.set_xlabel("ratio as a part of what is allowed (line: the bound; bars: 90% bootstrap interval)")
    labels, wall, cpu = [], [], []
    for result in appends[::-1]:
        for name, rounds in list(result.figures.items())[::-1]:
            if rounds:
                labels.append(f"{name}, {result.name}")
                wall.append(median(f["wall"] for f in rounds.values()))
                cpu.append(median(f["cpu"] for f in rounds.values()))
    places = range(len(labels))
    right.barh([p + 0.2 for p in places], wall, height=0.4, label="wall", color="tab:blue")
    right.barh([p - 0.2 for p in places], cpu, height=0.4, label="CPU", color="tab:orange")
    right.set_yticks(list(places), labels)
    right.set_xlabel("seconds, median")
    if labels:
        right.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _machine() -> dict[str, Any]:
    return {"system": platform.platform(), "cores": os.cpu_count(), "memory_gib": round(psutil.virtual_memory().total / 1024**3), "python": platform.python_version()}


def _versions() -> dict[str, str]:
    java = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr.splitlines()[0]
    return {**{name: importlib.metadata.version(name) for name in PACKAGES}, "iceberg-runtime": f"{RUNTIME} on pyspark {peer_pyspark()}", "keyed-peers": f"{HUDI}, {PAIMON}", "java": java}
