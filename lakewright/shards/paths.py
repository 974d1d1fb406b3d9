"""Where things of a build are, below the url of a snapshot."""

from __future__ import annotations


def run_prefix(run_id: str) -> str:
    return f"shards/run_id={run_id}"


def attempt_path(run_id: str, shard_id: int, attempt: int, task_attempt_id: int) -> str:
    """A folder that no other attempt uses. Spark counts attempts from 0 again where it runs a stage again; task attempt ids never repeat."""
    return f"{run_prefix(run_id)}/db={shard_id:05d}/attempt={attempt:02d}/task={task_attempt_id}"
