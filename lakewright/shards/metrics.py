"""Counts and times of a reader, as Prometheus reads them."""

from __future__ import annotations

import threading
from bisect import bisect_left
from typing import Protocol

PREFIX = "lakewright_shards"
SECONDS = (0.000005, 0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0)
HELP = {
    "gets_total": "Point gets.",
    "multi_gets_total": "Gets of many keys at once.",
    "multi_get_keys_total": "Keys asked for in gets of many.",
    "scans_total": "Scans begun.",
    "errors_total": "Reads that ended in an error.",
    "refreshes_total": "Times a newer version was taken up.",
    "refresh_failures_total": "Times a newer version could not be taken up.",
    "shard_opens_total": "Shards opened.",
    "shard_open_seconds": "Time to open a shard, with its copy and check.",
    "get_seconds": "Time of point gets.",
    "version": "Version that is served.",
    "rows": "Rows of the version that is served.",
    "requests_total": "Requests answered.",
    "request_errors_total": "Requests answered with a status of 400 or above.",
}


class MetricsHook(Protocol):
    """What a reader tells; give `open` an object of your own to send it elsewhere."""

    def increment(self, name: str, by: int = 1) -> None: ...

    def observe(self, name: str, seconds: float) -> None: ...

    def gauge(self, name: str, value: float) -> None: ...


class PrometheusMetrics:
    """Kept in memory; `text()` is what a scrape gets."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: dict[str, int] = {}
        self._gauges: dict[str, float] = {}
        self._times: dict[str, tuple[list[int], list[float]]] = {}

    def increment(self, name: str, by: int = 1) -> None:
        with self._lock:
            self._counters[name] = self._counters.get(name, 0) + by

    def observe(self, name: str, seconds: float) -> None:
        with self._lock:
            buckets, total = self._times.setdefault(name, ([0] * (len(SECONDS) + 1), [0.0]))
            buckets[bisect_left(SECONDS, seconds)] += 1
            total[0] += seconds

    def gauge(self, name: str, value: float) -> None:
        with self._lock:
            self._gauges[name] = value

    def counter(self, name: str) -> int:
        with self._lock:
            return self._counters.get(name, 0)

    def text(self) -> str:
        lines: list[str] = []
        with self._lock:
            for name, count in sorted(self._counters.items()):
                lines += [*_head(name, "counter"), f"{PREFIX}_{name} {count}"]
            for name, value in sorted(self._gauges.items()):
                lines += [*_head(name, "gauge"), f"{PREFIX}_{name} {value:.17g}"]
            for name, (buckets, total) in sorted(self._times.items()):
                lines += _head(name, "histogram")
                seen = 0
                for bound, found in zip((*(f"{s:g}" for s in SECONDS), "+Inf"), buckets, strict=True):
                    seen += found
                    lines.append(f'{PREFIX}_{name}_bucket{{le="{bound}"}} {seen}')
                lines += [f"{PREFIX}_{name}_sum {total[0]:.9f}", f"{PREFIX}_{name}_count {seen}"]
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str) -> list[str]:
    return [f"# HELP {PREFIX}_{name} {HELP.get(name, name)}", f"# TYPE {PREFIX}_{name} {kind}"]
