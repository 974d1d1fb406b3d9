"""What must hold, judged by the upper bound of the 90% bootstrap interval."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from bench.cases.append import DATA_SOURCE
from bench.cases.commit import ANEW
from bench.cases.keyed import COPYING_PEERS, COW, MERGING_PEERS, MOR
from bench.cases.memory import LARGE, SMALL
from bench.cases.row_level import OURS_COW, OURS_MOR, PEER_COW, PEER_MOR
from bench.cases.shards import MANY
from bench.harness import CaseResult
from bench.stats import Ratio, paired_ratio


@dataclass(frozen=True)
class Figure:
    contender: str
    metric: str


@dataclass(frozen=True)
class Best:
    """The least of several contenders, by the median of its rounds."""

    contenders: tuple[str, ...]
    metric: str

    def of(self, result: CaseResult) -> Figure | None:
        medians = {name: median(figures[self.metric] for figures in result.figures[name].values()) for name in self.contenders if result.figures.get(name)}
        return Figure(min(medians, key=lambda name: medians[name]), self.metric) if medians else None


@dataclass(frozen=True)
class Target:
    """`ours` is at most `bound` times `theirs`, or at most `bound` itself where there is no other side."""

    text: str
    case: str
    ours: Figure
    theirs: Figure | Best | None
    bound: float


@dataclass(frozen=True)
class Verdict:
    target: Target
    ratio: Ratio

    @property
    def passed(self) -> bool:
        return self.ratio.high <= self.target.bound


def _lakewright(metric: str) -> Figure:
    return Figure("lakewright", metric)


def _keyed(text: str, case: str, bound: float) -> tuple[Target, Target]:
    """Copy-on-write against the best peer that leaves nothing to merge either, merge-on-read against the best of all."""
    return (
        Target(f"{text}, copy-on-write: the best copying peer's", case, Figure(COW, "wall"), Best(COPYING_PEERS, "wall"), bound),
        Target(f"{text}, merge-on-read: the best peer's", case, Figure(MOR, "wall"), Best(ALL_PEERS, "wall"), bound),
    )


KEYED_MODES = (("copy-on-write", COW), ("merge-on-read", MOR))
ALL_PEERS = COPYING_PEERS + MERGING_PEERS
TARGETS = (
    Target("append: CPU of Spark's Parquet writer", "append", _lakewright("cpu"), Figure("spark-parquet", "cpu"), 1.15),
    Target("append by month: CPU of Spark's Parquet writer", "append-by-month", _lakewright("cpu"), Figure("spark-parquet", "cpu"), 1.15),
    Target("append: wall time of the Iceberg runtime", "append", _lakewright("wall"), Figure("iceberg-runtime", "wall"), 1.0),
    Target("append by month: wall time of the Iceberg runtime", "append-by-month", _lakewright("wall"), Figure("iceberg-runtime", "wall"), 1.0),
    Target("append, Data Source: wall time of the Iceberg runtime", "append", Figure(DATA_SOURCE, "wall"), Figure("iceberg-runtime", "wall"), 1.5),
    Target("commit many files: wall time of PyIceberg's fast append", "commit-files", _lakewright("wall"), Figure("pyiceberg", "wall"), 0.5),
    Target("500th single-file commit: wall time of the 20th", "commit-history", _lakewright("late_wall"), _lakewright("early_wall"), 1.5),
    Target("500th single-file commit: CPU of the 20th", "commit-history", _lakewright("late_cpu"), _lakewright("early_cpu"), 1.5),
    Target("plan and open: wall time of PyIceberg + default Spark", "plan-and-open", _lakewright("wall"), Figure("pyiceberg", "wall"), 1 / 3),
    Target("milliseconds that SQL adds to a query of a lake table", "sql-routing", _lakewright("routing_ms"), None, 20),
    Target("milliseconds that SQL adds to a query of Spark's alone", "sql-routing", _lakewright("routing_other_ms"), None, 20),
    Target("driver memory at 20x the rows (Python and JVM)", "memory-rows", Figure(LARGE, "driver_and_jvm_peak"), Figure(SMALL, "driver_and_jvm_peak"), 1.1),
    Target("driver GiB over its baseline for 50,000 files", "memory-files", _lakewright("driver_and_jvm_growth_gib"), None, 1.0),
    Target("MERGE 100k, one column, copy-on-write: the Iceberg runtime's", "merge-100k", Figure(OURS_COW, "wall"), Figure(PEER_COW, "wall"), 1 / 4),
    Target("MERGE 100k, one column: copy-on-write by our merge-on-read", "merge-100k", Figure(OURS_COW, "wall"), Figure(OURS_MOR, "wall"), 1.6),
    Target("MERGE 100k, merge-on-read: the Iceberg runtime's", "merge-100k", Figure(OURS_MOR, "wall"), Figure(PEER_MOR, "wall"), 1 / 2),
    Target("MERGE 100k, all columns, copy-on-write: the Iceberg runtime's", "merge-100k-all", Figure(OURS_COW, "wall"), Figure(PEER_COW, "wall"), 1 / 2),
    Target("MERGE 1M, one column, copy-on-write: the Iceberg runtime's", "merge-1m", Figure(OURS_COW, "wall"), Figure(PEER_COW, "wall"), 1 / 3),
    Target("MERGE 1M, one column: copy-on-write by our merge-on-read", "merge-1m", Figure(OURS_COW, "wall"), Figure(OURS_MOR, "wall"), 1.7),
    *(Target(f"{case}: the Iceberg runtime's", case, Figure(OURS_COW, "wall"), Figure(PEER_COW, "wall"), 1 / 2) for case in ("delete-random", "delete-clustered", "update-random", "update-clustered")),
    Target("read after a merge-on-read MERGE: the Iceberg runtime's read", "read-after-merge", Figure(OURS_MOR, "wall"), Figure(PEER_MOR, "wall"), 1.2),
    Target("keyed first load: the best peer's", "keys-first-load", Figure(COW, "wall"), Best(ALL_PEERS, "wall"), 1.0),
    *_keyed("upsert 100k random", "keys-upsert-100k", 1 / 2),
    *_keyed("upsert 100k recent", "keys-upsert-recent", 1 / 2),
    *_keyed("upsert 1M random", "keys-upsert-1m", 1 / 2),
    *(Target(f"keyed read, {mode}: the best peer's", "keys-read", Figure(name, "wall"), Best(ALL_PEERS, "wall"), 1.1) for mode, name in KEYED_MODES),
    *(Target(f"incremental read, {mode}: the best peer's", "keys-incremental", Figure(name, "wall"), Best(ALL_PEERS, "wall"), 1 / 2) for mode, name in KEYED_MODES),
    *(Target(f"50th small upsert, {mode}: the fifth", "keys-small-upserts", Figure(name, "late_wall"), Figure(name, "early_wall"), 1.5) for mode, name in KEYED_MODES),
    *(Target(f"files after 50 small upserts, {mode}: those allowed", "keys-small-upserts", Figure(name, "files_of_allowed"), None, 1.0) for mode, name in KEYED_MODES),
    Target("build of 16 shards: CPU of the floor without Spark", "shards-build", _lakewright("cpu"), Figure("floor", "cpu"), 2.0),
    Target("build of 16 shards: wall time of the floor without Spark", "shards-build", _lakewright("wall"), Figure("floor", "wall"), 1.5),
    Target("point get, p50: SQLite's own", "shards-read", _lakewright("get_p50_ns"), _lakewright("own_p50_ns"), 1.3),
    Target("point get, p99: SQLite's own", "shards-read", _lakewright("get_p99_ns"), _lakewright("own_p99_ns"), 1.3),
    Target("multi-get of 10,000: as many gets", "shards-read", _lakewright("multi_get_ns"), _lakewright("gets_ns"), 1 / 3),
    Target("shard ids of a column: a loop over its keys", "shards-read", _lakewright("shard_ids_ns"), _lakewright("loop_ns"), 1 / 50),
)

# Told beside the targets, without a bound of their own.
ALSO = (
    Target("append, Data Source: CPU of Spark's Parquet writer", "append", Figure(DATA_SOURCE, "cpu"), Figure("spark-parquet", "cpu"), float("inf")),
    Target("append: wall time of Spark's Parquet writer", "append", _lakewright("wall"), Figure("spark-parquet", "wall"), float("inf")),
    Target("append by month: wall time of Spark's Parquet writer", "append-by-month", _lakewright("wall"), Figure("spark-parquet", "wall"), float("inf")),
    Target("500th commit, table opened anew: CPU of the 20th", "commit-history", Figure(ANEW, "late_cpu"), Figure(ANEW, "early_cpu"), float("inf")),
    Target("PyIceberg's 200th single-file commit: CPU of its 20th", "commit-history", Figure("pyiceberg", "late_cpu"), Figure("pyiceberg", "early_cpu"), float("inf")),
    Target("Python driver alone at 20x the rows", "memory-rows", Figure(LARGE, "driver_peak"), Figure(SMALL, "driver_peak"), float("inf")),
    Target("build of 16 shards: CPU of the floor that loads as we do", "shards-build", _lakewright("cpu"), Figure(MANY, "cpu"), float("inf")),
    Target("build of 16 shards: wall time of the floor that loads as we do", "shards-build", _lakewright("wall"), Figure(MANY, "wall"), float("inf")),
    Target("build of 16 shards: share of the cores used while writing", "shards-build", _lakewright("busy"), None, float("inf")),
    Target("driver's JVM alone at 20x the rows", "memory-rows", Figure(LARGE, "jvm_peak"), Figure(SMALL, "jvm_peak"), float("inf")),
)


def judge(results: dict[str, CaseResult], targets: tuple[Target, ...]) -> list[Verdict]:
    return [Verdict(target, ratio) for target in targets if target.case in results and (ratio := _ratio(results[target.case], target))]


def _ratio(result: CaseResult, target: Target) -> Ratio | None:
    other = target.theirs.of(result) if isinstance(target.theirs, Best) else target.theirs
    if target.theirs and not other:
        return None
    ours = result.figures.get(target.ours.contender, {})
    theirs = result.figures.get(other.contender, {}) if other else ours
    rounds = [number for number in ours if number in theirs]
    if not rounds:
        return None
    below = [theirs[n][other.metric] if other else 1.0 for n in rounds]
    return paired_ratio([ours[n][target.ours.metric] for n in rounds], below)
