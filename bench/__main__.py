"""Run the benchmark: `python -m bench [--quick] [--rows N] [--rounds N] [--case NAME …] [--contender NAME …]`."""

from __future__ import annotations

import argparse
import shutil
import time
from dataclasses import replace
from pathlib import Path

from bench.cases import Case, Scale
from bench.cases.all import CASES
from bench.harness import CaseResult, run_case
from bench.keyed_peers import ensure_keyed_peers
from bench.peer import ensure_peer
from bench.places import RESULTS, SCRATCH, WORK
from bench.report import load, plot, save, table, verdicts

QUICK = Scale(rows=500_000, files=500, commits=60, memory_files=2_000)


def main() -> None:
    arguments = parse()
    scale = QUICK if arguments.quick else Scale()
    if arguments.rows:
        scale = Scale(arguments.rows, scale.files, scale.commits, scale.memory_files)
    rounds = arguments.rounds or (2 if arguments.quick else 9)
    out: Path = arguments.out or (WORK / "quick-results.json" if scale != Scale() or arguments.contender else RESULTS)
    out.parent.mkdir(parents=True, exist_ok=True)
    results: dict[str, CaseResult] = {}
    names = arguments.case or list(CASES)
    if not all(name.startswith("shards-") for name in names):
        ensure_peer()
    if any(name.startswith("keys-") for name in names):
        ensure_keyed_peers()
    for name in names:
        begin = time.monotonic()
        case = only(CASES[name](scale), arguments.contender)
        if not case.entries:
            continue
        say(f"\n{case.title}")
        results[name] = run_case(case, rounds, say)
        save(results, scale, rounds, out)
        say(table(results[name]))
        say(f"  took {time.monotonic() - begin:.0f} s")
    shutil.rmtree(SCRATCH, ignore_errors=True)
    everything = load(out)
    plot(everything, out.with_suffix(".png"))
    say(verdicts(everything))
    say(f"\nwritten: {out}, {out.with_suffix('.png')}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description="Lakewright beside its peers, as ratios in one run.")
    parser.add_argument("--quick", action="store_true", help="a small run that shows everything works; its figures mean little")
    parser.add_argument("--rows", type=int, help="rows of the append cases (10,000,000)")
    parser.add_argument("--rounds", type=int, help="measured rounds (9)")
    parser.add_argument("--case", action="append", choices=list(CASES), help="only this case; may be repeated")
    parser.add_argument("--contender", action="append", help="only this contender; may be repeated")
    parser.add_argument("--out", type=Path, help="where the results go (bench/results.json, or under .bench/ for other sizes)")
    return parser.parse_args()


def only(case: Case, contenders: list[str] | None) -> Case:
    return case if contenders is None else replace(case, entries=tuple(entry for entry in case.entries if entry.name in contenders))


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
