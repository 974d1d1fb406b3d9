"""The commit step alone: many files at once, and single files over a long history."""

from __future__ import annotations

from bench.cases import Case, Entry, Scale
from bench.cases.facts import committed_files
from bench.contenders import LAKEWRIGHT, PYICEBERG

ANEW = "lakewright-anew"


def commit_files(scale: Scale) -> Case:
    params = {"count": scale.files}
    job = "commit-files"
    return Case(job, f"commit {scale.files:,} files of 20 columns", (Entry(LAKEWRIGHT, job, params), Entry(PYICEBERG, job, params)), committed_files)


def commit_history(scale: Scale) -> Case:
    """PyIceberg takes part once and not as far, for comparison: 505 of its commits take a hundred seconds of CPU."""
    params = {"count": scale.commits}
    warm_up = {"count": 30}
    job = "commit-history"
    return Case(
        job,
        f"{scale.commits} single-file commits",
        (
            Entry(LAKEWRIGHT, job, params, warm_up),
            Entry(LAKEWRIGHT, "commit-history-anew", params, warm_up, ANEW, every=3),
            Entry(PYICEBERG, job, {"count": min(205, scale.commits)}, warm_up, every=100),
        ),
        committed_files,
    )
