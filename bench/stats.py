"""Ratios of paired rounds, with a bootstrap interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000


@dataclass(frozen=True)
class Ratio:
    """Median of the per-round ratios and its 90% bootstrap interval; one round has no spread."""

    median: float
    low: float
    high: float
    rounds: int


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    ratios = np.asarray(ours, dtype=float) / np.asarray(theirs, dtype=float)
    picks = np.random.default_rng(0).integers(0, len(ratios), size=(RESAMPLES, len(ratios)))
    low, high = np.percentile(np.median(ratios[picks], axis=1), [5, 95])
    return Ratio(float(np.median(ratios)), float(low), float(high), len(ratios))
